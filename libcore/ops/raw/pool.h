#pragma once
// Pooling without history: checks with PyTorch's texts, then the backend's slot. Thread safety: pure functions.

#include <cstdint>
#include <memory>
#include <vector>

#include "libcore/backend/nn_table.h"
#include "libcore/ops/pool.h"
#include "libcore/tensor/size2.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {

ValuesIndices max_pool2d(const Tensor& x, Size2 kernel, const MaxPool2dOptions& options);

/// The same of a blocked image (blocked_layout.h): which tap of each window was largest instead of indices.
struct BlockedMaxPool {
  Tensor values;  ///< undefined where x is not blocked or the window too large
  std::shared_ptr<const std::vector<std::uint8_t>> taps = nullptr;  ///< in blocks; empty unless asked for
  Pool2dSizes sizes{};
  Shape output_sizes = {};
};

enum class KeepTaps { no, yes };
BlockedMaxPool max_pool2d_of_image(const Tensor& x, Size2 kernel, const MaxPool2dOptions& options, KeepTaps keep);
Tensor max_pool2d_of_image_grad(const Tensor& output_grad, const BlockedMaxPool& forward);

/// The indices that max_pool2d would have given.
Tensor indices_of(const BlockedMaxPool& forward, Backend& backend);

/// Values of the last two dimensions of `like` picked by (or put back to) `indices`, as max_pool2d made them.
/// Channels of the result lie as those of the indices.
Tensor gather_picked(const Tensor& planes, const Tensor& indices);

/// What indices are positions of: planes, and the windows that they were picked in.
struct PickedPlanes {
  Shape sizes;
  Pool2dSizes windows{};
};

Tensor scatter_picked(const Tensor& values, const Tensor& indices, const PickedPlanes& planes);

/// The windows of max_pool2d.
Pool2dSizes max_pool2d_windows(const Tensor& x, Size2 kernel, const MaxPool2dOptions& options);

/// Everything about an average pooling but its arrays.
AvgPool2dParams avg_pool2d_plan(const Tensor& x, Size2 kernel, const AvgPool2dOptions& options);
Tensor avg_pool2d(const Tensor& x, AvgPool2dParams plan);
Tensor avg_pool2d_grad(const Tensor& output_grad, AvgPool2dParams plan, const Shape& input_sizes);
Tensor adaptive_avg_pool2d(const Tensor& x, const AdaptiveSize& output);

/// `order`: of the input's channels.
Tensor adaptive_avg_pool2d_grad(const Tensor& output_grad, const Shape& input_sizes, ImageOrder order);

}  // namespace core::raw
