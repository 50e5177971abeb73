#include "samples/support/say.h"

#include <iostream>
#include <mutex>
#include <utility>

namespace samples {
namespace {

constexpr std::size_t kLineWidth = 80;

char closing(char open) {
  return open == '[' ? ']' : ')';
}

/// `indent` columns stand before the value, `behind` characters will follow it on its last line.
std::string in_lines(const Repr& value, std::size_t indent, std::size_t behind) {
  std::string flat = value.str();
  if (value.open == 0 || flat.size() + indent + behind <= kLineWidth) return flat;
  std::string text(1, value.open);
  for (std::size_t i = 0; i < value.parts.size(); ++i) {
    bool is_last = i + 1 == value.parts.size();
    text += in_lines(value.parts[i], indent + 1, is_last ? behind + 1 : 1);
    text += is_last ? std::string(1, closing(value.open)) : ",\n" + std::string(indent + 1, ' ');
  }
  return text;
}

}  // namespace

std::string Repr::str() const {
  if (open == 0) return text;
  std::string line(1, open);
  for (const Repr& part : parts) line += (line.size() == 1 ? "" : ", ") + part.str();
  return line + closing(open);
}

Repr repr(const std::string& text) {
  return {.text = "'" + text + "'"};
}

Repr repr(core::Device device) {
  return {.text = device.repr()};
}

void pprint(const Repr& value) {
  print_line(in_lines(value, 0, 0));
}

void print_line(std::string line) {
  static std::mutex mutex;
  line += '\n';
  std::scoped_lock lock(mutex);
  std::cout.write(line.data(), static_cast<std::streamsize>(line.size())).flush();
}

}  // namespace samples
