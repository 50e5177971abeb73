#pragma once
// The CPU kernels of the neural-network table, by family. Each fills its slots.
// Thread safety: called once, while the table is made. For cpu_op_tables() alone.

#include "libcore/backend/nn_table.h"

namespace core::cpu {

/// All of them.
void fill_nn(NnTable& table);

void add_conv_kernels(NnTable& table);
void add_pool_kernels(NnTable& table);
void add_norm_kernels(NnTable& table);
void add_loss_kernels(NnTable& table);
void add_vector_kernels(NnTable& table);

}  // namespace core::cpu
