#pragma once
// A mask and dropout in the tiles of attention: a tile of the mask is brought to shared memory, where each lane finds
// what it adds to its scores, and beside it one bit for each weight that dropout keeps. Thread safety: plain values.
// For attention*.cu alone. Use: bring_extras<T>(team, t, p, at, m.scores, m.kept); team.sync(); ... kept.factor(...)

#include <cstdint>
#include <limits>

#include "libcore/backend/attention_params.h"
#include "libcore/backend/cuda/kernels/nn_elements.h"
#include "libcore/backend/random_arithmetic.h"

namespace core::CORE_KERNELS {

/// Where a tile of scores is.
struct TilePosition {
  std::int64_t head, query, key;  ///< head: of all in the batch
};

template <class Params>
bool has_extras(const Params& p) {
  return p.mask.data != nullptr || p.dropout.p > 0;
}

/// The numbers that decide what dropout keeps.
struct DropoutNumbers {
  std::uint64_t seed, offset;
  float p;

  CORE_BODY explicit DropoutNumbers(const AttentionDropout& d)
      : seed(d.state != nullptr ? d.state[0] : d.seed),
        offset(d.state != nullptr ? d.state[1] + d.offset : d.offset),
        p(static_cast<float>(d.p)) {}
  /// Bit i: whether weight first + i is kept. REQUIRES: count <= 16.
  CORE_BODY unsigned kept(std::int64_t first, int count) const {
    const std::uint64_t from = offset + static_cast<std::uint64_t>(first);
    const int skipped = static_cast<int>(from % 4);
    unsigned bits = 0;
    CORE_NO_UNROLL
    for (int block = 0; block * 4 < skipped + count; ++block) {
      const PhiloxWords words = philox({.key = seed, .offset = from / 4 + static_cast<unsigned>(block), .thread = 0});
      CORE_UNROLL
      for (int i = 0; i < 4; ++i) {
        bits |= (random_arithmetic::unit32(words.at[i]) > p ? 1U : 0U) << (block * 4 + i);
      }
    }
    return bits >> skipped & ((1U << count) - 1U);
  }
};

/// Of each row of a tile, in runs of up to 16 neighbouring keys: the bits of what dropout keeps.
class KeptBits {
 public:
  CORE_BODY KeptBits(void* shared, int tile)
      : words_(static_cast<std::uint16_t*>(shared)), tile_(tile), runs_(runs_of(tile)) {}
  CORE_HD static int bytes(int tile) { return tile * runs_of(tile) * 2; }

  CORE_BODY bool at(int row, int column) const { return (words_[row * runs_ + column / 16] >> (column % 16) & 1) != 0; }
  CORE_BODY void draw(const Team& team, const AttentionSizes& s, const AttentionDropout& dropout,
                      const TilePosition& at) const {
    const DropoutNumbers numbers(dropout);
    for (int i = team.lane(); i < tile_ * runs_; i += team.size()) {
      const std::int64_t row = at.head * s.queries + at.query + i / runs_;
      words_[i] =
          static_cast<std::uint16_t>(numbers.kept(row * s.keys + at.key + i % runs_ * 16, tile_ < 16 ? tile_ : 16));
    }
  }

 private:
  CORE_HD static int runs_of(int tile) { return tile < 16 ? 1 : tile / 16; }
  std::uint16_t* words_;
  int tile_, runs_;
};

/// What a weight is multiplied with: nothing is dropped without dropout.
struct KeptFactors {
  KeptBits bits;
  float scale;
  bool drops;

  CORE_BODY KeptFactors(const KeptBits& kept, const AttentionDropout& d)
      : bits(kept), scale(1.0F / (1.0F - static_cast<float>(d.p))), drops(d.p > 0) {}
  CORE_BODY float operator()(int row, int column) const { return !drops ? 1.0F : bits.at(row, column) ? scale : 0.0F; }
};

/// An element of a mask as a number to add.
template <class T>
CORE_BODY T added_by(const AttentionMask& mask, std::int64_t place) {
  if (!mask.is_boolean) return static_cast<const T*>(mask.data)[place];
  const bool seen = static_cast<const unsigned char*>(mask.data)[place] != 0;
  return narrow<T>(seen ? 0.0F : -std::numeric_limits<float>::infinity());
}

/// A tile of the mask, as numbers, to rows `pitch` apart; zeros where there are no scores, and without a mask.
template <class T, class Tiles>
CORE_BODY void load_mask(const Team& team, const Tiles& t, const AttentionMask& mask, const TilePosition& at, T* to,
                         int pitch) {
  const std::int64_t head = at.head / t.s.heads * mask.batch_stride + at.head % t.s.heads * mask.head_stride;
  for (int i = team.lane(); i < t.tile * t.tile; i += team.size()) {
    const int row = i / t.tile, column = i % t.tile;
    const std::int64_t query = at.query + row, key = at.key + column;
    const bool inside = mask.data != nullptr && query < t.s.queries && key < t.s.keys;
    to[row * pitch + column] =
        inside ? added_by<T>(mask, head + query * mask.query_stride + key * mask.key_stride) : narrow<T>(0.0F);
  }
}

/// Brings a tile of the mask to `to`, rows `pitch` apart, and draws what dropout keeps of the tile.
template <class T, class Tiles, class Params>
CORE_BODY void bring_extras(const Team& team, const Tiles& t, const Params& p, const TilePosition& at, T* to, int pitch,
                            const KeptBits& kept) {
  load_mask(team, t, p.mask, at, to, pitch);
  if (p.dropout.p > 0) kept.draw(team, t.s, p.dropout, at);
}

/// The largest scores of a tile of queries, as attention() left them; 0 where it left none.
template <class Tiles>
CORE_BODY void bring_maxima(const Team& team, const Tiles& t, const AttentionGradParams& p, std::int64_t head,
                            std::int64_t query, float* to) {
  const auto* maxima = static_cast<const float*>(p.row_maxima) + head * t.s.queries;
  for (int row = team.lane(); row < t.tile; row += team.size()) {
    to[row] = p.row_maxima != nullptr && query + row < t.s.queries ? maxima[query + row] : 0.0F;
  }
}

/// The sum of exponentials that a row is divided by: a row that sees no key has none, and becomes 0.
CORE_BODY inline float divisor_of(float sum) {
  return sum == 0 ? 1.0F : sum;
}

/// Leaves what the gradient has to know of a row: `most` and `sum` of its scores.
CORE_BODY inline void store_row_sums(const AttentionParams& p, std::int64_t row, float most, float sum) {
  static_cast<float*>(p.log_sums)[row] = std::log(divisor_of(sum)) + (p.row_maxima != nullptr ? 0.0F : most);
  if (p.row_maxima != nullptr) static_cast<float*>(p.row_maxima)[row] = most;
}

/// Leaves the numbers that dropout begins at; for one lane of all.
CORE_BODY inline void store_drawn(const AttentionDropout& dropout) {
  if (dropout.p == 0 || dropout.drawn == nullptr) return;
  const DropoutNumbers numbers(dropout);
  dropout.drawn[0] = numbers.seed;
  dropout.drawn[1] = numbers.offset;
}

/// exp(score - the row's sums), 0 where a key is not seen.
CORE_BODY inline float weight_of(float score, float most, float log_sum) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  return score == kNothing ? 0.0F : std::exp(score - most - log_sum);
}

}  // namespace core::CORE_KERNELS
