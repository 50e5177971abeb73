// x[...] with everything that Python's brackets take.
#include "libcore/tensor/indexing.h"

#include <string>

#include "libcore/autograd/function_nodes.h"
#include "libcore/base/error.h"

namespace core {
namespace {

/// Gradients of picked elements are added where they came from.
struct IndexBackward final : Node {
  Shape sizes;  // of the input
  std::string_view name() const override { return "IndexBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor flat = zeros({sizes.numel()}, {.dtype = g[0].dtype(), .device = g[0].device()});
    return {index_add(flat, 0, saved(0), g[0].reshape({-1})).reshape(sizes)};
  }
};

std::int64_t dims_used(const TensorIndex& index) {
  const auto& item = index.item();
  if (std::holds_alternative<Ellipsis>(item) || std::holds_alternative<NewAxis>(item)) return 0;
  const auto* tensor = std::get_if<Tensor>(&item);
  return tensor != nullptr && tensor->dtype() == DType::boolean ? tensor->dim() : 1;
}

void check_count(const Tensor& x, const std::vector<TensorIndex>& items) {
  std::int64_t used = 0;
  for (const auto& item : items) used += dims_used(item);
  if (x.dim() == 0 && used == 1 && std::holds_alternative<std::int64_t>(items[0].item())) {
    throw Error(
        ErrorCode::index,
        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a "
        "0-dim tensor to a number");
  }
  if (used > x.dim()) {
    throw Error(ErrorCode::index, "too many indices for tensor of dimension " + std::to_string(x.dim()));
  }
}

/// The views first: what is left are tensors at dimensions of the result (undefined: all of it).
struct Viewed {
  Tensor x;
  std::vector<Tensor> positions;  // one per dimension of x
};

Tensor select_checked(const Tensor& x, std::int64_t dim, std::int64_t at, std::int64_t source_dim) {
  std::int64_t size = x.size(dim);
  if (at < -size || at >= size) {
    throw Error(ErrorCode::index, "index " + std::to_string(at) + " is out of bounds for dimension " +
                                      std::to_string(source_dim) + " with size " + std::to_string(size));
  }
  return x.select(dim, at);
}

/// A mask stands for the positions of its true elements, one tensor a dimension.
void add_mask(const Tensor& mask, Viewed& viewed, std::int64_t dim) {
  for (std::int64_t i = 0; i < mask.dim(); ++i) {
    if (mask.size(i) == viewed.x.size(dim + i)) continue;
    throw Error(ErrorCode::index, "The shape of the mask " + to_list(mask.sizes()) + " at index " + std::to_string(i) +
                                      " does not match the shape of the indexed tensor " + to_list(viewed.x.sizes()) +
                                      " at index " + std::to_string(dim + i));
  }
  Tensor found = nonzero(mask);
  for (std::int64_t i = 0; i < mask.dim(); ++i) viewed.positions.push_back(found.select(1, i));
}

void add_tensor(const Tensor& positions, Viewed& viewed, std::int64_t dim) {
  DType dtype = positions.dtype();
  if (dtype == DType::boolean) return add_mask(positions, viewed, dim);
  if (dtype != DType::i64 && dtype != DType::i32 && dtype != DType::u8) {
    throw Error(ErrorCode::index, "tensors used as indices must be long, int, byte or bool tensors");
  }
  viewed.positions.push_back(raw::cast(positions, DType::i64));
}

Viewed apply_views(const Tensor& x, const std::vector<TensorIndex>& items) {
  std::int64_t used = 0, source_dim = 0;
  for (const auto& item : items) used += dims_used(item);
  Viewed viewed{x, {}};
  for (const auto& index : items) {
    const auto& item = index.item();
    auto dim = static_cast<std::int64_t>(viewed.positions.size());
    if (const auto* at = std::get_if<std::int64_t>(&item)) {
      viewed.x = select_checked(viewed.x, dim, *at, source_dim);
    } else if (const auto* slice = std::get_if<Slice>(&item)) {
      bool whole = !slice->start && !slice->stop && slice->step == 1;
      if (!whole) viewed.x = viewed.x.slice(dim, slice->start, slice->stop, slice->step);
      viewed.positions.emplace_back();
    } else if (std::holds_alternative<Ellipsis>(item)) {
      viewed.positions.resize(viewed.positions.size() + static_cast<std::size_t>(x.dim() - used));
      source_dim += x.dim() - used;
    } else if (std::holds_alternative<NewAxis>(item)) {
      viewed.x = viewed.x.unsqueeze(dim);
      viewed.positions.emplace_back();
    } else {
      add_tensor(std::get<Tensor>(item), viewed, dim);
    }
    source_dim += dims_used(index);
  }
  viewed.positions.resize(static_cast<std::size_t>(viewed.x.dim()));
  return viewed;
}

void check_bounds(const Tensor& positions, std::int64_t dim, std::int64_t size) {
  for (std::int64_t at : positions.to_vector<std::int64_t>()) {
    if (at >= -size && at < size) continue;
    throw Error(ErrorCode::index, "index " + std::to_string(at) + " is out of bounds for dimension " +
                                      std::to_string(dim) + " with size " + std::to_string(size));
  }
}

Shape common_shape(const std::vector<Tensor>& positions) {
  Shape common;
  std::string shapes;
  for (const Tensor& p : positions) {
    if (p.defined()) shapes += (shapes.empty() ? "" : ", ") + to_list(p.sizes());
  }
  try {
    for (const Tensor& p : positions) {
      if (p.defined()) common = broadcast_shapes(common, p.sizes());
    }
  } catch (const Error&) {
    throw Error(ErrorCode::index,
                "shape mismatch: indexing tensors could not be broadcast together with shapes " + shapes);
  }
  return common;
}

/// Indexed dimensions that stand together stay in their place; apart, they come first.
bool stand_together(const std::vector<Tensor>& positions, std::size_t first) {
  bool ended = false;
  for (std::size_t d = first; d < positions.size(); ++d) {
    if (!positions[d].defined()) ended = true;
    if (positions[d].defined() && ended) return false;
  }
  return true;
}

/// Row-major position in x of every element of the result.
Tensor flat_positions(const Tensor& x, const std::vector<Tensor>& positions) {
  Shape common = common_shape(positions);
  std::size_t first = 0;
  while (!positions[first].defined()) ++first;
  bool in_place = stand_together(positions, first);
  std::size_t before = in_place ? first : 0;  // free dimensions in front of the indexed ones
  std::size_t free_dims = 0;
  for (const Tensor& p : positions) free_dims += p.defined() ? 0 : 1;
  const std::size_t rank = common.size() + free_dims;
  Tensor total = zeros(Shape(rank, 1), {.dtype = DType::i64, .device = x.device()});
  Shape steps = contiguous_strides(x.sizes());
  std::size_t next_free = 0;
  for (std::size_t d = 0; d < positions.size(); ++d) {
    std::int64_t size = x.sizes()[d];
    Shape sizes(rank, 1);
    Tensor part;
    if (positions[d].defined()) {
      check_bounds(positions[d], static_cast<std::int64_t>(d) - static_cast<std::int64_t>(first), size);
      Tensor p = where(positions[d] < 0, positions[d] + size, positions[d]);
      for (std::size_t k = 0; k < p.sizes().size(); ++k) {
        sizes[before + common.size() - p.sizes().size() + k] = p.sizes()[k];
      }
      part = p.reshape(sizes);
    } else {
      sizes[next_free < before ? next_free : next_free + common.size()] = size;
      ++next_free;
      part = arange(size, {.device = x.device()}).reshape(sizes);
    }
    total = total + part * steps[d];
  }
  return total;
}

}  // namespace

Tensor index(const Tensor& x, const std::vector<TensorIndex>& items) {
  check_count(x, items);
  Viewed viewed = apply_views(x, items);
  bool picks = false;
  for (const Tensor& p : viewed.positions) picks = picks || p.defined();
  if (!picks) return viewed.x.is_same(x) ? viewed.x.as_strided(x.sizes(), x.strides()) : viewed.x;
  Tensor at;
  Tensor flat_at;
  {
    NoGradGuard no_history;
    at = flat_positions(viewed.x, viewed.positions);
    flat_at = at.reshape({-1});
  }
  Tensor dense = raw::contiguous(viewed.x);
  Tensor flat = raw::view(dense, {dense.numel()}, {1}, dense.storage_offset());
  Tensor out = raw::view(raw::index_select(flat, 0, flat_at), at.sizes(), contiguous_strides(at.sizes()), 0);
  if (!needs_grad(viewed.x)) return out;
  auto node = make_node<IndexBackward>(viewed.x);
  node->sizes = viewed.x.sizes();
  node->save(flat_at);
  record(out, node);
  return out;
}

}  // namespace core
