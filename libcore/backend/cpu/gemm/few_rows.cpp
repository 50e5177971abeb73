#include "libcore/backend/cpu/gemm/few_rows.h"

#include <dnnl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"

namespace core::cpu {
namespace {

constexpr std::int64_t kMinRows = 12;               // to turn
constexpr std::int64_t kMaxRows = 48;               // from 64 on the library is as fast either way (few_rows.h)
constexpr std::int64_t kMaxOwnRows = 1536;          // from there on packing W costs nothing beside the product
constexpr std::int64_t kMinWeights = 1 << 16;       // elements of W
constexpr std::int64_t kStrip = 16;                 // columns of c: a cache line
constexpr std::int64_t kElementsAThread = 1 << 18;  // of W: worth waking a thread for

/// c = t^T + beta * c, strip by strip so that both stay in the cache. t: (n, m), c: (m, n)
void add_transposed(const float* t, const OneProduct& out) {
  const GemmParams& p = out.params;
  for (std::int64_t begin = 0; begin < p.n; begin += kStrip) {
    const std::int64_t end = std::min(begin + kStrip, p.n);
    for (std::int64_t row = 0; row < p.m; ++row) {
      float* c = out.c + row * p.ldc;
      if (out.beta == 0) {
        for (std::int64_t column = begin; column < end; ++column) c[column] = t[column * p.m + row];
      } else {
        for (std::int64_t column = begin; column < end; ++column) {
          c[column] = t[column * p.m + row] + out.beta * c[column];
        }
      }
    }
  }
}

/// Each element is one dot product whatever the number of threads. A strip of columns is a row of W each.
void dot_products(const OneProduct& product) {
  static const auto dots = CORE_BY_ISA(column_dots);
  const GemmParams& p = product.params;
  const std::int64_t strips = (p.n + kStrip - 1) / kStrip;
  parallel_for(strips, 1 + kElementsAThread / (kStrip * p.k), [&](std::int64_t begin, std::int64_t end) {
    dots(product, begin * kStrip, std::min(end * kStrip, p.n));
  });
}

}  // namespace

bool wide_rows_product(const OneProduct& product) {
  const GemmParams& p = product.params;
  if (p.transpose_a || !p.transpose_b || p.n * p.k < kMinWeights || p.m < kMinRows || p.m > kMaxOwnRows) return false;
  static const auto own = CORE_BY_ISA(few_rows);
  return own(product);
}

bool few_rows_product(const OneProduct& product) {
  const GemmParams& p = product.params;
  if (p.transpose_a || !p.transpose_b || p.m > kMaxRows || p.n * p.k < kMinWeights) return false;
  if (p.m == 2) return false;  // the library reads W as fast as memory gives it
  if (p.m < kMinRows) {
    dot_products(product);
    return true;
  }
  const CallMemory transposed(p.m * p.n);
  const dnnl_status_t status = dnnl_sgemm('N', 'T', p.n, p.m, p.k, static_cast<float>(p.alpha), product.b, p.ldb,
                                          product.a, p.lda, 0, transposed.data(), p.m);
  if (status != dnnl_success) return false;
  add_transposed(transposed.data(), product);
  return true;
}

}  // namespace core::cpu
