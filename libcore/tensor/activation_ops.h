#pragma once
// The rarer activations, as torch.nn.functional: results, gradients and node names are PyTorch's. The common ones
// (relu, gelu, silu, elu, softplus ...) are in ops.h. Thread safety: pure functions; rrelu draws random numbers in
// training. Use: core::Tensor y = core::hardswish(x); core::Tensor z = core::glu(x, -1);

#include <cstdint>
#include <optional>

#include "libcore/tensor/nn_ops.h"

namespace core {

/// x limited to [low, high].
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
/// x limited to [0, 6].
Tensor relu6(const Tensor& x);
/// relu6(x + 3) / 6
Tensor hardsigmoid(const Tensor& x);
/// x * hardsigmoid(x)
Tensor hardswish(const Tensor& x);
Tensor selu(const Tensor& x);
/// max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
Tensor celu(const Tensor& x, double alpha = 1);
/// x * tanh(softplus(x))
Tensor mish(const Tensor& x);
/// x / (1 + |x|)
Tensor softsign(const Tensor& x);
/// x - tanh(x)
Tensor tanhshrink(const Tensor& x);
/// 0 within +-lambda, else x moved towards 0 by lambda.
/// Error(runtime) "lambda must be greater or equal to 0, but found to be -1." for a negative one.
Tensor softshrink(const Tensor& x, double lambda = 0.5);
/// 0 within +-lambda, else x.
Tensor hardshrink(const Tensor& x, double lambda = 0.5);
Tensor softmin(const Tensor& x, std::int64_t dim);
/// As softmax without a dimension.
Tensor softmin(const Tensor& x);
/// The first half of x times the sigmoid of the second.
/// Error(runtime) "Halving dimension must be even, but dimension 1 is size 3".
Tensor glu(const Tensor& x, std::int64_t dim = -1);
/// x where positive, else x times the weight of its channel (dimension 1); weight: one element, or one a channel.
Tensor prelu(const Tensor& x, const Tensor& weight);
struct RreluOptions {
  double lower = 1.0 / 8;
  double upper = 1.0 / 3;
  bool training = false;
};
/// leaky_relu with a slope drawn for each element in training, and the middle one otherwise.
Tensor rrelu(const Tensor& x, const RreluOptions& options = {});
/// log(x / (1 - x)); x is limited to [eps, 1 - eps] first when eps is given.
Tensor logit(const Tensor& x, std::optional<double> eps = {});

}  // namespace core
