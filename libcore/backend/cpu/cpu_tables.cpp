#include "libcore/backend/cpu/cpu_tables.h"

#include <memory>

#include "libcore/backend/cpu/attention/tiles_attention.h"
#include "libcore/backend/cpu/complex/complex_tables.h"
#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/cpu/random/random_fills.h"
#include "libcore/backend/cpu/recurrent/bf16_lstm.h"
#include "libcore/backend/cpu/variants.h"

namespace core {
namespace cpu {
namespace {

struct CpuTables {
  ElementwiseTable elementwise;
  ReductionTable reduction;
  MatmulTable matmul;
  CopyTable copy;
  IndexingTable indexing;
  ImageTable image{};
  NnTable nn;
  RecurrentTable recurrent;
  RandomTable random;
  OptimizerTable optimizer;
  OpTables all;

  CpuTables() {
    fill_elementwise();
    fill_reductions(reduction);
    fill_scans(reduction);
    fill_complex_reductions(reduction);
    fill_matmul(matmul);
    fill_complex_matmul(matmul);
    fill_copies(copy);
    fill_conversions(copy);
    CORE_BY_ISA(fill_narrow_conversions)(copy);
    fill_complex_conversions(copy);
    fill_indexing(indexing);
    fill_images();
    fill_nn();
    CORE_BY_ISA(fill_lstm)(recurrent);
    CORE_BY_ISA(fill_gru)(recurrent);
#if defined(__x86_64__)
    if (multiplies_tiles()) avx512::fill_bf16_lstm(recurrent);
#endif
    fill_mersenne(random);
    CORE_BY_ISA(fill_optimizers)(optimizer);
    all = {.elementwise = &elementwise,
           .reduction = &reduction,
           .matmul = &matmul,
           .copy = &copy,
           .indexing = &indexing,
           .nn = &nn,
           .recurrent = &recurrent,
           .random = &random,
           .optimizer = &optimizer};
  }

 private:
  void fill_elementwise() {
    CORE_BY_ISA_TO_AVX2(fill_float_arithmetic)(elementwise);
    CORE_BY_ISA_TO_AVX2(fill_float_math)(elementwise);
    fill_integers(elementwise);
    fill_compares(elementwise);
    fill_ternaries(elementwise);
    CORE_BY_ISA_TO_AVX2(fill_narrow)(elementwise);
    fill_complex_elementwise(elementwise);
  }

  void fill_images() {
    CORE_BY_ISA(fill_blocked_layout)(image);
    CORE_BY_ISA(fill_blocked_pools)(image);
    fill_blocked_convolutions(image);
    nn.image = &image;
  }

  void fill_nn() {
    fill_dense_convolutions(nn);
    fill_pools(nn);
    CORE_BY_ISA(fill_max_2x2)(nn);
    fill_norms(nn);
    CORE_BY_ISA(fill_long_layer_norms)(nn);
    fill_nll_losses(nn);
    CORE_BY_ISA(fill_attention)(nn);
#if defined(__x86_64__)
    if (multiplies_tiles()) avx512::fill_tile_attention(nn);
#endif
    CORE_BY_ISA(fill_softmax)(nn);
  }
};

}  // namespace
}  // namespace cpu

const OpTables& cpu_op_tables() {
  static const auto* tables = new cpu::CpuTables;
  return tables->all;
}

}  // namespace core
