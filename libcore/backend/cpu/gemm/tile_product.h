#pragma once
// Matrix products of bf16 by tiles (AMX): one instruction adds 32 products to each of sixteen by sixteen sums. Beside
// oneDNN 2.6, which has such kernels too, matrices are read in the order in which they lie, once where one of them fits
// the cache, and the result is written row by row: as fast up to 1.9 times, most where a is transposed, as in the
// gradient of a weight (tests/bench/README.md).
// REQUIRES: multiplies_tiles(). Compiled for AVX-512 alone. Thread safety: pure functions.
// Use: if (multiplies_tiles()) avx512::tile_product(params);

#include "libcore/backend/op_params.h"

namespace core::cpu::avx512 {

/// x W^T of few rows and a small W, in less time than products of f32. False where it is something else; then nothing
/// was done.
bool tile_product_of_few_rows(const GemmParams& params);

/// All products of the batch.
void tile_product(const GemmParams& params);

}  // namespace core::cpu::avx512
