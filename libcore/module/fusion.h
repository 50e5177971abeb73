#pragma once
// A convolution or linear layer and the batch normalisation behind it as one layer, for evaluation. As torch.nn.utils.
// Thread safety: pure functions. Use: core::Conv2d both = core::fuse_conv_bn_eval(net.conv, net.bn);

#include "libcore/module/conv.h"
#include "libcore/module/conv_nd.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"

namespace core {

/// What of a layer's parameters and a batch normalisation's is left when both become one layer.
struct FusedWeights {
  Parameter weight, bias;
};
struct NormWeights {
  Tensor running_mean, running_var;
  double eps = 1e-5;
  Tensor weight = {}, bias = {};  ///< ones and zeros where undefined
};
/// weight: of a convolution, or with `transpose` of a transposed one; bias may be undefined.
FusedWeights fuse_conv_bn_weights(const Tensor& weight, const Tensor& bias, const NormWeights& norm,
                                  bool transpose = false);
FusedWeights fuse_linear_bn_weights(const Tensor& weight, const Tensor& bias, const NormWeights& norm);

namespace detail {
/// Error(assertion) "Fusion only for eval!", "bn.running_mean and bn.running_var must not be None".
void check_fusion(bool is_training, const BatchNormState& norm);
void fuse(Parameter& weight, Parameter& bias, const BatchNormState& norm, std::int64_t channels_dim);
/// Error(assertion) "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got ...".
void check_features(const Linear& linear, const BatchNormState& norm);
}  // namespace detail

/// Conv: Conv1d, Conv2d, Conv3d or a ConvTranspose of theirs; Norm: BatchNorm1d, 2d, 3d. Both in evaluation mode.
template <class Conv, class Norm>
Conv fuse_conv_bn_eval(const Conv& conv, const Norm& norm) {
  constexpr bool kIsTransposed = std::is_same_v<Conv, ConvTranspose1d> || std::is_same_v<Conv, ConvTranspose2d> ||
                                 std::is_same_v<Conv, ConvTranspose3d>;
  detail::check_fusion(conv.is_training() || norm.is_training(), norm);
  Conv fused = conv.clone();
  detail::fuse(fused.weight, fused.bias, norm, kIsTransposed ? 1 : 0);
  return fused;
}

template <class Norm>
Linear fuse_linear_bn_eval(const Linear& linear, const Norm& norm) {
  detail::check_features(linear, norm);
  detail::check_fusion(linear.is_training() || norm.is_training(), norm);
  Linear fused = linear.clone();
  detail::fuse(fused.weight, fused.bias, norm, 0);
  return fused;
}

}  // namespace core
