#pragma once
// DeepSpeed's ZeRO checkpoints: the parts of all processes joined to the float32 weights, as DeepSpeed's own script
// zero_to_fp32.py joins them. Thread safety: constant. Use: listed in registry.cpp.

#include <string>
#include <vector>

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kDeepSpeedZero;

/// Names of the other files of the checkpoint that `input` stands for, those that are there.
std::vector<std::string> zero_files_beside(const Input& input);

}  // namespace ckpt::detail
