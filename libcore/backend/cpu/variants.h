#pragma once
// What is compiled once for each level of instruction sets (cpu_variants() in CMakeLists.txt beside this file); the
// copy to run is CORE_BY_ISA(name). Thread safety: pure functions, but the fill_ ones, which are called while the
// tables are made.

#include "libcore/backend/cpu/gemm/few_rows.h"
#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/image_table.h"
#include "libcore/backend/nn_table.h"
#include "libcore/backend/op_params.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/optimizer_table.h"
#include "libcore/backend/recurrent_table.h"

namespace core::cpu {

/// Columns begin to end - 1 of out = x * b^T + bias. x: m rows of k floats, b: n rows of k numbers of 16 bits (`type`),
/// ldb apart; bias: n or null, out: (m, n); dense.
struct NarrowDots {
  DType type;
  std::int64_t m, n, k;
  const float* x;
  const void* b;
  std::int64_t ldb;
  const float* bias;
  float* out;
  std::int64_t begin, end;
};

// None for AVX-512.
CORE_EACH_ISA(void fill_float_arithmetic(ElementwiseTable& table))
CORE_EACH_ISA(void fill_float_math(ElementwiseTable& table))
/// Between f32 and 16 bits. After fill_conversions: it takes the place of some of those.
CORE_EACH_ISA(void fill_narrow_conversions(CopyTable& table))
/// `count` numbers of f16 or bf16 as f32, and the other way, to the nearest.
CORE_EACH_ISA(void widen_row(DType from_type, const void* from, std::int64_t count, float* to))
CORE_EACH_ISA(void round_row(DType to_type, const float* from, std::int64_t count, void* to))
/// After all others: it calls their f32 kernels.
CORE_EACH_ISA(void fill_narrow(ElementwiseTable& table))

/// An f32 product where it is small enough to be worth it; false where it is not.
CORE_EACH_ISA(bool small_product(const GemmParams& p))
/// Whether small_product() turns b in registers, which with b turned before it need not, with the same bits.
CORE_EACH_ISA(bool turns_b(const GemmParams& p))
/// Of what wide_rows_product() chose; false where this level has no way.
CORE_EACH_ISA(bool few_rows(const OneProduct& product))
/// As wide_rows_product(), for products of middle size.
CORE_EACH_ISA(bool strip_product(const OneProduct& product))
/// Columns begin to end - 1 of a * b^T, rows of b one after the other.
CORE_EACH_ISA(void column_dots(const OneProduct& product, std::int64_t begin, std::int64_t end))

/// REQUIRES: AVX-512; the other levels do nothing.
CORE_EACH_ISA(void narrow_dots(const NarrowDots& p))

CORE_EACH_ISA(void fill_attention(NnTable& table))
CORE_EACH_ISA(void fill_blocked_layout(ImageTable& table))
CORE_EACH_ISA(void fill_blocked_pools(ImageTable& table))
CORE_EACH_ISA(void fill_gru(RecurrentTable& table))
CORE_EACH_ISA(void fill_long_layer_norms(NnTable& table))
CORE_EACH_ISA(void fill_lstm(RecurrentTable& table))
CORE_EACH_ISA(void fill_max_2x2(NnTable& table))
CORE_EACH_ISA(void fill_optimizers(OptimizerTable& table))
CORE_EACH_ISA(void fill_softmax(NnTable& table))

}  // namespace core::cpu
