#include "tools/ckpt/line/numbers.h"

#include <charconv>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace cli {

std::vector<double> parse_numbers(const std::string& option, const std::string& text) {
  std::vector<double> numbers;
  if (text.empty()) return numbers;
  for (std::string_view part : core::split(text, ',')) {
    double number = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc() || end != part.data() + part.size()) {
      throw core::Error(core::ErrorCode::usage,
                        option + " " + core::quote(text) + " is not a list such as 0.5,0.3,0.2");
    }
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace cli
