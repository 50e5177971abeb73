#pragma once
// The pieces that the operation tables of CUDA devices are put together from, one function per family of kernels. The
// same names exist twice: in cuda_kernels, compiled by nvcc, and in emulated_kernels, compiled by the C++ compiler for
// the tests (launch.h). Thread safety: each fills the table it is given.
// Use: ElementwiseTable table; cuda_kernels::fill_elementwise(table); cuda_kernels::fill_compare(table);

#include "libcore/backend/nn_table.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/optimizer_table.h"
#include "libcore/backend/random_table.h"
#include "libcore/backend/recurrent_table.h"

namespace core {

#define CORE_DECLARE_FILLS                                                                        \
  /* elementwise_*.cu: ElementwiseTable::unary and binary of floats, then of integers and bool */ \
  void fill_elementwise_float(ElementwiseTable& table);                                           \
  void fill_elementwise_math(ElementwiseTable& table);                                            \
  void fill_elementwise_integer(ElementwiseTable& table);                                         \
  /* all three */                                                                                 \
  void fill_elementwise(ElementwiseTable& table);                                                 \
  /* ElementwiseTable::compare and predicate */                                                   \
  void fill_compare(ElementwiseTable& table);                                                     \
  void fill_ternary(ElementwiseTable& table);                                                     \
  void fill_copies(CopyTable& table);                                                             \
  /* ReductionTable::reduce */                                                                    \
  void fill_reductions(ReductionTable& table);                                                    \
  /* ReductionTable::scan */                                                                      \
  void fill_scans(ReductionTable& table);                                                         \
  /* ReductionTable::sort */                                                                      \
  void fill_sorts(ReductionTable& table);                                                         \
  void fill_indexing(IndexingTable& table);                                                       \
  void fill_random(RandomTable& table);                                                           \
  /* Neural networks. */                                                                          \
  void fill_convolution(NnTable& table);                                                          \
  void fill_pooling(NnTable& table);                                                              \
  void fill_norms(NnTable& table);                                                                \
  /* part of fill_norms() */                                                                      \
  void fill_layer_norm(NnTable& table);                                                           \
  void fill_softmax(NnTable& table);                                                              \
  void fill_losses(NnTable& table);                                                               \
  void fill_attention(NnTable& table);                                                            \
  /* parts of fill_attention() */                                                                 \
  void fill_attention_grad(NnTable& table);                                                       \
  void fill_half_attention(NnTable& table);                                                       \
  void fill_half_attention_grad(NnTable& table);                                                  \
  void fill_recurrent(RecurrentTable& table);                                                     \
  /* part of fill_recurrent() */                                                                  \
  void fill_recurrent_cells(RecurrentTable& table);                                               \
  void fill_optimizers(OptimizerTable& table);                                                    \
  /* part of fill_optimizers() */                                                                 \
  void fill_adaptive_optimizers(OptimizerTable& table);

namespace cuda_kernels {
CORE_DECLARE_FILLS
}  // namespace cuda_kernels
namespace emulated_kernels {
CORE_DECLARE_FILLS
}  // namespace emulated_kernels

#undef CORE_DECLARE_FILLS

}  // namespace core
