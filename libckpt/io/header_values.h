#pragma once
// How many values the JSON header of a safetensors file holds, told from its text: a parsed value takes up to ten times
// its text, so that what no real file has is refused before it is parsed. The text may be any bytes. Thread safety:
// pure. Use: check_header_values(text, limits); JsonDocument json = JsonDocument::parse(text);

#include <cstdint>
#include <string_view>

#include "libckpt/limits.h"

namespace ckpt::detail {

/// The values that a header of this length may have.
std::uint64_t most_header_values(std::uint64_t length, const Limits& limits);

/// Error(refused) for a tensor of too many values, too many entries of metadata, and a header of too many values for
/// its length.
void check_header_values(std::string_view text, const Limits& limits);

}  // namespace ckpt::detail
