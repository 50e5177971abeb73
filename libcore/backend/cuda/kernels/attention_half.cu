// Attention of f16 and bf16 without the matrix of scores, on tensor cores: a team takes a tile of queries and goes
// through tiles of keys; of each row it keeps the largest score and the sum of exponentials so far. Keys and values are
// brought while it computes: the values of a tile during its scores, the next keys during what follows. Weights are
// rounded to the type of the data for their product with the values; sums stay f32.
// Source: Dao et al., "FlashAttention", 2022.
#include "libcore/backend/cuda/kernels/attention_blocks.h"
#include "libcore/backend/cuda/kernels/attention_extras.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

constexpr int kParts = 4;         // lanes that look at a row of scores
constexpr int kFactorPitch = 20;  // of a block whose rows are one number each

/// Shared memory of a team. The results go through where q and k were.
template <class T>
struct AttentionRoom {
  T *q, *k, *v, *weights;
  float *scores, *factors;
  float *most, *next_most, *sum;  // of each row
  float *part_most, *part_sum;    // of each part of a row
  float* kept;                    // KeptBits

  CORE_BODY AttentionRoom(const BlockTiles& t, unsigned char* shared) {
    q = reinterpret_cast<T*>(shared);
    k = reinterpret_cast<T*>(shared + t.rows_bytes());
    v = reinterpret_cast<T*>(shared + 2 * t.rows_bytes());
    weights = reinterpret_cast<T*>(shared + 3 * t.rows_bytes());
    scores = reinterpret_cast<float*>(shared + 3 * t.rows_bytes() + t.weights_bytes());
    factors = scores + t.tile * t.score_pitch;
    most = factors + t.tile * kFactorPitch;
    next_most = most + t.tile;
    sum = next_most + t.tile;
    part_most = sum + t.tile;
    part_sum = part_most + kParts * t.tile;
    kept = part_sum + kParts * t.tile;
  }
  static int bytes(const BlockTiles& t) {
    return 3 * t.rows_bytes() + t.weights_bytes() + t.scores_bytes() + t.tile * (kFactorPitch + 3 + 2 * kParts) * 4 +
           KeptBits::bytes(t.tile);
  }
};

constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// kExtras: with a mask, whose tile lies where the weights will, or dropout.
template <class T, int kEach, bool kExtras>
struct HalfAttention {
  AttentionParams p;
  BlockTiles t;
  using Room = AttentionRoom<T>;

  CORE_BODY void operator()(const Team& team, std::int64_t index) const {
    const auto place = t.query_tiles.divide(index);
    const std::int64_t head = place.quotient;
    const std::int64_t query = (t.query_tiles.divisor() - 1 - place.remainder) * t.tile;  // long rows first
    const Room m(t, team.shared<unsigned char>());
    if (kExtras && index == 0 && team.lane() == 0) store_drawn(p.dropout);
    start_rows<T>(team, t, rows_of<const T>(p.q, t.s, head), query, t.s.queries, m.q);
    start_rows<T>(team, t, rows_of<const T>(p.k, t.s, head), 0, t.s.keys, m.k);
    for (int row = team.lane(); row < t.tile; row += team.size()) {
      m.most[row] = kNothing;
      m.sum[row] = 0;
    }
    SharedBlocks<kEach> out(team, t.down(), t.across());
    for (std::int64_t key = 0; key < t.keys_before(query + t.tile); key += t.tile) {
      pass_keys(team, m, head, query, key, out);
    }
    wait_for_copies<0>();
    finish(team, m, head, query, out);
  }

 private:
  CORE_BODY void pass_keys(const Team& team, const Room& m, std::int64_t head, std::int64_t query, std::int64_t key,
                           SharedBlocks<kEach>& out) const {
    start_rows<T>(team, t, rows_of<const T>(p.v, t.s, head), key, t.s.keys, m.v);
    if constexpr (kExtras) bring_extras(team, t, p, {head, query, key}, m.weights, t.weight_pitch, kept_of(m));
    wait_for_copies<1>();  // all but the values
    team.sync();
    multiply_rows(team, t, m.q, m.k, m.scores);
    team.sync();
    start_rows<T>(team, t, rows_of<const T>(p.k, t.s, head), key + t.tile, t.s.keys, m.k);
    find_most(team, m, query, key);
    team.sync();
    exponentiate(team, m);
    wait_for_copies<1>();  // all but the next keys
    team.sync();
    scale(out, m);
    multiply_blocks<Lying::straight, Lying::straight>(out, m.weights, t.weight_pitch, m.v, t.pitch, t.tile);
    take_sums(team, m);
    team.sync();
  }

  CORE_BODY KeptBits kept_of(const Room& m) const { return KeptBits(m.kept, t.tile); }

  /// Scores that are not seen become -infinity.
  CORE_BODY void find_most(const Team& team, const Room& m, std::int64_t query, std::int64_t key) const {
    const auto scaled = static_cast<float>(t.s.scale);
    for (int i = team.lane(); i < kParts * t.tile; i += team.size()) {
      const int row = i / kParts;
      float* scores = m.scores + row * t.score_pitch;
      float most = kNothing;
      for (int j = i % kParts; j < t.tile; j += kParts) {
        float score = scores[j] * scaled;
        if constexpr (kExtras) score += widen(m.weights[row * t.weight_pitch + j]);
        scores[j] = t.sees(query + row, key + j) ? score : kNothing;
        most = Most()(most, scores[j]);
      }
      m.part_most[i] = most;
    }
  }

  /// Weights are exponentials of what is left without the largest so far.
  CORE_BODY void exponentiate(const Team& team, const Room& m) const {
    const KeptFactors kept(kept_of(m), p.dropout);
    for (int i = team.lane(); i < kParts * t.tile; i += team.size()) {
      const int row = i / kParts;
      float most = m.most[row], sum = 0;
      for (int part = 0; part < kParts; ++part) most = Most()(most, m.part_most[row * kParts + part]);
      for (int j = i % kParts; j < t.tile; j += kParts) {
        const float score = m.scores[row * t.score_pitch + j];
        const float weight = score == kNothing ? 0.0F : std::exp(score - most);
        m.weights[row * t.weight_pitch + j] = narrow<T>(kExtras ? weight * kept(row, j) : weight);
        sum += weight;
      }
      m.part_sum[i] = sum;
      const float factor = m.most[row] == kNothing ? 0.0F : std::exp(m.most[row] - most);
      for (int j = i % kParts; j < kBlock; j += kParts) m.factors[row * kFactorPitch + j] = factor;
      if (i % kParts == 0) m.next_most[row] = most;
    }
  }

  /// Rows of the results times the factors of the rows.
  CORE_BODY void scale(SharedBlocks<kEach>& out, const Room& m) const {
    out.each(
        [&](SumBlock& sums, int row, int, bool) { sums.scale(m.factors + row * kBlock * kFactorPitch, kFactorPitch); });
  }

  CORE_BODY void take_sums(const Team& team, const Room& m) const {
    for (int row = team.lane(); row < t.tile; row += team.size()) {
      float sum = m.sum[row] * m.factors[row * kFactorPitch];
      for (int part = 0; part < kParts; ++part) sum += m.part_sum[row * kParts + part];
      m.sum[row] = sum;
      m.most[row] = m.next_most[row];
    }
  }

  CORE_BODY void finish(const Team& team, const Room& m, std::int64_t head, std::int64_t query,
                        SharedBlocks<kEach>& out) const {
    for (int row = team.lane(); row < t.tile; row += team.size()) {
      const float sum = kExtras ? divisor_of(m.sum[row]) : m.sum[row];
      for (int j = 0; j < kBlock; ++j) m.factors[row * kFactorPitch + j] = 1 / sum;
      if (query + row >= t.s.queries) continue;
      const std::int64_t place = head * t.s.queries + query + row;
      if constexpr (kExtras) {
        store_row_sums(p, place, m.most[row], m.sum[row]);
      } else {
        static_cast<float*>(p.log_sums)[place] = m.most[row] + std::log(sum);
      }
    }
    team.sync();
    scale(out, m);
    store_rows(team, t, out, reinterpret_cast<float*>(m.q), query, t.s.queries, rows_of<T>(p.output, t.s, head));
  }
};

template <class T, int kEach, bool kExtras>
void run(const AttentionParams& p, const BlockTiles& tiles) {
  for_each_row(tiles.heads() * divide_up(p.sizes.queries, tiles.tile), kTileLanes,
               static_cast<std::size_t>(AttentionRoom<T>::bytes(tiles)), HalfAttention<T, kEach, kExtras>{p, tiles});
}

template <class T, bool kExtras>
void run_tiles(const AttentionParams& p, const BlockTiles& tiles) {
  const int each = tiles.blocks_each();
  const auto run_each = each <= 2 ? run<T, 2, kExtras> : each <= 4 ? run<T, 4, kExtras> : run<T, 8, kExtras>;
  run_each(p, tiles);
}

template <class T>
void attention(const AttentionParams& p) {
  const BlockTiles tiles = block_tiles<AttentionRoom<T>>(p.sizes, 8, {p.q, p.k, p.v, p.output});
  has_extras(p) ? run_tiles<T, true>(p, tiles) : run_tiles<T, false>(p, tiles);
}

}  // namespace

void fill_half_attention(NnTable& table) {
  table.attention[static_cast<std::size_t>(DType::f16)] = attention<Half>;
  table.attention[static_cast<std::size_t>(DType::bf16)] = attention<BFloat16>;
  fill_half_attention_grad(table);
}

}  // namespace core::CORE_KERNELS
