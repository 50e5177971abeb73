#pragma once
// GGUF, the format of ggml and llama.cpp: typed metadata and tensors, plain or in quantised blocks, which are carried
// as they are. Layout and checks: FORMAT_SUPPORT.md. Thread safety: constants. Use: listed in registry.cpp.

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kGguf;

}  // namespace ckpt::detail
