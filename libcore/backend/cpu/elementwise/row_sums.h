#pragma once
// add_rows() of row_sums.h, compiled once per instruction set. Thread safety: pure functions. Use:
// CORE_BY_ISA(add_rows_of)(sums);

#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/row_sums.h"

namespace core::cpu {

CORE_EACH_ISA(void add_rows_of(const RowSums& sums))

}  // namespace core::cpu
