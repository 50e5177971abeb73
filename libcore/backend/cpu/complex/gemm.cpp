// Matrix products of complex numbers, by OpenBLAS.
#include <cblas.h>

#include <algorithm>
#include <complex>
#include <cstdint>

#include "libcore/backend/complex_elements.h"
#include "libcore/backend/cpu/complex/complex_tables.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu {
namespace {

template <class C, auto kProduct>
void gemm_kernel(const GemmParams& p) {
  using Real = typename C::value_type;
  apply_thread_limit();
  const auto transpose = [](bool yes) { return yes ? CblasTrans : CblasNoTrans; };
  const C alpha(static_cast<Real>(p.alpha)), beta(p.bias == nullptr ? static_cast<Real>(p.beta) : Real(1));
  for (std::int64_t i = 0; i < p.batch; ++i) {
    const C* a = static_cast<const C*>(p.a) + i * p.batch_stride_a;
    const C* b = static_cast<const C*>(p.b) + i * p.batch_stride_b;
    C* c = static_cast<C*>(p.c) + i * p.batch_stride_c;
    for (std::int64_t row = 0; row < p.m && p.bias != nullptr; ++row) {
      std::copy_n(static_cast<const C*>(p.bias), p.n, c + row * p.ldc);
    }
    kProduct(CblasRowMajor, transpose(p.transpose_a), transpose(p.transpose_b), static_cast<int>(p.m),
             static_cast<int>(p.n), static_cast<int>(p.k), &alpha, a, static_cast<int>(p.lda), b,
             static_cast<int>(p.ldb), &beta, c, static_cast<int>(p.ldc));
  }
}

}  // namespace

void fill_complex_matmul(MatmulTable& table) {
  table.gemm[static_cast<std::size_t>(DType::c64)] = gemm_kernel<std::complex<float>, cblas_cgemm>;
  table.gemm[static_cast<std::size_t>(DType::c128)] = gemm_kernel<std::complex<double>, cblas_zgemm>;
}

}  // namespace core::cpu
