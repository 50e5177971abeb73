#pragma once
// Kernels made of short vectors, compiled once per instruction set. Thread safety: pure functions.

#include "libcore/backend/cpu/gemm_few_rows.h"
#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/op_params.h"

namespace core {
struct NnTable;
struct RecurrentTable;
}  // namespace core

namespace core::cpu {

CORE_EACH_ISA(bool small_product(const GemmParams& p); bool few_rows(const OneProduct& product);
              void column_dots(const OneProduct& product, std::int64_t begin, std::int64_t end);
              void fill_recurrent(RecurrentTable& table); void fill_softmax(NnTable& table);)

/// Of the widest instruction set that the processor has. `product` does the f32 product when it is small enough to be
/// worth it. `dots` does columns begin to end - 1 of a * b^T, rows of b one after the other.
struct SmallKernels {
  bool (*product)(const GemmParams& p);
  bool (*few_rows)(const OneProduct& product);  ///< of what few_rows_product() chose; false where it has no way
  void (*dots)(const OneProduct& product, std::int64_t begin, std::int64_t end);
  void (*fill_recurrent)(RecurrentTable& table);
  void (*fill_softmax)(NnTable& table);
};
SmallKernels small_kernels();

}  // namespace core::cpu
