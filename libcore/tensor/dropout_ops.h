#pragma once
// Dropout of whole channels and the forms that keep mean and variance, as torch.nn.functional. Plain dropout is in
// nn_ops.h. Thread safety: each call draws from the default generator of x's device. Errors: as dropout.
// Use: core::Tensor y = core::feature_dropout(x, 0.25, is_training());

#include "libcore/tensor/tensor.h"

namespace core {

/// Zeroes channels (dimension 1 of a batch), scales the others by 1 / (1 - p).
/// Error(runtime) for fewer than two dimensions.
Tensor feature_dropout(const Tensor& x, double p = 0.5, bool training = true);
/// Elements are put to SELU's negative limit with probability p; the result keeps mean and variance of its input.
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = true);
/// The same for whole channels.
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace core
