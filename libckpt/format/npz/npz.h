#pragma once
// NumPy's formats: a single array (.npy) and a zip archive of them (.npz). The layout is described in
// FORMAT_SUPPORT.md. Thread safety: constants. Use: listed in registry.cpp.

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kNpy;
extern const Format kNpz;

}  // namespace ckpt::detail
