#pragma once
// Convolutions of our own on images in blocked layout, with weights that are packed for them once. Compiled for AVX-512
// alone: elsewhere oneDNN's kernels are as fast.
// Thread safety: pure functions. For conv/blocked.cpp: the first of packed_kernels() that fits is the one to take.

#include <vector>

#include "libcore/backend/image_table.h"

namespace core::cpu {

/// Results are the same bits on any number of threads; every epilogue can follow.
struct PackedKernel {
  bool (*fits)(const Conv2dSizes&);  ///< whether it is also the fastest
  PackedForm (*form)(const Conv2dSizes&);
  void (*pack)(const ImagePack&);
  void (*conv)(const ImageConv&);
};

namespace avx512 {
PackedKernel winograd_kernel();
PackedKernel direct_kernel();
PackedKernel implicit_gemm_kernel();
}  // namespace avx512

/// Those that this processor runs.
std::vector<PackedKernel> packed_kernels();

}  // namespace core::cpu
