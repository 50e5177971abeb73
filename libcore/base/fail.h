#pragma once
// Ends an operation with PyTorch's text. Internal to core.

#include <string>

#include "libcore/base/error.h"

namespace core::detail {

[[noreturn]] inline void fail(const std::string& text, ErrorCode code = ErrorCode::runtime) {
  throw Error(code, text);
}

/// Where PyTorch raises ValueError.
[[noreturn]] inline void fail_value(const std::string& text) {
  throw Error(ErrorCode::value, text);
}

}  // namespace core::detail
