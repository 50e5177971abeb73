#pragma once
// Steps in single operations, for parameters on devices without a kernel for them: the same formulas, in the order of
// PyTorch's own operations. Thread safety: as the operations. Errors: those of an operation that the
// device does not have. Use: if (detail::is_out_of_reach(param)) return detail::composed_sgd(param, grad, buffer, how);

#include "libcore/backend/backend.h"
#include "libcore/optim/update.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

/// Whether the host cannot work on it where it is.
inline bool is_out_of_reach(const Tensor& param) {
  return !param.storage()->backend().is_host_memory();
}

/// `buffer` is undefined without momentum.
void composed_sgd(const Tensor& param, const Tensor& grad, const Tensor& buffer, const SgdUpdate& how);
/// `top` is undefined without amsgrad.
struct AdamTensors {
  const Tensor& exp_avg;
  const Tensor& exp_avg_sq;
  const Tensor& top;
};
void composed_adam(const Tensor& param, const Tensor& grad, const AdamTensors& state, const AdamUpdate& how);
/// `buffer` is undefined without momentum, `grad_avg` unless centered.
struct RmspropTensors {
  const Tensor& square_avg;
  const Tensor& buffer;
  const Tensor& grad_avg;
};
void composed_rmsprop(const Tensor& param, const Tensor& grad, const RmspropTensors& state, const RmspropUpdate& how);
void composed_adagrad(const Tensor& param, const Tensor& grad, const Tensor& sum, const AdagradUpdate& how);
struct AdadeltaTensors {
  const Tensor& square_avg;
  const Tensor& acc_delta;
};
void composed_adadelta(const Tensor& param, const Tensor& grad, const AdadeltaTensors& state,
                       const AdadeltaUpdate& how);

}  // namespace core::detail
