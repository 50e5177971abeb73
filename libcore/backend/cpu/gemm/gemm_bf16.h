#pragma once
// Matrix products of bf16. REQUIRES: dnnl_takes_bf16(). Thread safety: pure functions. For gemm.cpp alone:
// if (dnnl_takes_bf16()) slot(DType::bf16) = gemm_bf16;

#include "libcore/backend/op_params.h"

namespace core::cpu {

void gemm_bf16(const GemmParams& params);

}  // namespace core::cpu
