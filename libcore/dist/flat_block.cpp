#include "libcore/dist/flat_block.h"

#include "libcore/autograd/grad_mode.h"

namespace core::distributed {

void put_together(const Tensor& block, const std::vector<Tensor>& list) {
  const NoGradGuard no_grad;
  std::int64_t at = 0;
  for (const Tensor& tensor : list) {
    block.narrow(0, at, tensor.numel()).copy_(tensor.detach().reshape({-1}));
    at += tensor.numel();
  }
}

void take_apart(const Tensor& block, const std::vector<Tensor>& list) {
  const NoGradGuard no_grad;
  std::int64_t at = 0;
  for (const Tensor& tensor : list) {
    tensor.detach().copy_(block.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
}

}  // namespace core::distributed
