#pragma once
// Attention in one kernel, without history. Thread safety: pure functions.

#include "libcore/tensor/tensor.h"

namespace core::raw {

/// Everything about an attention but its arrays.
struct AttentionPlan {
  double scale = 1;
  bool causal = false;
  Tensor mask = {};  ///< bool or of the data's dtype, or undefined; broadcasts to (N, heads, queries, keys)
  double dropout = 0;
};

/// Whether there is a kernel for it: (N, heads, length, width), one width, of f32 or 16 bits.
bool has_attention(const Tensor& q, const Tensor& k, const Tensor& v);

/// Whether that kernel takes the plan's mask and dropout too; those of GPUs do, without a matrix of scores.
bool has_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionPlan& plan);

struct AttentionResult {
  Tensor output;  ///< laid out as q, as PyTorch's
  Tensor log_sums;
  Tensor row_maxima = {};  ///< with a mask
  Tensor drawn = {};       ///< with dropout: seed and offset, from which the gradient finds what was kept
};

/// Dropout draws from the default generator of q's device.
AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionPlan& plan);

struct AttentionGrads {
  Tensor q, k, v;
};
AttentionGrads attention_grad(const Tensor& output_grad, const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionResult& forward, const AttentionPlan& plan);

/// What dropout kept, as a matrix of bool (N, heads, queries, keys).
Tensor attention_kept(const Tensor& q, const Tensor& k, const AttentionPlan& plan, const Tensor& drawn);

}  // namespace core::raw
