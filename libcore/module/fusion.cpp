#include "libcore/module/fusion.h"

#include <utility>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

FusedWeights fused_weights(const Tensor& weight, const Tensor& bias, const NormWeights& norm, std::int64_t channels) {
  const Tensor bias_or_none = bias.defined() ? bias : zeros_like(norm.running_mean);
  Tensor scale = rsqrt(norm.running_var + norm.eps);
  if (norm.weight.defined()) scale = scale * norm.weight;
  Tensor shift = (bias_or_none - norm.running_mean) * scale;
  if (norm.bias.defined()) shift = shift + norm.bias;
  Shape along(static_cast<std::size_t>(weight.dim()), 1);
  along[static_cast<std::size_t>(channels)] = -1;
  const DType bias_dtype = bias.defined() ? bias.dtype() : weight.dtype();
  return {Parameter((weight * scale.reshape(along)).to(weight.dtype()), weight.requires_grad()),
          Parameter(shift.to(bias_dtype), bias.defined() && bias.requires_grad())};
}

}  // namespace

FusedWeights fuse_conv_bn_weights(const Tensor& weight, const Tensor& bias, const NormWeights& norm, bool transpose) {
  const NoGradGuard no_history;
  return fused_weights(weight, bias, norm, transpose ? 1 : 0);
}

FusedWeights fuse_linear_bn_weights(const Tensor& weight, const Tensor& bias, const NormWeights& norm) {
  const NoGradGuard no_history;
  return fused_weights(weight, bias, norm, 0);
}

}  // namespace core

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
  FusedWeights fused = fuse_conv_bn_weights(
      weight, bias, {norm.running_mean, norm.running_var, norm.options.eps, norm.weight, norm.bias}, channels_dim == 1);
  weight = std::move(fused.weight);
  bias = std::move(fused.bias);
}

}  // namespace core::detail
