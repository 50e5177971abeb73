#include "libcore/ops/conv.h"

#include <string>
#include <string_view>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/conv.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using raw::ConvPlan;

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvPlan& plan);
Tensor input_grad(const Tensor& output_grad, const Tensor& weight, const ConvPlan& plan);
Tensor weight_grad(const Tensor& output_grad, const Tensor& x, const ConvPlan& plan);

Tensor bias_grad(const Tensor& output_grad) {
  Shape dims;
  for (std::int64_t d = 0; d < output_grad.dim(); ++d) {
    if (d != 1) dims.push_back(d);
  }
  return sum(output_grad, {.dims = dims});
}

/// Saved: x, weight.
struct ConvolutionBackward final : Node {
  ConvPlan plan;
  std::string_view name() const override { return "ConvolutionBackward0"; }
  TensorList apply(TensorList grads) override {
    TensorList result{Tensor(), Tensor(), Tensor()};
    const Tensor& grad = grads[0];
    if (!grad.defined()) return result;
    if (wants(0)) result[0] = input_grad(grad, saved(1), plan);
    if (is_grad_enabled()) {  // the gradients get history themselves
      if (wants(1)) result[1] = weight_grad(grad, saved(0), plan);
      if (wants(2)) result[2] = bias_grad(grad);
    } else if (wants(1)) {
      const raw::WeightGrads both = raw::convolution_weight_grad(grad, saved(0), plan, wants(2));
      result[1] = both.weight;
      result[2] = both.bias;
    } else if (wants(2)) {
      result[2] = bias_grad(grad);
    }
    return result;
  }
};

/// Saved: output_grad, weight.
struct ConvolutionInputGradBackward final : Node {
  ConvPlan plan;
  std::string_view name() const override { return "ConvolutionBackwardBackward0"; }
  TensorList apply(TensorList grads) override {
    TensorList result{Tensor(), Tensor()};
    if (!grads[0].defined()) return result;
    if (wants(0)) result[0] = convolve(grads[0], saved(1), {}, plan);
    if (wants(1)) result[1] = weight_grad(saved(0), grads[0], plan);
    return result;
  }
};

/// A transposed convolution is the input gradient of one, so its gradients are that convolution. Saved: x, weight.
struct TransposedBackward final : Node {
  ConvPlan plan;
  std::string_view name() const override { return "ConvolutionBackward0"; }
  TensorList apply(TensorList grads) override {
    TensorList result{Tensor(), Tensor(), Tensor()};
    if (!grads[0].defined()) return result;
    if (wants(0)) result[0] = convolve(grads[0], saved(1), {}, plan);
    if (wants(1)) result[1] = weight_grad(saved(0), grads[0], plan);
    if (wants(2)) result[2] = bias_grad(grads[0]);
    return result;
  }
};

/// Saved: output_grad, x.
struct ConvolutionWeightGradBackward final : Node {
  ConvPlan plan;
  std::string_view name() const override { return "ConvolutionBackwardBackward0"; }
  TensorList apply(TensorList grads) override {
    TensorList result{Tensor(), Tensor()};
    if (!grads[0].defined()) return result;
    if (wants(0)) result[0] = convolve(saved(1), grads[0], {}, plan);
    if (wants(1)) result[1] = input_grad(saved(0), grads[0], plan);
    return result;
  }
};

template <class N, class... Inputs>
void record_convolution(Tensor& out, const ConvPlan& plan, const Tensor& a, const Tensor& b, const Inputs&... more) {
  auto node = make_node<N>(a, b, more...);
  node->plan = plan;
  node->save(a);
  node->save(b);
  record(out, node);
}

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvPlan& plan) {
  ConvPlan used = plan;
  used.weight_use = needs_grad(x, weight, bias) ? raw::WeightUse::once : raw::WeightUse::again;
  Tensor out = raw::convolution(x, weight, bias, used);
  if (needs_grad(x, weight, bias)) record_convolution<ConvolutionBackward>(out, plan, x, weight, bias);
  return out;
}

Tensor input_grad(const Tensor& output_grad, const Tensor& weight, const ConvPlan& plan) {
  Tensor out = raw::convolution_input_grad(output_grad, weight, plan);
  if (needs_grad(output_grad, weight)) {
    record_convolution<ConvolutionInputGradBackward>(out, plan, output_grad, weight);
  }
  return out;
}

Tensor weight_grad(const Tensor& output_grad, const Tensor& x, const ConvPlan& plan) {
  Tensor out = raw::convolution_weight_grad(output_grad, x, plan, false).weight;
  if (needs_grad(output_grad, x)) record_convolution<ConvolutionWeightGradBackward>(out, plan, output_grad, x);
  return out;
}

Tensor convolve_transposed(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvPlan& plan) {
  Tensor out = raw::convolution_input_grad(x, weight, plan);
  if (bias.defined()) {
    const NoGradGuard no_history;
    Shape beside(out.sizes().size(), 1);
    beside[1] = bias.numel();
    out.add_(bias.detach().reshape(beside));
  }
  if (needs_grad(x, weight, bias)) record_convolution<TransposedBackward>(out, plan, x, weight, bias);
  return out;
}

/// x with a batch dimension. Error: PyTorch's text for another rank than rank + 1 or rank + 2.
Tensor batched(const Tensor& x, std::int64_t rank, const char* operation) {
  if (x.dim() == rank + 2) return x;
  if (x.dim() == rank + 1) return x.unsqueeze(0);
  throw Error(ErrorCode::runtime, "Expected " + std::to_string(rank + 1) + "D (unbatched) or " +
                                      std::to_string(rank + 2) + "D (batched) input to " + operation +
                                      ", but got input of size: " + to_list(x.sizes()));
}

/// Of images without channels PyTorch makes images without channels, whatever the weight.
Tensor of_no_channels(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvPlan& plan) {
  Shape sizes = plan.output_sizes();
  sizes[1] = 0;
  return composed("ConvolutionBackward0", {x, weight, bias}, [sizes](const TensorList& in) {
    const Tensor nothing = sum(in[0]) + sum(in[1]);
    return (in[2].defined() ? nothing + sum(in[2]) : nothing).expand(sizes);
  });
}

Tensor run(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options, std::int64_t rank,
           const char* operation) {
  const Tensor batch = batched(x, rank, operation);
  const ConvPlan plan = raw::conv_plan(batch, weight, bias, options, static_cast<std::size_t>(rank));
  const Tensor out =
      plan.plane.in_channels == 0 ? of_no_channels(batch, weight, bias, plan) : convolve(batch, weight, bias, plan);
  return x.dim() == rank + 1 ? out.squeeze(0) : out;
}

Tensor run(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvTransposeOptions& options,
           std::int64_t rank, const char* operation) {
  const Tensor batch = batched(x, rank, operation);
  const ConvPlan plan = raw::transposed_plan(batch, weight, bias, options, static_cast<std::size_t>(rank));
  const Tensor out = convolve_transposed(batch, weight, bias, plan);
  return x.dim() == rank + 1 ? out.squeeze(0) : out;
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& o) {
  if (core::detail::traced_now())
    return core::detail::traced("conv2d", {x, weight, bias},
                                {{"stride", o.stride},
                                 {"padding", o.padding.amount()},
                                 {"same", o.padding.is_same()},
                                 {"dilation", o.dilation},
                                 {"groups", o.groups}},
                                [&] { return conv2d(x, weight, bias, o); });
  const core::detail::OpScope scope("conv2d", x, weight, bias);
  if (const Casts to(CastRule::lower, CastOn::any, {&x, &weight, &bias}); to)
    return conv2d(to(x), to(weight), to(bias), o);
  const Size2 amount = o.padding.amount();
  const ConvOptions options{.stride = {o.stride.h(), o.stride.w()},
                            .padding = {amount.h(), amount.w()},
                            .rule = o.padding.is_same() ? "same" : "",
                            .dilation = {o.dilation.h(), o.dilation.w()},
                            .groups = o.groups};
  return run(x, weight, bias, options, 2, "conv2d");
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("conv1d", {x, weight, bias},
                                {{"stride", detail::spread(options.stride, 1, 1)},
                                 {"padding", detail::spread(options.padding, 1, 0)},
                                 {"same", options.rule == "same"},
                                 {"dilation", detail::spread(options.dilation, 1, 1)},
                                 {"groups", options.groups}},
                                [&] { return conv1d(x, weight, bias, options); });
  const core::detail::OpScope scope("conv1d", x, weight, bias);
  if (const Casts to(CastRule::lower, CastOn::any, {&x, &weight, &bias}); to)
    return conv1d(to(x), to(weight), to(bias), options);
  return run(x, weight, bias, options, 1, "conv1d");
}

Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("conv3d", {x, weight, bias},
                                {{"stride", detail::spread(options.stride, 3, 1)},
                                 {"padding", detail::spread(options.padding, 3, 0)},
                                 {"same", options.rule == "same"},
                                 {"dilation", detail::spread(options.dilation, 3, 1)},
                                 {"groups", options.groups}},
                                [&] { return conv3d(x, weight, bias, options); });
  const core::detail::OpScope scope("conv3d", x, weight, bias);
  if (const Casts to(CastRule::lower, CastOn::any, {&x, &weight, &bias}); to)
    return conv3d(to(x), to(weight), to(bias), options);
  return run(x, weight, bias, options, 3, "conv3d");
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvTransposeOptions& o) {
  if (core::detail::traced_now())
    return core::detail::traced("conv_transpose1d", {x, weight, bias},
                                {{"stride", detail::spread(o.stride, 1, 1)},
                                 {"padding", detail::spread(o.padding, 1, 0)},
                                 {"output_padding", detail::spread(o.output_padding, 1, 0)},
                                 {"dilation", detail::spread(o.dilation, 1, 1)},
                                 {"groups", o.groups}},
                                [&] { return conv_transpose1d(x, weight, bias, o); });
  const core::detail::OpScope scope("conv_transpose1d", x, weight, bias);
  if (const Casts to(CastRule::lower, CastOn::any, {&x, &weight, &bias}); to)
    return conv_transpose1d(to(x), to(weight), to(bias), o);
  return run(x, weight, bias, o, 1, "conv_transpose1d");
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvTransposeOptions& o) {
  if (core::detail::traced_now())
    return core::detail::traced("conv_transpose2d", {x, weight, bias},
                                {{"stride", detail::spread(o.stride, 2, 1)},
                                 {"padding", detail::spread(o.padding, 2, 0)},
                                 {"output_padding", detail::spread(o.output_padding, 2, 0)},
                                 {"dilation", detail::spread(o.dilation, 2, 1)},
                                 {"groups", o.groups}},
                                [&] { return conv_transpose2d(x, weight, bias, o); });
  const core::detail::OpScope scope("conv_transpose2d", x, weight, bias);
  if (const Casts to(CastRule::lower, CastOn::any, {&x, &weight, &bias}); to)
    return conv_transpose2d(to(x), to(weight), to(bias), o);
  return run(x, weight, bias, o, 2, "conv_transpose2d");
}

Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvTransposeOptions& o) {
  if (core::detail::traced_now())
    return core::detail::traced("conv_transpose3d", {x, weight, bias},
                                {{"stride", detail::spread(o.stride, 3, 1)},
                                 {"padding", detail::spread(o.padding, 3, 0)},
                                 {"output_padding", detail::spread(o.output_padding, 3, 0)},
                                 {"dilation", detail::spread(o.dilation, 3, 1)},
                                 {"groups", o.groups}},
                                [&] { return conv_transpose3d(x, weight, bias, o); });
  const core::detail::OpScope scope("conv_transpose3d", x, weight, bias);
  if (const Casts to(CastRule::lower, CastOn::any, {&x, &weight, &bias}); to)
    return conv_transpose3d(to(x), to(weight), to(bias), o);
  return run(x, weight, bias, o, 3, "conv_transpose3d");
}

Shape detail::spread(const Shape& given, std::size_t count, std::int64_t otherwise) {
  if (given.empty()) return Shape(count, otherwise);
  return given.size() == 1 ? Shape(count, given[0]) : given;
}

Padding::Padding(std::string_view rule) : same_(rule == "same"), rule_(true) {
  if (rule != "same" && rule != "valid") {
    throw Error(ErrorCode::value,
                "Invalid padding string '" + std::string(rule) + "', should be one of {'same', 'valid'}");
  }
}

Tensor conv_tbc(const Tensor& x, const Tensor& weight, const Tensor& bias, std::int64_t pad) {
  const auto check = [](bool holds, const char* text) {
    if (!holds) throw Error(ErrorCode::runtime, text);
  };
  check(x.dim() == 3, "Input must have 3 dims: time, batch, in_channel");
  check(weight.dim() == 3, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.");
  check(bias.dim() == 1, "Bias must be 1-D");
  check(x.size(2) == weight.size(1), "Input dim 2 (input channels) is not == dim 1 in the weight tensor");
  check(weight.size(2) == bias.size(0), "Bias size must equal dim 2 in the weight tensor (output channels).");
  return composed("ConvTbcBackward0", {x, weight, bias}, [pad](const TensorList& in) {
    if (in[0].size(2) == 0) {
      const std::int64_t length = in[0].size(0) + 2 * pad - in[1].size(0) + 1;
      return (in[2] + (sum(in[0]) + sum(in[1]))).expand({length, in[0].size(1), in[2].size(0)}).contiguous();
    }
    return conv1d(in[0].permute({1, 2, 0}), in[1].permute({2, 1, 0}), in[2], {.padding = {pad}})
        .permute({2, 0, 1})
        .contiguous();
  });
}

}  // namespace core
