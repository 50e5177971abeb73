#include "libcore/ops/raw/index.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "libcore/backend/device_registry.h"
#include "libcore/backend/op_tables.h"
#include "libcore/base/error.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/blocked_layout.h"
#include "libcore/tensor/inline_vector.h"
#include "libcore/tensor/loop_builder.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core::raw {
namespace {

enum class IndexText { in_self, of_dimension };

[[noreturn]] void throw_bad_index(IndexText text, const IndexParams& p, std::int64_t dim) {
  if (text == IndexText::in_self) throw Error(ErrorCode::index, "index out of range in self");
  throw Error(ErrorCode::runtime, "index " + std::to_string(p.bad_index) + " is out of bounds for dimension " +
                                      std::to_string(dim) + " with size " + std::to_string(p.limit));
}

Tensor as_index(const Tensor& index, const char* what) {
  if (index.dtype() == DType::i64) return index;
  if (index.dtype() == DType::i32) return cast(index, DType::i64);
  throw Error(ErrorCode::runtime, std::string(what) + "(): Expected dtype int32/int64 for index");
}

/// The layout of `x` with its stride along `dim` set to 0: the kernel adds index * step itself.
struct Operands {
  Shape sizes;  // of the loop
  Shape out_strides, in_strides, index_strides;
};

void run_index(IndexOp op, const Tensor& out, const Tensor& in, const Tensor& index, const Operands& o,
               std::int64_t dim, IndexText text) {
  Backend& backend = backend_of(out);
  const IndexingTable* table = backend.ops().indexing;
  auto kernel =
      table == nullptr ? nullptr : table->index[static_cast<std::size_t>(op)][static_cast<std::size_t>(out.dtype())];
  if (kernel == nullptr) throw_unsupported(name(op), backend, out.dtype());
  const Tensor& indexed = op == IndexOp::take ? in : out;
  bool flat = indexed.dim() == 0;
  IndexParams params{const_cast<void*>(out.raw_data()),
                     in.raw_data(),
                     index.data<std::int64_t>(),
                     {},
                     flat ? 0 : indexed.stride(dim),
                     flat ? 1 : indexed.size(dim),
                     0,
                     false};
  detail::build_loop<3>(params.loop, o.sizes,
                        {detail::Layout{&o.sizes, &o.out_strides}, detail::Layout{&o.sizes, &o.in_strides},
                         detail::Layout{&o.sizes, &o.index_strides}});
  kernel(params);
  if (params.failed) throw_bad_index(text, params, dim);
}

Shape with_zero(Shape strides, std::int64_t dim) {
  if (!strides.empty()) strides[static_cast<std::size_t>(dim)] = 0;
  return strides;
}

void check_vector(const Tensor& index, const char* what) {
  if (index.dim() <= 1) return;
  throw Error(ErrorCode::index, std::string(what) + "(): Index is supposed to be a vector");
}

/// Strides of a 1-d index laid along `dim` of a loop of `rank` dimensions.
Shape index_along(const Tensor& index, std::size_t rank, std::int64_t dim) {
  Shape strides(rank, 0);
  if (rank > 0 && index.dim() == 1) strides[static_cast<std::size_t>(dim)] = index.stride(0);
  return strides;
}

}  // namespace

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  const core::detail::OpScope scope("index_select", x, index);
  std::int64_t d = wrap_dim(dim, x.dim());
  check_vector(index, "index_select");
  Tensor positions = as_index(index, "index_select");
  Shape sizes = x.sizes();
  if (!sizes.empty()) sizes[static_cast<std::size_t>(d)] = positions.numel();
  Tensor out = make(sizes, x.dtype(), backend_of(x));
  Operands o{sizes, out.strides(), with_zero(x.strides(), d), index_along(positions, sizes.size(), d)};
  run_index(IndexOp::take, out, x, positions, o, d, IndexText::in_self);
  return out;
}

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) {
  const core::detail::OpScope scope("gather", x, index);
  std::int64_t d = wrap_dim(dim, x.dim());
  Tensor positions = as_index(index, "gather");
  if (index.dim() != x.dim()) {
    throw Error(ErrorCode::runtime, "Index tensor must have the same number of dimensions as input tensor");
  }
  Tensor out = make(index.sizes(), x.dtype(), backend_of(x));
  Operands o{index.sizes(), out.strides(), with_zero(x.strides(), d), positions.strides()};
  run_index(IndexOp::take, out, x, positions, o, d, IndexText::of_dimension);
  return out;
}

namespace {

/// Whether sums of this type are kept in f32: where the device has no kernel for it, as the CPU has none for 16 bits
/// and none has one for bool, whose sums are true where a term is.
bool sums_in_f32(IndexOp op, const Tensor& out) {
  if (op != IndexOp::accumulate) return false;
  if (out.dtype() != DType::boolean && compute_dtype(out.dtype()) == out.dtype()) return false;
  const IndexingTable* table = backend_of(out).ops().indexing;
  return table != nullptr &&
         table->index[static_cast<std::size_t>(op)][static_cast<std::size_t>(out.dtype())] == nullptr;
}

/// `add` to the values as f32, rounded once at the end.
template <class Add>
void in_f32(const Tensor& out, const Tensor& from, Add add) {
  const Tensor wide = cast(out, DType::f32);
  add(wide, cast(from, DType::f32));
  copy_into(out, wide);
}

}  // namespace

void index_into(IndexOp op, const Tensor& out, std::int64_t dim, const Tensor& index, const Tensor& from) {
  const core::detail::OpScope scope(op, out, index, from);
  if (sums_in_f32(op, out)) {
    return in_f32(out, from, [&](const Tensor& sums, const Tensor& terms) { index_into(op, sums, dim, index, terms); });
  }
  std::int64_t d = wrap_dim(dim, out.dim());
  check_vector(index, "index_add_");
  Tensor positions = as_index(index, "index_add");
  Operands o{from.sizes(), with_zero(out.strides(), d), from.strides(), index_along(positions, from.sizes().size(), d)};
  run_index(op, out, from, positions, o, d, IndexText::in_self);
}

void scatter_into(IndexOp op, const Tensor& out, std::int64_t dim, const Tensor& index, const Tensor& from) {
  const core::detail::OpScope scope(op == IndexOp::accumulate ? "scatter_add_" : "scatter_", out, index, from);
  if (sums_in_f32(op, out)) {
    return in_f32(out, from,
                  [&](const Tensor& sums, const Tensor& terms) { scatter_into(op, sums, dim, index, terms); });
  }
  std::int64_t d = wrap_dim(dim, out.dim());
  Tensor positions = as_index(index, "scatter");
  if (index.dim() != out.dim() || (from.dim() != 0 && from.dim() != out.dim())) {
    throw Error(ErrorCode::runtime, "Index tensor must have the same number of dimensions as self tensor");
  }
  Shape from_strides = from.dim() == 0 ? Shape(index.sizes().size(), 0) : from.strides();
  Operands o{index.sizes(), with_zero(out.strides(), d), from_strides, positions.strides()};
  run_index(op, out, from, positions, o, d, IndexText::of_dimension);
}

namespace {

bool is_legacy_empty(const Tensor& t) {
  return t.dim() == 1 && t.numel() == 0;
}

void check_part(const Tensor& first, const Tensor& part, std::size_t number, std::int64_t dim) {
  if (part.dim() != first.dim()) {
    throw Error(ErrorCode::runtime, "Tensors must have same number of dimensions: got " + std::to_string(first.dim()) +
                                        " and " + std::to_string(part.dim()));
  }
  for (std::int64_t i = 0; i < first.dim(); ++i) {
    if (i == dim || first.size(i) == part.size(i)) continue;
    throw Error(ErrorCode::runtime, "Sizes of tensors must match except in dimension " + std::to_string(dim) +
                                        ". Expected size " + std::to_string(first.size(i)) + " but got size " +
                                        std::to_string(part.size(i)) + " for tensor number " + std::to_string(number) +
                                        " in the list.");
  }
}

}  // namespace

Tensor cat(std::span<const Tensor> parts, std::int64_t dim) {
  const core::detail::OpScope scope("cat");
  if (parts.empty()) throw Error(ErrorCode::value, "torch.cat(): expected a non-empty list of Tensors");
  const Tensor* first = &parts[0];
  InlineVector<const Tensor*, 8> pointers;
  DType dtype = parts[0].dtype();
  for (const Tensor& part : parts) {
    if (is_legacy_empty(*first)) first = &part;
    if (part.dim() == 0)
      throw Error(ErrorCode::runtime, "zero-dimensional tensor (at position " + std::to_string(&part - parts.data()) +
                                          ") cannot be concatenated");
    dtype = promote_types(dtype, part.dtype());
    pointers.push_back(&part);
  }
  Backend& backend = common_backend(pointers.span());
  std::int64_t d = wrap_dim(dim, first->dim());
  Shape sizes = first->sizes();
  std::int64_t total = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (is_legacy_empty(parts[i])) continue;
    check_part(*first, parts[i], i, d);
    total += parts[i].size(d);
  }
  if (Tensor joined = blocked::try_cat(parts, d); joined.defined()) return joined;
  if (!is_legacy_empty(*first)) sizes[static_cast<std::size_t>(d)] = total;
  Tensor out = make(sizes, dtype, backend);
  std::int64_t at = 0;
  for (const Tensor& part : parts) {
    if (is_legacy_empty(part)) continue;
    copy_into(view(out, part.sizes(), out.strides(), at * out.stride(d)), part);
    at += part.size(d);
  }
  return out;
}

Tensor nonzero(const Tensor& x) {
  const core::detail::OpScope scope("nonzero", x);
  const std::vector<bool> set = cast(x, DType::boolean).to_vector<bool>();
  std::int64_t count = 0;
  for (bool flag : set) count += flag ? 1 : 0;
  // One row per dimension in memory, as PyTorch lays it out; the result is its transpose.
  Tensor out = make({x.dim(), count}, DType::i64, backend_for(DeviceType::cpu));
  auto* first = const_cast<std::int64_t*>(out.data<std::int64_t>());
  std::int64_t found = 0;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (!set[i]) continue;
    auto rest = static_cast<std::int64_t>(i);
    for (std::int64_t d = x.dim(); d-- > 0;) {
      first[d * count + found] = rest % x.size(d);
      rest /= x.size(d);
    }
    ++found;
  }
  return view(move(out, backend_of(x)), {count, x.dim()}, {1, std::max<std::int64_t>(count, 1)}, 0);
}

}  // namespace core::raw
