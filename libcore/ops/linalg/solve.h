#pragma once
// Equations, inverses and determinants, as torch.linalg: results, errors, gradients and node names are PyTorch's.
// Matrices are the last two dimensions; all before them are batches. f32 and f64, complex64 and complex128.
// Thread safety: pure functions. Cost: LAPACK on the host, whatever the device.
// Use: core::Tensor x = core::linalg::solve(a, b);

#include <cstdint>
#include <optional>
#include <string>

#include "libcore/ops/linalg/decompose.h"
#include "libcore/tensor/tensor.h"

namespace core::linalg {

/// Error "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because the input matrix is
/// singular."
Tensor inv(const Tensor& a);

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

struct LuSolveOptions {
  bool left = true;      ///< else x @ a = b
  bool adjoint = false;  ///< the conjugate transpose instead of a
};

/// The x of a @ x = b from lu_factor(a).
Tensor lu_solve(const LUFactors& factors, const Tensor& b, const LuSolveOptions& options = {});

/// The x of a @ x = b from ldl_factor(a). Has no derivative.
Tensor ldl_solve(const LDLFactors& factors, const Tensor& b, bool hermitian = false);

struct LstsqOptions {
  std::optional<double> rcond = {};  ///< singular values below rcond times the largest count as 0; eps * max(m, n)
  std::string driver = "gelsy";      ///< gels, gelsy, gelsd, gelss
};

struct Lstsq {
  Tensor solution;
  Tensor residuals;        ///< real sums of squares where m > n and all ranks are full; empty else and for gelsy
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

/// int64
Tensor matrix_rank(const Tensor& a, const RankOptions& options = {});
Tensor pinv(const Tensor& a, const RankOptions& options = {});

}  // namespace core::linalg

namespace core {

/// log(det(x)); NaN where that is negative.
Tensor logdet(const Tensor& x);

/// Solves A x = b where `factor` is A's Cholesky factor.
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper = false);

/// The inverse of A from its Cholesky factor.
Tensor cholesky_inverse(const Tensor& factor, bool upper = false);

}  // namespace core
