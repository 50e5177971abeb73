#pragma once
// Arithmetic that other operations need under a name of theirs. Internal to ops.

#include "libcore/tensor/tensor.h"

namespace core::detail {

/// a / b under the name that PyTorch gives it: "DivBackward0" in a program, "DivBackward1" inside its own losses.
Tensor div_by_number(const Tensor& a, Scalar b, const char* printed);

}  // namespace core::detail
