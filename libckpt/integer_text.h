#pragma once
// Integers of any length as decimal text, and back. Internal. Thread safety: pure. Never throws but for memory.
// Use: std::optional<Value> twelve = parse_integer("12"); integer_text(*twelve) == "12";

#include <optional>
#include <string>
#include <string_view>

#include "libckpt/value.h"

namespace ckpt::detail {

/// As many digits as Python reads; the cost grows with their square.
inline constexpr std::size_t kMaxDigits = 4300;

/// Digits behind at most one sign; nullopt for any other text, and for more than kMaxDigits.
std::optional<Value> parse_integer(std::string_view text);
/// Cost: the square of the length. REQUIRES: an integer or a big integer.
std::string integer_text(const Value& integer);

}  // namespace ckpt::detail
