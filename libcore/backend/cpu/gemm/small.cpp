// Small f32 matrix products for one instruction set (CORE_CPU_VARIANT names the namespace).
#include "libcore/backend/cpu/gemm/small.h"

#include "libcore/backend/cpu/gemm/turned_dots.h"
#include "libcore/backend/cpu/scratch.h"
#include "libcore/backend/cpu/variants.h"

namespace core::cpu {
namespace {

constexpr std::int64_t kMostWork = 1 << 18;  // multiplications, above which a library's packing of the operands pays
constexpr std::int64_t kRowsToTurn = 16;     // rows of a, from which on turning b once is cheaper than dot products

SmallProduct<float> small_of(const GemmParams& p, const float* a, const float* b, float* c) {
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .a = a,
          .a_row = p.transpose_a ? 1 : p.lda,
          .a_step = p.transpose_a ? p.lda : 1,
          .b = b,
          .ldb = p.ldb,
          .c = c,
          .ldc = p.ldc,
          .alpha = static_cast<float>(p.alpha),
          .beta = static_cast<float>(p.beta),
          .bias = static_cast<const float*>(p.bias)};
}

bool is_small(const GemmParams& p) {
  return p.m * p.n * p.k <= kMostWork && !(p.transpose_a && p.transpose_b);
}

void multiply(const GemmParams& p, const float* a, const float* b, float* c) {
  SmallProduct<float> small = small_of(p, a, b, c);
  if (!p.transpose_b) return rows_product(small);
  if (p.m < kRowsToTurn && turns_in_registers(small)) return turned_dots(small);
  if (p.m < kRowsToTurn || p.n == 1) return dots_product(small);
  auto* columns = scratch<float>(Scratch::weight, p.n * p.k);
  turned(b, p.ldb, p.n, p.k, columns, p.n);
  small.b = columns;
  small.ldb = p.n;
  rows_product(small);
}

}  // namespace

bool CORE_CPU_VARIANT::small_product(const GemmParams& p) {
  if (!is_small(p)) return false;
  for (std::int64_t i = 0; i < p.batch; ++i) {
    multiply(p, static_cast<const float*>(p.a) + i * p.batch_stride_a,
             static_cast<const float*>(p.b) + i * p.batch_stride_b, static_cast<float*>(p.c) + i * p.batch_stride_c);
  }
  return true;
}

bool CORE_CPU_VARIANT::turns_b(const GemmParams& p) {
  return is_small(p) && p.transpose_b && p.m < kRowsToTurn &&
         turns_in_registers(small_of(p, nullptr, nullptr, nullptr));
}

void CORE_CPU_VARIANT::column_dots(const OneProduct& product, std::int64_t begin, std::int64_t end) {
  const GemmParams& p = product.params;
  SmallProduct<float> some{.m = p.m,
                           .n = end - begin,
                           .k = p.k,
                           .a = product.a,
                           .a_row = p.lda,
                           .a_step = 1,
                           .b = product.b + begin * p.ldb,
                           .ldb = p.ldb,
                           .c = product.c + begin,
                           .ldc = p.ldc,
                           .alpha = static_cast<float>(p.alpha),
                           .beta = product.beta};
  if (p.m == 1) return line_of_dots(some);
  constexpr std::int64_t kColumns = kWidth<float> >= 4 ? 4 : 2, kRows = kWidth<float> / kColumns;
  for (std::int64_t column = 0; column < some.n; column += kColumns) {
    for (std::int64_t row = 0; row < some.m; row += kRows) dots_block<float, kRows, kColumns>(some, row, column);
  }
}

}  // namespace core::cpu
