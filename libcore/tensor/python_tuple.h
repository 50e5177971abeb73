#pragma once
// Sizes as Python writes a tuple, for messages and printed modules.
// Thread safety: pure functions. Use: std::string text = core::detail::python_tuple(x.sizes().to_vector());

#include <cstdint>
#include <string>
#include <vector>

namespace core::detail {

/// "(3, 3)", "(3,)", "()".
inline std::string python_tuple(const std::vector<std::int64_t>& values) {
  std::string text = "(";
  for (const std::int64_t value : values) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(value);
  }
  return text + (values.size() == 1 ? ",)" : ")");
}

}  // namespace core::detail
