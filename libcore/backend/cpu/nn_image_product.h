#pragma once
// Convolution as a product of matrices on images in blocks, with a kernel of our own for AVX-512: of one tap at any
// stride, and of several taps where few of them meet the image or the weights are many. Elsewhere than with AVX-512
// nothing fits. Thread safety: all functions. For nn_image_conv.cpp alone:
// if (p.prepared != nullptr && kernels.fits(p.sizes)) return kernels.conv(p);

#include "libcore/backend/image_table.h"

namespace core::cpu {

/// `conv` takes prepared weights and does everything of ImageAfter besides. The same bits on any number of threads.
struct ImageProduct {
  bool (*fits)(const Conv2dSizes&);  ///< whether it is also the fastest: measured
  std::size_t (*prepared_bytes)(const Conv2dSizes&);
  void (*prepare)(const ImagePrepare&);
  void (*conv)(const ImageConv&);
};

namespace baseline {
ImageProduct image_product();
}
namespace avx2 {
ImageProduct image_product();
}
namespace avx512 {
ImageProduct image_product();
}

/// Of the widest instruction set that the processor has.
ImageProduct image_product();

}  // namespace core::cpu
