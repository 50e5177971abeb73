// Differentiable joining, picking and rearranging.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "libcore/autograd/function_nodes.h"
#include "libcore/autograd/internal_ops.h"
#include "libcore/base/error.h"

namespace core {
namespace {

Tensor zeros_for(const Tensor& g, const Shape& sizes) {
  return zeros(sizes, {.dtype = g.dtype(), .device = g.device()});
}

struct CatBackward final : Node {
  std::int64_t dim = 0;
  std::vector<Shape> sizes;
  std::string_view name() const override { return "CatBackward0"; }
  TensorList apply(TensorList g) override {
    TensorList parts;
    std::int64_t at = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i].size() == 1 && sizes[i][0] == 0) {
        parts.push_back(zeros_for(g[0], sizes[i]));
        continue;
      }
      std::int64_t length = sizes[i][static_cast<std::size_t>(dim)];
      parts.push_back(wants(i) ? g[0].narrow(dim, at, length) : Tensor());
      at += length;
    }
    return parts;
  }
};
struct StackBackward final : Node {
  std::int64_t dim = 0;
  std::string_view name() const override { return "StackBackward0"; }
  TensorList apply(TensorList g) override {
    TensorList parts;
    for (const Tensor& part : g[0].unbind(dim)) parts.push_back(part);
    return parts;
  }
};
/// Nodes of operations along one dimension with an index.
struct IndexNode : Node {
  std::int64_t dim = 0;
  Shape sizes;
};
struct IndexSelectBackward final : IndexNode {
  std::string_view name() const override { return "IndexSelectBackward0"; }
  TensorList apply(TensorList g) override { return {index_add(zeros_for(g[0], sizes), dim, saved(0), g[0])}; }
};
struct GatherBackward final : IndexNode {
  std::string_view name() const override { return "GatherBackward0"; }
  TensorList apply(TensorList g) override { return {scatter_add(zeros_for(g[0], sizes), dim, saved(0), g[0])}; }
};
struct ScatterBackward final : IndexNode {
  std::string_view name() const override { return "ScatterBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor index = saved(0);
    Tensor kept = wants(0) ? scatter(g[0], dim, index, zeros_for(g[0], index.sizes())) : Tensor();
    return {kept, wants(1) ? gather(g[0], dim, index) : Tensor()};
  }
};
struct ScatterAddBackward final : IndexNode {
  std::string_view name() const override { return "ScatterAddBackward0"; }
  TensorList apply(TensorList g) override { return {g[0], wants(1) ? gather(g[0], dim, saved(0)) : Tensor()}; }
};
struct IndexAddBackward final : IndexNode {
  std::string_view name() const override { return "IndexAddBackward0"; }
  TensorList apply(TensorList g) override { return {g[0], wants(1) ? index_select(g[0], dim, saved(0)) : Tensor()}; }
};
struct MaskedSelectBackward final : IndexNode {
  std::string_view name() const override { return "MaskedSelectBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor flat = index_add(zeros_for(g[0], {sizes.numel()}), 0, saved(0), g[0]);
    return {flat.reshape(sizes)};
  }
};
struct RepeatBackward final : Node {
  Shape times, sizes;
  std::string_view name() const override { return "RepeatBackward0"; }
  TensorList apply(TensorList g) override {
    // (t0, t1 * n1, ...) as (t0, 1, t1, n1, ...), then the repetitions are summed.
    Shape split, dims;
    std::size_t lead = times.size() - sizes.size();
    for (std::size_t i = 0; i < times.size(); ++i) {
      dims.push_back(static_cast<std::int64_t>(split.size()));
      split.push_back(times[i]);
      if (i >= lead) split.push_back(sizes[i - lead]);
    }
    return {sum(g[0].reshape(split), {.dims = dims})};
  }
};
struct FlipBackward final : Node {
  Shape dims;
  std::string_view name() const override { return "FlipBackward0"; }
  TensorList apply(TensorList g) override { return {flip(g[0], dims)}; }
};
struct RollBackward final : Node {
  Shape shifts, dims;
  std::string_view name() const override { return "RollBackward0"; }
  TensorList apply(TensorList g) override { return {roll(g[0], shifts, dims)}; }
};
template <bool kLower>
struct TriangleBackward final : Node {
  std::int64_t diagonal = 0;
  std::string_view name() const override { return kLower ? "TrilBackward0" : "TriuBackward0"; }
  TensorList apply(TensorList g) override { return {kLower ? tril(g[0], diagonal) : triu(g[0], diagonal)}; }
};
struct PadBackward final : Node {
  Shape pads;
  std::string_view name() const override { return "ConstantPadNdBackward0"; }
  TensorList apply(TensorList g) override {
    Shape cut;
    for (std::int64_t pad : pads) cut.push_back(-pad);
    return {pad_constant(g[0], cut)};
  }
};

bool any_needs_grad(const std::vector<Tensor>& parts) {
  const bool any =
      std::any_of(parts.begin(), parts.end(), [](const Tensor& t) { return t.defined() && t.requires_grad(); });
  return any && is_grad_enabled();
}

template <class N>
IntrusivePtr<N> index_node(const Tensor& x, const Tensor& from, std::int64_t dim, const Tensor& index) {
  auto node = make_intrusive<N>();
  node->add_edge(x);
  if (from.defined()) node->add_edge(from);
  node->dim = raw::wrap_dim(dim, x.dim());
  node->sizes = x.sizes();
  node->save(index);
  return node;
}

}  // namespace

Tensor cat(const std::vector<Tensor>& parts, std::int64_t dim) {
  Tensor out = raw::cat(parts, dim);
  if (!any_needs_grad(parts)) return out;
  auto node = make_intrusive<CatBackward>();
  for (const Tensor& part : parts) {
    node->add_edge(part);
    node->sizes.push_back(part.sizes());
  }
  node->dim = raw::wrap_dim(dim, out.dim());
  record(out, node);
  return out;
}

namespace {

void check_equal_sizes(const std::vector<Tensor>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].sizes() == parts[0].sizes()) continue;
    throw Error(ErrorCode::runtime, "stack expects each tensor to be equal size, but got " + to_list(parts[0].sizes()) +
                                        " at entry 0 and " + to_list(parts[i].sizes()) + " at entry " +
                                        std::to_string(i));
  }
}

/// One part behind the other, as plain bytes: the batches of a data loader. Undefined when that is not all there is to
/// it.
Tensor stacked_bytes(const std::vector<Tensor>& parts) {
  constexpr std::size_t kMostBytes = 1 << 15;  // of a part; larger ones are copied by several threads
  Backend& backend = raw::backend_of(parts[0]);
  const DType dtype = parts[0].dtype();
  const bool has_bytes = backend.is_host_memory() && backend.has_memory() && bit_width(dtype) % 8 == 0;
  const std::int64_t width = bit_width(dtype) / 8;
  const auto bytes = static_cast<std::size_t>(parts[0].numel() * width);
  if (!has_bytes || bytes > kMostBytes) return {};
  for (const Tensor& part : parts) {
    if (part.dtype() != dtype || !part.is_contiguous() || &raw::backend_of(part) != &backend) return {};
  }
  Shape sizes{static_cast<std::int64_t>(parts.size())};
  for (std::int64_t size : parts[0].sizes()) sizes.push_back(size);
  Tensor out = raw::make(sizes, dtype, backend);
  auto* to = static_cast<std::byte*>(const_cast<void*>(out.raw_data()));
  for (const Tensor& part : parts) {
    const TensorImpl& impl = *part.impl();
    const auto* from = static_cast<const std::byte*>(impl.storage.data());
    if (bytes != 0) std::memcpy(to, from + impl.offset * width, bytes);
    to += bytes;
  }
  return out;
}

/// Any parts along any dimension.
Tensor stacked_views(const std::vector<Tensor>& parts, std::int64_t dim) {
  std::vector<Tensor> wide;
  for (const Tensor& part : parts) {
    Shape sizes = part.sizes(), strides = part.strides();
    sizes.insert(static_cast<std::size_t>(dim), 1);
    strides.insert(static_cast<std::size_t>(dim), 1);
    wide.push_back(raw::view(part, sizes, strides, part.storage_offset()));
  }
  return raw::cat(wide, dim);
}

}  // namespace

Tensor stack(const std::vector<Tensor>& parts, std::int64_t dim) {
  if (parts.empty()) throw Error(ErrorCode::runtime, "stack expects a non-empty TensorList");
  std::int64_t d = raw::wrap_dim(dim, parts[0].dim() + 1);
  check_equal_sizes(parts);
  Tensor out = d == 0 ? stacked_bytes(parts) : Tensor();
  if (!out.defined()) out = stacked_views(parts, d);
  if (!any_needs_grad(parts)) return out;
  auto node = make_intrusive<StackBackward>();
  for (const Tensor& part : parts) node->add_edge(part);
  node->dim = d;
  record(out, node);
  return out;
}

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  Tensor out = raw::index_select(x, dim, index);
  if (needs_grad(x)) record(out, index_node<IndexSelectBackward>(x, {}, dim, index));
  return out;
}

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) {
  Tensor out = raw::gather(x, dim, index);
  if (needs_grad(x)) record(out, index_node<GatherBackward>(x, {}, dim, index));
  return out;
}

void detail::check_scatter_dtype(const Tensor& x, const Tensor& from) {
  if (x.dtype() == from.dtype()) return;
  throw Error(ErrorCode::runtime, "scatter(): Expected self.dtype to be equal to src.dtype");
}
void detail::check_index_add_dtype(const Tensor& x, const Tensor& from) {
  if (x.dtype() == from.dtype()) return;
  throw Error(ErrorCode::runtime, std::string("index_add_(): self (") + scalar_type_name(x.dtype()) + ") and source (" +
                                      scalar_type_name(from.dtype()) + ") must have the same scalar type");
}

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from) {
  detail::check_scatter_dtype(x, from);
  Tensor out = raw::clone(x);
  raw::scatter_into(IndexOp::put, out, dim, index, from);
  if (needs_grad(x, from)) record(out, index_node<ScatterBackward>(x, from, dim, index));
  return out;
}

Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from) {
  detail::check_scatter_dtype(x, from);
  Tensor out = raw::clone(x);
  raw::scatter_into(IndexOp::accumulate, out, dim, index, from);
  if (needs_grad(x, from)) record(out, index_node<ScatterAddBackward>(x, from, dim, index));
  return out;
}

Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from) {
  detail::check_index_add_dtype(x, from);
  Tensor out = raw::clone(x);
  raw::index_into(IndexOp::accumulate, out, dim, index, from);
  if (needs_grad(x, from)) record(out, index_node<IndexAddBackward>(x, from, dim, index));
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

Tensor repeat(const Tensor& x, const Shape& times) {
  if (static_cast<std::int64_t>(times.size()) < x.dim()) {
    throw Error(ErrorCode::runtime,
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  }
  Shape split, split_strides, sizes;
  std::size_t lead = times.size() - x.sizes().size();
  for (std::size_t i = 0; i < times.size(); ++i) {
    std::int64_t own = i < lead ? 1 : x.sizes()[i - lead];
    split.push_back(times[i]);
    split.push_back(own);
    split_strides.push_back(0);
    split_strides.push_back(i < lead ? 0 : x.strides()[i - lead]);
    sizes.push_back(times[i] * own);
  }
  Tensor dense = raw::make(split, x.dtype(), raw::backend_of(x));
  raw::copy_into(dense, raw::view(x, split, split_strides, x.storage_offset()));
  Tensor out = raw::view(dense, sizes, contiguous_strides(sizes), 0);
  if (!needs_grad(x)) return out;
  auto node = make_node<RepeatBackward>(x);
  node->times = times;
  node->sizes = x.sizes();
  record(out, node);
  return out;
}

Tensor flip(const Tensor& x, const Shape& dims) {
  auto flipped = raw::reduced_dims(dims, x.dim());
  Tensor out = raw::alias(x);
  for (std::size_t d = 0; d < x.sizes().size() && !dims.empty(); ++d) {
    if (!flipped[d]) continue;
    Tensor backwards = arange(x.sizes()[d] - 1, -1, -1, {.device = x.device()});
    if (x.sizes()[d] > 0) out = raw::index_select(out, static_cast<std::int64_t>(d), backwards);
  }
  out = raw::clone(out);
  if (!needs_grad(x)) return out;
  auto node = make_node<FlipBackward>(x);
  node->dims = dims;
  record(out, node);
  return out;
}

namespace {

/// One dimension: the last `shift` elements come first.
Tensor rolled(const Tensor& x, std::int64_t shift, std::int64_t dim) {
  std::int64_t n = x.size(dim);
  if (n == 0) return x;
  std::int64_t by = ((shift % n) + n) % n;
  Tensor parts[] = {x.slice(dim, n - by), x.slice(dim, 0, n - by)};
  return raw::cat(parts, dim);
}

}  // namespace

Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims) {
  bool flat = dims.empty() && shifts.size() == 1;
  if (!flat && shifts.size() != dims.size()) {
    throw Error(ErrorCode::runtime, "shifts and dimensions must align. shifts: " + std::to_string(shifts.size()) +
                                        ", dims:" + std::to_string(dims.size()));
  }
  Tensor out = raw::alias(x);
  if (flat) out = rolled(out.reshape({-1}), shifts[0], 0).view(x.sizes());
  for (std::size_t i = 0; i < dims.size(); ++i) out = rolled(out, shifts[i], raw::wrap_dim(dims[i], x.dim()));
  if (!needs_grad(x)) return out;
  auto node = make_node<RollBackward>(x);
  node->dims = dims;
  for (std::int64_t shift : shifts) node->shifts.push_back(-shift);
  record(out, node);
  return out;
}

namespace {

template <bool kLower>
Tensor triangle(const Tensor& x, std::int64_t diagonal) {
  if (x.dim() < 2) {
    throw Error(ErrorCode::runtime,
                std::string(kLower ? "tril" : "triu") + ": input tensor must have at least 2 dimensions");
  }
  Tensor rows = arange(x.size(-2), {.device = x.device()}).unsqueeze(1);
  Tensor columns = arange(x.size(-1), {.device = x.device()});
  Tensor distance = raw::binary(BinaryOp::sub, columns, rows);
  Tensor keep = kLower ? distance <= diagonal : distance >= diagonal;
  Tensor zero = zeros({}, {.dtype = x.dtype(), .device = x.device()});
  Tensor out = raw::where(keep, x, zero);
  if (!needs_grad(x)) return out;
  auto node = make_node<TriangleBackward<kLower>>(x);
  node->diagonal = diagonal;
  record(out, node);
  return out;
}

}  // namespace

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  return triangle<true>(x, diagonal);
}
Tensor triu(const Tensor& x, std::int64_t diagonal) {
  return triangle<false>(x, diagonal);
}

Tensor pad_constant(const Tensor& x, const Shape& pads, Scalar value) {
  if (pads.size() % 2 != 0)
    throw Error(ErrorCode::runtime, "Length of pad must be even but instead it equals " + std::to_string(pads.size()));
  Shape sizes = x.sizes();
  Tensor inner = raw::alias(x);
  std::size_t rank = sizes.size();
  for (std::size_t i = 0; i < pads.size() / 2; ++i) {
    std::size_t d = rank - 1 - i;
    std::int64_t before = pads[2 * i], after = pads[2 * i + 1];
    sizes[d] += before + after;
    inner = inner.slice(static_cast<std::int64_t>(d), std::max<std::int64_t>(0, -before),
                        x.sizes()[d] - std::max<std::int64_t>(0, -after));
  }
  Tensor out = full(sizes, value, {.dtype = x.dtype(), .device = x.device()});
  Tensor target = raw::alias(out);
  for (std::size_t i = 0; i < pads.size() / 2; ++i) {
    std::size_t d = rank - 1 - i;
    std::int64_t before = std::max<std::int64_t>(0, pads[2 * i]);
    target = target.narrow(static_cast<std::int64_t>(d), before, inner.sizes()[d]);
  }
  raw::copy_into(target, inner);
  if (!needs_grad(x)) return out;
  auto node = make_node<PadBackward>(x);
  node->pads = pads;
  record(out, node);
  return out;
}

}  // namespace core
