#pragma once
// Which models llama.cpp computes as transformers does, by what config.json says of them. Internal to libckpt/hub.
// Thread safety: pure. Use: require_computed(architecture, config, numbers, false);

#include "libckpt/hub/config_fields.h"
#include "libckpt/hub/model_numbers.h"

namespace ckpt::detail {

/// Error(unsupported) naming a field whose value llama.cpp has no other one for, and quantized weights unless they were
/// `dequantized`.
void require_computed(const GgufArchitecture& architecture, const ConfigFields& config, const ModelNumbers& numbers,
                      bool dequantized);

}  // namespace ckpt::detail
