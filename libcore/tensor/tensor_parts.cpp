// Views of parts of a tensor, alone or several at once.
#include "libcore/tensor/tensor.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/detail/view_nodes.h"
#include "libcore/ops/join.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/scatter.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"

namespace core {
namespace {

using detail::make_view;

/// zeros of `sizes` with `g` added where `pick` looks.
template <class Pick>
Tensor spread(const Tensor& g, const Shape& sizes, Pick pick) {
  Tensor whole = zeros(sizes, {.dtype = g.dtype(), .device = g.device()});
  pick(whole).copy_(g);
  return whole;
}

CORE_VIEW_NODE(SelectBackward, "SelectBackward0", Shape sizes; std::int64_t dim; std::int64_t index;
               , return {spread(g[0], sizes, [&](const Tensor& t) { return t.select(dim, index); })};)
CORE_VIEW_NODE(SliceBackward, "SliceBackward0", Shape sizes; std::int64_t dim; std::int64_t start; std::int64_t end;
               std::int64_t step;
               , return {spread(g[0], sizes, [&](const Tensor& t) { return t.slice(dim, start, end, step); })};)
CORE_VIEW_NODE(DiagonalBackward, "DiagonalBackward0", Shape sizes; std::int64_t offset; std::int64_t dim1;
               std::int64_t dim2;
               , return {spread(g[0], sizes, [&](const Tensor& t) { return t.diagonal(offset, dim1, dim2); })};)

/// How many elements of memory a tensor spans. Error(runtime) where that overflows.
std::int64_t reach(const Shape& sizes, const Shape& strides) {
  std::int64_t last = 0, step = 0;
  bool is_empty = false, overflows = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    is_empty = is_empty || sizes[i] == 0;
    overflows = overflows || sizes[i] < 0 || __builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
                __builtin_add_overflow(last, step, &last);
  }
  if (is_empty) return 0;
  if (!overflows && last < INT64_MAX / 64) return last + 1;
  throw Error(ErrorCode::runtime,
              "Storage size calculation overflowed with sizes=" + to_list(sizes) + " and strides=" + to_list(strides));
}

void check_strides(const Shape& sizes, const Shape& strides, std::int64_t offset) {
  if (sizes.size() != strides.size()) {
    throw Error(ErrorCode::runtime, "mismatch in length of strides and shape");
  }
  if (std::any_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride < 0; })) {
    throw Error(ErrorCode::runtime,
                "as_strided: Negative strides are not supported at the moment, got strides: " + to_list(strides));
  }
  if (offset < 0) throw Error(ErrorCode::runtime, "Tensor: invalid storage offset " + std::to_string(offset));
}

/// That all elements of the view lie in its memory.
void check_reach(const Tensor& view) {
  const std::int64_t count = reach(view.sizes(), view.strides()),
                     there = static_cast<std::int64_t>(view.storage().nbytes());
  if (count == 0 || view.storage_offset() <= there / view.element_size() - count) return;
  throw Error(ErrorCode::runtime, "setStorage: sizes " + to_list(view.sizes()) + ", strides " +
                                      to_list(view.strides()) + ", storage offset " +
                                      std::to_string(view.storage_offset()) + ", and itemsize " +
                                      std::to_string(view.element_size()) + " requiring a storage size of " +
                                      std::to_string((view.storage_offset() + count) * view.element_size()) +
                                      " are out of bounds for storage of size " + std::to_string(there));
}

/// Elements of the view may lie on top of each other, so gradients are added by position in memory.
struct AsStridedBackward final : Node {
  Shape base_sizes, base_strides, sizes, strides;
  std::int64_t offset = 0;  // from the base's first element
  std::string_view name() const override { return "AsStridedBackward0"; }
  TensorList apply(TensorList g) override {
    const std::int64_t begin = std::min<std::int64_t>(0, offset);  // the view may reach past the base on both sides
    const std::int64_t end = std::max(reach(base_sizes, base_strides), offset + reach(sizes, strides));
    Tensor memory = zeros({end - begin}, {.dtype = g[0].dtype(), .device = g[0].device()});
    Tensor positions = arange(end - begin, {.device = g[0].device()}).as_strided(sizes, strides, offset - begin);
    memory = index_add(memory, 0, positions.reshape({-1}), g[0].reshape({-1}));
    return {memory.as_strided(base_sizes, base_strides, -begin)};
  }
};

struct UnfoldBackward final : Node {
  Shape sizes, strides;  // of the input
  std::int64_t dim = 0, size = 0, step = 0;
  std::string_view name() const override { return "UnfoldBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor whole = zeros(sizes, {.dtype = g[0].dtype(), .device = g[0].device()});
    for (std::int64_t i = 0; i < g[0].size(dim); ++i) {
      whole.slice(dim, i * step, i * step + size).add_(g[0].select(dim, i).movedim(-1, dim));
    }
    return {whole};
  }
};

/// Outputs that nobody used come as undefined gradients: zeros.
TensorList join_parts(const TensorList& g, std::int64_t dim, std::span<const Shape> sizes, bool stacked) {
  std::vector<Tensor> parts(g.begin(), g.end());
  const Tensor& some = *std::find_if(g.begin(), g.end(), [](const Tensor& t) { return t.defined(); });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].defined()) parts[i] = zeros(sizes[i], {.dtype = some.dtype(), .device = some.device()});
  }
  return {stacked ? stack(parts, dim) : cat(parts, dim)};
}

template <bool kUnbind>
struct SplitBackward final : Node {
  std::int64_t dim = 0;
  bool by_sizes = false;
  std::vector<Shape> sizes;
  std::string_view name() const override {
    return kUnbind ? "UnbindBackward0" : by_sizes ? "SplitWithSizesBackward0" : "SplitBackward0";
  }
  TensorList apply(TensorList g) override { return join_parts(g, dim, sizes, kUnbind); }
};

}  // namespace

namespace {
/// REQUIRES: 0 <= position < x.size(dim).
Tensor selected(const Tensor& x, std::size_t dim, std::int64_t position) {
  if (core::detail::traced_now())
    return core::detail::traced("select", {x}, {{"dim", static_cast<std::int64_t>(dim)}, {"index", position}},
                                [&] { return selected(x, dim, position); });
  return make_view<SelectBackward>(x, raw::part(x, dim, position), [&](SelectBackward& node) {
    node.sizes = x.sizes();
    node.dim = static_cast<std::int64_t>(dim);
    node.index = position;
  });
}
}  // namespace

Tensor Tensor::select(std::int64_t at, std::int64_t index) const {
  if (dim() == 0) throw Error(ErrorCode::index, "select() cannot be applied to a 0-dim tensor.");
  std::int64_t d = raw::wrap_dim(at, dim());
  const auto dropped = static_cast<std::size_t>(d);
  const std::int64_t limit = sizes()[dropped];
  if (index < -limit || index >= limit) {
    throw Error(ErrorCode::index, "select(): index " + std::to_string(index) + " out of range for tensor of size " +
                                      to_list(sizes()) + " at dimension " + std::to_string(d));
  }
  return selected(*this, dropped, index < 0 ? index + limit : index);
}

Tensor Tensor::slice(std::int64_t at, std::optional<std::int64_t> start, std::optional<std::int64_t> end,
                     std::int64_t step) const {
  if (dim() == 0) throw Error(ErrorCode::runtime, "slice() cannot be applied to a 0-dim tensor.");
  if (step <= 0) throw Error(ErrorCode::runtime, "slice step must be positive");
  std::int64_t d = raw::wrap_dim(at, dim());
  std::int64_t length = size(d);
  auto bounded = [&](std::int64_t position) {
    return std::clamp<std::int64_t>(position < 0 ? position + length : position, 0, length);
  };
  std::int64_t from = bounded(start.value_or(0));
  std::int64_t to = std::max(from, bounded(end.value_or(length)));
  if (core::detail::traced_now()) {
    // Of a tensor with another size, an end behind the last element is another one.
    const std::int64_t wanted = end.value_or(length) < 0 ? to : std::max(from, end.value_or(length));
    return core::detail::traced("slice", {*this}, {{"dim", d}, {"start", from}, {"end", wanted}, {"step", step}},
                                [&] { return slice(at, start, end, step); });
  }
  Shape part = sizes(), part_strides = strides();
  part[static_cast<std::size_t>(d)] = (to - from + step - 1) / step;
  part_strides[static_cast<std::size_t>(d)] *= step;
  Tensor out = raw::view(*this, part, part_strides, storage_offset() + from * stride(d));
  return make_view<SliceBackward>(*this, out, [&](SliceBackward& node) {
    node.sizes = sizes();
    node.dim = d;
    node.start = from;
    node.end = to;
    node.step = step;
  });
}

Tensor Tensor::narrow(std::int64_t at, std::int64_t start, std::int64_t length) const {
  std::int64_t d = raw::wrap_dim(at, dim());
  std::int64_t from = start < 0 ? start + size(d) : start;
  if (length < 0) throw Error(ErrorCode::runtime, "narrow(): length must be non-negative.");
  if (from < 0 || from + length > size(d)) {
    throw Error(ErrorCode::runtime, "start (" + std::to_string(start) + ") + length (" + std::to_string(length) +
                                        ") exceeds dimension size (" + std::to_string(size(d)) + ").");
  }
  return slice(d, from, from + length);
}

Tensor Tensor::diagonal(std::int64_t offset, std::int64_t dim1, std::int64_t dim2) const {
  std::int64_t a = raw::wrap_dim(dim1, dim()), b = raw::wrap_dim(dim2, dim());
  if (a == b)
    throw Error(ErrorCode::runtime,
                "diagonal dimensions cannot be identical " + std::to_string(dim1) + ", " + std::to_string(dim2));
  std::int64_t length = std::max<std::int64_t>(
      0, offset >= 0 ? std::min(size(a), size(b) - offset) : std::min(size(a) + offset, size(b)));
  std::int64_t first = length == 0 ? 0 : offset >= 0 ? offset * stride(b) : -offset * stride(a);
  Shape kept, kept_strides;
  for (std::int64_t d = 0; d < dim(); ++d) {
    if (d == a || d == b) continue;
    kept.push_back(size(d));
    kept_strides.push_back(stride(d));
  }
  kept.push_back(length);
  kept_strides.push_back(stride(a) + stride(b));
  return make_view<DiagonalBackward>(*this, raw::view(*this, kept, kept_strides, storage_offset() + first),
                                     [&](DiagonalBackward& node) {
                                       node.sizes = sizes();
                                       node.offset = offset;
                                       node.dim1 = a;
                                       node.dim2 = b;
                                     });
}

Tensor Tensor::unfold(std::int64_t at, std::int64_t width, std::int64_t step) const {
  std::int64_t d = raw::wrap_dim(at, dim());
  std::int64_t length = dim() == 0 ? 1 : size(d);
  if (width > length) {
    throw Error(ErrorCode::runtime, "maximum size for tensor at dimension " + std::to_string(d) + " is " +
                                        std::to_string(length) + " but size is " + std::to_string(width));
  }
  if (step <= 0) throw Error(ErrorCode::runtime, "step is " + std::to_string(step) + " but must be > 0");
  Shape windows = sizes(), window_strides = strides();
  window_strides.push_back(dim() == 0 ? 1 : stride(d));
  windows.push_back(width);
  if (dim() > 0) {
    windows[static_cast<std::size_t>(d)] = (length - width) / step + 1;
    window_strides[static_cast<std::size_t>(d)] *= step;
  }
  return make_view<UnfoldBackward>(*this, raw::view(*this, windows, window_strides, storage_offset()),
                                   [&](UnfoldBackward& node) {
                                     node.sizes = sizes();
                                     node.dim = d;
                                     node.size = width;
                                     node.step = step;
                                   });
}

Tensor Tensor::as_strided(const Shape& new_sizes, const Shape& new_strides, std::optional<std::int64_t> offset) const {
  const std::int64_t first = offset.value_or(storage_offset());
  check_strides(new_sizes, new_strides, first);
  reach(new_sizes, new_strides);
  Tensor out = raw::view(*this, new_sizes, new_strides, first);
  check_reach(out);
  return make_view<AsStridedBackward>(*this, std::move(out), [&](AsStridedBackward& node) {
    node.base_sizes = sizes();
    node.base_strides = strides();
    node.sizes = new_sizes;
    node.strides = new_strides;
    node.offset = first - storage_offset();
  });
}

Tensor Tensor::operator[](std::int64_t index) const {
  if (dim() == 0) {
    throw Error(
        ErrorCode::index,
        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a "
        "0-dim tensor to a number");
  }
  const std::int64_t rows = sizes()[0];
  if (index < -rows || index >= rows) {
    throw Error(ErrorCode::index, "index " + std::to_string(index) + " is out of bounds for dimension 0 with size " +
                                      std::to_string(rows));
  }
  return selected(*this, 0, index < 0 ? index + rows : index);
}

namespace {

template <bool kUnbind>
std::vector<Tensor> split_views(const Tensor& x, std::vector<Tensor> parts, std::int64_t dim, bool by_sizes) {
  for (const Tensor& part : parts) mark_view_of_several(part, x);
  if (!needs_grad(x)) return parts;
  auto node = make_node<SplitBackward<kUnbind>>(x);
  node->dim = dim;
  node->by_sizes = by_sizes;
  for (Tensor& part : parts) {
    node->sizes.push_back(part.sizes());
    record(part, node);
  }
  return parts;
}

std::vector<Tensor> cut(const Tensor& x, const Shape& lengths, std::int64_t d) {
  std::vector<Tensor> parts;
  std::int64_t at = 0;
  for (std::int64_t length : lengths) {
    Shape sizes = x.sizes();
    sizes[static_cast<std::size_t>(d)] = length;
    parts.push_back(raw::view(x, sizes, x.strides(), x.storage_offset() + at * x.stride(d)));
    at += length;
  }
  return parts;
}

void check_splittable(const Tensor& x) {
  if (x.dim() == 0) throw Error(ErrorCode::runtime, "split expects at least a 1-dimensional tensor");
}

}  // namespace

std::vector<Tensor> Tensor::split(std::int64_t length, std::int64_t at) const {
  if (core::detail::traced_now())
    return core::detail::traced("split", {*this}, {{"dim", raw::wrap_dim(at, dim())}},
                                [&] { return split(length, at); });
  check_splittable(*this);
  if (length < 0) {
    throw Error(ErrorCode::runtime,
                "split expects split_size be non-negative, but got split_size=" + std::to_string(length));
  }
  std::int64_t d = raw::wrap_dim(at, dim());
  if (length == 0 && size(d) != 0) {
    throw Error(ErrorCode::runtime, "split_size can only be 0 if dimension size is 0, but got dimension size of " +
                                        std::to_string(size(d)));
  }
  Shape lengths;
  for (std::int64_t left = size(d); left > 0 && length > 0; left -= length) lengths.push_back(std::min(left, length));
  if (lengths.empty()) lengths.push_back(0);
  return split_views<false>(*this, cut(*this, lengths, d), d, false);
}

std::vector<Tensor> Tensor::split(const Shape& lengths, std::int64_t at) const {
  if (core::detail::traced_now())
    return core::detail::traced("split", {*this}, {{"dim", raw::wrap_dim(at, dim())}},
                                [&] { return split(lengths, at); });
  check_splittable(*this);
  std::int64_t d = raw::wrap_dim(at, dim());
  std::int64_t total = 0;
  for (std::int64_t length : lengths) {
    if (length < 0) {
      throw Error(ErrorCode::runtime,
                  "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=" +
                      to_list(lengths));
    }
    total += length;
  }
  if (total != size(d)) {
    throw Error(ErrorCode::runtime, "split_with_sizes expects split_sizes to sum exactly to " +
                                        std::to_string(size(d)) + " (input tensor's size at dimension " +
                                        std::to_string(d) + "), but got split_sizes=" + to_list(lengths));
  }
  return split_views<false>(*this, cut(*this, lengths, d), d, true);
}

std::vector<Tensor> Tensor::chunk(std::int64_t chunks, std::int64_t at) const {
  if (core::detail::traced_now())
    return core::detail::traced("split", {*this}, {{"dim", raw::wrap_dim(at, dim())}},
                                [&] { return chunk(chunks, at); });
  if (dim() == 0) throw Error(ErrorCode::runtime, "chunk expects at least a 1-dimensional tensor");
  if (chunks <= 0) {
    throw Error(ErrorCode::runtime, "chunk expects `chunks` to be greater than 0, got: " + std::to_string(chunks));
  }
  std::int64_t length = (size(at) + chunks - 1) / chunks;
  if (length == 0) return split(Shape(static_cast<std::size_t>(chunks), 0), at);
  return split(length, at);
}

std::vector<Tensor> Tensor::unbind(std::int64_t at) const {
  if (core::detail::traced_now())
    return core::detail::traced("unbind", {*this}, {{"dim", raw::wrap_dim(at, dim())}}, [&] { return unbind(at); });
  std::int64_t d = raw::wrap_dim(at, dim());
  const std::int64_t count = size(d);  // refuses a tensor without dimensions
  std::vector<Tensor> parts;
  Shape sizes = this->sizes(), strides = this->strides();
  sizes.erase(static_cast<std::size_t>(d));
  strides.erase(static_cast<std::size_t>(d));
  for (std::int64_t i = 0; i < count; ++i) {
    parts.push_back(raw::view(*this, sizes, strides, storage_offset() + i * stride(d)));
  }
  return split_views<true>(*this, std::move(parts), d, false);
}

}  // namespace core
