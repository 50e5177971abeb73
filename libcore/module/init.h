#pragma once
// Initial values of parameters, as torch.nn.init: same formulas, same draws, so the same bits after manual_seed.
// Thread safety: each call draws from the default generator of the tensor's device (generator.h). No history.
// Use: core::init::kaiming_uniform_(w, {.nonlinearity = "relu"});

#include <cstdint>
#include <optional>
#include <string_view>

#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace core::init {

struct Fans {
  std::int64_t in;
  std::int64_t out;
};
/// Error(value) "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions".
Fans fan_in_and_fan_out(const Tensor& tensor);

/// "linear", "conv2d", "sigmoid" 1; "tanh" 5/3; "relu" sqrt(2); "leaky_relu" by its slope (default 0.01); "selu" 3/4.
/// Error(value) "Unsupported nonlinearity foo".
double calculate_gain(std::string_view nonlinearity, std::optional<double> slope = {});

/// From [from, to).
const Tensor& uniform_(const Tensor& tensor, double from = 0, double to = 1);
const Tensor& normal_(const Tensor& tensor, double mean = 0, double std = 1);
const Tensor& constant_(const Tensor& tensor, double value);
const Tensor& ones_(const Tensor& tensor);
const Tensor& zeros_(const Tensor& tensor);
const Tensor& xavier_uniform_(const Tensor& tensor, double gain = 1);
const Tensor& xavier_normal_(const Tensor& tensor, double gain = 1);

enum class FanMode { in, out };
struct KaimingOptions {
  double slope = 0;  ///< of leaky_relu
  FanMode mode = FanMode::in;
  std::string_view nonlinearity = "leaky_relu";
};
const Tensor& kaiming_uniform_(const Tensor& tensor, const KaimingOptions& options = {});
const Tensor& kaiming_normal_(const Tensor& tensor, const KaimingOptions& options = {});

/// Normal values in [low, high]. Warns when the mean is far outside.
const Tensor& trunc_normal_(const Tensor& tensor, const TruncatedNormal& shape = {});
/// Ones on the diagonal. Error(value) "Only tensors with 2 dimensions are supported".
const Tensor& eye_(const Tensor& tensor);
/// A convolution weight that keeps its input channels. Errors(value): "Only tensors with 3, 4, or 5 dimensions are
/// supported", "dim 0 must be divisible by groups".
const Tensor& dirac_(const Tensor& tensor, std::int64_t groups = 1);
/// Rows (or columns, whatever is fewer) at right angles and of length `gain`. Error(value) "Only tensors with 2 or more
/// dimensions are supported".
const Tensor& orthogonal_(const Tensor& tensor, double gain = 1);
/// Normal values, and `sparsity` of each column 0. Error(value) "Only tensors with 2 dimensions are supported".
const Tensor& sparse_(const Tensor& tensor, double sparsity, double std = 0.01);

/// What Linear and convolutions start from: the weight Kaiming-uniform with slope sqrt(5), the bias uniform in
/// +-1 / sqrt(fan_in). An undefined bias draws nothing.
void default_weight_and_bias_(const Tensor& weight, const Tensor& bias);

}  // namespace core::init
