// Convolution and its gradients. The three maps (output, input gradient, weight gradient) are each linear in both their
// arguments and each other's derivatives, so derivatives of any order work.
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/tensor/nn_ops.h"
#include "libcore/tensor/raw_nn_ops.h"

namespace core {
namespace {

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dSizes& sizes);
Tensor input_grad(const Tensor& output_grad, const Tensor& weight, const Conv2dSizes& sizes);
Tensor weight_grad(const Tensor& output_grad, const Tensor& x, const Conv2dSizes& sizes);

/// Saved: x, weight.
struct ConvolutionBackward final : Node {
  Conv2dSizes sizes{};
  std::string_view name() const override { return "ConvolutionBackward0"; }
  TensorList apply(TensorList grads) override {
    TensorList result{Tensor(), Tensor(), Tensor()};
    const Tensor& grad = grads[0];
    if (!grad.defined()) return result;
    if (wants(0)) result[0] = input_grad(grad, saved(1), sizes);
    if (is_grad_enabled()) {  // the gradients get history themselves
      if (wants(1)) result[1] = weight_grad(grad, saved(0), sizes);
      if (wants(2)) result[2] = sum(grad, {.dims = {0, 2, 3}});
    } else if (wants(1)) {
      const raw::WeightGrads both = raw::conv2d_weight_grad(grad, saved(0), sizes, wants(2));
      result[1] = both.weight;
      result[2] = both.bias;
    } else if (wants(2)) {
      result[2] = sum(grad, {.dims = {0, 2, 3}});
    }
    return result;
  }
};

/// Saved: output_grad, weight.
struct ConvolutionInputGradBackward final : Node {
  Conv2dSizes sizes{};
  std::string_view name() const override { return "ConvolutionBackwardBackward0"; }
  TensorList apply(TensorList grads) override {
    TensorList result{Tensor(), Tensor()};
    if (!grads[0].defined()) return result;
    if (wants(0)) result[0] = convolve(grads[0], saved(1), {}, sizes);
    if (wants(1)) result[1] = weight_grad(saved(0), grads[0], sizes);
    return result;
  }
};

/// Saved: output_grad, x.
struct ConvolutionWeightGradBackward final : Node {
  Conv2dSizes sizes{};
  std::string_view name() const override { return "ConvolutionBackwardBackward0"; }
  TensorList apply(TensorList grads) override {
    TensorList result{Tensor(), Tensor()};
    if (!grads[0].defined()) return result;
    if (wants(0)) result[0] = convolve(saved(1), grads[0], {}, sizes);
    if (wants(1)) result[1] = input_grad(saved(0), grads[0], sizes);
    return result;
  }
};

template <class N, class... Inputs>
void record_convolution(Tensor& out, const Conv2dSizes& sizes, const Tensor& a, const Tensor& b,
                        const Inputs&... more) {
  auto node = make_node<N>(a, b, more...);
  node->sizes = sizes;
  node->save(a);
  node->save(b);
  record(out, node);
}

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dSizes& sizes) {
  Tensor out = raw::conv2d(x, weight, bias, sizes);
  if (needs_grad(x, weight, bias)) record_convolution<ConvolutionBackward>(out, sizes, x, weight, bias);
  return out;
}

Tensor input_grad(const Tensor& output_grad, const Tensor& weight, const Conv2dSizes& sizes) {
  Tensor out = raw::conv2d_input_grad(output_grad, weight, sizes);
  if (needs_grad(output_grad, weight)) {
    record_convolution<ConvolutionInputGradBackward>(out, sizes, output_grad, weight);
  }
  return out;
}

Tensor weight_grad(const Tensor& output_grad, const Tensor& x, const Conv2dSizes& sizes) {
  Tensor out = raw::conv2d_weight_grad(output_grad, x, sizes, false).weight;
  if (needs_grad(output_grad, x)) record_convolution<ConvolutionWeightGradBackward>(out, sizes, output_grad, x);
  return out;
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  if (x.dim() != 3 && x.dim() != 4) {
    throw Error(ErrorCode::runtime, "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: " +
                                        to_list(x.sizes()));
  }
  const Tensor batch = x.dim() == 3 ? x.unsqueeze(0) : x;
  const Tensor out = convolve(batch, weight, bias, raw::conv2d_sizes(batch, weight, bias, options));
  return x.dim() == 3 ? out.squeeze(0) : out;
}

}  // namespace core
