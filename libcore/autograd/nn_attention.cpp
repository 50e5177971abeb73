// Scaled dot-product attention.
#include <cmath>
#include <limits>

#include "libcore/autograd/composed.h"
#include "libcore/base/error.h"
#include "libcore/tensor/attention_ops.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/ops.h"
#include "libcore/tensor/raw_nn_ops.h"

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

constexpr const char* kName = "ScaledDotProductFlashAttentionForCpuBackward0";

/// Saved: q, k, v, the result, the rows' log sums.
struct AttentionBackward final : Node {
  AttentionOptions options;
  raw::AttentionPlan plan;
  std::string_view name() const override { return kName; }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor(), Tensor(), Tensor()};
    const Tensor q = saved(0), k = saved(1), v = saved(2);
    if (is_grad_enabled() || grads[0].dtype() != q.dtype()) return with_history(grads[0], {q, k, v});
    raw::AttentionGrads all = raw::attention_grad(grads[0], q, k, v, {saved(3), saved(4)}, plan);
    return {all.q, all.k, all.v};
  }
  TensorList with_history(const Tensor& grad, const TensorList& inputs) const {
    const AttentionOptions o = options;
    const auto function = [o](const TensorList& in) {
      return TensorList{attend(in[0], in[1], in[2], bias_of(in[0], in[1], o), o)};
    };
    return detail::differentiated(function, inputs, {wants(0), wants(1), wants(2)}, {grad});
  }
};

Tensor attend_fused(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  const raw::AttentionPlan plan{o.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1)))), o.is_causal};
  raw::AttentionResult result = raw::attention(q, k, v, plan);
  if (!needs_grad(q, k, v)) return result.output;
  auto node = make_node<AttentionBackward>(q, k, v);
  node->options = o;
  node->plan = plan;
  for (const Tensor* t : {&q, &k, &v}) node->save(*t);
  record(result.output, node);
  node->save_output(result.output);
  node->save(result.log_sums);
  return result.output;
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
  if (!o.mask.defined() && o.dropout == 0 && raw::has_attention(q, k, v)) return attend_fused(q, k, v, o);
  const Tensor bias = bias_of(q, k, o);
  const bool learnt_mask = o.mask.defined() && o.mask.requires_grad();
  const bool same_width = q.size(-1) == v.size(-1);
  if (q.dim() != 4 || o.dropout > 0 || learnt_mask || !same_width) return attend(q, k, v, bias, o);
  return composed(kName, {q, k, v, bias}, [o](const TensorList& in) { return attend(in[0], in[1], in[2], in[3], o); });
}

}  // namespace core
