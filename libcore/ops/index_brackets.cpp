// x[...] with everything that Python's brackets take.
#include "libcore/ops/index.h"

#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/index.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/scatter.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

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

namespace {

bool picks(const Viewed& viewed) {
  bool any = false;
  for (const Tensor& p : viewed.positions) any = any || p.defined();
  return any;
}

/// Positions of the picked elements in the viewed tensor, in the result's shape and flat.
struct Positions {
  Tensor at, flat;
  explicit Positions(const Viewed& viewed) {
    const NoGradGuard no_history;
    at = flat_positions(viewed.x, viewed.positions);
    flat = at.reshape({-1});
  }
};

Tensor flat_view(const Tensor& dense) {
  return raw::view(dense, {dense.numel()}, {1}, dense.storage_offset());
}

/// x[positions] = or += values (flat, one each) on memory of its own.
Tensor written(const Tensor& x, const Tensor& flat_at, const Tensor& values, bool accumulate) {
  const Tensor copy = raw::contiguous(raw::clone(x));
  raw::index_into(accumulate ? IndexOp::accumulate : IndexOp::put, flat_view(copy), 0, flat_at, values);
  return copy;
}

struct IndexPutBackward final : Node {
  bool accumulate = false;
  Shape picked;  // sizes of the indexing result
  std::string_view name() const override { return "IndexPutBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor at = saved(0);
    Tensor kept = g[0];
    if (!accumulate && wants(0)) kept = index_fill(g[0].reshape({-1}), 0, at, 0).reshape(g[0].sizes());
    if (!wants(1)) return {kept};
    return {kept, index_select(g[0].reshape({-1}), 0, at).reshape(picked)};
  }
};

/// The values in the shape of the indexing result and the dtype of x.
Tensor fitted(const Tensor& values, const Tensor& x, const Shape& picked) {
  if (values.dtype() != x.dtype() && values.numel() != 1) {
    throw Error(ErrorCode::runtime, std::string("Index put requires the source and destination dtypes match, got ") +
                                        scalar_type_name(x.dtype()) + " for the destination and " +
                                        scalar_type_name(values.dtype()) + " for the source.");
  }
  Tensor given = values.to(x.dtype());
  while (given.dim() > static_cast<std::int64_t>(picked.size()) && given.size(0) == 1) given = given.select(0, 0);
  try {
    return given.expand(picked);
  } catch (const Error&) {
    throw Error(ErrorCode::runtime, "shape mismatch: value tensor of shape " + to_list(values.sizes()) +
                                        " cannot be broadcast to indexing result of shape " + to_list(picked));
  }
}

Tensor put_at(const Tensor& x, const Positions& where, const Tensor& values, bool accumulate) {
  Tensor flat = raw::contiguous(values);
  Tensor out = written(x, where.flat, flat_view(flat), accumulate);
  if (!needs_grad(x, values)) return out;
  auto node = make_node<IndexPutBackward>(x, values);
  node->accumulate = accumulate;
  node->picked = where.at.sizes();
  node->save(where.flat);
  record(out, node);
  return out;
}

}  // namespace

namespace {

Tensor picked(const Viewed& viewed) {
  if (core::detail::traced_now()) {
    std::vector<Tensor> inputs = {viewed.x};
    inputs.insert(inputs.end(), viewed.positions.begin(), viewed.positions.end());
    return core::detail::traced("index", inputs, {}, [&] { return picked(viewed); });
  }
  const Positions where(viewed);
  const Tensor& at = where.at;
  Tensor dense = raw::contiguous(viewed.x);
  Tensor out =
      raw::view(raw::index_select(flat_view(dense), 0, where.flat), at.sizes(), contiguous_strides(at.sizes()), 0);
  if (!needs_grad(viewed.x)) return out;
  auto node = make_node<IndexBackward>(viewed.x);
  node->sizes = viewed.x.sizes();
  node->save(where.flat);
  record(out, node);
  return out;
}

}  // namespace

Tensor index(const Tensor& x, const std::vector<TensorIndex>& items) {
  check_count(x, items);
  Viewed viewed = apply_views(x, items);
  if (!picks(viewed)) return viewed.x.is_same(x) ? viewed.x.as_strided(x.sizes(), x.strides()) : viewed.x;
  return picked(viewed);
}

const Tensor& index_put_(const Tensor& x, const std::vector<TensorIndex>& items, const Tensor& values,
                         bool accumulate) {
  check_count(x, items);
  const Viewed viewed = apply_views(x, items);
  if (!picks(viewed)) {
    Tensor given = values;
    while (given.dim() > viewed.x.dim() && given.size(0) == 1) given = given.select(0, 0);
    given = given.expand(viewed.x.sizes());
    if (accumulate) {
      viewed.x.add_(given);
    } else {
      viewed.x.copy_(given);
    }
    return x;
  }
  const Positions where(viewed);
  const Tensor fit = fitted(values, x, where.at.sizes());
  detail::in_place(viewed.x, needs_grad(viewed.x, values),
                   [&](const Tensor& t) { return put_at(t, where, fit, accumulate); });
  return x;
}

const Tensor& index_put_(const Tensor& x, const std::vector<TensorIndex>& items, Scalar value, bool accumulate) {
  return index_put_(x, items, full({}, value, {.dtype = x.dtype(), .device = x.device()}), accumulate);
}

Tensor index_put(const Tensor& x, const std::vector<TensorIndex>& items, const Tensor& values, bool accumulate) {
  check_count(x, items);
  const Viewed viewed = apply_views(x, items);
  if (picks(viewed) && viewed.x.is_same(x)) {
    const Positions where(viewed);
    return put_at(x, where, fitted(values, x, where.at.sizes()), accumulate);
  }
  return composed("IndexPutBackward0", {x, values}, [=](const TensorList& in) {
    Tensor copy = in[0].clone();
    index_put_(copy, items, in[1], accumulate);
    return copy;
  });
}

}  // namespace core
