#pragma once
// Positions in a JSON text, which the parser does not keep. REQUIRES for all: the text is valid JSON. Internal to
// json.cpp. Thread safety: pure functions. Use: json_member_spans(R"({"a": 1})")[0].begin == 6;

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "libckpt/io/json.h"

namespace ckpt::detail {

/// Offsets of the keys of the object whose opening brace is the `object`-th of the text (from 0).
std::vector<std::uint64_t> json_key_offsets(std::string_view text, std::size_t object);
/// Members of the top object.
std::vector<JsonSpan> json_member_spans(std::string_view text);
/// Where a number begins that is written -0.
std::optional<std::uint64_t> find_negative_zero(std::string_view text);

}  // namespace ckpt::detail
