#pragma once
// Bare pickles with arrays of NumPy in them: dicts that programs dump, and the .pdparams of Paddle. They are data,
// never run. Thread safety: constant. Use: listed in registry.cpp.

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kPickleArrays;

}  // namespace ckpt::detail
