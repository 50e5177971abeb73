#pragma once
// Matrix products of numbers of 16 bits in f32, each sum rounded once, as PyTorch's: of f16, which no library here
// multiplies, and of bf16 where oneDNN does not or takes longer.
// Thread safety: pure functions. For gemm.cpp and gemm_bf16.cpp: if (in_f32_is_faster(p)) return gemm_bf16_in_f32(p);

#include "libcore/backend/op_params.h"

namespace core::cpu {

void gemm_f16(const GemmParams& params);
void gemm_bf16_in_f32(const GemmParams& params);

/// Whether a product of bf16 takes less time so than with the processor's instructions and what a library does before.
bool in_f32_is_faster(const GemmParams& params);

}  // namespace core::cpu
