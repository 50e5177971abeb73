#pragma once
// Normalisations beyond batch and layer norm, distances and bilinear forms, as torch.nn.functional. Thread safety: pure
// functions, but instance_norm updates its running statistics. Use: core::Tensor y = core::group_norm(x, 8, {.weight =
// w, .bias = b});

#include <cstdint>
#include <optional>

#include "libcore/tensor/nn_ops.h"

namespace core {

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

struct NormalizeOptions {
  double p = 2;
  std::int64_t dim = 1;
  double eps = 1e-12;
};
/// x / max(its p-norm along dim, eps)
Tensor normalize(const Tensor& x, const NormalizeOptions& options = {});

struct CosineOptions {
  std::int64_t dim = 1;
  double eps = 1e-8;
};
Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineOptions& options = {});

struct PairwiseOptions {
  double p = 2;
  double eps = 1e-6;
  bool keepdim = false;
};
/// The p-norm of a - b + eps along the last dimension.
Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseOptions& options = {});
/// The p-norm of every row of a minus every row of b: (..., n, d), (..., m, d) to (..., n, m).
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);

/// y_k = a @ weight_k @ b + bias_k; weight: (out, in1, in2); bias may be undefined.
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {});

}  // namespace core
