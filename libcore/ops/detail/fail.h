#pragma once
// Ends an operation with PyTorch's text. Internal to ops.

#include <string>

#include "libcore/base/error.h"

namespace core::detail {

[[noreturn]] inline void fail(const std::string& text, ErrorCode code = ErrorCode::runtime) {
  throw Error(code, text);
}

}  // namespace core::detail
