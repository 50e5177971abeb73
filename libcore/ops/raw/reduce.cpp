#include "libcore/ops/raw/reduce.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "libcore/backend/complex_elements.h"
#include "libcore/backend/op_tables.h"
#include "libcore/base/error.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/complex_refusals.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/blocked_layout.h"
#include "libcore/tensor/inline_vector.h"
#include "libcore/tensor/loop_builder.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/storage.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {
namespace {

/// compute_dtype() where the device has no kernel that does this by itself.
template <class Op, class Params>
DType kernel_dtype(const Tensor& x, KernelGrid<Op, Params> ReductionTable::*kernels, Op op, DType dtype) {
  const ReductionTable* table = backend_of(x).ops().reduction;
  const bool has_kernel = table != nullptr && (table->*kernels).at(op, dtype) != nullptr;
  return has_kernel ? dtype : compute_dtype(dtype);
}

/// The dtype a reduction works in and gives, before halves are widened.
DType result_dtype(ReduceOp op, const Tensor& x, std::optional<DType> asked) {
  DType dtype = asked.value_or(x.dtype());
  const char* got = scalar_type_name(dtype);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::prod:
      return asked || is_inexact(dtype) ? dtype : DType::i64;
    case ReduceOp::mean:
      if (is_inexact(dtype)) return dtype;
      throw Error(ErrorCode::not_implemented,
                  std::string("mean(): could not infer output dtype. Input dtype must be either a floating point or "
                              "complex dtype. Got: ") +
                      got);
    case ReduceOp::var:
      if (is_floating(dtype)) return dtype;
      throw Error(ErrorCode::not_implemented, "std and var only support floating point and complex dtypes");
    case ReduceOp::norm:
      if (is_floating(dtype)) return dtype;
      throw Error(ErrorCode::runtime,
                  std::string("linalg.vector_norm: Expected a floating point or complex tensor as input. Got ") + got);
    default:
      return dtype;
  }
}

DType output_dtype(ReduceOp op, DType computed) {
  if (op == ReduceOp::argmax || op == ReduceOp::argmin) return DType::i64;
  return op == ReduceOp::all || op == ReduceOp::any ? DType::boolean : computed;
}

struct Split {
  Shape kept_sizes, kept_strides, reduced_sizes, reduced_strides;
};

Split split_dims(const Tensor& x, const InlineVector<bool, 8>& reduced) {
  Split split;
  for (std::size_t i = 0; i < x.sizes().size(); ++i) {
    (reduced[i] ? split.reduced_sizes : split.kept_sizes).push_back(x.sizes()[i]);
    (reduced[i] ? split.reduced_strides : split.kept_strides).push_back(x.strides()[i]);
  }
  return split;
}

Tensor with_kept_dims(const Tensor& out, const Tensor& x, const InlineVector<bool, 8>& reduced) {
  Shape sizes;
  Shape strides;
  std::size_t next = 0;
  for (std::size_t i = 0; i < x.sizes().size(); ++i) {
    sizes.push_back(reduced[i] ? 1 : out.sizes()[next]);
    strides.push_back(reduced[i] ? 1 : out.strides()[next]);
    next += reduced[i] ? 0 : 1;
  }
  // Strides of the reduced dimensions as a dense tensor would have them.
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (reduced[i]) strides[i] = i + 1 == sizes.size() ? 1 : strides[i + 1] * sizes[i + 1];
  }
  return view(out, sizes, strides, 0);
}

void fill_loops(ReduceParams& params, const Tensor& out, const Tensor& x, const Split& split) {
  if (split.kept_sizes.numel() == 1 && x.is_contiguous()) {
    detail::flat_loop<2>(params.outer, 1, {0, 0});
    detail::flat_loop<1>(params.inner, x.numel(), {1});
    return;
  }
  detail::Layout kept{&split.kept_sizes, &split.kept_strides};
  detail::Layout gone{&split.reduced_sizes, &split.reduced_strides};
  detail::build_loop<2>(params.outer, split.kept_sizes, {detail::layout_of(out), kept});
  detail::build_loop<1>(params.inner, split.reduced_sizes, {gone});
}

/// Runs the slot over `x` (of the compute dtype). `indices` may be undefined.
Tensor run_reduce(ReduceOp op, const Tensor& x, const InlineVector<bool, 8>& reduced, const std::array<double, 2>& args,
                  Tensor* indices) {
  Backend& backend = backend_of(x);
  const ReductionTable* table = backend.ops().reduction;
  auto kernel = table == nullptr ? nullptr : table->reduce.at(op, x.dtype());
  if (kernel == nullptr) throw_missing(op, backend, x.dtype());
  Split split = split_dims(x, reduced);
  Tensor out = make(split.kept_sizes, output_dtype(op, x.dtype()), backend);
  ReduceParams params;
  params.out = const_cast<void*>(out.raw_data());
  params.in = x.raw_data();
  params.indices = nullptr;
  if (indices != nullptr) {
    *indices = make(split.kept_sizes, DType::i64, backend);
    params.indices = const_cast<std::int64_t*>(indices->data<std::int64_t>());
  }
  params.args[0] = args[0];
  params.args[1] = args[1];
  fill_loops(params, out, x, split);
  kernel(params);
  return out;
}

/// The mean over all planes of a blocked image; undefined for any other.
Tensor held_mean(const Tensor& x, const ReduceOptions& options) {
  if (x.dim() != 4 || options.dims.size() != 2 || options.dtype) return {};
  const std::int64_t first = wrap_dim(options.dims[0], 4), second = wrap_dim(options.dims[1], 4);
  if (std::min(first, second) != 2 || std::max(first, second) != 3) return {};
  const Tensor out = blocked::try_plane_mean(x);
  if (!out.defined() || !options.keepdim) return out;
  return view(out, {x.size(0), x.size(1), 1, 1}, {x.size(1), 1, 1, 1}, 0);
}

/// The lines of a tensor along `dim`: a loop over their first elements.
void line_loop(Loop<2>& lines, const Tensor& out, const Tensor& in, std::int64_t dim) {
  Shape sizes = in.sizes();
  if (!sizes.empty()) sizes[static_cast<std::size_t>(dim)] = 1;
  Shape out_strides = out.strides(), in_strides = in.strides();
  detail::build_loop<2>(lines, sizes, {detail::Layout{&sizes, &out_strides}, detail::Layout{&sizes, &in_strides}});
}

}  // namespace

Tensor reduce(ReduceOp op, const Tensor& x, const ReduceOptions& options, const std::array<double, 2>& args) {
  const core::detail::OpScope scope(op, x);
  if (op == ReduceOp::mean && x.storage()->blocked_image() != nullptr) {
    if (Tensor out = held_mean(x, options); out.defined()) return out;
  }
  DType dtype = result_dtype(op, x, options.dtype);
  const bool adds_up = op == ReduceOp::sum || op == ReduceOp::prod;
  const bool is_narrow = adds_up && !is_inexact(dtype) && dtype != DType::i64;  // int64 ends in the same bits
  Tensor in =
      is_narrow ? cast(cast(x, dtype), DType::i64) : cast(x, kernel_dtype(x, &ReductionTable::reduce, op, dtype));
  InlineVector<bool, 8> reduced = reduced_dims(options.dims, x.dim());
  bool by_position = op == ReduceOp::argmax || op == ReduceOp::argmin;
  Tensor out = run_reduce(op, by_position && options.dims.empty() ? contiguous(in) : in, reduced, args, nullptr);
  if (options.keepdim) out = with_kept_dims(out, x, reduced);
  if (op == ReduceOp::all || op == ReduceOp::any) return x.dtype() == DType::u8 ? cast(out, DType::u8) : out;
  return by_position ? out : cast(out, dtype);
}

Tensor column_sums(const Tensor& x) {
  const core::detail::OpScope scope("sum", x);
  const ReductionTable* table = backend_of(x).ops().reduction;
  const bool is_float = x.dtype() == DType::f32 || x.dtype() == DType::f64;
  if (table == nullptr || !is_float || !x.is_contiguous() || x.dim() != 2 || x.numel() == 0 || x.sizes()[1] == 1) {
    return reduce(ReduceOp::sum, x, {.dims = {0}});
  }
  const std::int64_t rows = x.sizes()[0], columns = x.sizes()[1];
  Tensor out = make({columns}, x.dtype(), backend_of(x));
  ReduceParams params;
  params.out = const_cast<void*>(out.raw_data());
  params.in = x.raw_data();
  params.indices = nullptr;
  detail::flat_loop<2>(params.outer, columns, {1, 1});
  detail::flat_loop<1>(params.inner, rows, {columns});
  table->reduce.at(ReduceOp::sum, x.dtype())(params);
  return out;
}

ValuesIndices reduce_with_indices(ReduceOp op, const Tensor& x, std::int64_t dim, bool keepdim) {
  const core::detail::OpScope scope(op, x);
  std::int64_t wrapped_dim = wrap_dim(dim, x.dim());
  if (x.dim() > 0 && x.size(wrapped_dim) == 0) {
    throw Error(ErrorCode::index, std::string(name(op)) + "(): Expected reduction dim " + std::to_string(wrapped_dim) +
                                      " to have non-zero size.");
  }
  InlineVector<bool, 8> reduced = reduced_dims({dim}, x.dim());
  Tensor indices;
  const DType compute = kernel_dtype(x, &ReductionTable::reduce, op, x.dtype());
  Tensor values = run_reduce(op, cast(x, compute), reduced, {}, &indices);
  if (keepdim) {
    values = with_kept_dims(values, x, reduced);
    indices = with_kept_dims(indices, x, reduced);
  }
  return {cast(values, x.dtype()), indices};
}

Tensor scan(ScanOp op, const Tensor& x, std::int64_t dim) {
  const core::detail::OpScope scope(op, x);
  std::int64_t d = wrap_dim(dim, x.dim());
  Tensor in = cast(x, kernel_dtype(x, &ReductionTable::scan, op, x.dtype()));
  Backend& backend = backend_of(x);
  const ReductionTable* table = backend.ops().reduction;
  auto kernel = table == nullptr ? nullptr : table->scan.at(op, in.dtype());
  if (kernel == nullptr) throw_missing(op, backend, x.dtype());
  Tensor out = make_like(in, in.dtype());
  bool flat = x.dim() == 0;
  ScanParams params{const_cast<void*>(out.raw_data()), in.raw_data(),          {}, flat ? 1 : in.size(d),
                    flat ? 1 : out.stride(d),          flat ? 1 : in.stride(d)};
  line_loop(params.lines, out, in, d);
  kernel(params);
  return cast(out, x.dtype());
}

ValuesIndices sort(const Tensor& x, std::int64_t dim, bool descending) {
  const core::detail::OpScope scope("sort", x);
  std::int64_t d = wrap_dim(dim, x.dim());
  if (is_complex(x.dtype())) throw Error(ErrorCode::type, " Sort does not support complex dtypes on CPU");
  Tensor in = cast(x, compute_dtype(x.dtype()));
  Backend& backend = backend_of(x);
  const ReductionTable* table = backend.ops().reduction;
  auto kernel = table == nullptr ? nullptr : table->sort[static_cast<std::size_t>(in.dtype())];
  if (kernel == nullptr) throw_unsupported("sort", backend, x.dtype());
  Tensor values = make(in.sizes(), in.dtype(), backend);
  Tensor indices = make(in.sizes(), DType::i64, backend);
  bool flat = x.dim() == 0;
  SortParams params{const_cast<void*>(values.raw_data()),
                    const_cast<std::int64_t*>(indices.data<std::int64_t>()),
                    in.raw_data(),
                    {},
                    flat ? 1 : in.size(d),
                    flat ? 1 : values.stride(d),
                    flat ? 1 : in.stride(d),
                    descending};
  line_loop(params.lines, values, in, d);
  kernel(params);
  return {cast(values, x.dtype()), indices};
}

}  // namespace core::raw
