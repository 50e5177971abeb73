#pragma once
// What a reader throws where a file contradicts itself. Internal to format. Thread safety: pure function.
// Use: if (!fits) corrupt(box_text(box) + " reaches outside of the tensor " + core::to_list(shape));

#include <string>

#include "libcore/base/error.h"

namespace ckpt::detail {

/// Error(corrupt) with this text.
[[noreturn]] inline void corrupt(const std::string& what) {
  throw core::Error(core::ErrorCode::corrupt, what);
}

}  // namespace ckpt::detail
