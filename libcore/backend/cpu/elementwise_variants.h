#pragma once
// The float kernels are compiled once per instruction set; each copy fills the table from its own namespace.

#include "libcore/backend/op_tables.h"

namespace core::cpu {

namespace baseline {
void fill_float_kernels(ElementwiseTable& table);
void fill_float_math(ElementwiseTable& table);
}  // namespace baseline
namespace avx2 {
void fill_float_kernels(ElementwiseTable& table);
void fill_float_math(ElementwiseTable& table);
}  // namespace avx2

void fill_integer_kernels(ElementwiseTable& table);
void fill_compare_kernels(ElementwiseTable& table);
void fill_ternary_kernels(ElementwiseTable& table);

}  // namespace core::cpu
