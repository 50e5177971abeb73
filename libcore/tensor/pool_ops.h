#pragma once
// Pooling of one and three dimensions, adaptive, power-average and unpooling, as torch.nn.functional. max_pool2d,
// avg_pool2d and adaptive_avg_pool2d are in nn_ops.h. Thread safety: pure functions.
// Use: core::Tensor y = core::max_pool1d(x, {2}); auto [values, places] = core::adaptive_max_pool2d(x, {3});
// In all options one number stands for all dimensions, and an empty list for the default.

#include <cstdint>
#include <optional>
#include <vector>

#include "libcore/tensor/nn_ops.h"

namespace core {

struct MaxPoolOptions {
  Shape stride = {};    ///< the kernel's size
  Shape padding = {};   ///< 0
  Shape dilation = {};  ///< 1
  bool ceil_mode = false;
};
/// x: (N, C, L) or (C, L). Indices are positions along L.
ValuesIndices max_pool1d_with_indices(const Tensor& x, const Shape& kernel, const MaxPoolOptions& options = {});
Tensor max_pool1d(const Tensor& x, const Shape& kernel, const MaxPoolOptions& options = {});
/// x: (N, C, D, H, W) or (C, D, H, W). Indices are positions (d * H + h) * W + w.
ValuesIndices max_pool3d_with_indices(const Tensor& x, const Shape& kernel, const MaxPoolOptions& options = {});
Tensor max_pool3d(const Tensor& x, const Shape& kernel, const MaxPoolOptions& options = {});

struct AvgPoolOptions {
  Shape stride = {};   ///< the kernel's size
  Shape padding = {};  ///< 0
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::optional<std::int64_t> divisor_override = {};
};
Tensor avg_pool1d(const Tensor& x, const Shape& kernel, const AvgPoolOptions& options = {});
Tensor avg_pool3d(const Tensor& x, const Shape& kernel, const AvgPoolOptions& options = {});

/// Sizes of the output, one for all dimensions or one each; none keeps the input's.
using AdaptiveSizes = std::vector<std::optional<std::int64_t>>;
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t size);
Tensor adaptive_avg_pool3d(const Tensor& x, const AdaptiveSizes& sizes);
ValuesIndices adaptive_max_pool1d(const Tensor& x, std::int64_t size);
ValuesIndices adaptive_max_pool2d(const Tensor& x, const AdaptiveSizes& sizes);
ValuesIndices adaptive_max_pool3d(const Tensor& x, const AdaptiveSizes& sizes);

/// (sum of x^p over the window)^(1/p).
struct LpPoolOptions {
  Shape stride = {};  ///< the kernel's size
  bool ceil_mode = false;
};
Tensor lp_pool1d(const Tensor& x, double p, const Shape& kernel, const LpPoolOptions& options = {});
Tensor lp_pool2d(const Tensor& x, double p, const Shape& kernel, const LpPoolOptions& options = {});
Tensor lp_pool3d(const Tensor& x, double p, const Shape& kernel, const LpPoolOptions& options = {});

/// Puts values back where max pooling took them from, zeros elsewhere. `output_size`: the pooled dimensions alone.
Tensor max_unpool(const Tensor& x, const Tensor& indices, const Shape& output_size);

}  // namespace core
