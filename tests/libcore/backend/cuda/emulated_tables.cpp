#include "tests/libcore/backend/cuda/emulated_tables.h"

#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/op_tables.h"

namespace test {
namespace {

struct EmulatedTables {
  core::ElementwiseTable elementwise;
  core::ReductionTable reduction;
  core::CopyTable copy;
  core::IndexingTable indexing;
  core::NnTable nn;
  core::RecurrentTable recurrent;
  core::RandomTable random;
  core::OptimizerTable optimizer;
  core::OpTables all;

  EmulatedTables() {
    namespace kernels = core::emulated_kernels;
    kernels::fill_elementwise(elementwise);
    kernels::fill_compare(elementwise);
    kernels::fill_ternary(elementwise);
    kernels::fill_reductions(reduction);
    kernels::fill_scans(reduction);
    kernels::fill_sorts(reduction);
    kernels::fill_copies(copy);
    kernels::fill_indexing(indexing);
    kernels::fill_random(random);
    kernels::fill_convolution(nn);
    kernels::fill_pooling(nn);
    kernels::fill_norms(nn);
    kernels::fill_softmax(nn);
    kernels::fill_losses(nn);
    kernels::fill_attention(nn);
    kernels::fill_recurrent(recurrent);
    kernels::fill_optimizers(optimizer);
    all = {&elementwise, &reduction, core::cpu_op_tables().matmul, &copy, &indexing, &nn, &recurrent,
           &random,      &optimizer};
  }
};

}  // namespace

const core::OpTables& emulated_tables() {
  static const auto* tables = new EmulatedTables;
  return tables->all;
}

}  // namespace test
