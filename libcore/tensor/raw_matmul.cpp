#include <string>

#include "libcore/base/error.h"
#include "libcore/tensor/raw_ops.h"

namespace core::raw {
namespace {

/// The last two dimensions of an operand as a row-major matrix, perhaps transposed.
struct Matrix {
  Tensor data;
  bool transposed;
  std::int64_t leading;
  std::int64_t batch_stride;
};

Matrix matrix_of(const Tensor& x) {
  std::int64_t rows = x.size(-2), columns = x.size(-1);
  std::int64_t row_step = x.stride(-2), column_step = x.stride(-1);
  std::int64_t batch = x.dim() == 3 ? x.stride(0) : 0;
  bool plain = (column_step == 1 || columns == 1) && row_step >= std::max<std::int64_t>(1, columns);
  if (plain || rows == 1) {
    if (column_step == 1 || columns == 1)
      return {x, false, std::max(row_step, std::max<std::int64_t>(1, columns)), batch};
  }
  if ((row_step == 1 || rows == 1) && column_step >= std::max<std::int64_t>(1, rows))
    return {x, true, column_step, batch};
  Tensor dense = contiguous(x);
  return {dense, false, std::max<std::int64_t>(1, columns), x.dim() == 3 ? dense.stride(0) : 0};
}

void check_product_dtypes(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return;
  auto lower = [](DType d) {
    return std::string(d == DType::f32 ? "float" : d == DType::f64 ? "double" : d == DType::i64 ? "long int" : name(d));
  };
  throw Error(ErrorCode::runtime,
              "expected m1 and m2 to have the same dtype, but got: " + lower(a.dtype()) + " != " + lower(b.dtype()));
}

Tensor start_of(const ProductOptions& options, const Shape& sizes, DType dtype, Backend& backend) {
  Tensor out = make(sizes, dtype, backend);
  if (options.start.defined() && options.beta.to_double() != 0) copy_into(out, options.start);
  return out;
}

}  // namespace

Tensor product(const Tensor& a, const Tensor& b, const ProductOptions& options) {
  check_product_dtypes(a, b);
  const Tensor* both[] = {&a, &b};
  Backend& backend = common_backend(both);
  DType dtype = a.dtype();
  DType compute = dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
  const MatmulTable* table = backend.ops().matmul;
  auto kernel = table == nullptr ? nullptr : table->gemm[static_cast<std::size_t>(compute)];
  if (kernel == nullptr) throw_unsupported("matmul", backend, dtype);
  Matrix x = matrix_of(cast(a, compute));
  Matrix y = matrix_of(cast(b, compute));
  Shape sizes = a.sizes();
  sizes[sizes.size() - 1] = b.size(-1);
  Tensor out = start_of(options, sizes, compute, backend);
  double beta = options.start.defined() ? options.beta.to_double() : 0;
  GemmParams params{x.transposed,
                    y.transposed,
                    a.size(-2),
                    b.size(-1),
                    a.size(-1),
                    x.leading,
                    y.leading,
                    std::max<std::int64_t>(1, b.size(-1)),
                    x.data.raw_data(),
                    y.data.raw_data(),
                    const_cast<void*>(out.raw_data()),
                    options.alpha.to_double(),
                    beta,
                    a.dim() == 3 ? a.size(0) : 1,
                    x.batch_stride,
                    y.batch_stride,
                    a.size(-2) * b.size(-1)};
  if (out.numel() == 0) return cast(out, dtype);
  if (params.k == 0) {
    if (beta == 0) {
      fill_into(out, 0);
    } else {
      binary_in_place(BinaryOp::mul, out, options.beta);
    }
    return cast(out, dtype);
  }
  kernel(params);
  return cast(out, dtype);
}

}  // namespace core::raw
