// Attention of short sequences, one head of one batch item at a time: scores, softmax and the product with the values
// stay in the nearest caches. Each head is computed by one thread, so results do not depend on their number.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"
#include "libcore/backend/cpu/vector_math.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

std::int64_t padded(std::int64_t size) {
  return (size + kLanes - 1) / kLanes * kLanes;
}

float largest(const Floats& x) {
  float most = x[0];
  for (std::int64_t i = 1; i < kLanes; ++i) most = x[i] > most || x[i] != x[i] ? x[i] : most;
  return most;
}
float total(const Floats& x) {
  float sum = 0;
  for (std::int64_t i = 0; i < kLanes; ++i) sum += x[i];
  return sum;
}

/// sums[0, count) = the sum over `terms` of a[term] * rows[term][0, count); count a multiple of kLanes. Four vectors
/// are summed side by side, or two halves of one, or each addition would wait for the one before.
void combine(const float* a, const float* rows, std::int64_t terms, std::int64_t stride, std::int64_t count,
             float* sums) {
  std::int64_t at = 0;
  for (; at + 4 * kLanes <= count; at += 4 * kLanes) {
    Floats s0{}, s1{}, s2{}, s3{};
    for (std::int64_t t = 0; t < terms; ++t) {
      const float* row = rows + t * stride + at;
      Floats v0 = load<Floats>(row);
      Floats v1 = load<Floats>(row + kLanes);
      Floats v2 = load<Floats>(row + 2 * kLanes);
      Floats v3 = load<Floats>(row + 3 * kLanes);
      s0 += v0 * a[t], s1 += v1 * a[t], s2 += v2 * a[t], s3 += v3 * a[t];
    }
    store(sums + at, s0), store(sums + at + kLanes, s1);
    store(sums + at + 2 * kLanes, s2), store(sums + at + 3 * kLanes, s3);
  }
  for (; at < count; at += kLanes) {
    Floats even{}, odd{};
    std::int64_t t = 0;
    for (; t + 2 <= terms; t += 2) {
      Floats v0 = load<Floats>(rows + t * stride + at);
      Floats v1 = load<Floats>(rows + (t + 1) * stride + at);
      even += v0 * a[t], odd += v1 * a[t + 1];
    }
    if (t < terms) {
      Floats v0 = load<Floats>(rows + t * stride + at);
      even += v0 * a[t];
    }
    even += odd;
    store(sums + at, even);
  }
}

/// rows[row][0, count) += a[row] * x[0, count) for the first `terms` rows.
void spread(const float* a, const float* x, std::int64_t terms, std::int64_t count, float* rows) {
  for (std::int64_t at = 0; at < count; at += kLanes) {
    Floats value = load<Floats>(x + at);
    for (std::int64_t t = 0; t < terms; ++t) {
      Floats sum = load<Floats>(rows + t * count + at);
      sum += value * a[t];
      store(rows + t * count + at, sum);
    }
  }
}

/// Rows of one head, padded with zeros to whole vectors.
void take_rows(const AttentionArray& array, const float* data, std::int64_t rows, std::int64_t width, float* to) {
  const std::int64_t stride = padded(width);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::copy_n(data + r * array.row_stride, width, to + r * stride);
    std::fill_n(to + r * stride + width, stride - width, 0.0F);
  }
}
/// The same transposed: (width, padded rows).
void take_columns(const AttentionArray& array, const float* data, std::int64_t rows, std::int64_t width, float* to) {
  const std::int64_t stride = padded(rows);
  for (std::int64_t c = 0; c < width; ++c) {
    for (std::int64_t r = 0; r < rows; ++r) to[c * stride + r] = data[r * array.row_stride + c];
    std::fill_n(to + c * stride + rows, stride - rows, 0.0F);
  }
}

const float* head_of(const AttentionArray& array, std::int64_t batch, std::int64_t head) {
  return static_cast<const float*>(array.data) + batch * array.batch_stride + head * array.head_stride;
}
float* output_of(const AttentionArray& array, std::int64_t batch, std::int64_t head) {
  return const_cast<float*>(head_of(array, batch, head));
}

/// Keys that row i sees.
std::int64_t seen_by(const AttentionSizes& s, std::int64_t i) {
  return s.causal ? std::min(s.keys, i + 1) : s.keys;
}

/// Working memory of one head.
struct Head {
  std::vector<float> k, v, k_columns, v_columns, scores, slopes, row;

  explicit Head(const AttentionSizes& s)
      : k(size(s.keys * padded(s.width))),
        v(k.size()),
        k_columns(size(s.width * padded(s.keys))),
        v_columns(k_columns.size()),
        scores(size(padded(s.keys))),
        slopes(scores.size()),
        row(size(padded(s.width))) {}
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }
};

/// scores[0, seen) = q . k * scale for one row; the rest of the last vector is -infinity.
void score_row(const AttentionSizes& s, const float* q, std::int64_t seen, Head& head) {
  combine(q, head.k_columns.data(), s.width, padded(s.keys), padded(seen), head.scores.data());
  for (std::int64_t j = 0; j < seen; ++j) head.scores[Head::size(j)] *= static_cast<float>(s.scale);
  std::fill_n(head.scores.data() + seen, padded(seen) - seen, -std::numeric_limits<float>::infinity());
}

/// scores = exp(scores - shift); gives their sum.
float exponentiate(std::int64_t count, float shift, float* scores) {
  Floats sums{};
  for (std::int64_t j = 0; j < count; j += kLanes) {
    Floats x = load<Floats>(scores + j);
    x -= shift;
    x = exp_of(x);
    store(scores + j, x);
    sums += x;
  }
  return total(sums);
}

float largest_of(const float* scores, std::int64_t count) {
  Floats most = load<Floats>(scores);
  for (std::int64_t j = kLanes; j < count; j += kLanes) {
    Floats x = load<Floats>(scores + j);
    const Ints take = (x > most) | (x != x);
    most = take ? x : most;
  }
  return largest(most);
}

void forward_head(const AttentionParams& p, std::int64_t batch, std::int64_t h, Head& head) {
  const AttentionSizes& s = p.sizes;
  take_rows(p.v, head_of(p.v, batch, h), s.keys, s.width, head.v.data());
  take_columns(p.k, head_of(p.k, batch, h), s.keys, s.width, head.k_columns.data());
  const float* q = head_of(p.q, batch, h);
  float* out = output_of(p.output, batch, h);
  auto* log_sums = static_cast<float*>(p.log_sums) + (batch * s.heads + h) * s.queries;
  for (std::int64_t i = 0; i < s.queries; ++i) {
    const std::int64_t seen = seen_by(s, i);
    score_row(s, q + i * p.q.row_stride, seen, head);
    float* scores = head.scores.data();
    const float most = largest_of(scores, padded(seen));
    const float sum = exponentiate(padded(seen), most, scores);
    log_sums[i] = most + std::log(sum);
    combine(scores, head.v.data(), seen, padded(s.width), padded(s.width), head.row.data());
    for (std::int64_t c = 0; c < s.width; ++c) out[i * p.output.row_stride + c] = head.row[Head::size(c)] / sum;
  }
}

/// What one head's gradients are summed in, besides a Head's.
struct HeadGrads {
  std::vector<float> k, v, query, output_grad;
  explicit HeadGrads(const AttentionSizes& s)
      : k(Head::size(s.keys * padded(s.width))), v(k.size()), query(Head::size(padded(s.width))), output_grad(query) {}
};

void put_rows(const AttentionArray& array, float* data, const std::vector<float>& rows, const AttentionSizes& s) {
  for (std::int64_t j = 0; j < s.keys; ++j) {
    std::copy_n(rows.data() + j * padded(s.width), s.width, data + j * array.row_stride);
  }
}

/// One row: the gradient of its query; its shares of those of keys and values are added.
void backward_row(const AttentionGradParams& p, std::int64_t seen, float log_sum, const float* out, Head& head,
                  HeadGrads& grads) {
  const AttentionSizes& s = p.sizes;
  const std::int64_t width = padded(s.width);
  float* weights = head.scores.data();
  float* slopes = head.slopes.data();
  score_row(s, grads.query.data(), seen, head);
  exponentiate(padded(seen), log_sum, weights);
  float along = 0;  // output_grad . output
  for (std::int64_t c = 0; c < s.width; ++c) along += grads.output_grad[Head::size(c)] * out[c];
  combine(grads.output_grad.data(), head.v_columns.data(), s.width, padded(s.keys), padded(seen), slopes);
  const auto scale = static_cast<float>(s.scale);
  for (std::int64_t j = 0; j < seen; ++j) slopes[j] = weights[j] * (slopes[j] - along) * scale;
  combine(slopes, head.k.data(), seen, width, width, head.row.data());
  spread(slopes, grads.query.data(), seen, width, grads.k.data());
  spread(weights, grads.output_grad.data(), seen, width, grads.v.data());
}

void backward_head(const AttentionGradParams& p, std::int64_t batch, std::int64_t h, Head& head, HeadGrads& grads) {
  const AttentionSizes& s = p.sizes;
  take_rows(p.k, head_of(p.k, batch, h), s.keys, s.width, head.k.data());
  take_columns(p.k, head_of(p.k, batch, h), s.keys, s.width, head.k_columns.data());
  take_columns(p.v, head_of(p.v, batch, h), s.keys, s.width, head.v_columns.data());
  std::fill(grads.k.begin(), grads.k.end(), 0.0F);
  std::fill(grads.v.begin(), grads.v.end(), 0.0F);
  const float* q = head_of(p.q, batch, h);
  const float* out = head_of(p.output, batch, h);
  const float* output_grad = head_of(p.output_grad, batch, h);
  float* q_grad = output_of(p.q_grad, batch, h);
  const auto* log_sums = static_cast<const float*>(p.log_sums) + (batch * s.heads + h) * s.queries;
  for (std::int64_t i = 0; i < s.queries; ++i) {
    take_rows(p.q, q + i * p.q.row_stride, 1, s.width, grads.query.data());
    take_rows(p.output_grad, output_grad + i * p.output_grad.row_stride, 1, s.width, grads.output_grad.data());
    backward_row(p, seen_by(s, i), log_sums[i], out + i * p.output.row_stride, head, grads);
    std::copy_n(head.row.data(), s.width, q_grad + i * p.q_grad.row_stride);
  }
  put_rows(p.k_grad, output_of(p.k_grad, batch, h), grads.k, s);
  put_rows(p.v_grad, output_of(p.v_grad, batch, h), grads.v, s);
}

std::int64_t head_grain(const AttentionSizes& s) {
  return std::max<std::int64_t>(1, 65536 / (s.queries * s.keys * s.width + 1));
}

void attention(const AttentionParams& p) {
  const AttentionSizes& s = p.sizes;
  parallel_for(s.batch * s.heads, head_grain(s), [&](std::int64_t begin, std::int64_t end) {
    Head head(s);
    for (std::int64_t i = begin; i < end; ++i) forward_head(p, i / s.heads, i % s.heads, head);
  });
}

void attention_grad(const AttentionGradParams& p) {
  const AttentionSizes& s = p.sizes;
  parallel_for(s.batch * s.heads, head_grain(s), [&](std::int64_t begin, std::int64_t end) {
    Head head(s);
    HeadGrads grads(s);
    for (std::int64_t i = begin; i < end; ++i) backward_head(p, i / s.heads, i % s.heads, head, grads);
  });
}

}  // namespace

void fill_attention(NnTable& table) {
  table.attention[static_cast<std::size_t>(DType::f32)] = attention;
  table.attention_grad[static_cast<std::size_t>(DType::f32)] = attention_grad;
}

}  // namespace core::cpu::CORE_CPU_VARIANT
