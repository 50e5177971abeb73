// Views of a whole tensor in another shape or order, and reshape, which is one where it can be.
#include "libcore/tensor/tensor_view.h"

#include <optional>
#include <string>
#include <utility>

#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/detail/view_nodes.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using detail::make_view;
using detail::TBackward;

CORE_VIEW_NODE(ViewBackward, "ViewBackward0", Shape sizes;, return {g[0].reshape(sizes)};)
CORE_VIEW_NODE(UnsafeViewBackward, "UnsafeViewBackward0", Shape sizes;, return {g[0].reshape(sizes)};)
CORE_VIEW_NODE(UnsqueezeBackward, "UnsqueezeBackward0", std::int64_t dim;, return {g[0].squeeze(dim)};)
CORE_VIEW_NODE(SqueezeAllBackward, "SqueezeBackward0", Shape sizes;, return {g[0].reshape(sizes)};)
CORE_VIEW_NODE(SqueezeBackward, "SqueezeBackward1", Shape sizes;, return {g[0].reshape(sizes)};)
CORE_VIEW_NODE(TransposeBackward, "TransposeBackward0", std::int64_t a; std::int64_t b;, return {g[0].transpose(a, b)};)
CORE_NODE(TransposeInPlaceBackward, "TransposeBackward1", return {g[0].transpose(0, 1)};)
CORE_VIEW_NODE(PermuteBackward, "PermuteBackward0", Shape inverse;, return {g[0].permute(inverse)};)
CORE_VIEW_NODE(ExpandBackward, "ExpandBackward0", Shape sizes;, return {sum_to(g[0], sizes)};)

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
  if (core::detail::traced_now()) return core::detail::traced("view", {*this}, {}, [&] { return view(wanted); });
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
  if (core::detail::traced_now()) return core::detail::traced("reshape", {*this}, {}, [&] { return reshape(wanted); });
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
  if (core::detail::traced_now()) return core::detail::traced("view", {x}, {}, [&] { return unsafe_view(x, sizes); });
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
  if (core::detail::traced_now()) return core::detail::traced("squeeze", {*this}, {}, [&] { return squeeze(); });
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
  if (core::detail::traced_now()) return core::detail::traced("squeeze", {*this}, {}, [&] { return squeeze(at); });
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
  if (core::detail::traced_now()) return core::detail::traced("unsqueeze", {*this}, {}, [&] { return unsqueeze(at); });
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
  if (core::detail::traced_now())
    return core::detail::traced("transpose", {*this},
                                {{"dim0", raw::wrap_dim(a, dim())}, {"dim1", raw::wrap_dim(b, dim())}},
                                [&] { return transpose(a, b); });
  std::int64_t first = raw::wrap_dim(a, dim()), second = raw::wrap_dim(b, dim());
  return make_view<TransposeBackward>(*this, swapped(*this, first, second), [&](TransposeBackward& node) {
    node.a = first;
    node.b = second;
  });
}

Tensor transposed_in_place(const Tensor& x) {
  if (core::detail::traced_now())
    return core::detail::traced("transpose", {x}, {{"dim0", std::int64_t{0}}, {"dim1", std::int64_t{1}}},
                                [&] { return transposed_in_place(x); });
  return make_view<TransposeInPlaceBackward>(x, swapped(x, 0, 1), [](TransposeInPlaceBackward&) {});
}

Tensor Tensor::t() const {
  if (core::detail::traced_now()) return core::detail::traced("t", {*this}, {}, [&] { return t(); });
  if (dim() > 2) {
    throw Error(ErrorCode::runtime,
                "t() expects a tensor with <= 2 dimensions, but self is " + std::to_string(dim()) + "D");
  }
  return make_view<TBackward>(*this, swapped(*this, 0, dim() == 2 ? 1 : 0), [](TBackward&) {});
}

Tensor Tensor::T() const {
  if (dim() == 0) warn("Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.");
  if (dim() > 2) {
    warn(
        "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw "
        "an error in a future release. Consider `x.mT` to transpose batches of matrices or "
        "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.");
  }
  Shape reversed(static_cast<std::size_t>(dim()), 0);
  for (std::int64_t i = 0; i < dim(); ++i) reversed[static_cast<std::size_t>(i)] = dim() - 1 - i;
  return permute(reversed);
}

Tensor Tensor::mT() const {
  if (dim() < 2) {
    throw Error(ErrorCode::runtime, "tensor.mT is only supported on matrices or batches of matrices. Got " +
                                        std::to_string(dim()) + "-D tensor.");
  }
  return transpose(-2, -1);
}

Tensor Tensor::permute(const Shape& dims) const {
  if (core::detail::traced_now())
    return core::detail::traced("permute", {*this}, {{"dims", dims}}, [&] { return permute(dims); });
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
  if (core::detail::traced_now()) return core::detail::traced("expand", {*this}, {}, [&] { return expand(wanted); });
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

}  // namespace core
