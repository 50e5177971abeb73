#include "libcore/ops/pool.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/raw/kernel_call.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pool.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/size2.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;

Tensor gathered(const Tensor& planes, const Tensor& indices, const Pool2dSizes& windows);
Tensor scattered(const Tensor& values, const Tensor& indices, const raw::PickedPlanes& planes);

/// Puts gradients where the values came from. Saved: indices.
struct PickBackward : Node {
  raw::PickedPlanes planes;
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor()};
    return {scattered(grads[0], saved(0), planes)};
  }
};
struct MaxPool2DWithIndicesBackward final : PickBackward {
  std::string_view name() const override { return "MaxPool2DWithIndicesBackward0"; }
};
struct GatherPickedBackward final : PickBackward {
  std::string_view name() const override { return "MaxPool2DWithIndicesBackwardBackward0"; }
};

/// The same of a blocked image; indices only where the gradient is to have history itself.
struct BlockedMaxPoolBackward final : Node {
  raw::BlockedMaxPool forward;
  std::string_view name() const override { return "MaxPool2DWithIndicesBackward0"; }
  void release_saved() override {
    Node::release_saved();
    forward.taps.reset();
  }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor()};
    saved(0);  // the error of a second backward
    const bool plain = is_grad_enabled() || grads[0].dtype() != DType::f32;
    if (!plain) return {raw::max_pool2d_of_image_grad(grads[0], forward)};
    Shape planes = grads[0].sizes();
    planes[2] = forward.sizes.in_h, planes[3] = forward.sizes.in_w;
    return {scattered(grads[0], raw::indices_of(forward, raw::backend_of(grads[0])), {planes, forward.sizes})};
  }
};

/// Saved: indices.
struct ScatterPickedBackward final : Node {
  Pool2dSizes windows{};
  std::string_view name() const override { return "MaxPool2DWithIndicesBackwardBackward0"; }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor()};
    return {gathered(grads[0], saved(0), windows)};
  }
};

template <class N>
void record_picked(Tensor& out, const Tensor& planes, const Tensor& indices, const Pool2dSizes& windows) {
  auto node = make_node<N>(planes);
  node->planes = {planes.sizes(), windows};
  node->save(indices);
  record(out, node);
}

Tensor gathered(const Tensor& planes, const Tensor& indices, const Pool2dSizes& windows) {
  Tensor out = raw::gather_picked(planes, indices);
  if (needs_grad(planes)) record_picked<GatherPickedBackward>(out, planes, indices, windows);
  return out;
}

Tensor scattered(const Tensor& values, const Tensor& indices, const raw::PickedPlanes& planes) {
  Tensor out = raw::scatter_picked(values, indices, planes);
  if (needs_grad(values)) {
    auto node = make_node<ScatterPickedBackward>(values);
    node->windows = planes.windows;
    node->save(indices);
    record(out, node);
  }
  return out;
}

/// What the node of an average pooling keeps: how to do it, and on what.
struct FixedWindows {
  AvgPool2dParams plan{};
  Shape input_sizes;
};
struct AdaptiveWindows {
  Shape input_sizes, output_sizes;
  ImageOrder order;
};

Tensor apply_windows(const FixedWindows& w, const Tensor& x) {
  return raw::avg_pool2d(x, w.plan);
}
Tensor apply_transposed(const FixedWindows& w, const Tensor& grad) {
  return raw::avg_pool2d_grad(grad, w.plan, w.input_sizes);
}
Tensor apply_windows(const AdaptiveWindows& w, const Tensor& x) {
  const std::size_t n = w.output_sizes.size();
  return raw::adaptive_avg_pool2d(x, {w.output_sizes[n - 2], w.output_sizes[n - 1]});
}
Tensor apply_transposed(const AdaptiveWindows& w, const Tensor& grad) {
  return raw::adaptive_avg_pool2d_grad(grad, w.input_sizes, w.order);
}

std::string_view node_name(const FixedWindows&, bool forward) {
  return forward ? "AvgPool2DBackward0" : "AvgPool2DBackwardBackward0";
}
std::string_view node_name(const AdaptiveWindows&, bool forward) {
  return forward ? "AdaptiveAvgPool2DBackward0" : "AdaptiveAvgPool2DBackwardBackward0";
}

/// The pooling, or its transpose, with history.
template <class Windows>
Tensor pool(const Windows& windows, const Tensor& x, bool forward);

template <class Windows>
struct PoolBackward final : Node {
  Windows windows;
  bool forward = true;
  std::string_view name() const override { return node_name(windows, forward); }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor()};
    return {pool(windows, grads[0], !forward)};
  }
};

template <class Windows>
void record_pool(Tensor& out, const Windows& windows, const Tensor& x, bool forward) {
  auto node = make_node<PoolBackward<Windows>>(x);
  node->windows = windows;
  node->forward = forward;
  record(out, node);
}

template <class Windows>
Tensor pool(const Windows& windows, const Tensor& x, bool forward) {
  Tensor out = forward ? apply_windows(windows, x) : apply_transposed(windows, x);
  if (needs_grad(x)) record_pool(out, windows, x, forward);
  return out;
}

std::vector<core::detail::TraceAttribute> max_pool_attributes(Size2 kernel, const MaxPool2dOptions& options) {
  return {{"kernel", kernel},
          {"stride", options.stride.given() ? options.stride : kernel},
          {"padding", options.padding},
          {"dilation", options.dilation},
          {"ceil_mode", options.ceil_mode}};
}

}  // namespace

void detail::check_fractional(const FractionalPoolOptions& o, const char* name) {
  const auto fail = [](const std::string& text) { throw Error(ErrorCode::value, text); };
  if (o.output_size.empty() && o.output_ratio.empty()) {
    fail(std::string(name) + " requires specifying either an output_size or an output_ratio");
  }
}

ValuesIndices max_pool2d_with_indices(const Tensor& x, Size2 kernel, const MaxPool2dOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("max_pool_with_indices", {x}, max_pool_attributes(kernel, options),
                                [&] { return max_pool2d_with_indices(x, kernel, options); });
  ValuesIndices out = raw::max_pool2d(x, kernel, options);
  if (needs_grad(x)) {
    record_picked<MaxPool2DWithIndicesBackward>(out.values, x, out.indices,
                                                raw::max_pool2d_windows(x, kernel, options));
  }
  return out;
}

Tensor max_pool2d(const Tensor& x, Size2 kernel, const MaxPool2dOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("max_pool2d", {x}, max_pool_attributes(kernel, options),
                                [&] { return max_pool2d(x, kernel, options); });
  const core::detail::OpScope scope("max_pool2d", x);
  raw::BlockedMaxPool pooled =
      raw::max_pool2d_of_image(x, kernel, options, needs_grad(x) ? raw::KeepTaps::yes : raw::KeepTaps::no);
  if (!pooled.values.defined()) return max_pool2d_with_indices(x, kernel, options).values;
  Tensor out = pooled.values;
  if (needs_grad(x)) {
    auto node = make_node<BlockedMaxPoolBackward>(x);
    node->forward = {{}, pooled.taps, pooled.sizes, pooled.output_sizes};
    node->save({});
    record(out, node);
  }
  return out;
}

Tensor avg_pool2d(const Tensor& x, Size2 kernel, const AvgPool2dOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("avg_pool2d", {x},
                                {{"kernel", kernel},
                                 {"stride", options.stride.given() ? options.stride : kernel},
                                 {"padding", options.padding},
                                 {"ceil_mode", options.ceil_mode},
                                 {"count_include_pad", options.count_include_pad},
                                 {"divisor", options.divisor_override.value_or(0)}},
                                [&] { return avg_pool2d(x, kernel, options); });
  return pool(FixedWindows{raw::avg_pool2d_plan(x, kernel, options), x.sizes()}, x, true);
}

namespace {

/// An image without pixels has no mean; one of no channels or of an empty batch gives as little.
void check_windows_hold_some(const Tensor& x) {
  for (std::int64_t dim = std::max<std::int64_t>(0, x.dim() - 2); dim < x.dim(); ++dim) {
    if (x.size(dim) != 0) continue;
    throw Error(ErrorCode::runtime,
                "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch dimensions, but input has "
                "sizes " +
                    to_list(x.sizes()) + " with dimension " + std::to_string(dim) + " being empty");
  }
}

}  // namespace

Tensor adaptive_avg_pool2d(const Tensor& x, const AdaptiveSize& output) {
  if (core::detail::traced_now())
    return core::detail::traced("adaptive_avg_pool2d", {x}, {{"h", output.h.value_or(0)}, {"w", output.w.value_or(0)}},
                                [&] { return adaptive_avg_pool2d(x, output); });
  const core::detail::OpScope scope("adaptive_avg_pool2d", x);
  check_windows_hold_some(x);
  if (output.h == 1 && output.w == 1 && x.dim() >= 2) return mean(x, {.dims = {-1, -2}, .keepdim = true});
  Tensor out = raw::adaptive_avg_pool2d(x, output);
  if (needs_grad(x)) record_pool(out, AdaptiveWindows{x.sizes(), out.sizes(), raw::kernel::order_of(x)}, x, true);
  return out;
}

}  // namespace core
