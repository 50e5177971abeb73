#include "libcore/backend/cuda/cuda_tables.h"

#include "libcore/backend/cuda/cuda_blas.h"
#include "libcore/backend/nn_table.h"
#include "libcore/backend/recurrent_table.h"

namespace core::gpu {
namespace {

struct CudaTables {
  ElementwiseTable elementwise;
  ReductionTable reduction;
  MatmulTable matmul;
  CopyTable copy;
  IndexingTable indexing;
  NnTable nn;
  RecurrentTable recurrent;
  OpTables all;

  /// A family of kernels more is a line here and its file in CMakeLists.txt.
  CudaTables() {
    fill_matmul(matmul);
    all = {&elementwise, &reduction, &matmul, &copy, &indexing, &nn, &recurrent};
  }
};

}  // namespace

const OpTables& cuda_op_tables() {
  static const auto* tables = new CudaTables;
  return tables->all;
}

}  // namespace core::gpu
