#include "libcore/backend/cuda/cuda_tables.h"

#include "libcore/backend/cuda/cuda_blas.h"
#include "libcore/backend/cuda/cudnn_recurrent.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/op_tables.h"

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
  RandomTable random;
  OptimizerTable optimizer;
  OpTables all;

  CudaTables() {
    fill_general();
    fill_networks();
    all = {&elementwise, &reduction, &matmul, &copy, &indexing, &nn, &recurrent, &random, &optimizer};
  }

  void fill_general() {
    cuda_kernels::fill_elementwise(elementwise);
    cuda_kernels::fill_compare(elementwise);
    cuda_kernels::fill_ternary(elementwise);
    cuda_kernels::fill_reductions(reduction);
    cuda_kernels::fill_scans(reduction);
    cuda_kernels::fill_sorts(reduction);
    fill_matmul(matmul);
    cuda_kernels::fill_copies(copy);
    cuda_kernels::fill_indexing(indexing);
    cuda_kernels::fill_random(random);
  }

  void fill_networks() {
    cuda_kernels::fill_convolution(nn);
    cuda_kernels::fill_pooling(nn);
    cuda_kernels::fill_norms(nn);
    cuda_kernels::fill_softmax(nn);
    cuda_kernels::fill_losses(nn);
    cuda_kernels::fill_attention(nn);
    cuda_kernels::fill_recurrent(recurrent);
    fill_whole_layers(recurrent);
    cuda_kernels::fill_optimizers(optimizer);
  }
};

}  // namespace

const OpTables& cuda_op_tables() {
  static const auto* tables = new CudaTables;
  return tables->all;
}

}  // namespace core::gpu
