#include "libcore/ops/raw/activation.h"

#include "libcore/backend/op_tables.h"
#include "libcore/ops/raw/kernel_call.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {
Tensor try_gelu_tanh_grad(const Tensor& output_grad, const Tensor& x) {
  const core::detail::OpScope scope("gelu_backward", output_grad, x);
  const NnTable* table = backend_of(x).ops().nn;
  const auto slot = static_cast<std::size_t>(x.dtype());
  const bool fits = output_grad.sizes() == x.sizes() && output_grad.dtype() == x.dtype() &&
                    &backend_of(output_grad) == &backend_of(x);
  if (!fits || table == nullptr || table->gelu_tanh_grad[slot] == nullptr) return {};
  const Tensor grad = kernel::dense(output_grad), in = kernel::dense(x);
  Tensor out = kernel::empty_as(x, x.sizes());
  table->gelu_tanh_grad[slot]({x.numel(), grad.raw_data(), in.raw_data(), out.mutable_raw_data()});
  return out;
}

}  // namespace core::raw
