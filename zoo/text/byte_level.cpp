#include <array>
#include <map>

#include "zoo/text/steps.h"
#include "zoo/text/unicode.h"

namespace zoo::text {
namespace {

/// Bytes that can be seen stand for themselves, the others for the characters from U+0100 on.
std::array<char32_t, 256> make_visible() {
  std::array<char32_t, 256> out = {};
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool seen = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    out[byte] = seen ? byte : next++;
  }
  return out;
}

const std::array<char32_t, 256>& visible() {
  static const std::array<char32_t, 256> table = make_visible();
  return table;
}

const std::map<char32_t, char>& hidden() {
  static const std::map<char32_t, char> table = [] {
    std::map<char32_t, char> out;
    for (std::size_t byte = 0; byte < 256; ++byte) out[visible()[byte]] = static_cast<char>(byte);
    return out;
  }();
  return table;
}

}  // namespace

std::string visible_bytes(std::string_view bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (char c : bytes) append(out, visible()[static_cast<unsigned char>(c)]);
  return out;
}

bool try_bytes_of(std::string_view text, std::string& bytes) {
  for (const Point& point : points(text)) {
    const auto found = hidden().find(point.value);
    if (found == hidden().end()) return false;
    bytes += found->second;
  }
  return true;
}

}  // namespace zoo::text
