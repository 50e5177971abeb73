// Views, and reshape, which is one where it can be.
#include <algorithm>
#include <string>

#include "libcore/autograd/function_nodes.h"
#include "libcore/base/error.h"

namespace core {
namespace {

/// A node that keeps a few sizes or dimensions.
#define CORE_VIEW_NODE(Class, printed, members, ...)                   \
  struct Class final : Node {                                          \
    members std::string_view name() const override { return printed; } \
    TensorList apply(TensorList g) override { __VA_ARGS__ }            \
  };

CORE_VIEW_NODE(ViewBackward, "ViewBackward0", Shape sizes;, return {g[0].reshape(sizes)};)
CORE_VIEW_NODE(UnsafeViewBackward, "UnsafeViewBackward0", Shape sizes;, return {g[0].reshape(sizes)};)
CORE_VIEW_NODE(UnsqueezeBackward, "UnsqueezeBackward0", std::int64_t dim;, return {g[0].squeeze(dim)};)
CORE_VIEW_NODE(SqueezeAllBackward, "SqueezeBackward0", Shape sizes;, return {g[0].reshape(sizes)};)
CORE_VIEW_NODE(SqueezeBackward, "SqueezeBackward1", Shape sizes;, return {g[0].reshape(sizes)};)
CORE_NODE(TBackward, "TBackward0", return {g[0].t()};)
CORE_VIEW_NODE(TransposeBackward, "TransposeBackward0", std::int64_t a; std::int64_t b;, return {g[0].transpose(a, b)};)
CORE_VIEW_NODE(PermuteBackward, "PermuteBackward0", Shape inverse;, return {g[0].permute(inverse)};)
CORE_VIEW_NODE(ExpandBackward, "ExpandBackward0", Shape sizes;, return {sum_to(g[0], sizes)};)

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

/// Elements of the view may lie on top of each other, so gradients are added by position in memory.
struct AsStridedBackward final : Node {
  Shape base_sizes, base_strides, sizes, strides;
  std::int64_t offset = 0;  // from the base's first element
  std::string_view name() const override { return "AsStridedBackward0"; }
  TensorList apply(TensorList g) override {
    std::int64_t extent = 1;
    for (std::size_t i = 0; i < base_sizes.size(); ++i) extent += (base_sizes[i] - 1) * base_strides[i];
    Tensor memory = zeros({extent}, {.dtype = g[0].dtype(), .device = g[0].device()});
    Tensor positions = arange(extent, {.device = g[0].device()}).as_strided(sizes, strides, offset).reshape({-1});
    memory = index_add(memory, 0, positions, g[0].reshape({-1}));
    return {memory.as_strided(base_sizes, base_strides, 0)};
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

/// Marks the view, and records N when the input has history; `set` fills the node's members.
template <class N, class Set>
Tensor make_view(const Tensor& x, Tensor out, Set set) {
  mark_view(out, x);
  if (!needs_grad(x)) return out;
  auto node = make_node<N>(x);
  set(*node);
  record(out, node);
  return out;
}

std::string shape_text(const Shape& sizes) {
  return "'" + to_list(sizes) + "'";
}

/// Fills in a -1. Errors: PyTorch's texts of view and reshape.
Shape inferred(const Shape& wanted, std::int64_t numel) {
  Shape sizes = wanted;
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  for (std::int64_t& size : sizes) {
    if (size == -1) {
      if (open != nullptr) throw Error(ErrorCode::runtime, "only one dimension can be inferred");
      open = &size;
    } else if (size < 0) {
      throw Error(ErrorCode::runtime, "invalid shape dimension " + std::to_string(size));
    } else {
      known *= size;
    }
  }
  if (open != nullptr && known == 0 && numel == 0) {
    throw Error(ErrorCode::runtime, "cannot reshape tensor of 0 elements into shape " + to_list(wanted) +
                                        " because the unspecified dimension size -1 can be any value and is ambiguous");
  }
  bool fits = open != nullptr ? known != 0 && numel % known == 0 : known == numel;
  if (!fits) {
    throw Error(ErrorCode::runtime,
                "shape " + shape_text(wanted) + " is invalid for input of size " + std::to_string(numel));
  }
  if (open != nullptr) *open = numel / known;
  return sizes;
}

/// Strides that show x's memory with other sizes, or nothing when only a copy can.
std::optional<Shape> view_strides(const Tensor& x, const Shape& sizes) {
  if (x.is_contiguous() || x.numel() == 0) return contiguous_strides(sizes);
  Shape strides(sizes.size(), 1);
  auto next = static_cast<std::int64_t>(sizes.size()) - 1;  // dimension of the result to be filled
  std::int64_t chunk_stride = x.stride(-1);
  std::int64_t in_chunk = 1, placed = 1;
  for (std::int64_t d = x.dim() - 1; d >= 0; --d) {
    in_chunk *= x.size(d);
    bool chunk_ends = d == 0 || (x.size(d - 1) != 1 && x.stride(d - 1) != in_chunk * chunk_stride);
    if (!chunk_ends) continue;
    while (next >= 0 && (placed < in_chunk || sizes[static_cast<std::size_t>(next)] == 1)) {
      strides[static_cast<std::size_t>(next)] = placed * chunk_stride;
      placed *= sizes[static_cast<std::size_t>(next--)];
    }
    if (placed != in_chunk) return std::nullopt;
    if (d > 0) chunk_stride = x.stride(d - 1);
    in_chunk = placed = 1;
  }
  return next < 0 ? std::optional(strides) : std::nullopt;
}

Tensor view_with(const Tensor& x, const Shape& sizes, const Shape& strides) {
  return make_view<ViewBackward>(x, raw::view(x, sizes, strides, x.storage_offset()),
                                 [&](ViewBackward& node) { node.sizes = x.sizes(); });
}

}  // namespace

Tensor Tensor::view(const Shape& wanted) const {
  Shape sizes = inferred(wanted, numel());
  auto strides = view_strides(*this, sizes);
  if (!strides) {
    throw Error(
        ErrorCode::runtime,
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
        "contiguous subspaces). Use .reshape(...) instead.");
  }
  return view_with(*this, sizes, *strides);
}

Tensor Tensor::reshape(const Shape& wanted) const {
  Shape sizes = inferred(wanted, numel());
  if (auto strides = view_strides(*this, sizes)) return view_with(*this, sizes, *strides);
  Tensor copy = raw::contiguous(*this);
  Tensor out = raw::view(copy, sizes, contiguous_strides(sizes), 0);
  if (!needs_grad(*this)) return out;
  auto node = make_node<UnsafeViewBackward>(*this);
  node->sizes = this->sizes();
  record(out, node);
  return out;
}

Tensor unsafe_view(const Tensor& x, const Shape& sizes) {
  Tensor out = raw::view(x, sizes, contiguous_strides(sizes), x.storage_offset());
  if (!needs_grad(x)) return out;
  auto node = make_node<UnsafeViewBackward>(x);
  node->sizes = x.sizes();
  record(out, node);
  return out;
}

Tensor Tensor::flatten(std::int64_t start, std::int64_t end) const {
  std::int64_t from = raw::wrap_dim(start, dim()), to = raw::wrap_dim(end, dim());
  if (from > to) throw Error(ErrorCode::runtime, "flatten() has invalid args: start_dim cannot come after end_dim");
  if (dim() == 0) return reshape({1});
  if (from == to) return *this;
  Shape sizes;
  std::int64_t joined = 1;
  for (std::int64_t d = 0; d < dim(); ++d) {
    if (d >= from && d <= to) joined *= size(d);
    if (d == to) sizes.push_back(joined);
    if (d < from || d > to) sizes.push_back(size(d));
  }
  return reshape(sizes);
}

Tensor Tensor::unflatten(std::int64_t at, const Shape& into) const {
  std::int64_t d = raw::wrap_dim(at, dim());
  Shape parts = into;
  std::int64_t known = 1;
  for (std::int64_t part : parts) known *= part == -1 ? 1 : part;
  for (std::int64_t& part : parts) part = part == -1 && known != 0 ? size(d) / known : part;
  if (parts.numel() != size(d)) {
    throw Error(ErrorCode::runtime, "unflatten: Provided sizes " + to_list(into) +
                                        " don't multiply up to the size of dim " + std::to_string(d) + " (" +
                                        std::to_string(size(d)) + ") in the input tensor");
  }
  Shape sizes;
  for (std::int64_t i = 0; i < dim(); ++i) {
    if (i != d) sizes.push_back(size(i));
    for (std::size_t k = 0; i == d && k < parts.size(); ++k) sizes.push_back(parts[k]);
  }
  return view(sizes);
}

Tensor Tensor::squeeze() const {
  Shape kept, kept_strides;
  for (std::size_t i = 0; i < sizes().size(); ++i) {
    if (sizes()[i] == 1) continue;
    kept.push_back(sizes()[i]);
    kept_strides.push_back(strides()[i]);
  }
  return make_view<SqueezeAllBackward>(*this, raw::view(*this, kept, kept_strides, storage_offset()),
                                       [&](SqueezeAllBackward& node) { node.sizes = sizes(); });
}

Tensor Tensor::squeeze(std::int64_t at) const {
  std::int64_t d = raw::wrap_dim(at, dim());
  Shape kept = sizes(), kept_strides = strides();
  if (dim() > 0 && size(d) == 1) {
    kept.erase(static_cast<std::size_t>(d));
    kept_strides.erase(static_cast<std::size_t>(d));
  }
  return make_view<SqueezeBackward>(*this, raw::view(*this, kept, kept_strides, storage_offset()),
                                    [&](SqueezeBackward& node) { node.sizes = sizes(); });
}

Tensor Tensor::unsqueeze(std::int64_t at) const {
  std::int64_t d = raw::wrap_dim(at, dim() + 1);
  auto index = static_cast<std::size_t>(d);
  Shape more = sizes(), more_strides = strides();
  more_strides.insert(index, d < dim() ? size(d) * stride(d) : 1);
  more.insert(index, 1);
  return make_view<UnsqueezeBackward>(*this, raw::view(*this, more, more_strides, storage_offset()),
                                      [&](UnsqueezeBackward& node) { node.dim = d; });
}

namespace {

Tensor swapped(const Tensor& x, std::int64_t a, std::int64_t b) {
  Shape sizes = x.sizes(), strides = x.strides();
  if (a != b) {
    std::swap(sizes[static_cast<std::size_t>(a)], sizes[static_cast<std::size_t>(b)]);
    std::swap(strides[static_cast<std::size_t>(a)], strides[static_cast<std::size_t>(b)]);
  }
  return raw::view(x, sizes, strides, x.storage_offset());
}

}  // namespace

Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const {
  std::int64_t first = raw::wrap_dim(a, dim()), second = raw::wrap_dim(b, dim());
  return make_view<TransposeBackward>(*this, swapped(*this, first, second), [&](TransposeBackward& node) {
    node.a = first;
    node.b = second;
  });
}

Tensor Tensor::t() const {
  if (dim() > 2) {
    throw Error(ErrorCode::runtime,
                "t() expects a tensor with <= 2 dimensions, but self is " + std::to_string(dim()) + "D");
  }
  return make_view<TBackward>(*this, swapped(*this, 0, dim() == 2 ? 1 : 0), [](TBackward&) {});
}

Tensor Tensor::permute(const Shape& dims) const {
  if (static_cast<std::int64_t>(dims.size()) != dim()) {
    throw Error(
        ErrorCode::runtime,
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
        "ordering of dimensions i.e. input.dim() = " +
            std::to_string(dim()) + " is not equal to len(dims) = " + std::to_string(dims.size()));
  }
  Shape new_sizes, new_strides, inverse(dims.size(), -1);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    auto d = static_cast<std::size_t>(raw::wrap_dim(dims[i], dim()));
    if (inverse[d] != -1) throw Error(ErrorCode::runtime, "permute(): duplicate dims are not allowed.");
    inverse[d] = static_cast<std::int64_t>(i);
    new_sizes.push_back(sizes()[d]);
    new_strides.push_back(strides()[d]);
  }
  return make_view<PermuteBackward>(*this, raw::view(*this, new_sizes, new_strides, storage_offset()),
                                    [&](PermuteBackward& node) { node.inverse = inverse; });
}

Tensor Tensor::movedim(std::int64_t from, std::int64_t to) const {
  std::int64_t source = raw::wrap_dim(from, dim()), target = raw::wrap_dim(to, dim());
  Shape order;
  for (std::int64_t d = 0; d < dim(); ++d) {
    if (d != source) order.push_back(d);
  }
  order.insert(static_cast<std::size_t>(target), source);
  return permute(order);
}

Tensor Tensor::expand(const Shape& wanted) const {
  if (static_cast<std::int64_t>(wanted.size()) < dim()) {
    throw Error(ErrorCode::runtime, std::string("expand(torch.") + scalar_type_name(dtype()) + "Tensor{" +
                                        to_list(sizes()) + "}, size=" + to_list(wanted) +
                                        "): the number of sizes provided (" + std::to_string(wanted.size()) +
                                        ") must be greater or equal to the number of dimensions in the tensor (" +
                                        std::to_string(dim()) + ")");
  }
  Shape target = wanted, target_strides(wanted.size(), 0);
  std::size_t skip = wanted.size() - sizes().size();
  for (std::size_t i = skip; i < wanted.size(); ++i) {
    std::int64_t own = sizes()[i - skip];
    if (target[i] == -1) target[i] = own;
    if (own == target[i]) {
      target_strides[i] = strides()[i - skip];
    } else if (own != 1) {
      throw Error(ErrorCode::runtime,
                  "The expanded size of the tensor (" + std::to_string(target[i]) + ") must match the existing size (" +
                      std::to_string(own) + ") at non-singleton dimension " + std::to_string(i) +
                      ".  Target sizes: " + to_list(wanted) + ".  Tensor sizes: " + to_list(sizes()));
    }
  }
  return make_view<ExpandBackward>(*this, raw::view(*this, target, target_strides, storage_offset()),
                                   [&](ExpandBackward& node) { node.sizes = sizes(); });
}

Tensor Tensor::select(std::int64_t at, std::int64_t index) const {
  if (dim() == 0) throw Error(ErrorCode::index, "select() cannot be applied to a 0-dim tensor.");
  std::int64_t d = raw::wrap_dim(at, dim());
  if (index < -size(d) || index >= size(d)) {
    throw Error(ErrorCode::index, "select(): index " + std::to_string(index) + " out of range for tensor of size " +
                                      to_list(sizes()) + " at dimension " + std::to_string(d));
  }
  std::int64_t position = index < 0 ? index + size(d) : index;
  Shape kept = sizes(), kept_strides = strides();
  kept.erase(static_cast<std::size_t>(d));
  kept_strides.erase(static_cast<std::size_t>(d));
  Tensor out = raw::view(*this, kept, kept_strides, storage_offset() + position * stride(d));
  return make_view<SelectBackward>(*this, out, [&](SelectBackward& node) {
    node.sizes = sizes();
    node.dim = d;
    node.index = position;
  });
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
  std::int64_t first = offset.value_or(storage_offset());
  return make_view<AsStridedBackward>(*this, raw::view(*this, new_sizes, new_strides, first),
                                      [&](AsStridedBackward& node) {
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
  if (index < -size(0) || index >= size(0)) {
    throw Error(ErrorCode::index, "index " + std::to_string(index) + " is out of bounds for dimension 0 with size " +
                                      std::to_string(size(0)));
  }
  return select(0, index);
}

namespace {

template <bool kUnbind>
std::vector<Tensor> split_views(const Tensor& x, std::vector<Tensor> parts, std::int64_t dim, bool by_sizes) {
  for (const Tensor& part : parts) mark_view(part, x);
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

}  // namespace

std::vector<Tensor> Tensor::split(std::int64_t length, std::int64_t at) const {
  if (length < 0) {
    throw Error(ErrorCode::runtime,
                "split expects split_size be non-negative, but got split_size=" + std::to_string(length));
  }
  std::int64_t d = raw::wrap_dim(at, dim());
  Shape lengths;
  for (std::int64_t left = size(d); left > 0 && length > 0; left -= length) lengths.push_back(std::min(left, length));
  if (lengths.empty()) lengths.push_back(0);
  return split_views<false>(*this, cut(*this, lengths, d), d, false);
}

std::vector<Tensor> Tensor::split(const Shape& lengths, std::int64_t at) const {
  std::int64_t d = raw::wrap_dim(at, dim());
  std::int64_t total = 0;
  for (std::int64_t length : lengths) total += length;
  if (total != size(d)) {
    throw Error(ErrorCode::runtime, "split_with_sizes expects split_sizes to sum exactly to " +
                                        std::to_string(size(d)) + " (input tensor's size at dimension " +
                                        std::to_string(d) + "), but got split_sizes=" + to_list(lengths));
  }
  return split_views<false>(*this, cut(*this, lengths, d), d, true);
}

std::vector<Tensor> Tensor::chunk(std::int64_t chunks, std::int64_t at) const {
  if (dim() == 0) throw Error(ErrorCode::runtime, "chunk expects at least a 1-dimensional tensor");
  if (chunks <= 0) {
    throw Error(ErrorCode::runtime, "chunk expects `chunks` to be greater than 0, got: " + std::to_string(chunks));
  }
  std::int64_t length = (size(at) + chunks - 1) / chunks;
  if (length == 0) return split(Shape(static_cast<std::size_t>(chunks), 0), at);
  return split(length, at);
}

std::vector<Tensor> Tensor::unbind(std::int64_t at) const {
  std::int64_t d = raw::wrap_dim(at, dim());
  std::vector<Tensor> parts;
  Shape sizes = this->sizes(), strides = this->strides();
  sizes.erase(static_cast<std::size_t>(d));
  strides.erase(static_cast<std::size_t>(d));
  for (std::int64_t i = 0; i < size(d); ++i) {
    parts.push_back(raw::view(*this, sizes, strides, storage_offset() + i * stride(d)));
  }
  return split_views<true>(*this, std::move(parts), d, false);
}

}  // namespace core
