#pragma once
// Pooling, as torch.nn.functional: windows, adaptive, power-average, at random steps, and unpooling.
// Thread safety: pure functions; fractional pooling draws from the default generator unless samples are given.
// In all options one number stands for all dimensions, and an empty list for the default.
// Use: core::Tensor y = core::max_pool2d(x, 2); auto [values, places] = core::adaptive_max_pool2d(x, {3});
// Source: Graham, "Fractional max-pooling", 2015.

#include <cstdint>
#include <optional>
#include <vector>

#include "libcore/tensor/size2.h"
#include "libcore/tensor/tensor.h"

namespace core {

struct MaxPool2dOptions {
  Size2 stride = {};  ///< the kernel's size unless given
  Size2 padding = 0;
  Size2 dilation = 1;
  bool ceil_mode = false;
};

/// x: (N, C, H, W) or (C, H, W).
Tensor max_pool2d(const Tensor& x, Size2 kernel, const MaxPool2dOptions& options = {});

/// Indices are positions h * W + w in each plane.
ValuesIndices max_pool2d_with_indices(const Tensor& x, Size2 kernel, const MaxPool2dOptions& options = {});

struct AvgPool2dOptions {
  Size2 stride = {};  ///< the kernel's size unless given
  Size2 padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::optional<std::int64_t> divisor_override = {};
};

Tensor avg_pool2d(const Tensor& x, Size2 kernel, const AvgPool2dOptions& options = {});

/// Size of an adaptive pooling's output; a dimension that is not given stays as the input's.
struct AdaptiveSize {
  AdaptiveSize(std::int64_t both) : h(both), w(both) {}  // NOLINT(google-explicit-constructor)
  AdaptiveSize(std::optional<std::int64_t> h_size, std::optional<std::int64_t> w_size)
      : h(h_size), w(w_size), pair(true) {}
  std::optional<std::int64_t> h;
  std::optional<std::int64_t> w;
  bool pair = false;
};

Tensor adaptive_avg_pool2d(const Tensor& x, const AdaptiveSize& output);

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

struct UnpoolOptions {
  Shape stride = {};       ///< the kernel's size
  Shape padding = {};      ///< 0
  Shape output_size = {};  ///< the pooled dimensions, or all; else what kernel, stride and padding give
};

/// max_unpool() for what max_pool1d_with_indices(x, kernel, ...) and its like gave. x: (N, C, ...) or (C, ...).
/// Error(value) "invalid output_size [9] (dim 0 must be between 4 and 8)".
Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const Shape& kernel, const UnpoolOptions& options = {});
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const Shape& kernel, const UnpoolOptions& options = {});
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const Shape& kernel, const UnpoolOptions& options = {});

struct FractionalPoolOptions {
  Shape output_size = {};                 ///< one number for all dimensions or one each; either this ...
  std::vector<double> output_ratio = {};  ///< ... or this part of the input's size, between 0 and 1
  Tensor random_samples = {};             ///< (N, C, dimensions) in [0, 1)
};

/// x: (N, C, H, W) or (C, H, W). Indices are positions h * W + w.
/// Errors(runtime): "fractional_max_pool2d(): pool height 2 too large relative to input height 5".
ValuesIndices fractional_max_pool2d(const Tensor& x, const Shape& kernel, const FractionalPoolOptions& options);

/// x: (N, C, T, H, W) or (C, T, H, W). Indices are positions (t * H + h) * W + w.
ValuesIndices fractional_max_pool3d(const Tensor& x, const Shape& kernel, const FractionalPoolOptions& options);

}  // namespace core

namespace core::detail {

/// Errors(value): PyTorch's texts unless just one of size and ratio is given.
void check_fractional(const FractionalPoolOptions& options, const char* name);

}  // namespace core::detail
