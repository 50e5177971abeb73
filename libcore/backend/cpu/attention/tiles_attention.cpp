// Attention of bf16 by tiles. As in blocks.h queries lie in the lanes of vectors: scores are keys by queries and
// results width by queries, so that the softmax goes down columns and its weights become tiles without being turned.
// Products are summed in f32; weights and their gradients are rounded to bf16 before the next product, as PyTorch does.
#include "libcore/backend/cpu/attention/tiles_attention.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "libcore/backend/cpu/bf16_math.h"
#include "libcore/backend/cpu/gemm/tiles.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/vector_math.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

constexpr std::int64_t kQueryPanels = 2;  // of a block of queries
constexpr std::int64_t kBlockQueries = kQueryPanels * kPanel;
constexpr std::int64_t kForwardPanels = 4;   // of keys: their scores by a panel of queries are 16 KiB
constexpr std::int64_t kBackwardPanels = 2;  // of keys, for which scores, weights and slopes take twice as much
constexpr std::int64_t kHeadWork = 1 << 17;  // multiplications that are worth a thread's start

CORE_INLINE Floats larger(const Floats& a, const Floats& b) {
  return (Floats)_mm512_maskz_max_ps(kAll, (__m512)a, (__m512)b);
}
/// At most 0; NaN stays.
CORE_INLINE Floats not_above_0(const Floats& x) {
  return (Floats)_mm512_maskz_min_ps(kAll, _mm512_setzero_ps(), (__m512)x);
}
CORE_INLINE float total(const Floats& x) {
  const Vector<float, 8> eight = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                                 __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
  const Vector<float, 4> four =
      __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  return (four[0] + four[1]) + (four[2] + four[3]);
}
CORE_INLINE Line rounded_pair(const Floats& first, const Floats& second) {
  return (Line)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
}

/// What scores are multiplied with to be exponents of 2.
struct Exponents {
  float factor, sign, hidden;
  explicit Exponents(double scale)
      : factor(static_cast<float>(scale * std::numbers::log2e)),
        sign(scale < 0 ? -1.0F : 1.0F),
        hidden(-sign * std::numeric_limits<float>::infinity()) {
    // A hidden score stays one.
    if (std::abs(factor) < std::numeric_limits<float>::min()) factor = sign * std::numeric_limits<float>::min();
  }
};

/// Rows of one head of a batch item.
struct HeadWords {
  const Word* data;
  std::int64_t stride;
  HeadWords(const AttentionArray& array, std::int64_t batch, std::int64_t head)
      : data(static_cast<const Word*>(array.data) + batch * array.batch_stride + head * array.head_stride),
        stride(array.row_stride) {}
  const Word* row(std::int64_t i) const { return data + i * stride; }
  Word* output_row(std::int64_t i) const { return const_cast<Word*>(row(i)); }

  /// `count` rows from `first` on as an operand: rows are what the result has, or else numbers of k.
  Operand rows_of_result(std::int64_t first, std::int64_t count, std::int64_t width, bool left) const {
    return {row(first), stride, count, width, true, left};
  }
  Operand rows_of_k(std::int64_t first, std::int64_t count, std::int64_t width, bool left) const {
    return {row(first), stride, width, count, false, left};
  }
};

const Word* packed(const Operand& operand, const Packed& to) {
  pack_panels(operand, 0, operand.panels(), to.words());
  return to.words();
}

/// Sizes of a head in panels and steps.
struct HeadSizes {
  const AttentionSizes& all;
  std::int64_t key_panels, width_panels, width_steps;
  explicit HeadSizes(const AttentionSizes& s)
      : all(s),
        key_panels(steps_of(s.keys, kPanel)),
        width_panels(steps_of(s.width, kPanel)),
        width_steps(steps_of(s.width, kDepth)) {}
  std::int64_t width_of(std::int64_t panel) const { return std::min(kPanel, all.width - panel * kPanel); }
  std::int64_t keys_before(std::int64_t end) const { return all.causal ? std::min(all.keys, end) : all.keys; }

  /// Scores of a panel of keys and one of queries, keys by queries: hides keys that are not there or behind the query.
  void hide(std::int64_t first_key, std::int64_t first_query, float hidden, float* scores) const {
    const std::int64_t last = first_key + kPanel;
    if (last <= all.keys && (!all.causal || last <= first_query + 1)) return;
    for (std::int64_t row = 0; row < kPanel; ++row) {
      const std::int64_t key = first_key + row, before = all.causal ? key - first_query : 0;
      const __mmask32 lanes = key < all.keys ? first_words(before) : ~__mmask32{0};
      const auto value = (__m512)all_as<Floats>(hidden);
      _mm512_mask_storeu_ps(scores + line_at(row, 0), static_cast<__mmask16>(lanes), value);
      _mm512_mask_storeu_ps(scores + line_at(row, 1), static_cast<__mmask16>(lanes >> kSide), value);
    }
  }
};

/// Rows of a block of sums, rounded.
void put_block_rows(const float* sums, std::int64_t rows, std::int64_t columns, Word* to, std::int64_t stride) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const Line line = rounded_pair(load<Floats>(sums + line_at(i, 0)), load<Floats>(sums + line_at(i, 1)));
    _mm512_mask_storeu_epi16(to + i * stride, first_words(columns), (__m512i)line);
  }
}

/// Puts the turned sums of a block of queries, (panels of width) by (panels of queries), into rows `first` and on.
void put_turned_rows(const HeadSizes& sizes, float* sums, std::int64_t first, std::int64_t rows, const HeadWords& to) {
  const std::int64_t panels = steps_of(rows, kPanel);
  for (std::int64_t w = 0; w < sizes.width_panels; ++w) {
    for (std::int64_t q = 0; q < panels; ++q, sums += kBlockSums) {
      turn(sums);
      put_block_rows(sums, std::min(kPanel, rows - q * kPanel), sizes.width_of(w),
                     to.output_row(first + q * kPanel) + w * kPanel, to.stride);
    }
  }
}

/// The softmax of a block of queries as far as keys have been seen; `most`: of scores, by the sign of their factor.
struct RunningColumns {
  alignas(64) float most[kBlockQueries], sums[kBlockQueries], factors[kBlockQueries];
  RunningColumns() {
    std::fill_n(most, kBlockQueries, -std::numeric_limits<float>::infinity());
    std::fill_n(sums, kBlockQueries, 0.0F);
  }
};

/// The softmax of sixteen queries: `scores` are half the columns of `panels` blocks one after the other, `weights` half
/// of as many steps of a panel of the right operand.
struct Column {
  const float* scores;
  std::int64_t panels, half;
  Word* weights;

  Floats most(const Floats& sign) const {
    Floats even = load<Floats>(scores + half * kTileSums) * sign, odd = even;
    for (std::int64_t i = 0; i < panels * 2; ++i) {
      const float* tile = scores + (i * 2 + half) * kTileSums;
      for (std::int64_t row = 0; row < kSide; row += 2) {
        even = larger(load<Floats>(tile + row * kSide) * sign, even);
        odd = larger(load<Floats>(tile + (row + 1) * kSide) * sign, odd);
      }
    }
    return larger(even, odd);
  }

  /// Weights of what scores are less than `most`; gives their sum. Subtracted first: products of scores near 1e10 are
  /// rounded by hundreds.
  Floats exponentiate(const Floats& factor, const Floats& most) const {
    alignas(64) static constexpr auto kPairs = [] {
      struct {
        Word at[kDepth];
      } index{};
      for (int i = 0; i < kDepth; ++i) index.at[i] = static_cast<Word>(i / 2 + i % 2 * kSide);
      return index;
    }();
    const __m512i pairs = _mm512_load_si512(kPairs.at);
    Floats first_sum{}, second_sum{};
    for (std::int64_t i = 0; i < panels * 2; ++i) {
      const float* tile = scores + (i * 2 + half) * kTileSums;
      Word* to = weights + i / 2 * kStepWords + half * kTileWords + i % 2 * (kTileWords / 2);
      for (std::int64_t row = 0; row < kSide; row += 2, to += kDepth) {
        const Floats a = power_of_two((load<Floats>(tile + row * kSide) - most) * factor);
        const Floats b = power_of_two((load<Floats>(tile + (row + 1) * kSide) - most) * factor);
        first_sum += a, second_sum += b;
        _mm512_store_si512(to, _mm512_permutexvar_epi16(pairs, (__m512i)rounded_pair(a, b)));
      }
    }
    return first_sum + second_sum;
  }
};

/// What a thread works with: keys and values of the head that it is at, and a block of queries.
class TileForward {
 public:
  explicit TileForward(const AttentionParams& p)
      : p_(p),
        s_(p.sizes),
        sizes_(p.sizes),
        exponents_(s_.scale),
        k_(sizes_.key_panels * sizes_.width_steps * kStepWords),
        v_(sizes_.width_panels * sizes_.key_panels * kStepWords),
        q_(kQueryPanels * sizes_.width_steps * kStepWords),
        results_(sizes_.width_panels * kQueryPanels * kBlockSums) {}

  void head(std::int64_t number) {
    batch_ = number / s_.heads, head_ = number % s_.heads;
    packed(HeadWords(p_.k, batch_, head_).rows_of_result(0, s_.keys, s_.width, true), k_);
    packed(HeadWords(p_.v, batch_, head_).rows_of_k(0, s_.keys, s_.width, true), v_);
    log_sums_ = static_cast<float*>(p_.log_sums) + number * s_.queries;
  }

  void block(std::int64_t first) {
    const std::int64_t rows = std::min(kBlockQueries, s_.queries - first);
    packed(HeadWords(p_.q, batch_, head_).rows_of_result(first, rows, s_.width, false), q_);
    RunningColumns running;
    const std::int64_t panels = steps_of(sizes_.keys_before(first + rows), kPanel);
    for (std::int64_t begin = 0; begin < panels; begin += kForwardPanels) {
      const std::int64_t count = std::min(kForwardPanels, panels - begin);
      for (std::int64_t q = 0; q * kPanel < rows; ++q) {
        score(begin, count, first, q, rows - q * kPanel);
        take_scores(count, q, rows - q * kPanel, running);
        if (begin > 0) scale(running.factors + q * kPanel, q, rows);
        add_values(begin, count, q, rows);
      }
    }
    finish(first, rows, running);
  }

 private:
  float* result(std::int64_t width_panel, std::int64_t q, std::int64_t rows) const {
    return results_.data() + (width_panel * steps_of(rows, kPanel) + q) * kBlockSums;
  }

  void score(std::int64_t begin, std::int64_t count, std::int64_t first, std::int64_t q, std::int64_t columns) {
    const std::int64_t words = sizes_.width_steps * kStepWords;
    for (std::int64_t i = 0; i < count; ++i) {
      float* to = scores_ + i * kBlockSums;
      multiply_for(s_.keys - (begin + i) * kPanel, columns)(k_.words() + (begin + i) * words, q_.words() + q * words,
                                                            sizes_.width_steps, true, to);
      sizes_.hide((begin + i) * kPanel, first + q * kPanel, exponents_.hidden, to);
    }
  }

  void take_scores(std::int64_t count, std::int64_t q, std::int64_t columns, RunningColumns& running) {
    const Floats sign = all_as<Floats>(exponents_.sign), factor = all_as<Floats>(exponents_.factor);
    for (std::int64_t half = 0; half * kSide < std::min(columns, kPanel); ++half) {
      const Column column{scores_, count, half, weights_};
      const std::int64_t at = q * kPanel + half * kSide;
      const Floats before = load<Floats>(running.most + at);
      const Floats most = larger(before, column.most(sign));
      Floats sums = load<Floats>(running.sums + at);
      const Floats change = power_of_two((before - most) * (factor * sign));
      sums = sums * change + column.exponentiate(factor, most * sign);
      store(running.most + at, most);
      store(running.sums + at, sums);
      store(running.factors + at, change);
    }
  }

  /// Multiplies the results of a panel of queries.
  void scale(const float* factors, std::int64_t q, std::int64_t rows) {
    const Floats first = load<Floats>(factors), second = load<Floats>(factors + kSide);
    for (std::int64_t w = 0; w < sizes_.width_panels; ++w) {
      float* to = result(w, q, rows);
      for (std::int64_t i = 0; i < kPanel; ++i) {
        store(to + line_at(i, 0), load<Floats>(to + line_at(i, 0)) * first);
        store(to + line_at(i, 1), load<Floats>(to + line_at(i, 1)) * second);
      }
    }
  }

  void add_values(std::int64_t begin, std::int64_t count, std::int64_t q, std::int64_t rows) {
    for (std::int64_t w = 0; w < sizes_.width_panels; ++w) {
      multiply_for(sizes_.width_of(w), rows - q * kPanel)(v_.words() + (w * sizes_.key_panels + begin) * kStepWords,
                                                          weights_, count, begin == 0, result(w, q, rows));
    }
  }

  void finish(std::int64_t first, std::int64_t rows, RunningColumns& running) {
    for (std::int64_t at = 0; at < rows; at += kSide) {
      const Floats sums = load<Floats>(running.sums + at);
      Floats logs =
          load<Floats>(running.most + at) * (exponents_.factor * exponents_.sign * std::numbers::ln2_v<float>);
      logs += log_of(sums);
      store_up_to(log_sums_ + first + at, logs, rows - at);
      store(running.factors + at, 1.0F / sums);
    }
    for (std::int64_t q = 0; q * kPanel < rows; ++q) scale(running.factors + q * kPanel, q, rows);
    put_turned_rows(sizes_, results_.data(), first, rows, HeadWords(p_.output, batch_, head_));
  }

  const AttentionParams& p_;
  const AttentionSizes& s_;
  HeadSizes sizes_;
  Exponents exponents_;
  Packed k_, v_, q_;
  CallMemory results_;  // turned: panels of width by panels of queries
  alignas(64) float scores_[kForwardPanels * kBlockSums];
  alignas(64) Word weights_[kForwardPanels * kStepWords];
  std::int64_t batch_ = 0, head_ = 0;
  float* log_sums_ = nullptr;
};

/// The kernel of vectors, which is faster for one or two queries: packing keys takes longer than reading them twice.
void (*by_vectors)(const AttentionParams& p) = nullptr;

void tile_attention(const AttentionParams& p) {
  const AttentionSizes& s = p.sizes;
  if (s.queries <= 2) return by_vectors(p);
  const std::int64_t blocks = steps_of(s.queries, kBlockQueries);
  const std::int64_t work = std::min(s.queries, kBlockQueries) * s.keys * s.width + 1;
  parallel_for(s.batch * s.heads * blocks, 1 + kHeadWork / work, [&](std::int64_t begin, std::int64_t end) {
    TileForward forward(p);
    const TilesInUse in_use;
    for (std::int64_t i = begin; i < end; ++i) {
      if (i == begin || i % blocks == 0) forward.head(i / blocks);
      forward.block(i % blocks * kBlockQueries);
    }
  });
}

/// Gradients of one head after the other. Those of keys and values are summed over all blocks of queries.
class TileBackward {
 public:
  explicit TileBackward(const AttentionGradParams& p)
      : p_(p),
        s_(p.sizes),
        sizes_(p.sizes),
        exponents_(s_.scale),
        k_(sizes_.key_panels * sizes_.width_steps * kStepWords),
        v_(sizes_.key_panels * sizes_.width_steps * kStepWords),
        turned_k_(sizes_.width_panels * sizes_.key_panels * kStepWords),
        q_(kQueryPanels * sizes_.width_steps * kStepWords),
        grad_(kQueryPanels * sizes_.width_steps * kStepWords),
        q_rows_(kQueryPanels * sizes_.width_panels * kStepWords),
        grad_rows_(kQueryPanels * sizes_.width_panels * kStepWords),
        k_sums_(sizes_.key_panels * sizes_.width_panels * kBlockSums),
        v_sums_(sizes_.key_panels * sizes_.width_panels * kBlockSums),
        q_sums_(sizes_.width_panels * kQueryPanels * kBlockSums) {}

  void head(std::int64_t number) {
    batch_ = number / s_.heads, head_ = number % s_.heads;
    const HeadWords k(p_.k, batch_, head_), v(p_.v, batch_, head_);
    packed(k.rows_of_result(0, s_.keys, s_.width, true), k_);
    packed(v.rows_of_result(0, s_.keys, s_.width, true), v_);
    packed(k.rows_of_k(0, s_.keys, s_.width, true), turned_k_);
    log_sums_ = static_cast<const float*>(p_.log_sums) + number * s_.queries;
    const std::int64_t sums = sizes_.key_panels * sizes_.width_panels * kBlockSums;
    std::fill_n(k_sums_.data(), sums, 0.0F);
    std::fill_n(v_sums_.data(), sums, 0.0F);
    for (std::int64_t first = 0; first < s_.queries; first += kBlockQueries) block(first);
    put_key_rows(k_sums_.data(), HeadWords(p_.k_grad, batch_, head_));
    put_key_rows(v_sums_.data(), HeadWords(p_.v_grad, batch_, head_));
  }

 private:
  void block(std::int64_t first) {
    const std::int64_t rows = std::min(kBlockQueries, s_.queries - first);
    const HeadWords q(p_.q, batch_, head_), grad(p_.output_grad, batch_, head_);
    packed(q.rows_of_result(first, rows, s_.width, false), q_);
    packed(grad.rows_of_result(first, rows, s_.width, false), grad_);
    packed(q.rows_of_k(first, rows, s_.width, false), q_rows_);
    packed(grad.rows_of_k(first, rows, s_.width, false), grad_rows_);
    take_sums(first, rows, grad);
    query_panels_ = steps_of(rows, kPanel);
    const std::int64_t panels = steps_of(sizes_.keys_before(first + rows), kPanel);
    for (std::int64_t begin = 0; begin < panels; begin += kBackwardPanels) {
      const std::int64_t count = std::min(kBackwardPanels, panels - begin);
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t j = 0; j < query_panels_; ++j) weigh(begin + i, i, first, j);
        add_to_keys(begin + i);
      }
      add_to_queries(begin, count);
    }
    put_turned_rows(sizes_, q_sums_.data(), first, rows, HeadWords(p_.q_grad, batch_, head_));
  }

  /// For each query the logarithm of its sum, to the base of 2, and output_grad . output.
  void take_sums(std::int64_t first, std::int64_t rows, const HeadWords& grad) {
    const HeadWords output(p_.output, batch_, head_);
    std::fill_n(shifts_, kBlockQueries, 0.0F);
    std::fill_n(along_, kBlockQueries, 0.0F);
    for (std::int64_t i = 0; i < rows; ++i) {
      __m512 sums = _mm512_setzero_ps();
      for (std::int64_t c = 0; c < s_.width; c += kDepth) {
        const __mmask32 mask = first_words(s_.width - c);
        sums = _mm512_dpbf16_ps(sums, (__m512bh)_mm512_maskz_loadu_epi16(mask, output.row(first + i) + c),
                                (__m512bh)_mm512_maskz_loadu_epi16(mask, grad.row(first + i) + c));
      }
      along_[i] = total((Floats)sums);
      shifts_[i] = log_sums_[first + i] * std::numbers::log2e_v<float>;
    }
  }

  /// The weights of a panel of keys, the one at `place` of those under way, for a panel of queries, and the gradients
  /// of their scores ("slopes"); as left operands, and these as a right one too.
  void weigh(std::int64_t key_panel, std::int64_t place, std::int64_t first, std::int64_t q) {
    const std::int64_t words = sizes_.width_steps * kStepWords;
    alignas(64) float scores[kBlockSums], grads[kBlockSums];
    multiply<2, 2>(k_.words() + key_panel * words, q_.words() + q * words, sizes_.width_steps, true, scores);
    multiply<2, 2>(v_.words() + key_panel * words, grad_.words() + q * words, sizes_.width_steps, true, grads);
    sizes_.hide(key_panel * kPanel, first + q * kPanel, exponents_.hidden, scores);
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                  high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    Word* pairs = slope_pairs_ + (q * kBackwardPanels + place) * kStepWords;
    for (std::int64_t row = 0; row < kPanel; row += 2, pairs += kDepth) {
      const Line first_slopes = weigh_row(scores, grads, row, q);
      const Line second_slopes = weigh_row(scores, grads, row + 1, q);
      const __m512i even = _mm512_unpacklo_epi16((__m512i)first_slopes, (__m512i)second_slopes);
      const __m512i odd = _mm512_unpackhi_epi16((__m512i)first_slopes, (__m512i)second_slopes);
      _mm512_store_si512(pairs, _mm512_permutex2var_epi64(even, low, odd));
      _mm512_store_si512(pairs + kTileWords, _mm512_permutex2var_epi64(even, high, odd));
    }
  }

  /// One key's weights and slopes for the queries of a panel; gives the slopes.
  CORE_INLINE Line weigh_row(const float* scores, const float* grads, std::int64_t row, std::int64_t q) {
    Floats weights[2], slopes[2];
    for (std::int64_t half = 0; half < 2; ++half) {
      const std::int64_t at = q * kPanel + half * kSide;
      const Floats x = load<Floats>(scores + line_at(row, half)) * exponents_.factor - load<Floats>(shifts_ + at);
      weights[half] = power_of_two(not_above_0(x));
      slopes[half] = weights[half] * (load<Floats>(grads + line_at(row, half)) - load<Floats>(along_ + at));
      slopes[half] = slopes[half] * static_cast<float>(s_.scale);
    }
    const std::int64_t to = q * kStepWords + row * kDepth;
    const Line line = rounded_pair(slopes[0], slopes[1]);
    store(weights_ + to, rounded_pair(weights[0], weights[1]));
    store(slopes_ + to, line);
    return line;
  }

  void add_to_keys(std::int64_t key_panel) {
    for (std::int64_t w = 0; w < sizes_.width_panels; ++w) {
      const auto multiply = multiply_for(kPanel, sizes_.width_of(w));
      const std::int64_t rows = w * query_panels_ * kStepWords,
                         sums = (key_panel * sizes_.width_panels + w) * kBlockSums;
      multiply(weights_, grad_rows_.words() + rows, query_panels_, false, v_sums_.data() + sums);
      multiply(slopes_, q_rows_.words() + rows, query_panels_, false, k_sums_.data() + sums);
    }
  }

  void add_to_queries(std::int64_t begin, std::int64_t count) {
    for (std::int64_t w = 0; w < sizes_.width_panels; ++w) {
      const auto multiply = multiply_for(sizes_.width_of(w), kPanel);
      const Word* keys = turned_k_.words() + (w * sizes_.key_panels + begin) * kStepWords;
      for (std::int64_t q = 0; q < query_panels_; ++q) {
        multiply(keys, slope_pairs_ + q * kBackwardPanels * kStepWords, count, begin == 0,
                 q_sums_.data() + (w * query_panels_ + q) * kBlockSums);
      }
    }
  }

  void put_key_rows(const float* sums, const HeadWords& to) const {
    for (std::int64_t i = 0; i < sizes_.key_panels; ++i) {
      for (std::int64_t w = 0; w < sizes_.width_panels; ++w, sums += kBlockSums) {
        put_block_rows(sums, std::min(kPanel, s_.keys - i * kPanel), sizes_.width_of(w),
                       to.output_row(i * kPanel) + w * kPanel, to.stride);
      }
    }
  }

  const AttentionGradParams& p_;
  const AttentionSizes& s_;
  HeadSizes sizes_;
  Exponents exponents_;
  Packed k_, v_, turned_k_, q_, grad_, q_rows_, grad_rows_;
  CallMemory k_sums_, v_sums_, q_sums_;
  alignas(64) Word weights_[kQueryPanels * kStepWords], slopes_[kQueryPanels * kStepWords];
  alignas(64) Word slope_pairs_[kQueryPanels * kBackwardPanels * kStepWords];
  alignas(64) float shifts_[kBlockQueries], along_[kBlockQueries];
  std::int64_t batch_ = 0, head_ = 0, query_panels_ = 0;
  const float* log_sums_ = nullptr;
};

void tile_attention_grad(const AttentionGradParams& p) {
  const AttentionSizes& s = p.sizes;
  const std::int64_t work = s.queries * s.keys * s.width + 1;
  parallel_for(s.batch * s.heads, 1 + kHeadWork / work, [&](std::int64_t begin, std::int64_t end) {
    TileBackward backward(p);
    const TilesInUse in_use;
    for (std::int64_t i = begin; i < end; ++i) backward.head(i);
  });
}

}  // namespace

void fill_tile_attention(NnTable& table) {
  by_vectors = table.attention[static_cast<std::size_t>(DType::bf16)];
  table.attention[static_cast<std::size_t>(DType::bf16)] = tile_attention;
  table.attention_grad[static_cast<std::size_t>(DType::bf16)] = tile_attention_grad;
}

}  // namespace core::cpu::CORE_CPU_VARIANT
