#pragma once
// Activations, as torch.nn.functional: results, gradients and node names are PyTorch's. sigmoid and tanh are in
// pointwise.h. Thread safety: pure functions; rrelu draws random numbers in training, those in place (name_) write
// their first argument. Use: core::Tensor y = core::hardswish(x); core::Tensor z = core::glu(x, -1);

#include <cstdint>

#include "libcore/tensor/tensor.h"

namespace core {

Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
Tensor elu(const Tensor& x, double alpha = 1);
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);
Tensor threshold(const Tensor& x, double limit, double value);
enum class GeluForm { exact, tanh };
Tensor gelu(const Tensor& x, GeluForm form = GeluForm::exact);
Tensor silu(const Tensor& x);
Tensor log_sigmoid(const Tensor& x);

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
const Tensor& rrelu_(const Tensor& x, const RreluOptions& options = {});
const Tensor& elu_(const Tensor& x, double alpha = 1);
const Tensor& celu_(const Tensor& x, double alpha = 1);
const Tensor& selu_(const Tensor& x);
const Tensor& leaky_relu_(const Tensor& x, double slope = 0.01);
const Tensor& hardtanh_(const Tensor& x, double low = -1, double high = 1);
const Tensor& relu6_(const Tensor& x);
const Tensor& hardswish_(const Tensor& x);
const Tensor& hardsigmoid_(const Tensor& x);
const Tensor& silu_(const Tensor& x);
const Tensor& mish_(const Tensor& x);
const Tensor& threshold_(const Tensor& x, double limit, double value);

}  // namespace core
