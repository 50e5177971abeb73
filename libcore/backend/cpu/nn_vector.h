#pragma once
// Kernels on images in blocks. Those of nn_image.cpp, nn_image_groups.cpp, nn_image_pool.cpp, nn_image_product.cpp and
// nn_image_winograd*.cpp
// are compiled once for each instruction set; other convolution (nn_image_conv.cpp) is oneDNN's, which chooses itself.
// Thread safety: called once, while the table is made. For nn_table.cpp and nn_image_conv.cpp alone.

#include "libcore/backend/image_table.h"

namespace core::cpu {

/// Convolutions of groups narrower than a block, or that end in the middle of one, with weights prepared for them.
/// `conv` does scale and shift, an addend and what cuts the result off besides.
struct NarrowGroups {
  bool (*fits)(const Conv2dSizes&);
  std::size_t (*prepared_bytes)(const Conv2dSizes&);
  void (*prepare)(const ImagePrepare&);
  void (*conv)(const ImageConv&);
};

/// Winograd's convolutions of 3 x 3, with all that may follow them. A value that is not finite reaches all outputs of
/// its tile: at most three pixels (times the dilation) further than in the definition.
struct Winograd {
  bool (*fits)(const Conv2dSizes&);
  PreparedForm (*prepared_form)(const Conv2dSizes&);
  void (*prepare)(const ImagePrepare&);
  void (*conv)(const ImageConv&);
};

namespace baseline {
void fill_image_kernels(ImageTable& table);
void fill_image_pooling(ImageTable& table);
void fill_attention(NnTable& table);
void fill_rows(NnTable& table);
void fill_pool_2x2(NnTable& table);
NarrowGroups narrow_groups();
Winograd winograd_kernels();
}  // namespace baseline
namespace avx2 {
void fill_image_kernels(ImageTable& table);
void fill_image_pooling(ImageTable& table);
void fill_attention(NnTable& table);
void fill_rows(NnTable& table);
void fill_pool_2x2(NnTable& table);
NarrowGroups narrow_groups();
Winograd winograd_kernels();
}  // namespace avx2
namespace avx512 {
void fill_image_kernels(ImageTable& table);
void fill_image_pooling(ImageTable& table);
void fill_attention(NnTable& table);
void fill_rows(NnTable& table);
void fill_pool_2x2(NnTable& table);
NarrowGroups narrow_groups();
Winograd winograd_kernels();
}  // namespace avx512

/// Of the widest instruction set that the processor has.
NarrowGroups narrow_groups();
Winograd winograd_kernels();

void fill_image_convolution(ImageTable& table);

}  // namespace core::cpu
