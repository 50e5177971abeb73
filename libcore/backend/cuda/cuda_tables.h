#pragma once
// The operation tables of CUDA devices, put together from the families of kernels. Only in builds with CUDA.
// Thread safety: all functions. Use: gpu::cuda_op_tables().

#include "libcore/backend/op_tables.h"

namespace core::gpu {

const OpTables& cuda_op_tables();

}  // namespace core::gpu
