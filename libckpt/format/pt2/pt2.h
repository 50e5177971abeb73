#pragma once
// Archives of torch.export.save: their weights as a state dict; the program is passed over. The layout is described in
// FORMAT_SUPPORT.md. Thread safety: constant. Use: listed in registry.cpp.

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kPt2;

}  // namespace ckpt::detail
