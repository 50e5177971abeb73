// Scaled dot-product attention.
#include "libcore/ops/attention.h"

#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/attention.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/kernel_call.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

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

/// Where all keys of a row are hidden; undefined where no row is so, as far as the host can see that.
Tensor hidden_rows(const Tensor& bias) {
  if (!bias.defined() || bias.dim() == 0) return {};
  const NoGradGuard no_history;
  const Tensor hidden = all(isneginf(bias.detach()), {.dims = Shape{-1}, .keepdim = true});
  return bias.device().is_cpu() && !any(hidden).item<bool>() ? Tensor() : hidden;
}

/// softmax of rows; one that sees no key becomes 0 and has a gradient of 0, as in PyTorch.
Tensor weights_of(const Tensor& scores, const Tensor& hidden) {
  if (!hidden.defined()) return softmax(scores, -1);
  return masked_fill(softmax(masked_fill(scores, hidden, 0), -1), hidden, 0);
}

/// Step by step, with matrices of scores. `kept`: what dropout kept before; undefined: it draws.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const AttentionOptions& o,
              const Tensor& kept = {}) {
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
  if (raw::compute_dtype(q.dtype()) != q.dtype()) {  // scores and weights in f32; one rounding, at the end
    const auto wide = [](const Tensor& t) { return t.defined() && t.is_floating_point() ? t.to(DType::f32) : t; };
    return attend(wide(q), wide(k), wide(v), wide(bias), o, kept).to(q.dtype());
  }
  const double root = std::sqrt(std::abs(scale));
  Tensor scores = matmul(q * (scale < 0 ? -root : root), (k * root).transpose(-2, -1));
  if (bias.defined()) scores = scores + bias;
  const Tensor weights = weights_of(scores, o.is_causal ? Tensor() : hidden_rows(bias));
  if (kept.defined()) return matmul(weights * kept * (1 / (1 - o.dropout)), v);
  return matmul(dropout(weights, o.dropout, o.dropout > 0), v);
}

void check_dtypes(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (k.dtype() == q.dtype() && v.dtype() == q.dtype()) return;
  const auto name = [](const Tensor& t) { return std::string(raw::kernel::c_type_name(t.dtype())); };
  throw Error(ErrorCode::runtime,
              "Expected query, key, and value to have the same dtype, but got query.dtype: " + name(q) +
                  " key.dtype: " + name(k) + " and value.dtype: " + name(v) + " instead.");
}

constexpr const char* kName = "ScaledDotProductFlashAttentionForCpuBackward0";

/// Saved: q, k, v, the result, the rows' log sums, the mask, the rows' maxima, where dropout drew.
struct AttentionBackward final : Node {
  raw::AttentionPlan plan;  // without the mask
  std::string_view name() const override { return kName; }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor(), Tensor(), Tensor()};
    const Tensor q = saved(0), k = saved(1), v = saved(2);
    if (is_grad_enabled() || grads[0].dtype() != q.dtype()) return with_history(grads[0], {q, k, v});
    raw::AttentionPlan masked = plan;
    masked.mask = saved(5);
    raw::AttentionGrads all = raw::attention_grad(grads[0], q, k, v, {saved(3), saved(4), saved(6), saved(7)}, masked);
    return {all.q, all.k, all.v};
  }
  /// Step by step, with what dropout kept in forward.
  TensorList with_history(const Tensor& grad, const TensorList& inputs) const {
    const AttentionOptions o{.mask = saved(5), .dropout = plan.dropout, .is_causal = plan.causal, .scale = plan.scale};
    const Tensor kept = plan.dropout > 0 ? raw::attention_kept(inputs[0], inputs[1], plan, saved(7)) : Tensor();
    const auto function = [o, kept](const TensorList& in) {
      return TensorList{attend(in[0], in[1], in[2], bias_of(in[0], in[1], o), o, kept)};
    };
    return detail::differentiated(function, inputs, {wants(0), wants(1), wants(2)}, {grad});
  }
};

Tensor attend_fused(const Tensor& q, const Tensor& k, const Tensor& v, const raw::AttentionPlan& plan) {
  raw::AttentionResult result = raw::attention(q, k, v, plan);
  if (!needs_grad(q, k, v)) return result.output;
  auto node = make_node<AttentionBackward>(q, k, v);
  node->plan = plan;
  node->plan.mask = {};
  for (const Tensor* t : {&q, &k, &v}) node->save(*t);
  record(result.output, node);
  node->save_output(result.output);
  for (const Tensor& t : {result.log_sums, plan.mask, result.row_maxima, result.drawn}) node->save(t);
  return result.output;
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  if (core::detail::traced_now())
    return core::detail::traced("scaled_dot_product_attention", {q, k, v, o.mask},
                                {{"is_causal", o.is_causal},
                                 {"scale", o.scale.value_or(std::numeric_limits<double>::quiet_NaN())},
                                 {"dropout", o.dropout}},
                                [&] { return scaled_dot_product_attention(q, k, v, o); });
  const core::detail::OpScope scope("scaled_dot_product_attention", q, k, v);
  if (const Casts to(CastRule::lower, CastOn::any, {&q, &k, &v, &o.mask}); to) {
    AttentionOptions lower = o;
    lower.mask = to(o.mask);
    return scaled_dot_product_attention(to(q), to(k), to(v), lower);
  }
  if (o.is_causal && o.mask.defined()) {
    throw Error(ErrorCode::runtime,
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  }
  check_dtypes(q, k, v);
  if (q.dim() == 3) {
    AttentionOptions batched = o;
    if (o.mask.defined() && o.mask.dim() == 3) batched.mask = o.mask.unsqueeze(0);
    return scaled_dot_product_attention(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), batched).squeeze(0);
  }
  check_dropout_probability(o.dropout);
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
  const raw::AttentionPlan plan{scale, o.is_causal, o.mask, o.dropout};
  if (!needs_grad(o.mask) && raw::has_attention(q, k, v, plan)) return attend_fused(q, k, v, plan);
  const Tensor bias = bias_of(q, k, o);
  const bool learnt_mask = o.mask.defined() && o.mask.requires_grad();
  const bool same_width = q.size(-1) == v.size(-1);
  if (q.dim() != 4 || o.dropout > 0 || learnt_mask || !same_width) return attend(q, k, v, bias, o);
  return composed(kName, {q, k, v, bias}, [o](const TensorList& in) { return attend(in[0], in[1], in[2], in[3], o); });
}

}  // namespace core
