#pragma once
// Glob patterns over dotted names: '*' any characters (dots included, so "*.bias" is every bias), '?' one character,
// [abc], [a-z], [!a] a set; '\' takes the next character as it is. Thread safety: pure.
// Use: bool fits = ckpt::glob_match("encoder.*.weight", "encoder.layer.0.weight");

#include <string_view>

namespace ckpt {

/// True when `pattern` matches all of `text`. Bytes are compared, one '?' is one byte. Cost: linear in both for one
/// '*', never exponential. Never throws.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace ckpt
