#pragma once
// Attention of bf16 by tiles (AMX), forward and backward. REQUIRES: multiplies_tiles(). Compiled for AVX-512 alone.
// Thread safety: called while the tables are made.
// Use: if (multiplies_tiles()) avx512::fill_tile_attention(nn);

#include "libcore/backend/nn_table.h"

namespace core::cpu::avx512 {

/// After fill_attention: takes the place of its kernels of bf16.
void fill_tile_attention(NnTable& table);

}  // namespace core::cpu::avx512
