// Rarer differentiable picking and writing by index.
#include "libcore/tensor/pick_ops.h"

#include <algorithm>

#include "libcore/autograd/composed.h"
#include "libcore/autograd/function_nodes.h"
#include "libcore/autograd/host_math.h"
#include "libcore/base/error.h"

namespace core {
namespace {

[[noreturn]] void fail(const std::string& text, ErrorCode code = ErrorCode::runtime) {
  throw Error(code, text);
}

Tensor zeros_for(const Tensor& g, const Shape& sizes) {
  return zeros(sizes, {.dtype = g.dtype(), .device = g.device()});
}

struct TakeBackward final : Node {
  Shape sizes;
  std::string_view name() const override { return "TakeBackward0"; }
  TensorList apply(TensorList g) override {
    return {index_add(zeros_for(g[0], {sizes.numel()}), 0, saved(0), g[0].reshape({-1})).reshape(sizes)};
  }
};
struct PutBackward final : Node {
  bool accumulate = false;
  Shape index_sizes;
  std::string_view name() const override { return "PutBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor at = saved(0);
    Tensor kept = g[0];
    if (!accumulate && wants(0)) kept = put(g[0], at, zeros_for(g[0], at.sizes()));
    return {kept, wants(1) ? take(g[0], at).reshape(index_sizes) : Tensor()};
  }
};
/// index_copy and index_fill: what was overwritten gets no gradient.
struct IndexWriteBackward final : Node {
  std::int64_t dim = 0;
  bool fill = false;
  std::string_view name() const override { return fill ? "IndexFillBackward0" : "IndexCopyBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor at = saved(0);
    Tensor kept = wants(0) ? index_fill(g[0], dim, at, 0) : Tensor();
    if (fill) return {kept};
    return {kept, wants(1) ? index_select(g[0], dim, at) : Tensor()};
  }
};
struct MaskedScatterBackward final : Node {
  Shape source_sizes;
  std::string_view name() const override { return "MaskedScatterBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor mask = saved(0);
    TensorList result{wants(0) ? masked_fill(g[0], mask, 0) : Tensor(), Tensor()};
    if (!wants(1)) return result;
    const Tensor used = masked_select(g[0], mask);
    const Tensor unused = zeros_for(g[0], {source_sizes.numel() - used.numel()});
    result[1] = cat({used, unused}).reshape(source_sizes);
    return result;
  }
};
struct ScatterValueBackward final : Node {
  std::int64_t dim = 0;
  std::string_view name() const override { return "ScatterBackward1"; }
  TensorList apply(TensorList g) override { return {scatter(g[0], dim, saved(0), Scalar(0))}; }
};

/// int64 positions from the front. Error(index) with PyTorch's text.
Tensor checked_positions(const Tensor& index, std::int64_t count, const char* what) {
  if (index.dtype() != DType::i64) {
    fail(std::string(what) + "(): Expected a long tensor for index, but got " + scalar_type_name(index.dtype()));
  }
  for (const std::int64_t at : index.to_vector<std::int64_t>()) {
    if (at >= -count && at < count) continue;
    fail("out of range: tried to access index " + std::to_string(at) + " on a tensor of " + std::to_string(count) +
             " elements.",
         ErrorCode::index);
  }
  const NoGradGuard no_history;
  return where(index < 0, index + count, index).reshape({-1});
}

Tensor flat_copy(const Tensor& x) {
  const Tensor dense = raw::contiguous(raw::clone(x));
  return raw::view(dense, {dense.numel()}, {1}, dense.storage_offset());
}

Tensor reshaped(const Tensor& flat, const Shape& sizes) {
  return raw::view(flat, sizes, contiguous_strides(sizes), flat.storage_offset());
}

}  // namespace

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

Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate) {
  const Tensor at = checked_positions(index, x.numel(), "put_");
  if (source.dtype() != x.dtype()) {
    fail(std::string("put_(): self and source expected to have the same dtype, but got self.dtype = ") +
         scalar_type_name(x.dtype()) + " and source.dtype = " + scalar_type_name(source.dtype()));
  }
  if (source.numel() != index.numel()) {
    fail("put_(): Expected source and index to have the same number of elements, but got source.numel() = " +
             std::to_string(source.numel()) + ", index.numel() = " + std::to_string(index.numel()),
         ErrorCode::index);
  }
  const Tensor flat = flat_copy(x);
  raw::index_into(accumulate ? IndexOp::accumulate : IndexOp::put, flat, 0, at, flat_copy(source));
  Tensor out = reshaped(flat, x.sizes());
  if (!needs_grad(x, source)) return out;
  auto node = make_node<PutBackward>(x, source);
  node->accumulate = accumulate;
  node->index_sizes = source.sizes();
  node->save(at);
  record(out, node);
  return out;
}

namespace {

Tensor record_write(Tensor out, const Tensor& x, const Tensor& from, std::int64_t dim, const Tensor& index, bool fill) {
  if (!needs_grad(x, from)) return out;
  auto node = make_node<IndexWriteBackward>(x);
  if (!fill) node->add_edge(from);
  node->dim = raw::wrap_dim(dim, x.dim());
  node->fill = fill;
  node->save(index);
  record(out, node);
  return out;
}

}  // namespace

namespace {

void check_index_copy(const Tensor& x, std::int64_t d, const Tensor& index, const Tensor& from) {
  if (index.dim() > 1) {
    fail("index_copy_(): Index should have dimension 1 or 0 (got " + std::to_string(index.dim()) + ")",
         ErrorCode::index);
  }
  if (index.dtype() != DType::i64) {
    fail(std::string("index_copy_(): Expected a long tensor for index, but got ") + scalar_type_name(index.dtype()));
  }
  if (x.dtype() != from.dtype()) {
    fail(std::string("index_copy_(): self and source expected to have the same dtype, but got (self) ") +
         scalar_type_name(x.dtype()) + " and (source) " + scalar_type_name(from.dtype()));
  }
  const std::int64_t rows = from.dim() == 0 ? 1 : from.size(d), size = x.dim() == 0 ? 1 : x.size(d);
  if (rows != index.numel()) {
    fail("index_copy_(): Number of indices (" + std::to_string(index.numel()) +
             ") should be equal to source.size(dim) (" + std::to_string(rows) + ")",
         ErrorCode::index);
  }
  for (const std::int64_t at : index.to_vector<std::int64_t>()) {
    if (at >= 0 && at < size) continue;
    fail("index_copy_(): index " + std::to_string(at) + " is out of bounds for dimension " + std::to_string(d) +
             " with size " + std::to_string(size),
         ErrorCode::index);
  }
}

}  // namespace

Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from) {
  check_index_copy(x, raw::wrap_dim(dim, x.dim()), index, from);
  Tensor out = raw::clone(x);
  raw::index_into(IndexOp::put, out, dim, index.dim() == 0 ? raw::alias(index).reshape({1}) : index, from);
  return record_write(out, x, from, dim, index, false);
}

Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value) {
  if (index.dim() > 1) fail("Index has to be a vector/scalar");
  const Tensor at = index.dim() == 0 ? raw::alias(index).reshape({1}) : index;
  const std::int64_t d = raw::wrap_dim(dim, x.dim());
  Tensor out = raw::clone(x);
  if (x.dim() == 0) {
    raw::fill_into(out, value);
    return record_write(out, x, {}, dim, at, true);
  }
  for (const std::int64_t position : at.to_vector<std::int64_t>()) {
    if (position >= -x.size(d) && position < x.size(d)) continue;
    fail("index " + std::to_string(position) + " is out of bounds for dimension " + std::to_string(d) + " with size " +
             std::to_string(x.size(d)),
         ErrorCode::index);
  }
  Shape sizes = x.sizes();
  sizes[static_cast<std::size_t>(d)] = at.numel();
  const Tensor wrapped = [&] {
    const NoGradGuard no_history;
    return where(at < 0, at + x.size(d), at);
  }();
  raw::index_into(IndexOp::put, out, d, wrapped, full(sizes, value, {.dtype = x.dtype(), .device = x.device()}));
  return record_write(out, x, {}, dim, wrapped, true);
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  if (mask.dtype() != DType::boolean) {
    fail(std::string("masked_scatter_ only supports boolean masks, but got mask with dtype ") +
         scalar_type_name(mask.dtype()));
  }
  if (x.dtype() != source.dtype()) {
    fail(std::string("masked_scatter: expected self and source to have same dtypes but got") +
         scalar_type_name(x.dtype()) + " and " + scalar_type_name(source.dtype()));
  }
  const Shape sizes = broadcast_shapes(x.sizes(), mask.sizes());
  const Tensor wide_mask = raw::alias(mask).expand(sizes).contiguous();
  const Tensor flat = flat_copy(raw::alias(x).expand(sizes));
  const Tensor at = nonzero(wide_mask.reshape({-1})).reshape({-1});
  if (at.numel() > source.numel()) {
    fail("Number of elements of source < number of ones in mask");
  }
  raw::index_into(IndexOp::put, flat, 0, at, flat_copy(source).narrow(0, 0, at.numel()));
  Tensor out = reshaped(flat, sizes);
  if (!needs_grad(x, source)) return out;
  auto node = make_node<MaskedScatterBackward>(x, source);
  node->source_sizes = source.sizes();
  node->save(wide_mask);
  record(out, node);
  return out;
}

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value) {
  Tensor out = raw::clone(x);
  raw::scatter_into(IndexOp::put, out, dim, index,
                    full(index.sizes(), value, {.dtype = x.dtype(), .device = x.device()}));
  if (!needs_grad(x)) return out;
  auto node = make_node<ScatterValueBackward>(x);
  node->dim = raw::wrap_dim(dim, x.dim());
  node->save(index);
  record(out, node);
  return out;
}

Tensor select_scatter(const Tensor& x, const Tensor& part, std::int64_t dim, std::int64_t index) {
  return composed("SelectScatterBackward0", {x, part}, [=](const TensorList& in) {
    Tensor copy = in[0].clone();
    const Tensor slot = copy.select(dim, index);
    if (slot.sizes() != in[1].sizes()) {
      fail("expected src to have a size equal to the slice of self. src size = " + to_list(in[1].sizes()) +
           ", slice size = " + to_list(slot.sizes()));
    }
    slot.copy_(in[1]);
    return copy;
  });
}

Tensor slice_scatter(const Tensor& x, const Tensor& part, const SliceScatterOptions& o) {
  return composed("SliceScatterBackward0", {x, part}, [o](const TensorList& in) {
    Tensor copy = in[0].clone();
    const Tensor slot = copy.slice(o.dim, o.start, o.end, o.step);
    if (slot.sizes() != in[1].sizes()) {
      fail("expected src to have a size equal to the slice of self. src size = " + to_list(in[1].sizes()) +
           ", slice size = " + to_list(slot.sizes()));
    }
    slot.copy_(in[1]);
    return copy;
  });
}

Tensor diagonal_scatter(const Tensor& x, const Tensor& part, std::int64_t offset, std::int64_t dim1,
                        std::int64_t dim2) {
  return composed("DiagonalScatterBackward0", {x, part}, [=](const TensorList& in) {
    Tensor copy = in[0].clone();
    const Tensor slot = copy.diagonal(offset, dim1, dim2);
    if (slot.sizes() != in[1].sizes()) {
      fail("expected src to have a size equal to the slice of self. src size = " + to_list(in[1].sizes()) +
           ", slice size = " + to_list(slot.sizes()));
    }
    slot.copy_(in[1]);
    return copy;
  });
}

Tensor argwhere(const Tensor& x) {
  return nonzero(x);
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<std::int64_t> dim) {
  if (!dim) return repeat_interleave(x.flatten(), repeats, 0);
  if (repeats.dtype() != DType::i64 && repeats.dtype() != DType::i32) {
    throw Error(ErrorCode::not_implemented, std::string("\"repeat_interleave_cpu\" not implemented for '") +
                                                scalar_type_name(repeats.dtype()) + "'");
  }
  const std::int64_t d = raw::wrap_dim(*dim, x.dim());
  const std::int64_t size = x.dim() == 0 ? 1 : x.size(d);
  std::vector<std::int64_t> counts = repeats.to_vector<std::int64_t>();
  if (repeats.dim() == 0 || (repeats.dim() == 1 && repeats.numel() == 1)) {
    counts.assign(static_cast<std::size_t>(size), counts[0]);
  } else if (repeats.dim() != 1) {
    fail("repeats must be 0-dim or 1-dim tensor");
  }
  if (static_cast<std::int64_t>(counts.size()) != size) {
    fail("repeats must have the same size as input along dim, but got repeats.size(0) = " +
         std::to_string(counts.size()) + " and input.size(" + std::to_string(*dim) + ") = " + std::to_string(size));
  }
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0) fail("repeats can not be negative");
    positions.insert(positions.end(), static_cast<std::size_t>(counts[i]), static_cast<std::int64_t>(i));
  }
  const Tensor index = from_values(positions, {.device = x.device()});
  return index_select(x.dim() == 0 ? x.reshape({1}) : x, d, index);
}

Tensor isin(const Tensor& x, const Tensor& values, bool invert) {
  detail::check_host_dtype(x, "isin_default_cpu");
  detail::check_host_dtype(values, "isin_default_cpu");
  const DType common = result_type(x, values);
  const bool floats = is_floating(common);
  std::vector<bool> found;
  const auto search = [&](auto wanted, auto known) {
    std::sort(known.begin(), known.end());
    for (const auto v : wanted) found.push_back(std::binary_search(known.begin(), known.end(), v) != invert);
  };
  if (floats) {
    std::vector<double> known = values.to_vector<double>();
    std::erase_if(known, [](double v) { return v != v; });
    std::vector<double> wanted = x.to_vector<double>();
    std::vector<bool> missing;
    for (const double v : wanted) missing.push_back(v != v);
    search(wanted, known);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (missing[i]) found[i] = invert;
    }
  } else {
    search(x.to_vector<std::int64_t>(), values.to_vector<std::int64_t>());
  }
  const Tensor out = empty(x.sizes(), {.dtype = DType::boolean, .device = Device()});
  for (std::size_t i = 0; i < found.size(); ++i) out.mutable_data<bool>()[i] = found[i];
  return out.to(x.device());
}

}  // namespace core
