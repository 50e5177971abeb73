#pragma once
// The CPU's kernels for complex64 and complex128, a file a table. Thread safety: called once, while the tables are
// made.

#include "libcore/backend/op_tables.h"

namespace core::cpu {

void fill_complex_elementwise(ElementwiseTable& table);
void fill_complex_conversions(CopyTable& table);
void fill_complex_reductions(ReductionTable& table);
void fill_complex_matmul(MatmulTable& table);

}  // namespace core::cpu
