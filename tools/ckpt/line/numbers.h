#pragma once
// Lists of numbers as options take them. Thread safety: pure. Use: parse_numbers("--weights", "0.5,0.3,0.2");

#include <string>
#include <vector>

namespace cli {

/// Numbers between commas; none in an empty text. Error(usage) naming the option for a text that is no such list.
std::vector<double> parse_numbers(const std::string& option, const std::string& text);

}  // namespace cli
