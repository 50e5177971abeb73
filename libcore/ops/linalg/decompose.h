#pragma once
// Decompositions of matrices and batches of them, as torch.linalg: results, errors, gradients and node names are
// PyTorch's. Matrices are the last two dimensions; all before them are batches. f32 and f64, complex64 and complex128
// (of which the transposes below are conjugated). Thread safety: pure functions. Cost:
// LAPACK on the host, whatever the device. Use: auto [u, s, vh] = core::linalg::svd(a, false);

#include <string>

#include "libcore/tensor/tensor.h"

namespace core::linalg {

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

/// Of symmetric (Hermitian) matrices, of which one triangle is read: "L" or "U".
Eigen eigh(const Tensor& a, const std::string& uplo = "L");
Tensor eigvalsh(const Tensor& a, const std::string& uplo = "L");

/// Of any square matrix: complex64 or complex128, in LAPACK's order; complex.h takes them apart. The gradients of the
/// vectors hold where values differ.
Eigen eig(const Tensor& a);
Tensor eigvals(const Tensor& a);

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

/// a = L @ L^T; upper: a = U^T @ U. Error "linalg.cholesky: The factorization could not be completed because the input
/// is not positive-definite (the leading minor of order 1 is not positive-definite)."
Tensor cholesky(const Tensor& a, bool upper = false);

/// a = L @ D @ L^T of symmetric matrices (with `hermitian` L @ D @ L^H), of which the lower triangle is read; D has
/// blocks of one or two rows.
struct LDLFactors {
  Tensor LD;      ///< as LAPACK packs them
  Tensor pivots;  ///< int32
};
struct LDLFactorsInfo {
  Tensor LD, pivots, info;
};
/// Have no derivative. Error(runtime) "linalg.ldl_factor: The factorization could not be completed because D[1,1] is
/// zero ...".
LDLFactors ldl_factor(const Tensor& a, bool hermitian = false);
LDLFactorsInfo ldl_factor_ex(const Tensor& a, bool hermitian = false);

struct WithInfo {
  Tensor result;
  Tensor info;  ///< int32, 0 where all went well, else what stood in the way
};
WithInfo cholesky_ex(const Tensor& a, bool upper = false);

/// The first columns of the product of reflections I - tau_i v_i v_i^T, v_i the i-th column of `reflectors` with zeros
/// above a one on the diagonal, as geqrf() gives them.
Tensor householder_product(const Tensor& reflectors, const Tensor& tau);

}  // namespace core::linalg

namespace core {

struct Reflections {
  Tensor a;  ///< R above and on the diagonal, reflectors below
  Tensor tau;
};

/// What Tensor::svd() gives.
struct SingularValues {
  Tensor u, s, v;
};

/// The product of `other` and the square matrix of the reflections that geqrf() gives, which is not formed by PyTorch
/// and here is; transpose: of its conjugate
/// transpose. Errors: those of linalg::householder_product().
Tensor ormqr(const Tensor& reflectors, const Tensor& tau, const Tensor& other, bool left = true,
             bool transpose = false);

/// The p, l and u of lu_factor()'s result; a part that is not wanted is an empty tensor.
/// Errors(runtime): PyTorch's texts for pivots of another dtype or sizes.
linalg::LU lu_unpack(const Tensor& lu, const Tensor& pivots, bool unpack_data = true, bool unpack_pivots = true);

/// The factors of qr() as LAPACK keeps them. Has no derivative.
Reflections geqrf(const Tensor& a);

}  // namespace core
