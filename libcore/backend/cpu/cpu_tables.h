#pragma once
// The pieces that cpu_op_tables() is put together from, one a file of kernels; those that are compiled once for each
// level of instruction sets: variants.h. Thread safety: called once, while the tables are made.

#include "libcore/backend/image_table.h"
#include "libcore/backend/nn_table.h"
#include "libcore/backend/op_tables.h"

namespace core::cpu {

void fill_compares(ElementwiseTable& table);
void fill_integers(ElementwiseTable& table);
void fill_ternaries(ElementwiseTable& table);
void fill_conversions(CopyTable& table);
void fill_copies(CopyTable& table);
void fill_indexing(IndexingTable& table);
void fill_reductions(ReductionTable& table);
void fill_scans(ReductionTable& table);
void fill_matmul(MatmulTable& table);
void gemm_f32(const GemmParams& params);
void fill_dense_convolutions(NnTable& table);
void fill_blocked_convolutions(ImageTable& table);
void fill_pools(NnTable& table);
void fill_norms(NnTable& table);
void fill_nll_losses(NnTable& table);

}  // namespace core::cpu
