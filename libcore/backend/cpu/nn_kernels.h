#pragma once
// The CPU kernels of the neural-network table, by family. Each fills its slots.
// Thread safety: called once, while the table is made. For nn_table.cpp alone.

#include "libcore/backend/nn_table.h"

namespace core::cpu {

void add_conv_kernels(NnTable& table);
void add_pool_kernels(NnTable& table);
void add_norm_kernels(NnTable& table);
void add_softmax_kernels(NnTable& table);
void add_loss_kernels(NnTable& table);

}  // namespace core::cpu
