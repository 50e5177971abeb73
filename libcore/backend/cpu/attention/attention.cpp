// Scaled dot-product attention for one instruction set (CORE_CPU_VARIANT names the namespace), a block of queries by a
// block of keys at a time: no matrix of scores is made, whatever the number of keys. What a block of queries gives does
// not depend on the number of threads.
#include <cmath>

#include "libcore/backend/cpu/attention/blocks.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

using V = Vector<float>;
constexpr std::int64_t kW = kWidth<float>;

/// Multiplications that are worth a thread's start.
constexpr std::int64_t kWorkOfThread = 65536;

CORE_INLINE V larger(const V& a, const V& b) {
  return a > b ? a : b;
}
float total(const V& x) {
  float sum = 0;
  for (std::int64_t i = 0; i < kW; ++i) sum += x[i];
  return sum;
}

/// The softmax of a block of queries as far as keys have been seen: largest score, sum of exponentials, and by what
/// the results up to now have to be multiplied.
struct Running {
  alignas(64) float most[kQueries], sums[kQueries], factors[kQueries];
  bool changed;
  Running() {
    std::fill_n(most, kQueries, kHidden);
    std::fill_n(sums, kQueries, 0.0F);
  }
};

V largest_of_column(const float* scores, std::int64_t keys, std::int64_t lanes) {
  V most[4] = {load(scores), load(scores), load(scores), load(scores)};
  std::int64_t j = 0;
  for (; j + 4 <= keys; j += 4) {
    for (std::int64_t i = 0; i < 4; ++i) most[i] = larger(load(scores + (j + i) * lanes), most[i]);
  }
  for (; j < keys; ++j) most[0] = larger(load(scores + j * lanes), most[0]);
  return larger(larger(most[0], most[1]), larger(most[2], most[3]));
}

/// Scores become exponentials, less the largest up to now.
void take_scores(const Scores& s, Running& running) {
  running.changed = false;
  for (std::int64_t at = 0; at < s.block.lanes; at += kW) {
    float* column = s.at + at;
    const V before = load(running.most + at);
    const V most = larger(largest_of_column(column, s.keys, s.block.lanes), before);
    V difference = before - most;
    const V factor = exp_of(difference);
    V sums = load(running.sums + at) * factor;
    for (std::int64_t j = 0; j < s.keys; ++j) {
      V x = load(column + j * s.block.lanes);
      x -= most;
      x = exp_of(x);
      store(column + j * s.block.lanes, x);
      sums += x;
    }
    store(running.most + at, most);
    store(running.sums + at, sums);
    store(running.factors + at, factor);
    const VectorBits<float> other = factor != 1.0F;
    for (std::int64_t i = 0; i < kW; ++i) running.changed |= other[i] != 0;
  }
}

void scale_results(const Block& block, const float* factors, std::int64_t width, float* results) {
  for (std::int64_t at = 0; at < block.lanes; at += kW) {
    const V factor = load(factors + at);
    for (std::int64_t c = 0; c < width; ++c) {
      float* to = results + c * block.lanes + at;
      store(to, load(to) * factor);
    }
  }
}

/// What a thread works with: keys and values of the head that it is at, and a block of queries.
template <DType kType>
class Forward {
 public:
  explicit Forward(const AttentionParams& p)
      : p_(p),
        s_(p.sizes),
        k_(s_.keys, s_.width),
        v_(s_.keys, s_.width),
        q_(kQueries, s_.width),
        turned_(kQueries * s_.width),
        results_(kQueries * s_.width),
        rows_(kQueries * s_.width) {}

  void head(std::int64_t number) {
    batch_ = number / s_.heads, head_ = number % s_.heads;
    keys_ = k_.take(rows_of<kType>(p_.k, batch_, head_), 0, s_.keys);
    values_ = v_.take(rows_of<kType>(p_.v, batch_, head_), 0, s_.keys);
    log_sums_ = static_cast<float*>(p_.log_sums) + number * s_.queries;
  }

  void block(std::int64_t first) {
    const Block block(first, s_.queries);
    turn_block(block, q_.take(rows_of<kType>(p_.q, batch_, head_), first, block.rows), s_.width, turned_.data());
    Running running;
    const std::int64_t seen = keys_before(s_, first + block.rows);
    for (std::int64_t k0 = 0; k0 < seen; k0 += kKeys) {
      const Scores scores{block, k0, std::min(kKeys, seen - k0), scores_};
      multiply_rows(scores, keys_, turned_.data(), s_.width, s_.scale);
      if (s_.causal && k0 + scores.keys > first + 1) hide_later(scores);
      take_scores(scores, running);
      if (k0 > 0 && running.changed) scale_results(block, running.factors, s_.width, results_.data());
      add_turned(scores, values_, s_.width, k0 > 0 ? 1.0F : 0.0F, results_.data());
    }
    finish(block, running);
  }

 private:
  void finish(const Block& block, const Running& running) {
    float inverse[kQueries];
    for (std::int64_t at = 0; at < block.lanes; at += kW) {
      const V sums = load(running.sums + at);
      V logs = log_of(sums);
      logs += load(running.most + at);
      store_up_to(log_sums_ + block.first + at, logs, block.rows - at);
      store(inverse + at, 1.0F / sums);
    }
    scale_results(block, inverse, s_.width, results_.data());
    turned(results_.data(), block.lanes, s_.width, block.rows, rows_.data(), s_.width);
    put_rows<kType>(rows_.data(), block.rows, s_.width, rows_of<kType>(p_.output, batch_, head_), block.first);
  }

  const AttentionParams& p_;
  const AttentionSizes& s_;
  WideRows<kType> k_, v_, q_;
  CallMemory turned_, results_, rows_;
  alignas(64) float scores_[kKeys * kQueries];
  std::int64_t batch_ = 0, head_ = 0;
  const float *keys_ = nullptr, *values_ = nullptr;
  float* log_sums_ = nullptr;
};

/// So few queries, as in the steps of a generation, that a lane for each would leave most of a vector empty: scores are
/// dot products, whose rows the softmax takes one by one. 8 heads of 64 with 1,024 keys took 429 us by blocks, and 165
/// so.
template <DType kType>
class FewQueries {
 public:
  static bool are(const AttentionSizes& s) { return s.queries * 4 <= kW; }
  explicit FewQueries(const AttentionParams& p)
      : p_(p),
        s_(p.sizes),
        q_(s_.queries, s_.width),
        rows_(kKeys, s_.width),
        scores_(s_.queries * padded_keys()),
        results_(s_.queries * s_.width) {}

  void head(std::int64_t number) {
    const std::int64_t batch = number / s_.heads, head = number % s_.heads, apart = padded_keys();
    const float* q = q_.take(rows_of<kType>(p_.q, batch, head), 0, s_.queries);
    for_each_block(rows_of<kType>(p_.k, batch, head), [&](std::int64_t first, std::int64_t keys, const float* rows) {
      dots_product(SmallProduct<float>{.m = s_.queries,
                                       .n = keys,
                                       .k = s_.width,
                                       .a = q,
                                       .a_row = s_.width,
                                       .a_step = 1,
                                       .b = rows,
                                       .ldb = s_.width,
                                       .c = scores_.data() + first,
                                       .ldc = apart,
                                       .alpha = static_cast<float>(s_.scale)});
    });
    for (std::int64_t i = 0; i < s_.queries; ++i) {
      static_cast<float*>(p_.log_sums)[number * s_.queries + i] = take_row(scores_.data() + i * apart, i);
    }
    for_each_block(rows_of<kType>(p_.v, batch, head), [&](std::int64_t first, std::int64_t keys, const float* rows) {
      rows_product(SmallProduct<float>{.m = s_.queries,
                                       .n = s_.width,
                                       .k = keys,
                                       .a = scores_.data() + first,
                                       .a_row = apart,
                                       .a_step = 1,
                                       .b = rows,
                                       .ldb = s_.width,
                                       .c = results_.data(),
                                       .ldc = s_.width,
                                       .beta = first > 0 ? 1.0F : 0.0F});
    });
    put_rows<kType>(results_.data(), s_.queries, s_.width, rows_of<kType>(p_.output, batch, head), 0);
  }

 private:
  std::int64_t padded_keys() const { return (s_.keys + kW - 1) / kW * kW; }

  template <class Visit>
  void for_each_block(const HeadRows& all, Visit visit) {
    const std::int64_t seen = keys_before(s_, s_.queries);
    for (std::int64_t first = 0; first < seen; first += kKeys) {
      const std::int64_t keys = std::min(kKeys, seen - first);
      visit(first, keys, rows_.take(all, first, keys));
    }
  }

  /// Scores of query i become weights; gives the logarithm of the sum of their exponentials.
  float take_row(float* scores, std::int64_t i) const {
    const std::int64_t seen = keys_before(s_, i + 1), end = padded_keys();
    std::fill_n(scores + seen, end - seen, kHidden);
    V most = load(scores), sums{};
    for (std::int64_t j = kW; j < end; j += kW) most = larger(load(scores + j), most);
    float largest = most[0];
    for (int lane = 1; lane < kW; ++lane) largest = std::max(largest, most[lane]);
    for (std::int64_t j = 0; j < end; j += kW) {
      V x = load(scores + j);
      x -= largest;
      x = exp_of(x);
      store(scores + j, x);
      sums += x;
    }
    const float sum = total(sums), inverse = 1 / sum;
    for (std::int64_t j = 0; j < end; j += kW) store(scores + j, load(scores + j) * inverse);
    return largest + std::log(sum);
  }

  const AttentionParams& p_;
  const AttentionSizes& s_;
  WideRows<kType> q_, rows_;
  CallMemory scores_, results_;
};

template <DType kType>
void attention(const AttentionParams& p) {
  const AttentionSizes& s = p.sizes;
  if (FewQueries<kType>::are(s)) {
    const std::int64_t work = s.queries * s.keys * s.width + 1;
    return parallel_for(s.batch * s.heads, 1 + kWorkOfThread / work, [&](std::int64_t begin, std::int64_t end) {
      FewQueries<kType> few(p);
      for (std::int64_t i = begin; i < end; ++i) few.head(i);
    });
  }
  const std::int64_t blocks = (s.queries + kQueries - 1) / kQueries;
  const std::int64_t work = std::min(s.queries, kQueries) * s.keys * s.width + 1;
  parallel_for(s.batch * s.heads * blocks, 1 + kWorkOfThread / work, [&](std::int64_t begin, std::int64_t end) {
    Forward<kType> forward(p);
    for (std::int64_t i = begin; i < end; ++i) {
      if (i == begin || i % blocks == 0) forward.head(i / blocks);
      forward.block(i % blocks * kQueries);
    }
  });
}

/// Gradients of one head after the other. Those of keys and values are summed over all blocks of queries.
template <DType kType>
class Backward {
 public:
  explicit Backward(const AttentionGradParams& p)
      : p_(p),
        s_(p.sizes),
        k_(s_.keys, s_.width),
        v_(s_.keys, s_.width),
        q_(kQueries, s_.width),
        grad_(kQueries, s_.width),
        output_(kQueries, s_.width),
        k_sums_(s_.keys * s_.width),
        v_sums_(s_.keys * s_.width),
        turned_q_(kQueries * s_.width),
        turned_grad_(kQueries * s_.width),
        q_sums_(kQueries * s_.width),
        rows_(kQueries * s_.width) {}

  void head(std::int64_t number) {
    batch_ = number / s_.heads, head_ = number % s_.heads;
    keys_ = k_.take(rows_of<kType>(p_.k, batch_, head_), 0, s_.keys);
    values_ = v_.take(rows_of<kType>(p_.v, batch_, head_), 0, s_.keys);
    log_sums_ = static_cast<const float*>(p_.log_sums) + number * s_.queries;
    std::fill_n(k_sums_.data(), s_.keys * s_.width, 0.0F);
    std::fill_n(v_sums_.data(), s_.keys * s_.width, 0.0F);
    for (std::int64_t first = 0; first < s_.queries; first += kQueries) block(Block(first, s_.queries));
    put_rows<kType>(k_sums_.data(), s_.keys, s_.width, rows_of<kType>(p_.k_grad, batch_, head_), 0);
    put_rows<kType>(v_sums_.data(), s_.keys, s_.width, rows_of<kType>(p_.v_grad, batch_, head_), 0);
  }

 private:
  void block(const Block& block) {
    const float* q = q_.take(rows_of<kType>(p_.q, batch_, head_), block.first, block.rows);
    const float* grad = grad_.take(rows_of<kType>(p_.output_grad, batch_, head_), block.first, block.rows);
    turn_block(block, q, s_.width, turned_q_.data());
    turn_block(block, grad, s_.width, turned_grad_.data());
    take_sums(block, grad);
    const std::int64_t seen = keys_before(s_, block.first + block.rows);
    for (std::int64_t k0 = 0; k0 < seen; k0 += kKeys) {
      const Scores weights{block, k0, std::min(kKeys, seen - k0), weights_};
      const Scores slopes{block, k0, weights.keys, slopes_};
      multiply_rows(weights, keys_, turned_q_.data(), s_.width, s_.scale);
      if (s_.causal && k0 + weights.keys > block.first + 1) hide_later(weights);
      multiply_rows(slopes, values_, turned_grad_.data(), s_.width, 1);
      make_slopes(weights, slopes);
      add_to_keys(weights, grad, s_.width, v_sums_.data());
      add_to_keys(slopes, q, s_.width, k_sums_.data());
      add_turned(slopes, keys_, s_.width, k0 > 0 ? 1.0F : 0.0F, q_sums_.data());
    }
    turned(q_sums_.data(), block.lanes, s_.width, block.rows, rows_.data(), s_.width);
    put_rows<kType>(rows_.data(), block.rows, s_.width, rows_of<kType>(p_.q_grad, batch_, head_), block.first);
  }

  /// For each query the logarithm of its sum, and output_grad . output.
  void take_sums(const Block& block, const float* grad) {
    const float* out = output_.take(rows_of<kType>(p_.output, batch_, head_), block.first, block.rows);
    std::fill_n(shifts_, block.lanes, 0.0F);
    std::fill_n(along_, block.lanes, 0.0F);
    for (std::int64_t i = 0; i < block.rows; ++i, out += s_.width, grad += s_.width) {
      V sums{};
      for (std::int64_t c = 0; c < s_.width; c += kW) {
        sums += load_up_to(out + c, s_.width - c) * load_up_to(grad + c, s_.width - c);
      }
      along_[i] = total(sums);
      shifts_[i] = log_sums_[block.first + i];
    }
  }

  /// Scores become weights, and what lies in `slopes`, the weights' gradients, becomes the scores' ones.
  void make_slopes(const Scores& weights, const Scores& slopes) const {
    const std::int64_t lanes = weights.block.lanes;
    const auto scale = static_cast<float>(s_.scale);
    for (std::int64_t at = 0; at < lanes; at += kW) {
      const V shift = load(shifts_ + at), along = load(along_ + at);
      for (std::int64_t j = 0; j < weights.keys; ++j) {
        V x = load(weights.at + j * lanes + at);
        x -= shift;
        x = exp_of(x);
        store(weights.at + j * lanes + at, x);
        float* slope = slopes.at + j * lanes + at;
        store(slope, x * (load(slope) - along) * scale);
      }
    }
  }

  const AttentionGradParams& p_;
  const AttentionSizes& s_;
  WideRows<kType> k_, v_, q_, grad_, output_;
  CallMemory k_sums_, v_sums_, turned_q_, turned_grad_, q_sums_, rows_;
  alignas(64) float weights_[kKeys * kQueries], slopes_[kKeys * kQueries], shifts_[kQueries], along_[kQueries];
  std::int64_t batch_ = 0, head_ = 0;
  const float *keys_ = nullptr, *values_ = nullptr, *log_sums_ = nullptr;
};

template <DType kType>
void attention_grad(const AttentionGradParams& p) {
  const AttentionSizes& s = p.sizes;
  const std::int64_t work = s.queries * s.keys * s.width + 1;
  parallel_for(s.batch * s.heads, 1 + kWorkOfThread / work, [&](std::int64_t begin, std::int64_t end) {
    Backward<kType> backward(p);
    for (std::int64_t i = begin; i < end; ++i) backward.head(i);
  });
}

template <DType kType>
void add_for(NnTable& table) {
  table.attention[static_cast<std::size_t>(kType)] = attention<kType>;
  table.attention_grad[static_cast<std::size_t>(kType)] = attention_grad<kType>;
}

}  // namespace

void fill_attention(NnTable& table) {
  add_for<DType::f32>(table);
  add_for<DType::f16>(table);
  add_for<DType::bf16>(table);
}

}  // namespace core::cpu::CORE_CPU_VARIANT
