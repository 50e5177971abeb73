#pragma once
// What holds of one tensor in a safetensors header, however its text was read. Thread safety: pure.
// Use: item.dtype = *safetensors_dtype("BF16"); … require_sound(item);

#include <optional>
#include <string_view>

#include "libckpt/format/safetensors/header.h"

namespace ckpt::detail {

/// "BF16" -> DType::bf16.
std::optional<core::DType> safetensors_dtype(std::string_view name);

/// The bytes are as many as shape and dtype ask for. F4 sizes count values before this and elements behind it.
/// Errors: Error(corrupt | unsupported) without the name of the tensor.
void require_sound(SafetensorsItem& item);

}  // namespace ckpt::detail
