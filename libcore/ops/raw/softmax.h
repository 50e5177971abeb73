#pragma once
// Softmax without history. Thread safety: pure functions. Errors: PyTorch's texts.

#include <cstdint>

#include "libcore/tensor/tensor.h"

namespace core::raw {

Tensor softmax(const Tensor& x, std::int64_t dim);
Tensor log_softmax(const Tensor& x, std::int64_t dim);
Tensor softmax_grad(const Tensor& output_grad, const Tensor& output, std::int64_t dim);
Tensor log_softmax_grad(const Tensor& output_grad, const Tensor& output, std::int64_t dim);

}  // namespace core::raw
