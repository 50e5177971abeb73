#pragma once
// msgpack files of flax.serialization: trees of dicts with arrays. The layout is described in FORMAT_SUPPORT.md.
// Thread safety: constant. Use: listed in registry.cpp.

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kFlax;

}  // namespace ckpt::detail
