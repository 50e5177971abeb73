#include "libcore/backend/cpu/nn_kernels.h"
#include "libcore/backend/cpu/tables.h"

namespace core::cpu {

const NnTable& nn_table() {
  static const NnTable table = [] {
    NnTable made;
    add_conv_kernels(made);
    add_pool_kernels(made);
    add_norm_kernels(made);
    add_softmax_kernels(made);
    add_loss_kernels(made);
    return made;
  }();
  return table;
}

}  // namespace core::cpu
