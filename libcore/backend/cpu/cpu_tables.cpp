#include "libcore/backend/cpu/cpu_tables.h"

#include <memory>

#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/cpu/elementwise_variants.h"
#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/cpu/nn_kernels.h"
#include "libcore/backend/cpu/small_variants.h"
#include "libcore/backend/recurrent_table.h"

namespace core {
namespace {

struct CpuTables {
  ElementwiseTable elementwise;
  ReductionTable reduction;
  MatmulTable matmul;
  CopyTable copy;
  IndexingTable indexing;
  NnTable nn;
  RecurrentTable recurrent;
  OpTables all;

  CpuTables() {
    if (cpu::isa() >= cpu::Isa::avx2) {
      cpu::avx2::fill_float_kernels(elementwise);
      cpu::avx2::fill_float_math(elementwise);
    } else {
      cpu::baseline::fill_float_kernels(elementwise);
      cpu::baseline::fill_float_math(elementwise);
    }
    cpu::fill_integer_kernels(elementwise);
    cpu::fill_compare_kernels(elementwise);
    cpu::fill_ternary_kernels(elementwise);
    cpu::fill_reductions(reduction);
    cpu::fill_scans(reduction);
    cpu::fill_matmul(matmul);
    cpu::fill_copies(copy);
    cpu::fill_indexing(indexing);
    cpu::fill_nn(nn);
    cpu::small_kernels().fill_softmax(nn);
    cpu::small_kernels().fill_recurrent(recurrent);
    all = {&elementwise, &reduction, &matmul, &copy, &indexing, &nn, &recurrent};
  }
};

}  // namespace

const OpTables& cpu_op_tables() {
  static const auto* tables = new CpuTables;
  return tables->all;
}

}  // namespace core
