#pragma once
// The kernels on channels-last images that lie in files of their own: pooling (nn_image_pool.cpp) and convolution
// (nn_image_conv.cpp). Thread safety: all functions. For add_image_kernels() alone.

#include "libcore/backend/image_table.h"

namespace core::cpu {

void image_max_pool(const ImageMaxPool& p);
void image_max_pool_grad(const ImageMaxPoolGrad& p);

bool image_conv_fits(const Conv2dSizes& sizes, ConvPass pass);
std::size_t image_conv_prepared_bytes(const Conv2dSizes& sizes, bool has_bias);
void image_conv_prepare(const ImagePrepare& p);
void image_conv(const ImageConv& p);
void image_conv_input_grad(const ImageConvInputGrad& p);
void image_conv_weight_grad(const ImageConvWeightGrad& p);

}  // namespace core::cpu
