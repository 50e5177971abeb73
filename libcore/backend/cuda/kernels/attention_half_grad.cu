// The gradient of attention of f16 and bf16, on tensor cores: as attention_grad.cu, with weights and slopes rounded to
// the type of the data for their products.
#include "libcore/backend/cuda/kernels/attention_blocks.h"
#include "libcore/backend/cuda/kernels/attention_extras.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

/// Shared memory of a team. The results go through where q and output_grad, or k and v, were.
template <class T>
struct GradRoom {
  T *q, *output_grad, *k, *v, *slopes, *weights;
  float *scores, *products;
  float *log_sum, *along, *most;  // of each query; along: output_grad . output
  float* kept;                    // KeptBits

  CORE_BODY GradRoom(const BlockTiles& t, unsigned char* shared) {
    const int rows = t.rows_bytes();
    q = reinterpret_cast<T*>(shared);
    output_grad = reinterpret_cast<T*>(shared + rows);
    k = reinterpret_cast<T*>(shared + 2 * rows);
    v = reinterpret_cast<T*>(shared + 3 * rows);
    slopes = reinterpret_cast<T*>(shared + 4 * rows);
    weights = reinterpret_cast<T*>(shared + 4 * rows + t.weights_bytes());
    scores = reinterpret_cast<float*>(shared + 4 * rows + 2 * t.weights_bytes());
    products = scores + t.tile * t.score_pitch;
    log_sum = products + t.tile * t.score_pitch;
    along = log_sum + t.tile;
    most = along + t.tile;
    kept = most + t.tile;
  }
  static int bytes(const BlockTiles& t) {
    return 4 * t.rows_bytes() + 2 * t.weights_bytes() + 2 * t.scores_bytes() + 3 * t.tile * 4 + KeptBits::bytes(t.tile);
  }
};

/// The weights exp(score - log_sum) and their slopes for all pairs of the tiles' queries and keys. kExtras: m.weights
/// has the tile of the mask, and weights become what dropout makes of them.
template <bool kExtras, class T>
CORE_BODY void make_slopes(const Team& team, const BlockTiles& t, const GradRoom<T>& m, const AttentionDropout& dropout,
                           const TilePosition& tile) {
  multiply_rows(team, t, m.q, m.k, m.scores);
  multiply_rows(team, t, m.output_grad, m.v, m.products);
  team.sync();
  const auto scale = static_cast<float>(t.s.scale);
  const KeptFactors kept(KeptBits(m.kept, t.tile), dropout);
  for (int i = team.lane(); i < t.tile * t.tile; i += team.size()) {
    const int row = i / t.tile, column = i % t.tile, at = row * t.score_pitch + column;
    const int place = row * t.weight_pitch + column;
    const bool seen = t.sees(tile.query + row, tile.key + column);
    if constexpr (kExtras) {
      const float score = m.scores[at] * scale + widen(m.weights[place]), factor = kept(row, column);
      const float weight = seen ? weight_of(score, m.most[row], m.log_sum[row]) : 0.0F;
      m.weights[place] = narrow<T>(weight * factor);
      m.slopes[place] = narrow<T>(seen ? weight * (m.products[at] * factor - m.along[row]) * scale : 0.0F);
    } else {
      const float weight = seen ? std::exp(m.scores[at] * scale - m.log_sum[row]) : 0.0F;
      m.weights[place] = narrow<T>(weight);
      m.slopes[place] = narrow<T>(seen ? weight * (m.products[at] - m.along[row]) * scale : 0.0F);
    }
  }
  team.sync();
}

/// Gradients of a tile of queries; along(heads, queries) is left for the other pass.
template <class T, int kEach, bool kExtras>
struct HalfQueryGrad {
  AttentionGradParams p;
  BlockTiles t;
  float* along;

  CORE_BODY void operator()(const Team& team, std::int64_t index) const {
    const auto place = t.query_tiles.divide(index);
    const std::int64_t head = place.quotient;
    const std::int64_t query = (t.query_tiles.divisor() - 1 - place.remainder) * t.tile;
    const GradRoom<T> m(t, team.shared<unsigned char>());
    start_rows<T>(team, t, rows_of<const T>(p.q, t.s, head), query, t.s.queries, m.q);
    start_rows<T>(team, t, rows_of<const T>(p.output_grad, t.s, head), query, t.s.queries, m.output_grad);
    start_rows<T>(team, t, rows_of<const T>(p.output, t.s, head), query, t.s.queries, m.v);
    wait_for_copies<0>();
    team.sync();
    find_along(team, t, m, p, along, head, query);
    if constexpr (kExtras) bring_maxima(team, t, p, head, query, m.most);
    SharedBlocks<kEach> out(team, t.down(), t.across());
    for (std::int64_t key = 0; key < t.keys_before(query + t.tile); key += t.tile) {
      const TilePosition tile{head, query, key};
      team.sync();
      start_rows<T>(team, t, rows_of<const T>(p.k, t.s, head), key, t.s.keys, m.k);
      start_rows<T>(team, t, rows_of<const T>(p.v, t.s, head), key, t.s.keys, m.v);
      if constexpr (kExtras) bring_extras(team, t, p, tile, m.weights, t.weight_pitch, KeptBits(m.kept, t.tile));
      wait_for_copies<0>();
      team.sync();
      make_slopes<kExtras>(team, t, m, p.dropout, tile);
      multiply_blocks<Lying::straight, Lying::straight>(out, m.slopes, t.weight_pitch, m.k, t.pitch, t.tile);
    }
    store_rows(team, t, out, reinterpret_cast<float*>(m.q), query, t.s.queries, rows_of<T>(p.q_grad, t.s, head));
  }
};

/// Gradients of a tile of keys and of their values.
template <class T, int kEach, bool kExtras>
struct HalfKeyGrad {
  AttentionGradParams p;
  BlockTiles t;
  const float* along;

  CORE_BODY void operator()(const Team& team, std::int64_t index) const {
    const auto place = t.key_tiles.divide(index);
    const std::int64_t head = place.quotient, key = place.remainder * t.tile;
    const GradRoom<T> m(t, team.shared<unsigned char>());
    start_rows<T>(team, t, rows_of<const T>(p.k, t.s, head), key, t.s.keys, m.k);
    start_rows<T>(team, t, rows_of<const T>(p.v, t.s, head), key, t.s.keys, m.v);
    SharedBlocks<kEach> of_keys(team, t.down(), t.across()), of_values(team, t.down(), t.across());
    for (std::int64_t query = t.s.causal ? key : 0; query < t.s.queries; query += t.tile) {
      const TilePosition tile{head, query, key};
      load_queries(team, m, head, query);
      if constexpr (kExtras) bring_extras(team, t, p, tile, m.weights, t.weight_pitch, KeptBits(m.kept, t.tile));
      wait_for_copies<0>();
      team.sync();
      make_slopes<kExtras>(team, t, m, p.dropout, tile);
      multiply_blocks<Lying::turned, Lying::straight>(of_keys, m.slopes, t.weight_pitch, m.q, t.pitch, t.tile);
      multiply_blocks<Lying::turned, Lying::straight>(of_values, m.weights, t.weight_pitch, m.output_grad, t.pitch,
                                                      t.tile);
      team.sync();
    }
    auto* room = reinterpret_cast<float*>(m.q);
    store_rows(team, t, of_keys, room, key, t.s.keys, rows_of<T>(p.k_grad, t.s, head));
    store_rows(team, t, of_values, room, key, t.s.keys, rows_of<T>(p.v_grad, t.s, head));
  }

 private:
  CORE_BODY void load_queries(const Team& team, const GradRoom<T>& m, std::int64_t head, std::int64_t query) const {
    start_rows<T>(team, t, rows_of<const T>(p.q, t.s, head), query, t.s.queries, m.q);
    start_rows<T>(team, t, rows_of<const T>(p.output_grad, t.s, head), query, t.s.queries, m.output_grad);
    const std::int64_t first = head * t.s.queries + query;
    for (int row = team.lane(); row < t.tile; row += team.size()) {
      const bool inside = query + row < t.s.queries;
      m.log_sum[row] = inside ? static_cast<const float*>(p.log_sums)[first + row] : 0.0F;
      m.along[row] = inside ? along[first + row] : 0.0F;
    }
    if constexpr (kExtras) bring_maxima(team, t, p, head, query, m.most);
  }
};

template <class T, int kEach, bool kExtras>
void run(const AttentionGradParams& p, const BlockTiles& tiles) {
  const auto bytes = static_cast<std::size_t>(GradRoom<T>::bytes(tiles));
  const Scratch scratch(static_cast<std::size_t>(tiles.heads() * p.sizes.queries) * sizeof(float));
  auto* along = scratch.as<float>();
  for_each_row(tiles.heads() * divide_up(p.sizes.queries, tiles.tile), kTileLanes, bytes,
               HalfQueryGrad<T, kEach, kExtras>{p, tiles, along});
  for_each_row(tiles.heads() * divide_up(p.sizes.keys, tiles.tile), kTileLanes, bytes,
               HalfKeyGrad<T, kEach, kExtras>{p, tiles, along});
}

template <class T, bool kExtras>
void run_tiles(const AttentionGradParams& p, const BlockTiles& tiles) {
  const int each = tiles.blocks_each();
  const auto run_each = each <= 2 ? run<T, 2, kExtras> : each <= 4 ? run<T, 4, kExtras> : run<T, 8, kExtras>;
  run_each(p, tiles);
}

template <class T>
void attention_grad(const AttentionGradParams& p) {
  const BlockTiles tiles =
      block_tiles<GradRoom<T>>(p.sizes, 8, {p.q, p.k, p.v, p.output, p.output_grad, p.q_grad, p.k_grad, p.v_grad});
  has_extras(p) ? run_tiles<T, true>(p, tiles) : run_tiles<T, false>(p, tiles);
}

}  // namespace

void fill_half_attention_grad(NnTable& table) {
  table.attention_grad[static_cast<std::size_t>(DType::f16)] = attention_grad<Half>;
  table.attention_grad[static_cast<std::size_t>(DType::bf16)] = attention_grad<BFloat16>;
}

}  // namespace core::CORE_KERNELS
