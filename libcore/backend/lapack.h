#pragma once
// LAPACK on column-major arrays of float, double and their complex numbers, as functions with names. Results are
// LAPACK's `info`: 0, or what stood in the way. Thread safety: pure functions of their arrays. Use: int info =
// lapack::lu(3, 3, a, pivots);

#include <complex>
#include <cstdint>

namespace core::lapack {

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using type = T;
};
/// The type of the parts of T.
template <class T>
using Real = typename RealOf<T>::type;

/// a (m, n) = P L U; `pivots`: min(m, n). Info k: the k-th diagonal element of U is 0.
template <class T>
int lu(int m, int n, T* a, int* pivots);
/// b (n, count) = A^-1 b from lu().
template <class T>
void lu_solve(int n, int count, const T* lu, const int* pivots, T* b);
/// Info k: the leading minor of order k is not positive.
template <class T>
int cholesky(char uplo, int n, T* a);
/// a (n, n) symmetric, or Hermitian, = L D L^T by its lower triangle. Info k: the k-th diagonal element of D is 0.
template <class T>
int ldl(bool hermitian, int n, T* a, int* pivots);
/// b (n, count) = A^-1 b from ldl().
template <class T>
void ldl_solve(bool hermitian, int n, int count, const T* ld, const int* pivots, T* b);
/// b (n, count) = op(A)^-1 b; trans: 'N' or 'T'; diagonal: 'N' or 'U'.
struct Triangle {
  char uplo, trans, diagonal;
};
template <class T>
void triangular_solve(Triangle triangle, int n, int count, const T* a, T* b);
/// a (m, n): R above, reflectors below; tau: min(m, n).
template <class T>
void qr(int m, int n, T* a, T* tau);
/// a (m, n) becomes the first n columns of Q, from k reflectors.
template <class T>
void make_q(int m, int n, int k, T* a, const T* tau);
/// job: 'N' values alone, 'S' reduced, 'A' all. u: (m, columns), vh: (rows, n) with that leading size.
template <class T>
struct SvdArrays {
  T* a;
  Real<T>* s;
  T *u, *vh;
  int vh_rows;
};
template <class T>
int svd(char job, int m, int n, const SvdArrays<T>& arrays);
/// a becomes the vectors where they are wanted.
template <class T>
int eigh(char job, char uplo, int n, T* a, Real<T>* values);
/// Of any square matrix of real numbers, `a` is spoilt. Complex values come as (real, imaginary) of conjugate pairs,
/// the one with the positive imaginary part first; vectors (n, n, or null where they are not wanted) of such a pair are
/// columns j, j + 1: real and imaginary part of the first.
template <class T>
int eig(int n, T* a, T* real, T* imaginary, T* vectors);
/// Of any square matrix of complex numbers, `a` is spoilt; vectors as above, but each in its own column.
template <class T>
int eig(int n, std::complex<T>* a, std::complex<T>* values, std::complex<T>* vectors);
/// b (max(m, n), count) becomes the solution; gives the rank. By a complete orthogonal factorisation.
template <class T>
int lstsq(int m, int n, int count, T* a, T* b, Real<T> rcond);

}  // namespace core::lapack
