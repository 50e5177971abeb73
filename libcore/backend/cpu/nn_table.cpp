#include "libcore/backend/cpu/nn_image.h"
#include "libcore/backend/cpu/nn_kernels.h"

namespace core::cpu {
namespace {

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

ImageTable make_image_table() {
  ImageTable table{};
  if (has_avx512()) {
    avx512::fill_image_kernels(table);
    avx512::fill_image_pooling(table);
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    avx2::fill_image_kernels(table);
    avx2::fill_image_pooling(table);
  } else {
    baseline::fill_image_kernels(table);
    baseline::fill_image_pooling(table);
  }
  fill_image_convolution(table);
  return table;
}

}  // namespace

void add_image_kernels(NnTable& table) {
  static const ImageTable image = make_image_table();
  table.image = &image;
}

void fill_nn(NnTable& table) {
  add_conv_kernels(table);
  add_pool_kernels(table);
  add_norm_kernels(table);
  add_softmax_kernels(table);
  add_loss_kernels(table);
  add_image_kernels(table);
}

}  // namespace core::cpu
