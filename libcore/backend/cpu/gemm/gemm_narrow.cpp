#include "libcore/backend/cpu/gemm/gemm_narrow.h"

#include <algorithm>
#include <cstddef>

#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/cpu/narrow_rows.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"

namespace core::cpu {
namespace {

constexpr std::int64_t kFewRows = 11;               // as dot products with W, which is read once
constexpr std::int64_t kMinWeights = 1 << 16;       // elements of W from which reading it is what takes the time
constexpr std::int64_t kElementsAThread = 1 << 20;  // of W, read in 30 us: worth waking a thread for
constexpr std::int64_t kStrip = 16;                 // columns of the result

const std::byte* at(const void* data, std::int64_t element) {
  return static_cast<const std::byte*>(data) + 2 * element;
}

/// A matrix as f32, its rows one after the other.
class WideMatrix {
 public:
  WideMatrix(DType type, const void* data, std::int64_t rows, std::int64_t columns, std::int64_t leading)
      : memory_(rows * columns) {
    if (leading == columns) {
      widen_array(type, data, rows * columns, memory_.data());
      return;
    }
    static const auto widen = CORE_BY_ISA(widen_row);
    parallel_for(rows, 1 + kElementsAThread / columns, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        widen(type, at(data, row * leading), columns, memory_.data() + row * columns);
      }
    });
  }
  float* data() const { return memory_.data(); }

 private:
  CallMemory memory_;
};

/// x W^T of few rows x and a large W: W is widened in registers, on its way to the sums.
bool is_of_few_rows(const GemmParams& p) {
  return isa() == Isa::avx512 && !p.transpose_a && p.transpose_b && p.m <= kFewRows && p.n * p.k >= kMinWeights &&
         p.alpha == 1 && p.beta == 0;
}

/// One product of a batch. c: (m, n) dense, what the product is added to where beta is not 0.
struct One {
  DType type;
  const GemmParams& p;
  const void *a, *b;
  const float* bias;
  float* c;
};

void few_rows_product(const One& one) {
  static const auto dots = CORE_BY_ISA(narrow_dots);
  const GemmParams& p = one.p;
  const WideMatrix x(one.type, one.a, p.m, p.k, p.lda);
  const std::int64_t strips = (p.n + kStrip - 1) / kStrip;
  parallel_for(strips, 1 + kElementsAThread / (kStrip * p.k), [&](std::int64_t begin, std::int64_t end) {
    dots({one.type, p.m, p.n, p.k, x.data(), one.b, p.ldb, one.bias, one.c, begin * kStrip,
          std::min(end * kStrip, p.n)});
  });
}

void multiply(const One& one) {
  const GemmParams& p = one.p;
  if (is_of_few_rows(p)) return few_rows_product(one);
  const std::int64_t a_rows = p.transpose_a ? p.k : p.m, a_columns = p.transpose_a ? p.m : p.k;
  const std::int64_t b_rows = p.transpose_b ? p.n : p.k, b_columns = p.transpose_b ? p.k : p.n;
  const WideMatrix a(one.type, one.a, a_rows, a_columns, p.lda), b(one.type, one.b, b_rows, b_columns, p.ldb);
  GemmParams wide = p;
  wide.a = a.data(), wide.b = b.data(), wide.c = one.c, wide.bias = one.bias;
  wide.lda = a_columns, wide.ldb = b_columns, wide.ldc = p.n;
  wide.batch = 1;
  gemm_f32(wide);
}

void gemm(DType type, const GemmParams& p) {
  static const auto widen = CORE_BY_ISA(widen_row);
  static const auto round = CORE_BY_ISA(round_row);
  const WideArray bias(type, p.bias, p.n);
  const CallMemory sums(p.m * p.n);
  for (std::int64_t i = 0; i < p.batch; ++i) {
    std::byte* c = static_cast<std::byte*>(p.c) + 2 * i * p.batch_stride_c;
    for (std::int64_t row = 0; p.beta != 0 && row < p.m; ++row) {
      widen(type, at(c, row * p.ldc), p.n, sums.data() + row * p.n);
    }
    multiply({type, p, at(p.a, i * p.batch_stride_a), at(p.b, i * p.batch_stride_b), bias.data(), sums.data()});
    if (p.ldc == p.n) {
      round_array(type, sums.data(), p.m * p.n, c);
      continue;
    }
    for (std::int64_t row = 0; row < p.m; ++row) round(type, sums.data() + row * p.n, p.n, c + 2 * row * p.ldc);
  }
}

}  // namespace

void gemm_f16(const GemmParams& p) {
  gemm(DType::f16, p);
}
void gemm_bf16_in_f32(const GemmParams& p) {
  gemm(DType::bf16, p);
}

bool in_f32_is_faster(const GemmParams& p) {
  // oneDNN's call alone takes 1.5 us; 8 rows of 64 by 64 took 1.9 us with it. By tiles their gradients take half of
  // f32's time.
  static const std::int64_t small_work = multiplies_tiles() ? 1 << 14 : 1 << 17;
  return p.m * p.n * p.k <= small_work / std::max<std::int64_t>(1, p.batch) || is_of_few_rows(p);
}

}  // namespace core::cpu
