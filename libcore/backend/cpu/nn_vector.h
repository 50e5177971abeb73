#pragma once
// Kernels on images in blocks. Those of nn_image.cpp, nn_image_pool.cpp are compiled once for each instruction set,
// convolutions of our own (nn_image_groups.cpp, nn_image_product.cpp, nn_image_winograd*.cpp) for AVX-512; the others
// (nn_image_conv.cpp) are oneDNN's, which chooses itself.
// Thread safety: called once, while the table is made. For nn_table.cpp and nn_image_conv.cpp alone.

#include <vector>

#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/image_table.h"

namespace core::cpu {

/// A convolution of our own with weights prepared for it. Results are the same bits on any number of threads.
struct PreparedKernel {
  bool (*fits)(const Conv2dSizes&);       ///< whether it is also the fastest
  bool (*can_follow)(const ImageAfter&);  ///< whether `conv` does that besides
  PreparedForm (*form)(const Conv2dSizes&);
  void (*prepare)(const ImagePrepare&);
  void (*conv)(const ImageConv&);
};

CORE_EACH_ISA(void fill_image_kernels(ImageTable& table); void fill_image_pooling(ImageTable& table);
              void fill_attention(NnTable& table); void fill_rows(NnTable& table); void fill_pool_2x2(NnTable& table);)
namespace avx512 {
PreparedKernel winograd_kernel();
PreparedKernel groups_kernel();
PreparedKernel product_kernel();
}  // namespace avx512

/// Those that this processor runs; the first that fits is the one to take. Only AVX-512 has any: elsewhere oneDNN's
/// kernels are as fast.
std::vector<PreparedKernel> prepared_kernels();

void fill_image_convolution(ImageTable& table);

}  // namespace core::cpu
