#pragma once
// Gradients of activations in one kernel, without history. Thread safety: pure functions.

#include "libcore/tensor/tensor.h"

namespace core::raw {

/// output_grad times the derivative of gelu (with tanh) at x; undefined where there is no kernel.
Tensor try_gelu_tanh_grad(const Tensor& output_grad, const Tensor& x);

}  // namespace core::raw
