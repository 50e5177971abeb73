// Batch and layer normalisation. First derivatives come from the kernels; where the gradients are to have history
// themselves, the same formulas are written out in differentiable operations.
#include "libcore/ops/norm.h"

#include <string_view>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/norm.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

/// How a normalisation is written out: over which dimensions it averages, and how weight and statistics broadcast.
struct Formula {
  Shape averaged;         // dimensions of the mean and variance
  Shape stats_shape;      // statistics as x sees them
  Shape parameter_shape;  // weight and bias as x sees them
  Shape summed;           // dimensions over which parameter gradients are summed
  bool live_stats;        // mean and variance are functions of x
};

/// Gradients in differentiable operations; `stats` holds the fixed statistics where they are not live.
raw::NormGrads written_out(const Formula& f, const Tensor& grad, const Tensor& x, const raw::NormStats& stats,
                           double eps, const Tensor& weight) {
  Tensor center = stats.mean.reshape(f.stats_shape), inverse_std = stats.inverse_std.reshape(f.stats_shape);
  if (f.live_stats) {
    center = mean(x, {.dims = f.averaged, .keepdim = true});
    inverse_std = rsqrt(add(var(x, {.dims = f.averaged, .correction = 0, .keepdim = true}), eps));
  }
  const Tensor normalised = mul(sub(x, center), inverse_std);
  const Tensor scaled = weight.defined() ? mul(grad, weight.reshape(f.parameter_shape)) : grad;
  raw::NormGrads out;
  out.input = scaled;
  if (f.live_stats) {
    const Tensor mean_grad = mean(scaled, {.dims = f.averaged, .keepdim = true});
    const Tensor mean_product = mean(mul(scaled, normalised), {.dims = f.averaged, .keepdim = true});
    out.input = sub(sub(scaled, mean_grad), mul(normalised, mean_product));
  }
  out.input = mul(out.input, inverse_std);
  if (weight.defined()) out.weight = sum(mul(grad, normalised), {.dims = f.summed}).reshape(weight.sizes());
  out.bias = sum(grad, {.dims = f.summed});
  return out;
}

TensorList as_list(const raw::NormGrads& grads) {
  return {grads.input, grads.weight, grads.bias};
}

/// Inputs: x, weight, bias. Saved: x, weight, mean, inverse_std.
struct NormalizedBackward : Node {
  double eps = 0;
  raw::NormWanted wanted() const { return {wants(0), wants(1), wants(2)}; }
  raw::NormStats stats() const { return {saved(2), saved(3)}; }
  void keep(const Tensor& x, const Tensor& weight, const raw::NormStats& stats) {
    save(x);
    save(weight);
    save(stats.mean);
    save(stats.inverse_std);
  }
};

struct NativeBatchNormBackward final : NormalizedBackward {
  bool batch_stats = false;
  std::string_view name() const override { return "NativeBatchNormBackward0"; }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor(), Tensor(), Tensor()};
    const Tensor x = saved(0), weight = saved(1);
    if (is_grad_enabled()) return as_list(written_out(formula(x), grads[0], x, stats(), eps, weight));
    return as_list(raw::batch_norm_grad(grads[0], x, stats(), weight, batch_stats, wanted()));
  }
  Formula formula(const Tensor& x) const {
    Formula f{{}, Shape(x.sizes().size(), 1), Shape(x.sizes().size(), 1), {}, batch_stats};
    f.stats_shape[1] = f.parameter_shape[1] = x.size(1);
    for (std::int64_t d = 0; d < x.dim(); ++d) {
      if (d != 1) f.averaged.push_back(d);
    }
    f.summed = f.averaged;
    return f;
  }
};

struct NativeLayerNormBackward final : NormalizedBackward {
  Shape normalized_shape;
  std::string_view name() const override { return "NativeLayerNormBackward0"; }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor(), Tensor(), Tensor()};
    const Tensor x = saved(0), weight = saved(1);
    if (!is_grad_enabled()) return as_list(raw::layer_norm_grad(grads[0], x, stats(), weight, wanted()));
    raw::NormGrads result = written_out(formula(x), grads[0], x, stats(), eps, weight);
    result.bias = result.bias.reshape(normalized_shape);
    return as_list(result);
  }
  Formula formula(const Tensor& x) const {
    Formula f{{}, x.sizes(), normalized_shape, {}, true};
    const std::int64_t front = x.dim() - static_cast<std::int64_t>(normalized_shape.size());
    for (std::int64_t d = 0; d < x.dim(); ++d) {
      (d < front ? f.summed : f.averaged).push_back(d);
      if (d >= front) f.stats_shape[static_cast<std::size_t>(d)] = 1;
    }
    return f;
  }
};

}  // namespace

Tensor batch_norm(const Tensor& x, const BatchNormArguments& a) {
  if (core::detail::traced_now())
    return core::detail::traced("batch_norm", {x, a.weight, a.bias, a.running_mean, a.running_var},
                                {{"training", a.training}, {"eps", a.eps}}, [&] { return batch_norm(x, a); });
  const core::detail::OpScope scope("batch_norm", x, a.weight, a.bias);
  const raw::NormStats stats = raw::batch_norm_stats(x, a);
  Tensor out = raw::batch_norm(x, stats, a);
  if (needs_grad(x, a.weight, a.bias)) {
    auto node = make_node<NativeBatchNormBackward>(x, a.weight, a.bias);
    node->eps = a.eps;
    node->batch_stats = a.training;
    node->keep(x, a.weight, a.training ? stats : raw::NormStats{raw::clone(stats.mean), stats.inverse_std});
    record(out, node);
  }
  return out;
}

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const LayerNormArguments& a) {
  if (core::detail::traced_now())
    return core::detail::traced("layer_norm", {x, a.weight, a.bias},
                                {{"axes", static_cast<std::int64_t>(normalized_shape.size())}, {"eps", a.eps}},
                                [&] { return layer_norm(x, normalized_shape, a); });
  const core::detail::OpScope scope("layer_norm", x, a.weight, a.bias);
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return layer_norm(to(x), normalized_shape, a);
  raw::LayerNormResult result = raw::layer_norm(x, normalized_shape, a);
  if (needs_grad(x, a.weight, a.bias)) {
    auto node = make_node<NativeLayerNormBackward>(x, a.weight, a.bias);
    node->eps = a.eps;
    node->normalized_shape = normalized_shape;
    node->keep(x, a.weight, result.stats);
    record(result.output, node);
  }
  return result.output;
}

}  // namespace core
