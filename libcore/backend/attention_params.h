#pragma once
// What the kernels of attention are given (nn_table.h). Thread safety: plain values.
// Use: backend.ops().nn->attention[dtype](core::AttentionParams{...});

#include <cstdint>

namespace core {

/// softmax(q @ k^T * scale) @ v for every head. `causal`: row i sees the keys up to i.
struct AttentionSizes {
  std::int64_t batch, heads, queries, keys, width;
  double scale;
  bool causal;
};

/// (batch, heads, rows, width) with rows of neighbouring elements; strides in elements.
struct AttentionArray {
  const void* data;
  std::int64_t batch_stride, head_stride, row_stride;
};

/// log_sums (batch, heads, queries): the logarithm of the sum of exponentials of each row's scores.
struct AttentionParams {
  AttentionSizes sizes;
  AttentionArray q, k, v;
  AttentionArray output;
  void* log_sums;
};

struct AttentionGradParams {
  AttentionSizes sizes;
  AttentionArray q, k, v, output, output_grad;
  const void* log_sums;
  AttentionArray q_grad, k_grad, v_grad;
};

}  // namespace core
