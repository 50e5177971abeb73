#pragma once
// What recurrent layers, and those with 8-bit weights, check of the state that a caller gives. Thread safety: pure
// functions. Internal to the modules. Use: core::detail::check_state_size(core::zeros({1, 2, 5}), {1, 2, 5}, "hidden");

#include <cstdint>

#include "libcore/base/shape.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

/// Error(runtime) "Expected hidden[0] size (2, 3, 5), got [2, 1, 5]"; `what`: "hidden[0]".
void check_state_size(const Tensor& state, const Shape& wanted, const char* what);
/// Error(runtime) "For batched 3-D input, hx and cx should also be 3-D but got (2-D, 3-D) tensors". `rank`: the
/// input's.
void check_lstm_ranks(std::int64_t rank, const Tensor& h0, const Tensor& c0);

}  // namespace core::detail
