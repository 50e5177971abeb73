#pragma once
// The pieces that cpu_op_tables() is put together from, one per family.

#include "libcore/backend/op_tables.h"

namespace core::cpu {

void fill_reductions(ReductionTable& table);
void fill_scans(ReductionTable& table);
void fill_matmul(MatmulTable& table);
void fill_copies(CopyTable& table);
void fill_indexing(IndexingTable& table);

}  // namespace core::cpu
