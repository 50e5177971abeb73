#pragma once
// What cuBLASLt was found to do best for products of one kind and size: asking costs more than a small product.
// Thread safety: none; Blas guards it.

#include <cstddef>
#include <cstdint>

#include "libcore/backend/cuda/cuda_blas.h"

namespace core::gpu {

/// cublasLtMatmulHeuristicResult_t.
struct LtChoice {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

struct Blas::Plan {
  void* operation = nullptr;
  void* a = nullptr;
  void* b = nullptr;
  void* c = nullptr;
  LtChoice choice{};
  bool is_usable = false;
};

}  // namespace core::gpu
