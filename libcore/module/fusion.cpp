#include "libcore/module/fusion.h"

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

void check_fusion(bool is_training, const BatchNormState& norm) {
  if (is_training) throw Error(ErrorCode::assertion, "Fusion only for eval!");
  if (norm.running_mean.defined() && norm.running_var.defined()) return;
  throw Error(ErrorCode::assertion, "bn.running_mean and bn.running_var must not be None");
}

void check_features(const Linear& linear, const BatchNormState& norm) {
  if (linear.out_features == norm.num_features || norm.num_features == 1) return;
  throw Error(ErrorCode::assertion,
              "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got linear.out_features=" +
                  std::to_string(linear.out_features) + " and bn.num_features=" + std::to_string(norm.num_features));
}

void fuse(Parameter& weight, Parameter& bias, const BatchNormState& norm, std::int64_t channels_dim) {
  const NoGradGuard no_history;
  const bool wants_bias_grad = bias.defined() && bias.requires_grad();
  Tensor scale = rsqrt(norm.running_var + norm.options.eps);
  if (norm.weight.defined()) scale = scale * norm.weight;
  Tensor shift = (bias.defined() ? bias - norm.running_mean : -norm.running_mean) * scale;
  if (norm.bias.defined()) shift = shift + norm.bias;
  Shape along(static_cast<std::size_t>(weight.dim()), 1);
  along[static_cast<std::size_t>(channels_dim)] = -1;
  const DType dtype = weight.dtype();
  weight = Parameter((weight * scale.reshape(along)).to(dtype), weight.requires_grad());
  bias = Parameter(shift.to(dtype), wants_bias_grad);
}

}  // namespace core::detail
