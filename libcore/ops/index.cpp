#include "libcore/ops/index.h"

#include <optional>
#include <string>
#include <string_view>

#include "libcore/autograd/node.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/base/fail.h"
#include "libcore/ops/detail/index_nodes.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/index.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/scatter.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/python_tuple.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using core::detail::checked_positions;
using core::detail::fail;
using core::detail::index_node;
using core::detail::IndexNode;
using core::detail::reshaped;
using core::detail::zeros_for;

struct IndexSelectBackward final : IndexNode {
  std::string_view name() const override { return "IndexSelectBackward0"; }
  TensorList apply(TensorList g) override { return {index_add(zeros_for(g[0], sizes), dim, saved(0), g[0])}; }
};
struct GatherBackward final : IndexNode {
  std::string_view name() const override { return "GatherBackward0"; }
  TensorList apply(TensorList g) override { return {scatter_add(zeros_for(g[0], sizes), dim, saved(0), g[0])}; }
};

struct MaskedSelectBackward final : IndexNode {
  std::string_view name() const override { return "MaskedSelectBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor flat = index_add(zeros_for(g[0], {sizes.numel()}), 0, saved(0), g[0]);
    return {flat.reshape(sizes)};
  }
};

struct TakeBackward final : Node {
  Shape sizes;
  std::string_view name() const override { return "TakeBackward0"; }
  TensorList apply(TensorList g) override {
    return {index_add(zeros_for(g[0], {sizes.numel()}), 0, saved(0), g[0].reshape({-1})).reshape(sizes)};
  }
};

}  // namespace

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  if (core::detail::traced_now())
    return core::detail::traced("index_select", {x, index}, {{"dim", dim}},
                                [&] { return index_select(x, dim, index); });
  Tensor out = raw::index_select(x, dim, index);
  if (needs_grad(x)) record(out, index_node<IndexSelectBackward>(x, {}, dim, index));
  return out;
}

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) {
  if (core::detail::traced_now())
    return core::detail::traced("gather", {x, index}, {{"dim", dim}}, [&] { return gather(x, dim, index); });
  Tensor out = raw::gather(x, dim, index);
  if (needs_grad(x)) record(out, index_node<GatherBackward>(x, {}, dim, index));
  return out;
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  Shape sizes = broadcast_shapes(x.sizes(), mask.sizes());
  Tensor wide = x.expand(sizes);
  Tensor flat = raw::contiguous(wide);
  flat = raw::view(flat, {flat.numel()}, {1}, flat.storage_offset());
  Tensor flags = raw::contiguous(raw::alias(mask).expand(sizes));
  Tensor positions = nonzero(raw::view(flags, {flags.numel()}, {1}, flags.storage_offset()));
  positions = raw::view(positions, {positions.numel()}, {1}, 0);
  Tensor out = raw::index_select(flat, 0, positions);
  if (needs_grad(wide)) record(out, index_node<MaskedSelectBackward>(wide, {}, 0, positions));
  return out;
}

Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<std::int64_t> dim) {
  if (index.dtype() != DType::i64) {
    fail(std::string("torch.take_along_dim(): dtype of indices should be Long but got ") +
         scalar_type_name(index.dtype()));
  }
  if (!dim) return gather(x.reshape({-1}), 0, index.reshape({-1}));
  if (x.dim() != index.dim()) {
    fail("torch.take_along_dim(): input and indices should have the same number of dimensions, but got " +
         std::to_string(x.dim()) + " dimensions for input, and " + std::to_string(index.dim()) +
         " dimensions for indices");
  }
  const auto d = static_cast<std::size_t>(raw::wrap_dim(*dim, x.dim()));
  Shape of_index = index.sizes(), of_x = x.sizes();
  of_index[d] = x.sizes()[d];
  const Shape wide = broadcast_shapes(x.sizes(), of_index);
  of_x = wide;
  of_index = wide;
  of_index[d] = index.sizes()[d];
  return gather(x.expand(of_x), *dim, index.expand(of_index).contiguous());
}

Tensor take(const Tensor& x, const Tensor& index) {
  if (core::detail::traced_now()) return core::detail::traced("take", {x, index}, {}, [&] { return take(x, index); });
  const Tensor at = checked_positions(index, x.numel(), "take");
  const Tensor dense = raw::contiguous(x);
  const Tensor flat = raw::view(dense, {dense.numel()}, {1}, dense.storage_offset());
  Tensor out = reshaped(raw::index_select(flat, 0, at), index.sizes());
  if (!needs_grad(x)) return out;
  auto node = make_node<TakeBackward>(x);
  node->sizes = x.sizes();
  node->save(at);
  record(out, node);
  return out;
}

Tensor nonzero_static(const Tensor& x, std::int64_t size, std::int64_t fill_value) {
  if (size < 0) throw Error(ErrorCode::runtime, "nonzero_static: 'size' must be an non-negative integer");
  const Tensor found = nonzero(x);
  const Tensor out = full({size, x.dim()}, fill_value, {.dtype = DType::i64, .device = x.device()});
  const std::int64_t count = std::min(size, found.size(0));
  out.narrow(0, 0, count).copy_(found.narrow(0, 0, count));
  return out;
}
Tensor argwhere(const Tensor& x) {
  return nonzero(x);
}

Tensor nonzero(const Tensor& x) {
  return raw::nonzero(x);
}

std::vector<Tensor> unravel_index(const Tensor& indices, const Shape& sizes) {
  if (is_inexact(indices.dtype()) || indices.dtype() == DType::boolean) {
    fail("expected 'indices' to be integer dtype, but got torch." + std::string(name(indices.dtype())),
         ErrorCode::type);
  }
  for (const std::int64_t size : sizes) {
    if (size < 0)
      fail("'shape' cannot have negative values, but got " + core::detail::python_tuple(sizes.to_vector()),
           ErrorCode::value);
  }
  if (sizes.numel() == 0 && indices.numel() > 0) {
    fail("'shape' cannot have zero dimensions when 'indices' is non-empty, but got " +
             core::detail::python_tuple(sizes.to_vector()),
         ErrorCode::value);
  }
  Tensor rest = indices.to(DType::i64);
  std::vector<Tensor> result(sizes.size());
  if (rest.numel() == 0) {  // sizes of 0 cannot divide
    for (Tensor& coordinate : result) coordinate = rest.clone();
    return result;
  }
  for (std::size_t d = sizes.size(); d-- > 0;) {
    const Tensor size = full({}, sizes[d], {.dtype = DType::i64, .device = indices.device()});
    result[d] = remainder(rest, size);
    rest = floor_divide(rest, size);
  }
  return result;
}

}  // namespace core
