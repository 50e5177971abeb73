#include "libcore/module/print.h"

#include <charconv>
#include <cmath>

namespace core::detail {

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double size = std::abs(value);
  const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  char text[64];
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(text, text + sizeof text, value, format).ptr;
  std::string result(text, end);
  if (!scientific && result.find('.') == std::string::npos) result += ".0";
  return result;
}

std::string python_tuple(const std::vector<std::int64_t>& values) {
  std::string text = "(";
  for (const std::int64_t value : values) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(value);
  }
  return text + (values.size() == 1 ? ",)" : ")");
}

}  // namespace core::detail
