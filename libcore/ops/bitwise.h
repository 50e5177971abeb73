#pragma once
// Bits of integers, as torch.X. Thread safety: pure functions; those in place (name_) write their first argument.
// Use: core::Tensor low = core::bitwise_and(x, mask);

#include "libcore/tensor/tensor.h"

namespace core {

Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
Tensor bitwise_not(const Tensor& x);
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b);
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b);
const Tensor& bitwise_and_(const Tensor& x, const Tensor& other);
const Tensor& bitwise_or_(const Tensor& x, const Tensor& other);
const Tensor& bitwise_xor_(const Tensor& x, const Tensor& other);
const Tensor& bitwise_not_(const Tensor& x);

}  // namespace core
