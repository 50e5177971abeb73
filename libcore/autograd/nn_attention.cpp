// Scaled dot-product attention.
#include <cmath>
#include <limits>

#include "libcore/autograd/composed.h"
#include "libcore/base/error.h"
#include "libcore/tensor/attention_ops.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/ops.h"

namespace core {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// What is added to the scores, undefined for nothing.
Tensor bias_of(const Tensor& q, const Tensor& k, const AttentionOptions& o) {
  const TensorOptions made{.dtype = q.dtype(), .device = q.device()};
  if (o.is_causal) {
    const Tensor later = triu(ones({q.size(-2), k.size(-2)}, made), 1);
    return masked_fill(zeros(later.sizes(), made), later > 0, kNever);
  }
  if (!o.mask.defined() || o.mask.dtype() != DType::boolean) return o.mask;
  return masked_fill(zeros(o.mask.sizes(), made), logical_not(o.mask), kNever);
}

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const AttentionOptions& o) {
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
  const double root = std::sqrt(std::abs(scale));
  Tensor scores = matmul(q * (scale < 0 ? -root : root), (k * root).transpose(-2, -1));
  if (bias.defined()) scores = scores + bias;
  return matmul(dropout(softmax(scores, -1), o.dropout, o.dropout > 0), v);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  if (o.is_causal && o.mask.defined()) {
    throw Error(ErrorCode::runtime,
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  }
  if (q.dim() == 3) {
    AttentionOptions batched = o;
    if (o.mask.defined() && o.mask.dim() == 3) batched.mask = o.mask.unsqueeze(0);
    return scaled_dot_product_attention(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), batched).squeeze(0);
  }
  const Tensor bias = bias_of(q, k, o);
  const bool learnt_mask = o.mask.defined() && o.mask.requires_grad();
  const bool same_width = q.size(-1) == v.size(-1);
  if (q.dim() != 4 || o.dropout > 0 || learnt_mask || !same_width) return attend(q, k, v, bias, o);
  return composed("ScaledDotProductFlashAttentionForCpuBackward0", {q, k, v, bias},
                  [o](const TensorList& in) { return attend(in[0], in[1], in[2], in[3], o); });
}

}  // namespace core
