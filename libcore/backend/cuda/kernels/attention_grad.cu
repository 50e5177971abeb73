// The gradient of attention: the scores are made again from the logarithms of their sums. One pass over tiles of
// queries gives theirs, one over tiles of keys gives those of keys and values; nothing is added up by several teams.
#include "libcore/backend/cuda/kernels/attention_extras.h"
#include "libcore/backend/cuda/kernels/attention_tiles.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

/// Shared memory of a team, in floats. `weights` only for keys and values.
struct GradMemory {
  float *q, *k, *v, *output_grad, *slopes, *weights;
  float *log_sum, *along, *most;  // of each query; along: output_grad . output
  float* kept;                    // KeptBits

  CORE_BODY GradMemory(const AttentionTiles& t, float* shared, bool with_weights) {
    q = shared;
    k = q + t.tile * t.pitch;
    v = k + t.tile * t.pitch;
    output_grad = v + t.tile * t.pitch;
    slopes = output_grad + t.tile * t.pitch;
    weights = slopes + t.tile * t.score_pitch;
    log_sum = weights + (with_weights ? t.tile * t.score_pitch : 0);
    along = log_sum + t.tile;
    most = along + t.tile;
    kept = most + t.tile;
  }
  static std::size_t bytes(const AttentionTiles& t, bool with_weights) {
    const int floats = 4 * t.rows_floats() + (with_weights ? 2 : 1) * t.scores_floats() + 3 * t.tile;
    return static_cast<std::size_t>(floats) * sizeof(float) + static_cast<std::size_t>(KeptBits::bytes(t.tile));
  }
};

/// The weights exp(score - log_sum) and their slopes for all pairs of the tiles' queries and keys. kExtras: m.slopes
/// has the tile of the mask, and weights become what dropout makes of them.
template <bool kWeights, bool kExtras>
CORE_BODY void make_slopes(const Team& team, const AttentionTiles& t, const GradMemory& m,
                           const AttentionDropout& dropout, const TilePosition& tile) {
  const auto scale = static_cast<float>(t.s.scale);
  const KeptFactors kept(KeptBits(m.kept, t.tile), dropout);
  for (int i = team.lane(); i < t.score_blocks(); i += team.size()) {
    const ScoreBlock at(t, i);
    Four<float> scores[4] = {}, products[4] = {};
    multiply_rows(t, at, m.q, m.k, scores);
    multiply_rows(t, at, m.output_grad, m.v, products);
    CORE_UNROLL
    for (int y = 0; y < 4; ++y) {
      CORE_UNROLL
      for (int x = 0; x < 4; ++x) {
        const int row = at.row + y, column = at.column + x * at.step, place = row * t.score_pitch + column;
        const bool seen = t.sees(tile.query + row, tile.key + column);
        const float score = scores[y].values[x] * scale, product = products[y].values[x];
        if constexpr (kExtras) {
          const float weight = seen ? weight_of(score + m.slopes[place], m.most[row], m.log_sum[row]) : 0.0F;
          const float factor = kept(row, column);
          m.slopes[place] = seen ? weight * (product * factor - m.along[row]) * scale : 0.0F;
          if constexpr (kWeights) m.weights[place] = weight * factor;
        } else {
          const float weight = seen ? std::exp(score - m.log_sum[row]) : 0.0F;
          m.slopes[place] = seen ? weight * (product - m.along[row]) * scale : 0.0F;
          if constexpr (kWeights) m.weights[place] = weight;
        }
      }
    }
  }
}

/// Gradients of a tile of queries; along(heads, queries) is left for the other pass.
template <class T, int kBlocks, bool kExtras>
struct QueryGrad {
  AttentionGradParams p;
  AttentionTiles t;
  float* along;

  CORE_BODY void operator()(const Team& team, std::int64_t index) const {
    const auto place = t.query_tiles.divide(index);
    const std::int64_t head = place.quotient;
    const std::int64_t query = (t.query_tiles.divisor() - 1 - place.remainder) * t.tile;
    const GradMemory m(t, team.shared<float>(), false);
    load_rows(team, t, rows_of<const T>(p.q, t.s, head), query, t.s.queries, m.q);
    load_rows(team, t, rows_of<const T>(p.output_grad, t.s, head), query, t.s.queries, m.output_grad);
    load_rows(team, t, rows_of<const T>(p.output, t.s, head), query, t.s.queries, m.v);
    team.sync();
    find_along(team, t, m, p, along, head, query);
    if constexpr (kExtras) bring_maxima(team, t, p, head, query, m.most);
    OutSums<kBlocks> out;
    for (std::int64_t key = 0; key < t.keys_before(query + t.tile); key += t.tile) {
      const TilePosition tile{head, query, key};
      team.sync();
      load_rows(team, t, rows_of<const T>(p.k, t.s, head), key, t.s.keys, m.k);
      load_rows(team, t, rows_of<const T>(p.v, t.s, head), key, t.s.keys, m.v);
      if constexpr (kExtras) bring_extras(team, t, p, tile, m.slopes, t.score_pitch, KeptBits(m.kept, t.tile));
      team.sync();
      make_slopes<false, kExtras>(team, t, m, p.dropout, tile);
      team.sync();
      for_out_blocks(team, t, out,
                     [&](const OutBlock& at, Four<float>* sums) { multiply_scores(t, at, m.slopes, m.k, sums); });
    }
    const auto rows = rows_of<T>(p.q_grad, t.s, head);
    for_out_blocks(team, t, out,
                   [&](const OutBlock& at, Four<float>* sums) { store_block(t, at, sums, query, t.s.queries, rows); });
  }
};

/// Gradients of a tile of keys and of their values.
template <class T, int kBlocks, bool kExtras>
struct KeyGrad {
  AttentionGradParams p;
  AttentionTiles t;
  const float* along;

  CORE_BODY void operator()(const Team& team, std::int64_t index) const {
    const auto place = t.key_tiles.divide(index);
    const std::int64_t head = place.quotient, key = place.remainder * t.tile;
    const GradMemory m(t, team.shared<float>(), true);
    load_rows(team, t, rows_of<const T>(p.k, t.s, head), key, t.s.keys, m.k);
    load_rows(team, t, rows_of<const T>(p.v, t.s, head), key, t.s.keys, m.v);
    OutSums<kBlocks> of_keys, of_values;
    for (std::int64_t query = t.s.causal ? key : 0; query < t.s.queries; query += t.tile) {
      const TilePosition tile{head, query, key};
      load_queries(team, m, head, query);
      if constexpr (kExtras) bring_extras(team, t, p, tile, m.slopes, t.score_pitch, KeptBits(m.kept, t.tile));
      team.sync();
      make_slopes<true, kExtras>(team, t, m, p.dropout, tile);
      team.sync();
      for_out_blocks(team, t, of_keys,
                     [&](const OutBlock& at, Four<float>* sums) { multiply_turned(t, at, m.slopes, m.q, sums); });
      for_out_blocks(team, t, of_values, [&](const OutBlock& at, Four<float>* sums) {
        multiply_turned(t, at, m.weights, m.output_grad, sums);
      });
      team.sync();
    }
    const auto k_rows = rows_of<T>(p.k_grad, t.s, head), v_rows = rows_of<T>(p.v_grad, t.s, head);
    for_out_blocks(team, t, of_keys, [&](const OutBlock& at, const Four<float>* sums) {
      store_block(t, at, sums, key, t.s.keys, k_rows);
    });
    for_out_blocks(team, t, of_values, [&](const OutBlock& at, const Four<float>* sums) {
      store_block(t, at, sums, key, t.s.keys, v_rows);
    });
  }

 private:
  CORE_BODY void load_queries(const Team& team, const GradMemory& m, std::int64_t head, std::int64_t query) const {
    load_rows(team, t, rows_of<const T>(p.q, t.s, head), query, t.s.queries, m.q);
    load_rows(team, t, rows_of<const T>(p.output_grad, t.s, head), query, t.s.queries, m.output_grad);
    const std::int64_t first = head * t.s.queries + query;
    for (int row = team.lane(); row < t.tile; row += team.size()) {
      const bool inside = query + row < t.s.queries;
      m.log_sum[row] = inside ? static_cast<const float*>(p.log_sums)[first + row] : 0.0F;
      m.along[row] = inside ? along[first + row] : 0.0F;
    }
    if constexpr (kExtras) bring_maxima(team, t, p, head, query, m.most);
  }
};

template <class T, int kBlocks, bool kExtras>
void run(const AttentionGradParams& p, const AttentionTiles& tiles) {
  const std::int64_t heads = p.sizes.batch * p.sizes.heads;
  const Scratch scratch(static_cast<std::size_t>(heads * p.sizes.queries) * sizeof(float));
  const QueryGrad<T, kBlocks, kExtras> of_queries{p, tiles, scratch.as<float>()};
  const KeyGrad<T, kBlocks, kExtras> of_keys{p, tiles, scratch.as<float>()};
  for_each_row(heads * divide_up(p.sizes.queries, tiles.tile), kTileLanes, GradMemory::bytes(tiles, false),
               [=] CORE_BODY(const Team& team, std::int64_t index) { of_queries(team, index); });
  for_each_row(heads * divide_up(p.sizes.keys, tiles.tile), kTileLanes, GradMemory::bytes(tiles, true),
               [=] CORE_BODY(const Team& team, std::int64_t index) { of_keys(team, index); });
}

template <class T>
void attention_grad(const AttentionGradParams& p) {
  const AttentionTiles tiles(p.sizes, [](const AttentionTiles& t) { return GradMemory::bytes(t, true); });
  const auto run_with = tiles.blocks_each() == 1 ? (has_extras(p) ? run<T, 1, true> : run<T, 1, false>)
                                                 : (has_extras(p) ? run<T, 2, true> : run<T, 2, false>);
  run_with(p, tiles);
}

}  // namespace

void fill_attention_grad(NnTable& table) {
  table.attention_grad[static_cast<std::size_t>(DType::f32)] = attention_grad<float>;
}

}  // namespace core::CORE_KERNELS
