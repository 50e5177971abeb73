// softmax(q k^T * scale) v of every head without the matrix of scores: a team takes up to 64 queries past the keys,
// tile by tile, and corrects what it has summed whenever a larger score turns up. Scores and sums are float. Source:
// Dao, Fu, Ermon, Rudra, Re, "FlashAttention", 2022.
#include "libcore/backend/cuda/kernels/attention_extras.h"
#include "libcore/backend/cuda/kernels/attention_tiles.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

constexpr int kParts = 4;  // lanes that look at a row of scores

/// Shared memory of a team, in floats.
struct AttentionMemory {
  float *q, *kv, *scores;
  float *most, *next_most, *sum, *factor;  // of each row
  float *part_most, *part_sum;             // of each part of a row
  float* kept;                             // KeptBits

  CORE_BODY AttentionMemory(const AttentionTiles& t, float* shared) {
    q = shared;
    kv = q + t.tile * t.pitch;
    scores = kv + t.tile * t.pitch;
    most = scores + t.tile * t.score_pitch;
    next_most = most + t.tile;
    sum = next_most + t.tile;
    factor = sum + t.tile;
    part_most = factor + t.tile;
    part_sum = part_most + kParts * t.tile;
    kept = part_sum + kParts * t.tile;
  }
  static std::size_t bytes(const AttentionTiles& t) {
    const int floats = 2 * t.rows_floats() + t.scores_floats() + (4 + 2 * kParts) * t.tile;
    return static_cast<std::size_t>(floats) * sizeof(float) + static_cast<std::size_t>(KeptBits::bytes(t.tile));
  }
};

constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// kExtras: m.scores has the tile of the mask.
template <bool kExtras>
CORE_BODY void make_scores(const Team& team, const AttentionTiles& t, const AttentionMemory& m, std::int64_t query,
                           std::int64_t key) {
  for (int i = team.lane(); i < t.score_blocks(); i += team.size()) {
    const ScoreBlock at(t, i);
    Four<float> sums[4] = {};
    multiply_rows(t, at, m.q, m.kv, sums);
    CORE_UNROLL
    for (int y = 0; y < 4; ++y) {
      CORE_UNROLL
      for (int x = 0; x < 4; ++x) {
        const int row = at.row + y, column = at.column + x * at.step;
        float& to = m.scores[row * t.score_pitch + column];
        float score = sums[y].values[x] * static_cast<float>(t.s.scale);
        if constexpr (kExtras) score += to;
        to = t.sees(query + row, key + column) ? score : kNothing;
      }
    }
  }
}

CORE_BODY inline void find_most(const Team& team, const AttentionTiles& t, const AttentionMemory& m) {
  for (int i = team.lane(); i < kParts * t.tile; i += team.size()) {
    const float* row = m.scores + i / kParts * t.score_pitch;
    float most = kNothing;
    for (int j = i % kParts; j < t.tile; j += kParts) most = Most()(most, row[j]);
    m.part_most[i] = most;
  }
}

/// Scores become keep(row, column, weight) of the weights: exponentials of what is left without the largest so far.
template <class Keep>
CORE_BODY void exponentiate(const Team& team, const AttentionTiles& t, const AttentionMemory& m, const Keep& keep) {
  for (int i = team.lane(); i < kParts * t.tile; i += team.size()) {
    const int row = i / kParts;
    float most = m.most[row], sum = 0;
    for (int part = 0; part < kParts; ++part) most = Most()(most, m.part_most[row * kParts + part]);
    for (int j = i % kParts; j < t.tile; j += kParts) {
      float& score = m.scores[row * t.score_pitch + j];
      const float weight = score == kNothing ? 0.0F : std::exp(score - most);
      score = keep(row, j, weight);
      sum += weight;
    }
    m.part_sum[i] = sum;
    if (i % kParts != 0) continue;
    m.next_most[row] = most;
    m.factor[row] = m.most[row] == kNothing ? 0.0F : std::exp(m.most[row] - most);
  }
}

CORE_BODY inline void take_sums(const Team& team, const AttentionTiles& t, const AttentionMemory& m) {
  for (int row = team.lane(); row < t.tile; row += team.size()) {
    float sum = m.sum[row] * m.factor[row];
    for (int part = 0; part < kParts; ++part) sum += m.part_sum[row * kParts + part];
    m.sum[row] = sum;
    m.most[row] = m.next_most[row];
  }
}

/// kExtras: with a mask or dropout.
template <class T, int kBlocks, bool kExtras>
struct Attention {
  AttentionParams p;
  AttentionTiles t;

  CORE_BODY void operator()(const Team& team, std::int64_t index) const {
    const auto place = t.query_tiles.divide(index);
    const std::int64_t head = place.quotient;
    const std::int64_t query = (t.query_tiles.divisor() - 1 - place.remainder) * t.tile;  // long rows first
    const AttentionMemory m(t, team.shared<float>());
    if (kExtras && index == 0 && team.lane() == 0) store_drawn(p.dropout);
    load_rows(team, t, rows_of<const T>(p.q, t.s, head), query, t.s.queries, m.q);
    for (int row = team.lane(); row < t.tile; row += team.size()) {
      m.most[row] = kNothing;
      m.sum[row] = 0;
    }
    OutSums<kBlocks> out;
    for (std::int64_t key = 0; key < t.keys_before(query + t.tile); key += t.tile) {
      pass_keys(team, m, head, query, key, out);
    }
    finish(team, m, head, query, out);
  }

 private:
  CORE_BODY void pass_keys(const Team& team, const AttentionMemory& m, std::int64_t head, std::int64_t query,
                           std::int64_t key, OutSums<kBlocks>& out) const {
    const KeptBits kept(m.kept, t.tile);
    load_rows(team, t, rows_of<const T>(p.k, t.s, head), key, t.s.keys, m.kv);
    if constexpr (kExtras) bring_extras(team, t, p, {head, query, key}, m.scores, t.score_pitch, kept);
    team.sync();
    make_scores<kExtras>(team, t, m, query, key);
    team.sync();
    load_rows(team, t, rows_of<const T>(p.v, t.s, head), key, t.s.keys, m.kv);
    find_most(team, t, m);
    team.sync();
    if constexpr (kExtras) {
      const KeptFactors factors(kept, p.dropout);
      exponentiate(team, t, m, [&](int row, int column, float weight) { return weight * factors(row, column); });
    } else {
      exponentiate(team, t, m, [](int, int, float weight) { return weight; });
    }
    team.sync();
    for_out_blocks(team, t, out, [&](const OutBlock& at, Four<float>* sums) {
      CORE_UNROLL
      for (int y = 0; y < 4; ++y) {
        CORE_UNROLL
        for (int x = 0; x < 4; ++x) sums[y].values[x] *= m.factor[at.row + y];
      }
      multiply_scores(t, at, m.scores, m.kv, sums);
    });
    take_sums(team, t, m);
    team.sync();
  }

  CORE_BODY void finish(const Team& team, const AttentionMemory& m, std::int64_t head, std::int64_t query,
                        OutSums<kBlocks>& out) const {
    const auto rows = rows_of<T>(p.output, t.s, head);
    for_out_blocks(team, t, out, [&](const OutBlock& at, Four<float>* sums) {
      CORE_UNROLL
      for (int y = 0; y < 4; ++y) {
        CORE_UNROLL
        for (int x = 0; x < 4; ++x) sums[y].values[x] /= kExtras ? divisor_of(m.sum[at.row + y]) : m.sum[at.row + y];
      }
      store_block(t, at, sums, query, t.s.queries, rows);
    });
    for (int row = team.lane(); row < t.tile && query + row < t.s.queries; row += team.size()) {
      const std::int64_t place = head * t.s.queries + query + row;
      if constexpr (kExtras) {
        store_row_sums(p, place, m.most[row], m.sum[row]);
      } else {
        static_cast<float*>(p.log_sums)[place] = m.most[row] + std::log(m.sum[row]);
      }
    }
  }
};

template <class T, int kBlocks, bool kExtras>
void run(const AttentionParams& p, const AttentionTiles& tiles) {
  const Attention<T, kBlocks, kExtras> body{p, tiles};
  const std::int64_t heads = p.sizes.batch * p.sizes.heads;
  for_each_row(heads * divide_up(p.sizes.queries, tiles.tile), kTileLanes, AttentionMemory::bytes(tiles),
               [=] CORE_BODY(const Team& team, std::int64_t index) { body(team, index); });
}

template <class T>
void attention(const AttentionParams& p) {
  const AttentionTiles tiles(p.sizes, AttentionMemory::bytes);
  const auto run_with = tiles.blocks_each() == 1 ? (has_extras(p) ? run<T, 1, true> : run<T, 1, false>)
                                                 : (has_extras(p) ? run<T, 2, true> : run<T, 2, false>);
  run_with(p, tiles);
}

void attention_kept(const AttentionKeptParams& p) {
  const AttentionSizes& s = p.sizes;
  for_each(s.batch * s.heads * s.queries * s.keys,
           [p] CORE_BODY(std::int64_t i) { p.kept[i] = DropoutNumbers(p.dropout).kept(i, 1) != 0; });
}

}  // namespace

void fill_attention(NnTable& table) {
  table.attention_has_tiles = true;
  table.attention[static_cast<std::size_t>(DType::f32)] = attention<float>;
  table.attention_kept[static_cast<std::size_t>(DType::boolean)] = attention_kept;
  fill_attention_grad(table);
  fill_half_attention(table);
}

}  // namespace core::CORE_KERNELS
