#pragma once
// Linear algebra of matrices and batches of them, as torch.linalg: results, errors, gradients and node names are
// PyTorch's. Matrices are the last two dimensions; all before them are batches. f32 and f64.
// Thread safety: pure functions. Cost: LAPACK on the host, whatever the device.
// Use: core::Tensor x = core::linalg::solve(a, b); auto [u, s, vh] = core::linalg::svd(a, false);

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "libcore/tensor/ops.h"

namespace core {

/// log(det(x)); NaN where that is negative.
Tensor logdet(const Tensor& x);
/// Solves A x = b where `factor` is A's Cholesky factor.
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper = false);
/// The inverse of A from its Cholesky factor.
Tensor cholesky_inverse(const Tensor& factor, bool upper = false);

struct Reflections {
  Tensor a;  ///< R above and on the diagonal, reflectors below
  Tensor tau;
};
/// The factors of qr() as LAPACK keeps them. Has no derivative.
Reflections geqrf(const Tensor& a);

namespace linalg {

// All errors are Error(runtime) unless said; matrices that must be square: "linalg.inv: A must be batches of square
// matrices, but they are 2 by 3 matrices"; types: Error(not_implemented) "linalg.inv: Expected a floating point or
// complex tensor as input. Got Long".

/// Error "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because the input matrix is
/// singular."
Tensor inv(const Tensor& a);
struct WithInfo {
  Tensor result;
  Tensor info;  ///< int32, 0 where all went well, else what stood in the way
};
/// As inv(), with a result where there is none.
WithInfo inv_ex(const Tensor& a);
/// Its gradient is det * inv(a)^T, and so 0 where a is singular (except of one element); with create_graph that of the
/// cofactors, which holds there too.
Tensor det(const Tensor& a);
struct SignAndLog {
  Tensor sign;
  Tensor logabsdet;
};
SignAndLog slogdet(const Tensor& a);

/// The x of a @ x = b; b: matrices, vectors for as many matrices, or one vector.
/// Error "torch.linalg.solve: The solver failed because the input matrix is singular."
Tensor solve(const Tensor& a, const Tensor& b);
/// As solve(), with a result where there is none.
WithInfo solve_ex(const Tensor& a, const Tensor& b);
/// The x of tensordot(a, x, x.dim()) = b, where x has the dimensions of a that b has not; `dims` of a are moved to its
/// end before. Error(runtime) "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == ...".
Tensor tensorsolve(const Tensor& a, const Tensor& b, const Shape& dims = {});
/// The inverse of tensordot with a over its first `ind` dimensions.
Tensor tensorinv(const Tensor& a, std::int64_t ind = 2);
struct TriangularOptions {
  bool upper = false;
  bool left = true;            ///< else x @ a = b
  bool unitriangular = false;  ///< the diagonal counts as ones
};
Tensor solve_triangular(const Tensor& a, const Tensor& b, const TriangularOptions& options);

/// a = L @ L^T; upper: a = U^T @ U. Error "linalg.cholesky: The factorization could not be completed because the input
/// is not positive-definite (the leading minor of order 1 is not positive-definite)."
Tensor cholesky(const Tensor& a, bool upper = false);
WithInfo cholesky_ex(const Tensor& a, bool upper = false);

/// a = p @ l @ u, l with ones on its diagonal.
struct LU {
  Tensor p, l, u;
};
LU lu(const Tensor& a);
struct LUFactors {
  Tensor lu;      ///< u above, l below the diagonal
  Tensor pivots;  ///< int32: row i was swapped with row pivots[i] - 1
};
/// Error "torch.linalg.lu_factor: U[1,1] is zero and using it on lu_solve would result in a division by zero. ...".
LUFactors lu_factor(const Tensor& a);
struct LUFactorsInfo {
  Tensor lu, pivots, info;
};
LUFactorsInfo lu_factor_ex(const Tensor& a);
struct LuSolveOptions {
  bool left = true;      ///< else x @ a = b
  bool adjoint = false;  ///< a^T instead of a
};
/// The x of a @ x = b from lu_factor(a).
Tensor lu_solve(const LUFactors& factors, const Tensor& b, const LuSolveOptions& options = {});

struct QR {
  Tensor q, r;
};
/// mode: "reduced", "complete", "r" (without q).
QR qr(const Tensor& a, const std::string& mode = "reduced");
struct SVD {
  Tensor u, s, vh;
};
/// a = u @ diag(s) @ vh, s descending. The gradients of u and vh hold where singular values differ.
SVD svd(const Tensor& a, bool full_matrices = true);
Tensor svdvals(const Tensor& a);
struct Eigen {
  Tensor values;   ///< ascending
  Tensor vectors;  ///< columns
};
/// Of symmetric matrices, of which one triangle is read: "L" or "U".
Eigen eigh(const Tensor& a, const std::string& uplo = "L");
Tensor eigvalsh(const Tensor& a, const std::string& uplo = "L");
/// Of any square matrix: complex64 or complex128, in LAPACK's order; complex_ops.h takes them apart. They have no
/// history. Error(not_implemented) where `a` asks for gradients.
Eigen eig(const Tensor& a);
Tensor eigvals(const Tensor& a);

/// The first columns of the product of reflections I - tau_i v_i v_i^T, v_i the i-th column of `reflectors` with zeros
/// above a one on the diagonal, as geqrf() gives them.
Tensor householder_product(const Tensor& reflectors, const Tensor& tau);
/// The exponential: I + a + a @ a / 2 + ...
Tensor matrix_exp(const Tensor& a);

struct LstsqOptions {
  std::optional<double> rcond = {};  ///< singular values below rcond times the largest count as 0; eps * max(m, n)
  std::string driver = "gelsy";      ///< gels, gelsy, gelsd, gelss
};
struct Lstsq {
  Tensor solution;
  Tensor residuals;        ///< sums of squares where m > n and all ranks are full; empty else and for gelsy
  Tensor rank;             ///< int64; empty for gels
  Tensor singular_values;  ///< for gelsd and gelss, else empty
};
/// The x that makes |a @ x - b| least.
Lstsq lstsq(const Tensor& a, const Tensor& b, const LstsqOptions& options = {});

struct RankOptions {
  std::optional<double> atol = {};
  std::optional<double> rtol = {};  ///< max(m, n) * eps
  bool hermitian = false;
};
Tensor pinv(const Tensor& a, const RankOptions& options = {});
/// int64
Tensor matrix_rank(const Tensor& a, const RankOptions& options = {});

struct VectorNormOptions {
  double ord = 2;
  Shape dims = {};  ///< none: all
  bool keepdim = false;
};
Tensor vector_norm(const Tensor& x, const VectorNormOptions& options = {});
/// The order of a matrix norm: "fro", "nuc", or 1, -1, 2, -2, infinity, -infinity.
struct MatrixOrder {
  MatrixOrder(const char* name) : text(name) {}  // NOLINT(google-explicit-constructor)
  MatrixOrder(double value) : number(value) {}   // NOLINT(google-explicit-constructor)
  std::string text = {};
  double number = 0;
};
struct MatrixNormOptions {
  MatrixOrder ord = "fro";
  Shape dims = {-2, -1};
  bool keepdim = false;
};
Tensor matrix_norm(const Tensor& a, const MatrixNormOptions& options = {});
struct NormOptions {
  std::optional<MatrixOrder> ord = {};  ///< none: the root of the sum of squares
  Shape dims = {};                      ///< one: vectors, two: matrices; none: the tensor is one of them
  bool keepdim = false;
};
Tensor norm(const Tensor& x, const NormOptions& options = {});
/// The norm times that of the inverse; without ord by singular values.
Tensor cond(const Tensor& a, const std::optional<MatrixOrder>& ord = {});

Tensor matrix_power(const Tensor& a, std::int64_t n);
/// Products in the order that costs least.
Tensor multi_dot(const std::vector<Tensor>& tensors);
Tensor vecdot(const Tensor& a, const Tensor& b, std::int64_t dim = -1);
Tensor diagonal(const Tensor& a, std::int64_t offset = 0, std::int64_t dim1 = -2, std::int64_t dim2 = -1);

}  // namespace linalg
}  // namespace core
