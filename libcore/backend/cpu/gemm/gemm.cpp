// Matrix products: oneDNN for f32 and, where the processor multiplies it, bf16; OpenBLAS for f64, plain loops for
// integers; f16 as f32 (gemm_narrow.cpp).
#include <cblas.h>
#include <dnnl.h>

#include <algorithm>
#include <cstdint>

#include "libcore/backend/cpu/conv/onednn.h"
#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/gemm/few_rows.h"
#include "libcore/backend/cpu/gemm/gemm_bf16.h"
#include "libcore/backend/cpu/gemm/gemm_narrow.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"
#include "libcore/backend/element_types.h"
#include "libcore/base/error.h"

namespace core::cpu {
namespace {

/// Puts the bias into every row, for a library to add the product to. Gives beta.
template <class T>
T start_of(const GemmParams& p, T* c) {
  if (p.bias == nullptr) return static_cast<T>(p.beta);
  for (std::int64_t row = 0; row < p.m; ++row) std::copy_n(static_cast<const T*>(p.bias), p.n, c + row * p.ldc);
  return 1;
}

/// Multiplications up to which one thread is faster: what another computes has to come over from its cache. A step of
/// a GRU took 430 us on two threads and takes 290 on one, LeNet-5 at batch 64 1.63 and 1.42 ms (Zen 5).
constexpr std::int64_t kWorkOfOne = 1 << 22;
/// The same for small products, whose operands are not read by the other thread: each is computed as it would be alone,
/// and there may be many of them (1152 in the routing of a capsule network).
constexpr std::int64_t kSmallWorkOfOne = 1 << 17;

/// Those of a batch that are small one by one, shared out between threads. False where they are not small.
bool small_products(const GemmParams& p) {
  static const auto small_product = CORE_BY_ISA(small_product);
  if (p.batch <= 1) return small_product(p);
  GemmParams none = p;
  none.batch = 0;
  if (!small_product(none)) return false;
  parallel_for(p.batch, 1 + kSmallWorkOfOne / std::max<std::int64_t>(1, p.m * p.n * p.k),
               [&](std::int64_t begin, std::int64_t end) {
                 GemmParams some = p;
                 some.batch = end - begin;
                 some.a = static_cast<const float*>(p.a) + begin * p.batch_stride_a;
                 some.b = static_cast<const float*>(p.b) + begin * p.batch_stride_b;
                 some.c = static_cast<float*>(p.c) + begin * p.batch_stride_c;
                 small_product(some);
               });
  return true;
}

}  // namespace

void gemm_f32(const GemmParams& p) {
  if (small_products(p)) return;
  const ThreadLimitGuard limit(p.m * p.n * p.k <= kWorkOfOne ? 1 : num_threads());
  apply_thread_limit();
  static const auto strips = CORE_BY_ISA(strip_product);
  for (std::int64_t i = 0; i < p.batch; ++i) {
    const auto* a = static_cast<const float*>(p.a) + i * p.batch_stride_a;
    const auto* b = static_cast<const float*>(p.b) + i * p.batch_stride_b;
    auto* c = static_cast<float*>(p.c) + i * p.batch_stride_c;
    if (strips({p, a, b, c, static_cast<float>(p.beta)})) continue;
    if (wide_rows_product({p, a, b, c, static_cast<float>(p.beta)})) continue;
    const float beta = start_of(p, c);
    if (few_rows_product({p, a, b, c, beta})) continue;
    dnnl_status_t status = dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k,
                                      static_cast<float>(p.alpha), a, p.lda, b, p.ldb, beta, c, p.ldc);
    if (status != dnnl_success) throw Error(ErrorCode::internal, "matrix product: oneDNN refused the sizes");
  }
}

namespace {

void gemm_f64(const GemmParams& p) {
  apply_thread_limit();
  auto transpose = [](bool yes) { return yes ? CblasTrans : CblasNoTrans; };
  for (std::int64_t i = 0; i < p.batch; ++i) {
    const auto* a = static_cast<const double*>(p.a) + i * p.batch_stride_a;
    const auto* b = static_cast<const double*>(p.b) + i * p.batch_stride_b;
    auto* c = static_cast<double*>(p.c) + i * p.batch_stride_c;
    const double beta = start_of(p, c);
    cblas_dgemm(CblasRowMajor, transpose(p.transpose_a), transpose(p.transpose_b), static_cast<int>(p.m),
                static_cast<int>(p.n), static_cast<int>(p.k), p.alpha, a, static_cast<int>(p.lda), b,
                static_cast<int>(p.ldb), beta, c, static_cast<int>(p.ldc));
  }
}

/// Row and column of a product of integers, wrapping.
template <class T>
void integer_row(const GemmParams& p, const T* a, const T* b, T* c, std::int64_t row) {
  using Wide = std::uint64_t;
  const std::int64_t row_a = p.transpose_a ? 1 : p.lda, step_a = p.transpose_a ? p.lda : 1;
  const std::int64_t step_b = p.transpose_b ? 1 : p.ldb, column_b = p.transpose_b ? p.ldb : 1;
  const auto alpha = static_cast<Wide>(static_cast<std::int64_t>(p.alpha));
  const auto beta = static_cast<Wide>(static_cast<std::int64_t>(p.beta));
  for (std::int64_t column = 0; column < p.n; ++column) {
    const T* x = a + row * row_a;
    const T* y = b + column * column_b;
    Wide sum = 0;
    for (std::int64_t k = 0; k < p.k; ++k) sum += static_cast<Wide>(x[k * step_a]) * static_cast<Wide>(y[k * step_b]);
    T& out = c[row * p.ldc + column];
    out = static_cast<T>(alpha * sum + (beta == 0 ? 0 : beta * static_cast<Wide>(out)));
  }
}

template <class T>
void gemm_integer(const GemmParams& p) {
  for (std::int64_t i = 0; i < p.batch; ++i) {
    const T* a = static_cast<const T*>(p.a) + i * p.batch_stride_a;
    const T* b = static_cast<const T*>(p.b) + i * p.batch_stride_b;
    T* c = static_cast<T*>(p.c) + i * p.batch_stride_c;
    parallel_for(p.m, 1 + 4096 / (1 + p.n * p.k), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) integer_row(p, a, b, c, row);
    });
  }
}

}  // namespace

void fill_matmul(MatmulTable& table) {
  auto slot = [&](DType dtype) -> auto& {
    return table.gemm[static_cast<std::size_t>(dtype)];
  };
  slot(DType::f32) = gemm_f32;
  table.gains_by_turned[static_cast<std::size_t>(DType::f32)] = CORE_BY_ISA(turns_b);
  slot(DType::f64) = gemm_f64;
  slot(DType::f16) = gemm_f16;
  slot(DType::bf16) = dnnl_takes_bf16() ? gemm_bf16 : gemm_bf16_in_f32;
  slot(DType::i64) = gemm_integer<std::int64_t>;
  slot(DType::i32) = gemm_integer<std::int32_t>;
  slot(DType::i16) = gemm_integer<std::int16_t>;
  slot(DType::i8) = gemm_integer<std::int8_t>;
  slot(DType::u8) = gemm_integer<std::uint8_t>;
}

}  // namespace core::cpu
