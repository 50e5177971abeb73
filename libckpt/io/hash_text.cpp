#include "libckpt/io/hash_text.h"

#include <charconv>

namespace ckpt {

std::optional<Hash128> hash_from_hex(std::string_view digits) {
  if (digits.size() != 32) return std::nullopt;
  Hash128 hash;
  for (auto [to, from] : {std::pair(&hash.high, digits.substr(0, 16)), std::pair(&hash.low, digits.substr(16))}) {
    auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), *to, 16);
    if (error != std::errc() || end != from.data() + from.size()) return std::nullopt;
  }
  return hash;
}

}  // namespace ckpt
