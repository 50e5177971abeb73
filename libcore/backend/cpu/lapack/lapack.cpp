#include "libcore/backend/lapack.h"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

// Fortran's functions: numbers by address, the lengths of texts behind everything else.
extern "C" {
#define CORE_LAPACK_DECLARE_ALL(s, T)                                                                                 \
  void s##getrf_(const int*, const int*, T*, const int*, int*, int*);                                                 \
  void s##getrs_(const char*, const int*, const int*, const T*, const int*, const int*, T*, const int*, int*,         \
                 std::size_t);                                                                                        \
  void s##potrf_(const char*, const int*, T*, const int*, int*, std::size_t);                                         \
  void s##trtrs_(const char*, const char*, const char*, const int*, const int*, const T*, const int*, T*, const int*, \
                 int*, std::size_t, std::size_t, std::size_t);                                                        \
  void s##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);                                   \
  void s##sytrf_(const char*, const int*, T*, const int*, int*, T*, const int*, int*, std::size_t);                   \
  void s##sytrs_(const char*, const int*, const int*, const T*, const int*, const int*, T*, const int*, int*,         \
                 std::size_t);
#define CORE_LAPACK_DECLARE(s, T)                                                                                  \
  CORE_LAPACK_DECLARE_ALL(s, T)                                                                                    \
  void s##orgqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*);              \
  void s##gesdd_(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*, const int*, T*,      \
                 const int*, int*, int*, std::size_t);                                                             \
  void s##syevd_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*, const int*, int*, \
                 std::size_t, std::size_t);                                                                        \
  void s##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, T*, const int*, T*, const int*, T*,  \
                const int*, int*, std::size_t, std::size_t);                                                       \
  void s##gelsy_(const int*, const int*, const int*, T*, const int*, T*, const int*, int*, const T*, int*, T*,     \
                 const int*, int*);
CORE_LAPACK_DECLARE(s, float)
CORE_LAPACK_DECLARE(d, double)
#undef CORE_LAPACK_DECLARE
#define CORE_LAPACK_DECLARE(s, T, R)                                                                             \
  CORE_LAPACK_DECLARE_ALL(s, T)                                                                                  \
  void s##ungqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*);            \
  void s##gesdd_(const char*, const int*, const int*, T*, const int*, R*, T*, const int*, T*, const int*, T*,    \
                 const int*, R*, int*, int*, std::size_t);                                                       \
  void s##heevd_(const char*, const char*, const int*, T*, const int*, R*, T*, const int*, R*, const int*, int*, \
                 const int*, int*, std::size_t, std::size_t);                                                    \
  void s##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, T*, const int*, T*,    \
                const int*, R*, int*, std::size_t, std::size_t);                                                 \
  void s##hetrf_(const char*, const int*, T*, const int*, int*, T*, const int*, int*, std::size_t);              \
  void s##hetrs_(const char*, const int*, const int*, const T*, const int*, const int*, T*, const int*, int*,    \
                 std::size_t);                                                                                   \
  void s##gelsy_(const int*, const int*, const int*, T*, const int*, T*, const int*, int*, const R*, int*, T*,   \
                 const int*, R*, int*);
CORE_LAPACK_DECLARE(c, std::complex<float>, float)
CORE_LAPACK_DECLARE(z, std::complex<double>, double)
#undef CORE_LAPACK_DECLARE
#undef CORE_LAPACK_DECLARE_ALL
}

namespace core::lapack {
namespace {

template <class T>
struct Functions;
#define CORE_LAPACK_FUNCTIONS(s, T)          \
  template <>                                \
  struct Functions<T> {                      \
    static constexpr auto getrf = s##getrf_; \
    static constexpr auto getrs = s##getrs_; \
    static constexpr auto potrf = s##potrf_; \
    static constexpr auto trtrs = s##trtrs_; \
    static constexpr auto geqrf = s##geqrf_; \
    static constexpr auto sytrf = s##sytrf_; \
    static constexpr auto sytrs = s##sytrs_; \
    static constexpr auto orgqr = s##orgqr_; \
    static constexpr auto gesdd = s##gesdd_; \
    static constexpr auto syevd = s##syevd_; \
    static constexpr auto geev = s##geev_;   \
    static constexpr auto gelsy = s##gelsy_; \
  };
CORE_LAPACK_FUNCTIONS(s, float)
CORE_LAPACK_FUNCTIONS(d, double)
#undef CORE_LAPACK_FUNCTIONS
#define CORE_LAPACK_FUNCTIONS(s, T)          \
  template <>                                \
  struct Functions<T> {                      \
    static constexpr auto getrf = s##getrf_; \
    static constexpr auto getrs = s##getrs_; \
    static constexpr auto potrf = s##potrf_; \
    static constexpr auto trtrs = s##trtrs_; \
    static constexpr auto geqrf = s##geqrf_; \
    static constexpr auto sytrf = s##sytrf_; \
    static constexpr auto sytrs = s##sytrs_; \
    static constexpr auto orgqr = s##ungqr_; \
    static constexpr auto gesdd = s##gesdd_; \
    static constexpr auto heevd = s##heevd_; \
    static constexpr auto hetrf = s##hetrf_; \
    static constexpr auto hetrs = s##hetrs_; \
    static constexpr auto geev = s##geev_;   \
    static constexpr auto gelsy = s##gelsy_; \
  };
CORE_LAPACK_FUNCTIONS(c, std::complex<float>)
CORE_LAPACK_FUNCTIONS(z, std::complex<double>)
#undef CORE_LAPACK_FUNCTIONS

template <class T>
constexpr bool kIsComplex = !std::is_same_v<T, Real<T>>;

/// Leading sizes are at least 1, also of nothing.
int leading(int rows) {
  return std::max(rows, 1);
}

/// Calls run(work, size) once for the size and once for the result.
template <class T, class Run>
int with_work(Run run) {
  T wanted = 0;
  run(&wanted, -1);
  std::vector<T> work(std::max<std::size_t>(1, static_cast<std::size_t>(std::real(wanted))));
  return run(work.data(), static_cast<int>(work.size()));
}

/// OpenBLAS starts its threads for the smallest of these systems, which takes longer than the rest.
constexpr int kFewRows = 64;

/// One column after the other, by substitution.
template <class T>
void substitute(Triangle t, int n, int count, const T* a, T* b) {
  const auto rows = static_cast<std::ptrdiff_t>(n);
  const bool turned = t.trans == 'T', unit = t.diagonal == 'U', forward = (t.uplo == 'L') != turned;
  const auto at = [&](std::ptrdiff_t i, std::ptrdiff_t j) { return turned ? a[i * rows + j] : a[j * rows + i]; };
  for (std::ptrdiff_t c = 0; c < count; ++c) {
    T* x = b + c * rows;
    for (std::ptrdiff_t k = 0; k < rows; ++k) {
      const std::ptrdiff_t i = forward ? k : rows - 1 - k;
      T rest = x[i];
      for (std::ptrdiff_t j = forward ? 0 : i + 1; j < (forward ? i : rows); ++j) rest -= at(i, j) * x[j];
      x[i] = unit ? rest : rest / at(i, i);
    }
  }
}

template <class T>
void lu_substitute(int n, int count, const T* lu, const int* pivots, T* b) {
  for (int c = 0; c < count; ++c) {
    T* x = b + static_cast<std::ptrdiff_t>(c) * n;
    for (int i = 0; i < n; ++i) std::swap(x[i], x[pivots[i] - 1]);
  }
  substitute({'L', 'N', 'U'}, n, count, lu, b);
  substitute({'U', 'N', 'N'}, n, count, lu, b);
}

}  // namespace

template <class T>
int lu(int m, int n, T* a, int* pivots) {
  const int lead = leading(m);
  int info = 0;
  Functions<T>::getrf(&m, &n, a, &lead, pivots, &info);
  return info;
}

template <class T>
void lu_solve(int n, int count, const T* lu, const int* pivots, T* b) {
  if (n <= kFewRows) return lu_substitute(n, count, lu, pivots, b);
  const int lead = leading(n);
  int info = 0;
  Functions<T>::getrs("N", &n, &count, lu, &lead, pivots, b, &lead, &info, 1);
}

template <class T>
int ldl(bool hermitian, int n, T* a, int* pivots) {
  const int lead = leading(n);
  return with_work<T>([&](T* work, int size) {
    int info = 0;
    if constexpr (kIsComplex<T>) {
      if (hermitian) {
        Functions<T>::hetrf("L", &n, a, &lead, pivots, work, &size, &info, 1);
        return info;
      }
    }
    Functions<T>::sytrf("L", &n, a, &lead, pivots, work, &size, &info, 1);
    return info;
  });
}

template <class T>
void ldl_solve(bool hermitian, int n, int count, const T* ld, const int* pivots, T* b) {
  const int lead = leading(n);
  int info = 0;
  if constexpr (kIsComplex<T>) {
    if (hermitian) return Functions<T>::hetrs("L", &n, &count, ld, &lead, pivots, b, &lead, &info, 1);
  }
  Functions<T>::sytrs("L", &n, &count, ld, &lead, pivots, b, &lead, &info, 1);
}

template <class T>
int cholesky(char uplo, int n, T* a) {
  const int lead = leading(n);
  int info = 0;
  Functions<T>::potrf(&uplo, &n, a, &lead, &info, 1);
  return info;
}

template <class T>
void triangular_solve(Triangle t, int n, int count, const T* a, T* b) {
  if (n <= kFewRows) return substitute(t, n, count, a, b);
  const int lead = leading(n);
  int info = 0;
  Functions<T>::trtrs(&t.uplo, &t.trans, &t.diagonal, &n, &count, a, &lead, b, &lead, &info, 1, 1, 1);
}

template <class T>
void qr(int m, int n, T* a, T* tau) {
  const int lead = leading(m);
  with_work<T>([&](T* work, int size) {
    int info = 0;
    Functions<T>::geqrf(&m, &n, a, &lead, tau, work, &size, &info);
    return info;
  });
}

template <class T>
void make_q(int m, int n, int k, T* a, const T* tau) {
  const int lead = leading(m);
  with_work<T>([&](T* work, int size) {
    int info = 0;
    Functions<T>::orgqr(&m, &n, &k, a, &lead, tau, work, &size, &info);
    return info;
  });
}

template <class T>
int svd(char job, int m, int n, const SvdArrays<T>& x) {
  const int lead = leading(m), vh_lead = leading(x.vh_rows);
  const auto least = static_cast<std::size_t>(leading(std::min(m, n))), most = static_cast<std::size_t>(std::max(m, n));
  std::vector<int> small(8 * least);
  std::vector<Real<T>> parts(kIsComplex<T> ? least * std::max(5 * least + 7, 2 * most + 2 * least + 1) : 0);
  return with_work<T>([&](T* work, int size) {
    int info = 0;
    if constexpr (kIsComplex<T>) {
      Functions<T>::gesdd(&job, &m, &n, x.a, &lead, x.s, x.u, &lead, x.vh, &vh_lead, work, &size, parts.data(),
                          small.data(), &info, 1);
    } else {
      Functions<T>::gesdd(&job, &m, &n, x.a, &lead, x.s, x.u, &lead, x.vh, &vh_lead, work, &size, small.data(), &info,
                          1);
    }
    return info;
  });
}

template <class T>
int eigh(char job, char uplo, int n, T* a, Real<T>* values) {
  const int lead = leading(n);
  std::vector<Real<T>> parts(kIsComplex<T> ? static_cast<std::size_t>(1 + 5 * n + 2 * n * n) : 0);
  const int parts_size = static_cast<int>(parts.size());
  std::vector<int> small(static_cast<std::size_t>(3 + 5 * n));
  const int small_size = static_cast<int>(small.size());
  return with_work<T>([&](T* work, int size) {
    int info = 0;
    const int of_small = size < 0 ? -1 : small_size;
    if constexpr (kIsComplex<T>) {
      Functions<T>::heevd(&job, &uplo, &n, a, &lead, values, work, &size, parts.data(), &parts_size, small.data(),
                          &small_size, &info, 1, 1);
    } else {
      Functions<T>::syevd(&job, &uplo, &n, a, &lead, values, work, &size, small.data(), &of_small, &info, 1, 1);
    }
    return info;
  });
}

template <class T>
int eig(int n, T* a, T* real, T* imaginary, T* vectors) {
  const int lead = leading(n);
  const char job = vectors != nullptr ? 'V' : 'N';
  return with_work<T>([&](T* work, int size) {
    int info = 0;
    Functions<T>::geev("N", &job, &n, a, &lead, real, imaginary, nullptr, &lead, vectors, &lead, work, &size, &info, 1,
                       1);
    return info;
  });
}

template <class T>
int eig(int n, std::complex<T>* a, std::complex<T>* values, std::complex<T>* vectors) {
  using C = std::complex<T>;
  const int lead = leading(n);
  const char job = vectors != nullptr ? 'V' : 'N';
  std::vector<T> parts(static_cast<std::size_t>(2 * lead));
  return with_work<C>([&](C* work, int size) {
    int info = 0;
    Functions<C>::geev("N", &job, &n, a, &lead, values, nullptr, &lead, vectors, &lead, work, &size, parts.data(),
                       &info, 1, 1);
    return info;
  });
}

template <class T>
int lstsq(int m, int n, int count, T* a, T* b, Real<T> rcond) {
  const int lead = leading(m), b_lead = leading(std::max(m, n));
  std::vector<int> pivots(static_cast<std::size_t>(leading(n)), 0);
  std::vector<Real<T>> parts(kIsComplex<T> ? static_cast<std::size_t>(2 * leading(n)) : 0);
  int rank = 0;
  with_work<T>([&](T* work, int size) {
    int info = 0;
    if constexpr (kIsComplex<T>) {
      Functions<T>::gelsy(&m, &n, &count, a, &lead, b, &b_lead, pivots.data(), &rcond, &rank, work, &size, parts.data(),
                          &info);
    } else {
      Functions<T>::gelsy(&m, &n, &count, a, &lead, b, &b_lead, pivots.data(), &rcond, &rank, work, &size, &info);
    }
    return info;
  });
  return rank;
}

#define CORE_LAPACK_INSTANCES(T)                                     \
  template int lu(int, int, T*, int*);                               \
  template void lu_solve(int, int, const T*, const int*, T*);        \
  template int ldl(bool, int, T*, int*);                             \
  template void ldl_solve(bool, int, int, const T*, const int*, T*); \
  template int cholesky(char, int, T*);                              \
  template void triangular_solve(Triangle, int, int, const T*, T*);  \
  template void qr(int, int, T*, T*);                                \
  template void make_q(int, int, int, T*, const T*);                 \
  template int svd(char, int, int, const SvdArrays<T>&);             \
  template int eigh(char, char, int, T*, Real<T>*);                  \
  template int lstsq(int, int, int, T*, T*, Real<T>);
CORE_LAPACK_INSTANCES(float)
CORE_LAPACK_INSTANCES(double)
CORE_LAPACK_INSTANCES(std::complex<float>)
CORE_LAPACK_INSTANCES(std::complex<double>)
#undef CORE_LAPACK_INSTANCES
template int eig(int, float*, float*, float*, float*);
template int eig(int, double*, double*, double*, double*);
template int eig(int, std::complex<float>*, std::complex<float>*, std::complex<float>*);
template int eig(int, std::complex<double>*, std::complex<double>*, std::complex<double>*);

}  // namespace core::lapack
