#include "libcore/module/print.h"

namespace core::detail {

std::string python_tuple(const std::vector<std::int64_t>& values) {
  std::string text = "(";
  for (const std::int64_t value : values) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(value);
  }
  return text + (values.size() == 1 ? ",)" : ")");
}

}  // namespace core::detail
