#include "libcore/module/init.h"

#include <cmath>
#include <string>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/tensor/random.h"

namespace core::init {
namespace {

/// True when there is something to fill; PyTorch warns where not.
bool has_elements(const Tensor& tensor) {
  if (tensor.numel() == 0) warn("Initializing zero-element tensors is a no-op");
  return tensor.numel() != 0;
}

double kaiming_std(const Tensor& tensor, const KaimingOptions& options) {
  const Fans fans = fan_in_and_fan_out(tensor);
  const double fan = static_cast<double>(options.mode == FanMode::in ? fans.in : fans.out);
  return calculate_gain(options.nonlinearity, options.slope) / std::sqrt(fan);
}

double xavier_fans(const Tensor& tensor) {
  const Fans fans = fan_in_and_fan_out(tensor);
  return static_cast<double>(fans.in + fans.out);
}

}  // namespace

Fans fan_in_and_fan_out(const Tensor& tensor) {
  if (tensor.dim() < 2) {
    throw Error(ErrorCode::value, "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
  }
  std::int64_t field = 1;
  for (std::int64_t d = 2; d < tensor.dim(); ++d) field *= tensor.size(d);
  return {tensor.size(1) * field, tensor.size(0) * field};
}

double calculate_gain(std::string_view nonlinearity, std::optional<double> slope) {
  for (const std::string_view one : {"linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
                                     "conv_transpose3d", "sigmoid"}) {
    if (nonlinearity == one) return 1;
  }
  if (nonlinearity == "tanh") return 5.0 / 3;
  if (nonlinearity == "relu") return std::sqrt(2.0);
  if (nonlinearity == "selu") return 3.0 / 4;
  const double a = slope.value_or(0.01);
  if (nonlinearity == "leaky_relu") return std::sqrt(2.0 / (1 + a * a));
  throw Error(ErrorCode::value, "Unsupported nonlinearity " + std::string(nonlinearity));
}

const Tensor& uniform_(const Tensor& tensor, double from, double to) {
  const NoGradGuard no_history;
  return core::uniform_(tensor, from, to);
}

const Tensor& normal_(const Tensor& tensor, double mean, double std) {
  const NoGradGuard no_history;
  return core::normal_(tensor, mean, std);
}

const Tensor& constant_(const Tensor& tensor, double value) {
  const NoGradGuard no_history;
  return tensor.fill_(value);
}

const Tensor& ones_(const Tensor& tensor) {
  return constant_(tensor, 1);
}
const Tensor& zeros_(const Tensor& tensor) {
  return constant_(tensor, 0);
}

const Tensor& xavier_uniform_(const Tensor& tensor, double gain) {
  const double bound = std::sqrt(3.0) * (gain * std::sqrt(2.0 / xavier_fans(tensor)));
  return init::uniform_(tensor, -bound, bound);
}

const Tensor& xavier_normal_(const Tensor& tensor, double gain) {
  return init::normal_(tensor, 0, gain * std::sqrt(2.0 / xavier_fans(tensor)));
}

const Tensor& kaiming_uniform_(const Tensor& tensor, const KaimingOptions& options) {
  if (!has_elements(tensor)) return tensor;
  const double bound = std::sqrt(3.0) * kaiming_std(tensor, options);
  return init::uniform_(tensor, -bound, bound);
}

const Tensor& kaiming_normal_(const Tensor& tensor, const KaimingOptions& options) {
  if (!has_elements(tensor)) return tensor;
  return init::normal_(tensor, 0, kaiming_std(tensor, options));
}

void default_weight_and_bias_(const Tensor& weight, const Tensor& bias) {
  kaiming_uniform_(weight, {.slope = std::sqrt(5.0)});
  if (!bias.defined()) return;
  const auto fan_in = static_cast<double>(fan_in_and_fan_out(weight).in);
  const double bound = fan_in > 0 ? 1 / std::sqrt(fan_in) : 0;
  init::uniform_(bias, -bound, bound);
}

}  // namespace core::init
