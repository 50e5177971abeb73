// The host's kernels for the programs of the demo: of what LeNet is trained with. In the place of
// libcore/backend/cpu/cpu_tables.cpp and libcore/backend/opaque/opaque_tables.cpp.

#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/random/random_fills.h"
#include "libcore/backend/cpu/variants.h"
#include "libcore/backend/opaque/opaque_tables.h"
#include "libcore/base/error.h"

namespace core {
namespace cpu {
namespace {

struct DemoTables {
  ElementwiseTable elementwise;
  ReductionTable reduction;
  MatmulTable matmul;
  CopyTable copy;
  IndexingTable indexing;
  ImageTable image{};
  NnTable nn;
  RandomTable random;
  OptimizerTable optimizer;
  OpTables all;

  DemoTables() {
    CORE_BY_ISA_TO_AVX2(fill_float_arithmetic)(elementwise);
    CORE_BY_ISA_TO_AVX2(fill_float_math)(elementwise);
    fill_integers(elementwise);
    fill_compares(elementwise);
    fill_ternaries(elementwise);
    fill_reductions(reduction);
    fill_matmul(matmul);
    fill_copies(copy);
    fill_conversions(copy);
    fill_indexing(indexing);
    CORE_BY_ISA(fill_blocked_layout)(image);
    CORE_BY_ISA(fill_blocked_pools)(image);
    fill_blocked_convolutions(image);
    nn.image = &image;
    fill_dense_convolutions(nn);
    fill_pools(nn);
    CORE_BY_ISA(fill_max_2x2)(nn);
    fill_nll_losses(nn);
    CORE_BY_ISA(fill_softmax)(nn);
    fill_mersenne(random);
    CORE_BY_ISA(fill_optimizers)(optimizer);
    all = {.elementwise = &elementwise,
           .reduction = &reduction,
           .matmul = &matmul,
           .copy = &copy,
           .indexing = &indexing,
           .nn = &nn,
           .random = &random,
           .optimizer = &optimizer};
  }
};

}  // namespace
}  // namespace cpu

const OpTables& cpu_op_tables() {
  static const auto* tables = new cpu::DemoTables;
  return tables->all;
}

// Opaque devices are for tests; a wrapper for every kernel takes long to compile.
const OpTables& opaque_tables() {
  static const OpTables none;
  return none;
}

void set_inner_tables(const OpTables& /*inner*/) {
  throw Error(ErrorCode::unsupported, "this program was built for tools/demo.sh, without opaque devices");
}

void set_launching_device(int /*index*/) {}

}  // namespace core
