#pragma once
// Kernels made of short vectors, compiled once per instruction set. Thread safety: pure functions.

#include "libcore/backend/op_params.h"

namespace core {
struct NnTable;
struct RecurrentTable;
}  // namespace core

namespace core::cpu {

struct OneProduct;

#define CORE_SMALL_KERNELS(variant)           \
  namespace variant {                         \
  bool small_product(const GemmParams& p);    \
  bool few_rows(const OneProduct& product);   \
  void fill_recurrent(RecurrentTable& table); \
  void fill_softmax(NnTable& table);          \
  }
CORE_SMALL_KERNELS(baseline)
CORE_SMALL_KERNELS(avx2)
CORE_SMALL_KERNELS(avx512)
#undef CORE_SMALL_KERNELS

/// Of the widest instruction set that the processor has. `product` does the f32 product when it is small enough to be
/// worth it.
struct SmallKernels {
  bool (*product)(const GemmParams& p);
  bool (*few_rows)(const OneProduct& product);  ///< of what few_rows_product() chose; false where it has no way
  void (*fill_recurrent)(RecurrentTable& table);
  void (*fill_softmax)(NnTable& table);
};
SmallKernels small_kernels();

}  // namespace core::cpu
