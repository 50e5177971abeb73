#include "libcore/ops/detail/loss_reduction.h"

#include "libcore/base/warning.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"

namespace core {
Tensor detail::reduced(const Tensor& x, Reduction reduction) {
  if (reduction == Reduction::none) return x;
  return reduction == Reduction::mean ? mean(x) : sum(x);
}

void detail::warn_sizes(const Tensor& x, const Tensor& target) {
  if (x.sizes() == target.sizes()) return;
  warn("Using a target size (torch.Size(" + to_list(target.sizes()) +
       ")) that is different to the input size (torch.Size(" + to_list(x.sizes()) +
       ")). This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.");
}

}  // namespace core
