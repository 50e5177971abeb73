#include "libcore/backend/row_sums.h"

#include "libcore/backend/cpu/elementwise/row_sums.h"

namespace core {

bool adds_rows(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

void add_rows(const RowSums& sums) {
  using namespace cpu;  // whose levels CORE_BY_ISA names
  static const auto add = CORE_BY_ISA(add_rows_of);
  add(sums);
}

}  // namespace core
