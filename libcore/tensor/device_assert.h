#pragma once
// Checks of values that only a device has seen, without waiting for it: what is wrong comes out of the next
// synchronisation as "CUDA error: device-side assert triggered", as with PyTorch, and the device is unusable then. On
// the host, and for checks that wait, callers look themselves. Thread safety: as tensor operations.
// Use: if (detail::asserts_later(x)) detail::assert_none(eq(x, 0)); else if (any(eq(x, 0)).item<bool>()) throw ...

#include "libcore/tensor/tensor.h"

namespace core::detail {

/// Whether asking for a value of `x` would wait for its device.
bool asserts_later(const Tensor& x);
/// No element of `bad`, a tensor of bool, may be true. REQUIRES: asserts_later(bad).
void assert_none(const Tensor& bad);

}  // namespace core::detail
