#pragma once
// How values of several ranks become one. Thread safety: pure functions.
// Use: core::distributed::all_reduce(t, {.op = core::distributed::ReduceOp::max});

#include <cstddef>
#include <string_view>

#include "libcore/base/dtype.h"

namespace core::distributed {

/// premul_sum is NCCL's alone: the sum of each rank's values times a factor (ReduceOptions).
enum class ReduceOp { sum, avg, product, min, max, band, bor, bxor, premul_sum };

/// PyTorch's name: "SUM", "BAND".
std::string_view name(ReduceOp op);

/// out[i] = a[i] op b[i]; `out` may be `a` or `b`. Half types are computed in f32 and rounded each time, as PyTorch
/// does.
using ReduceFunction = void (*)(void* out, const void* a, const void* b, std::size_t count);

/// `avg` is a sum here. Errors: "Cannot use ReduceOp.BAND with non-integral dtype", "Invalid scalar type", "Cannot use
/// ReduceOp.PREMUL_SUM with Gloo".
ReduceFunction reduce_function(DType dtype, ReduceOp op);

}  // namespace core::distributed
