#pragma once
// Kernels Those of nn_image.cpp and nn_image_pool.cpp are compiled once
// for each instruction set; convolution (nn_image_conv.cpp) is oneDNN's, which chooses itself. Thread safety: called
// once, while the table is made. For add_image_kernels() alone.

#include "libcore/backend/image_table.h"

namespace core::cpu {

namespace baseline {
void fill_image_kernels(ImageTable& table);
void fill_image_pooling(ImageTable& table);
void fill_attention(NnTable& table);
void fill_rows(NnTable& table);
void fill_pool_2x2(NnTable& table);
}  // namespace baseline
namespace avx2 {
void fill_image_kernels(ImageTable& table);
void fill_image_pooling(ImageTable& table);
void fill_attention(NnTable& table);
void fill_rows(NnTable& table);
void fill_pool_2x2(NnTable& table);
}  // namespace avx2
namespace avx512 {
void fill_image_kernels(ImageTable& table);
void fill_image_pooling(ImageTable& table);
void fill_attention(NnTable& table);
void fill_rows(NnTable& table);
void fill_pool_2x2(NnTable& table);
}  // namespace avx512

void fill_image_convolution(ImageTable& table);

}  // namespace core::cpu
