#pragma once
// Dropout of elements and of whole channels, and the forms that keep mean and variance, as torch.nn.functional.
// Thread safety: each call draws from the default generator of x's device.
// Use: core::Tensor y = core::dropout(x, 0.25, is_training);

#include "libcore/tensor/tensor.h"

namespace core {

/// Each element is 0 with probability p, else divided by 1 - p. Draws from the default generator of x's device.
/// Error(value) "dropout probability has to be between 0 and 1, but got 1.5".
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);

/// The same, into x.
Tensor dropout_(const Tensor& x, double p = 0.5, bool training = true);
void check_dropout_probability(double p);

/// Zeroes channels (dimension 1 of a batch), scales the others by 1 / (1 - p).
/// Error(runtime) for fewer than two dimensions.
Tensor feature_dropout(const Tensor& x, double p = 0.5, bool training = true);

/// Channels of (N, C, L) or (C, L). Error(runtime) for another number of dimensions.
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true);

/// Channels of (N, C, H, W), or of (N, C, L) with a warning; other numbers of dimensions warn as well.
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true);

/// Channels of (N, C, D, H, W) or (C, D, H, W); other numbers of dimensions warn.
Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true);

/// Elements are put to SELU's negative limit with probability p; the result keeps mean and variance of its input.
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = true);

/// The same for whole channels.
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = true);

// The same, into x.
const Tensor& feature_dropout_(const Tensor& x, double p = 0.5, bool training = true);
const Tensor& alpha_dropout_(const Tensor& x, double p = 0.5, bool training = true);
const Tensor& feature_alpha_dropout_(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace core
