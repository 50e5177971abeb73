#pragma once
// A text as JSON behind what was written before, without a string of its own. Internal to libckpt and its tools. Thread
// safety: pure. Use: std::string line;
// append_json_text(line, name);

#include <string>
#include <string_view>

namespace ckpt {

/// As json_quote().
void append_json_text(std::string& out, std::string_view text);

}  // namespace ckpt
