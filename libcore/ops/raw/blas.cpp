#include "libcore/ops/raw/blas.h"

#include <string>

#include "libcore/backend/op_tables.h"
#include "libcore/base/error.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/raw/turned_weights.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {
namespace {

/// The last two dimensions of an operand as a row-major matrix, perhaps transposed.
struct Matrix {
  const void* data;
  bool transposed;
  std::int64_t leading;
  std::int64_t batch_stride;
};

/// `held` keeps what had to be copied.
Matrix matrix_of(const Tensor& x, Tensor& held) {
  const std::size_t rank = x.sizes().size();
  const std::int64_t rows = x.sizes()[rank - 2], columns = x.sizes()[rank - 1];
  const std::int64_t row_step = x.strides()[rank - 2], column_step = x.strides()[rank - 1];
  const std::int64_t batch = rank == 3 ? x.strides()[0] : 0, wide = std::max<std::int64_t>(1, columns);
  if ((column_step == 1 || columns == 1) && (row_step >= wide || rows == 1)) {
    return {x.raw_data(), false, std::max(row_step, wide), batch};
  }
  if ((row_step == 1 || rows == 1) && column_step >= std::max<std::int64_t>(1, rows)) {
    return {x.raw_data(), true, column_step, batch};
  }
  held = contiguous(x);
  return {held.raw_data(), false, wide, rank == 3 ? held.strides()[0] : 0};
}

void check_product_dtypes(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return;
  auto lower = [](DType d) {
    return std::string(d == DType::f32    ? "float"
                       : d == DType::f64  ? "double"
                       : d == DType::i64  ? "long int"
                       : d == DType::c64  ? "c10::complex<float>"
                       : d == DType::c128 ? "c10::complex<double>"
                                          : name(d));
  };
  throw Error(ErrorCode::runtime,
              "expected m1 and m2 to have the same dtype, but got: " + lower(a.dtype()) + " != " + lower(b.dtype()));
}

Tensor start_of(const ProductOptions& options, const Shape& sizes, DType dtype, Backend& backend) {
  Tensor out = make(sizes, dtype, backend);
  if (options.start.defined() && options.beta.to_double() != 0) copy_into(out, options.start);
  return out;
}

const char* product_name(const Tensor& a, const ProductOptions& options) {
  const bool adds = options.start.defined();
  if (a.dim() == 3) return adds ? "baddbmm" : "bmm";
  return adds ? "addmm" : "mm";
}

}  // namespace

Tensor product(const Tensor& a, const Tensor& b, const ProductOptions& options) {
  check_product_dtypes(a, b);
  const Tensor* both[] = {&a, &b};
  Backend& backend = &backend_of(a) == &backend_of(b) ? backend_of(a) : common_backend(both);
  DType dtype = a.dtype();
  const MatmulTable* table = backend.ops().matmul;
  const bool is_narrow = dtype == DType::f16 || dtype == DType::bf16;
  const bool by_f32 = is_narrow && (table == nullptr || table->gemm[static_cast<std::size_t>(dtype)] == nullptr);
  DType compute = by_f32 ? DType::f32 : dtype;
  auto kernel = table == nullptr ? nullptr : table->gemm[static_cast<std::size_t>(compute)];
  if (kernel == nullptr) {
    throw_unsupported(dtype != DType::c32 ? "matmul" : a.dim() == 3 ? "bmm" : "addmm_impl_cpu_", backend, dtype);
  }
  if (compute != dtype) return cast(product(cast(a, compute), cast(b, compute), options), dtype);
  const core::detail::OpScope scope(product_name(a, options), a, b);
  Tensor kept_a, kept_b;
  const Matrix x = matrix_of(a, kept_a), y = matrix_of(b, kept_b);
  const std::size_t rank = a.sizes().size();
  const std::int64_t m = a.sizes()[rank - 2], k = a.sizes()[rank - 1], n = b.sizes()[rank - 1];
  Shape sizes = a.sizes();
  sizes[rank - 1] = n;
  Tensor out = start_of(options, sizes, compute, backend);
  if (out.numel() == 0) return out;
  const double beta = options.start.defined() ? options.beta.to_double() : 0;
  if (k == 0) {
    if (beta == 0) {
      fill_into(out, 0);
    } else {
      binary_in_place(BinaryOp::mul, out, options.beta);
    }
    return out;
  }
  kernel({x.transposed, y.transposed, m, n, k, x.leading, y.leading, n, x.data, y.data,
          const_cast<void*>(out.raw_data()), options.alpha.to_double(), beta, rank == 3 ? a.sizes()[0] : 1,
          x.batch_stride, y.batch_stride, m * n});
  return out;
}

Tensor turned_product(const Tensor& a, const Tensor& b) {
  Backend& backend = backend_of(a);
  const MatmulTable* table = backend.ops().matmul;
  const auto kernel = table == nullptr ? nullptr : table->gemm[static_cast<std::size_t>(a.dtype())];
  const bool dense = a.is_contiguous() && b.is_contiguous() && a.dim() == 2 && b.dim() == 2;
  const std::int64_t m = dense ? a.sizes()[1] : 0, k = dense ? a.sizes()[0] : 0, n = dense ? b.sizes()[1] : 0;
  // Of one row or column a view would not count as transposed; a profile shows the view.
  const bool shown = core::detail::profiling.load(std::memory_order_relaxed);
  if (shown || kernel == nullptr || m < 2 || k < 2 || n == 0 || b.sizes()[0] != k || b.dtype() != a.dtype() ||
      &backend_of(b) != &backend) {
    return product(view(a, {a.sizes()[1], a.sizes()[0]}, {a.strides()[1], a.strides()[0]}, a.storage_offset()), b);
  }
  Tensor out = make({m, n}, a.dtype(), backend);
  kernel({true, false, m, n, k, m, n, n, a.raw_data(), b.raw_data(), const_cast<void*>(out.raw_data()), 1, 0, 1, 0, 0,
          m * n});
  return out;
}

Tensor try_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, bool again) {
  Backend& backend = backend_of(x);
  const auto fits = [&](const Tensor& t) {
    return t.is_contiguous() && t.dtype() == x.dtype() && &backend_of(t) == &backend;
  };
  const bool sizes_fit = x.dim() == 2 && weight.dim() == 2 && x.sizes()[1] == weight.sizes()[1] && bias.dim() == 1 &&
                         bias.sizes()[0] == weight.sizes()[0];
  if (!sizes_fit || !is_floating(x.dtype()) || !fits(x) || !fits(weight) || !fits(bias)) return {};
  const MatmulTable* table = backend.ops().matmul;
  auto kernel = table == nullptr ? nullptr : table->gemm[static_cast<std::size_t>(x.dtype())];
  const std::int64_t m = x.sizes()[0], k = x.sizes()[1], n = weight.sizes()[0];
  if (kernel == nullptr || m == 0 || n == 0 || k == 0) return {};
  const core::detail::OpScope scope("addmm", bias, x, weight);
  Tensor out = make({m, n}, x.dtype(), backend);
  GemmParams params{false, true, m, n, k, k, k, n, x.raw_data(), weight.raw_data(), const_cast<void*>(out.raw_data()),
                    1,     0,    1, 0, 0, 0};
  params.bias = bias.raw_data();
  const auto gains = table->gains_by_turned[static_cast<std::size_t>(x.dtype())];
  if (again && gains != nullptr && gains(params)) {
    if (const float* turned = turned_weight(weight)) params.b = turned, params.transpose_b = false, params.ldb = n;
  }
  kernel(params);
  return out;
}

}  // namespace core::raw
