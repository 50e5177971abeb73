#pragma once
// TorchScript archives (.pt, .ptl of torch.jit.save): a program with its weights. The weights are read by the names
// that state_dict() gives them; the program is never looked at. Read only. Thread safety: constant.
// Use: detail::kTorchScript.read(input, options)

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kTorchScript;

}  // namespace ckpt::detail
