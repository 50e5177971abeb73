#pragma once
// What PyTorch says of complex numbers where an operation does not take them. Thread safety: pure functions.

#include <string_view>

#include "libcore/backend/backend.h"
#include "libcore/backend/op_kinds.h"
#include "libcore/base/dtype.h"

namespace core::raw {

/// The device has no kernel of this operation for `dtype`: throw_unsupported(), or for complex numbers on the CPU
/// PyTorch's text for them.
[[noreturn]] void throw_missing(UnaryOp op, const Backend& backend, DType dtype);
[[noreturn]] void throw_missing(BinaryOp op, const Backend& backend, DType dtype);
[[noreturn]] void throw_missing(CompareOp op, const Backend& backend, DType dtype);
[[noreturn]] void throw_missing(PredicateOp op, const Backend& backend, DType dtype);
[[noreturn]] void throw_missing(TernaryOp op, const Backend& backend, DType dtype);
[[noreturn]] void throw_missing(ScanOp op, const Backend& backend, DType dtype);
[[noreturn]] void throw_missing(ReduceOp op, const Backend& backend, DType dtype);

}  // namespace core::raw
