#pragma once
// The two forms in which PyTorch saved before version 1.6: the legacy stream and, before 0.1.11, a tar archive. Read
// only: what is changed is written as a PyTorch zip file. Thread safety: constants.
// Use: detail::kTorchLegacy.read(input, options)

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kTorchLegacy;
extern const Format kTorchTar;

}  // namespace ckpt::detail
