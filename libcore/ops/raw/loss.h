#pragma once
// The negative log-likelihood loss without history. Thread safety: pure functions. Errors: PyTorch's texts.

#include "libcore/ops/loss.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {

struct NllResult {
  Tensor loss;          ///< reduced
  Tensor total_weight;  ///< 0-dim
};
NllResult nll_loss(const Tensor& log_prob, const Tensor& target, const NllLossOptions& options);
Tensor nll_loss_grad(const Tensor& loss_grad, const Tensor& target, const NllResult& forward, const Shape& sizes,
                     const NllLossOptions& options);

}  // namespace core::raw
