#pragma once
// Products of vectors and matrices, as torch.X: results, errors and gradients are PyTorch's. torch.linalg is in
// linalg/. Thread safety: pure functions; those in place (name_) write their first argument. Use: core::Tensor y =
// core::matmul(x, w) + b; core::Tensor z = core::einsum("bij,bkj->bik", {a, b});

#include <concepts>
#include <cstdint>
#include <string_view>
#include <vector>

#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {

Tensor matmul(const Tensor& a, const Tensor& b);
Tensor mm(const Tensor& a, const Tensor& b);
Tensor bmm(const Tensor& a, const Tensor& b);
Tensor mv(const Tensor& matrix, const Tensor& vector);
Tensor dot(const Tensor& a, const Tensor& b);
Tensor vdot(const Tensor& a, const Tensor& b);
Tensor inner(const Tensor& a, const Tensor& b);
Tensor outer(const Tensor& a, const Tensor& b);

/// beta * c + alpha * a @ b
Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);

/// beta * c + alpha * matrix @ vector
Tensor addmv(const Tensor& c, const Tensor& matrix, const Tensor& vector, Scalar beta = 1, Scalar alpha = 1);

/// beta * c + alpha * a @ b, batch by batch.
Tensor baddbmm(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);

/// beta * c + alpha * the sum of a[i] @ b[i]
Tensor addbmm(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);

/// beta * c + alpha * outer(a, b)
Tensor addr(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);

/// x @ weight^T + bias; bias may be undefined. x: (*, in), weight: (out, in), bias: (out).
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// A product for each group: (m, k) cut by rows and (groups, k, n), as a mixture of experts has it; (groups, m, k) and
/// (k, n) cut by columns; (m, k) and (k, n) both cut along k, which gives (groups, m, n); or two batches. offs, but for
/// two batches: where each group ends, int32; what lies behind the last gives zeros. f32, f16 and bf16.
/// Errors(runtime): PyTorch's texts for other dtypes and sizes.
Tensor grouped_mm(const Tensor& a, const Tensor& b, const Tensor& offs = {});

/// y_k = a @ weight_k @ b + bias_k; weight: (out, in1, in2); bias may be undefined.
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {});

/// Sums of products in Einstein's notation: letters for dimensions, "..." for those that broadcast.
/// Errors(runtime): PyTorch's texts.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);
template <std::derived_from<Tensor>... Operands>
requires(sizeof...(Operands) > 0) Tensor einsum(std::string_view equation, const Operands&... operands) {
  return einsum(equation, std::vector<Tensor>{operands...});
}

/// Sums over pairs of dimensions: the last `count` of a with the first of b, or those named.
Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t count = 2);
Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& dims_a, const Shape& dims_b);
Tensor kron(const Tensor& a, const Tensor& b);

/// Of vectors of three elements along dim; shapes broadcast.
Tensor cross(const Tensor& a, const Tensor& b, std::int64_t dim = -1);

/// The sum of the diagonal. Error(runtime) "trace: expected a matrix, but got tensor with dim 3".
Tensor trace(const Tensor& x);
Tensor matrix_power(const Tensor& x, std::int64_t n);

/// The product of matrices in the given order.
Tensor chain_matmul(const std::vector<Tensor>& matrices);
const Tensor& addmm_(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);
const Tensor& addmv_(const Tensor& x, const Tensor& matrix, const Tensor& vector, Scalar beta = 1, Scalar alpha = 1);
const Tensor& baddbmm_(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);

}  // namespace core
