#include "libcore/backend/cpu/nn_kernels.h"

namespace core::cpu {

void fill_nn(NnTable& table) {
  add_conv_kernels(table);
  add_pool_kernels(table);
  add_norm_kernels(table);
  add_loss_kernels(table);
}

}  // namespace core::cpu
