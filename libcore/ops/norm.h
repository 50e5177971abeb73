#pragma once
// Normalisations, as torch.nn.functional: results, errors and gradients are PyTorch's.
// Thread safety: pure functions, but batch_norm and instance_norm update their running statistics.
// Use: core::Tensor y = core::group_norm(x, 8, {.weight = w, .bias = b});

#include <cstdint>
#include <optional>

#include "libcore/tensor/tensor.h"

namespace core {

struct BatchNormArguments {
  Tensor running_mean = {};  ///< updated in place when training; may be undefined
  Tensor running_var = {};
  Tensor weight = {};
  Tensor bias = {};
  bool training = false;  ///< normalise by the statistics of x
  double momentum = 0.1;
  double eps = 1e-5;
};

/// x: (N, C, ...).
Tensor batch_norm(const Tensor& x, const BatchNormArguments& arguments);

struct LayerNormArguments {
  Tensor weight = {};
  Tensor bias = {};
  double eps = 1e-5;
};

/// Over the last dimensions of x, which are `normalized_shape`.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const LayerNormArguments& arguments = {});

/// x: (N, C, ...); each group of C / groups channels is normalised by itself.
/// Error(runtime) "Expected number of channels in input to be divisible by num_groups, ...", for sizes of weight alike.
Tensor group_norm(const Tensor& x, std::int64_t groups, const LayerNormArguments& arguments = {});

/// x: (N, C, ...); `training`: normalise each channel of each image by its own statistics, else by the running ones.
/// Error(value) "Expected more than 1 spatial element when training, got input size torch.Size([1, 2, 1])".
Tensor instance_norm(const Tensor& x, const BatchNormArguments& arguments);

struct RmsNormArguments {
  Tensor weight = {};
  std::optional<double> eps = {};  ///< the dtype's machine epsilon
};

/// x / sqrt(mean of squares + eps) over the last dimensions of x, which are `normalized_shape`.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const RmsNormArguments& arguments = {});

struct ResponseNormOptions {
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1;
};

/// x / (k + alpha * mean of squares over `size` neighbouring channels)^beta; x: (N, C, ...).
Tensor local_response_norm(const Tensor& x, std::int64_t size, const ResponseNormOptions& options = {});

/// As the module (module/norm.h), which says what is peculiar. x: (N, C, H, W).
/// Error(value) "CrossMapLRN2d: Expected input to be 4D, got 2D instead."
Tensor cross_map_lrn2d(const Tensor& x, std::int64_t size, const ResponseNormOptions& options = {});

struct NormalizeOptions {
  double p = 2;
  std::int64_t dim = 1;
  double eps = 1e-12;
};

/// x / max(its p-norm along dim, eps)
Tensor normalize(const Tensor& x, const NormalizeOptions& options = {});

/// Slices along dim whose p-norm is over maxnorm are scaled down to it.
Tensor renorm(const Tensor& x, double p, std::int64_t dim, double maxnorm);
const Tensor& renorm_(const Tensor& x, double p, std::int64_t dim, double maxnorm);

}  // namespace core
