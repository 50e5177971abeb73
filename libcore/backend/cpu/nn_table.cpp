#include "libcore/backend/cpu/nn_kernels.h"
#include "libcore/backend/cpu/nn_vector.h"

namespace core::cpu {
namespace {

/// The kernels for this processor.
struct VectorKernels {
  void (*fill_images)(ImageTable&);
  void (*fill_pooling)(ImageTable&);
  void (*fill_attention)(NnTable&);
  void (*fill_rows)(NnTable&);
  void (*fill_pool_2x2)(NnTable&);
};

VectorKernels vector_kernels() {
  return {CORE_BY_ISA(fill_image_kernels), CORE_BY_ISA(fill_image_pooling), CORE_BY_ISA(fill_attention),
          CORE_BY_ISA(fill_rows), CORE_BY_ISA(fill_pool_2x2)};
}

}  // namespace

std::vector<PreparedKernel> prepared_kernels() {
#if defined(__x86_64__)
  if (isa() == Isa::avx512) return {avx512::winograd_kernel(), avx512::groups_kernel(), avx512::product_kernel()};
#endif
  return {};
}

namespace {

ImageTable make_image_table() {
  ImageTable table{};
  vector_kernels().fill_images(table);
  vector_kernels().fill_pooling(table);
  fill_image_convolution(table);
  return table;
}

}  // namespace

void add_vector_kernels(NnTable& table) {
  static const ImageTable image = make_image_table();
  table.image = &image;
  vector_kernels().fill_attention(table);
  vector_kernels().fill_rows(table);
  vector_kernels().fill_pool_2x2(table);
}

void fill_nn(NnTable& table) {
  add_conv_kernels(table);
  add_pool_kernels(table);
  add_norm_kernels(table);
  add_loss_kernels(table);
  add_vector_kernels(table);
}

}  // namespace core::cpu
