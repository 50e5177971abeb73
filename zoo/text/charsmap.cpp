#include "zoo/text/charsmap.h"

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/text/unicode.h"

namespace zoo::text {
namespace {

using core::Error;
using core::ErrorCode;

// A unit of a double array: the byte that leads to it, how far its children are, and whether a text ends there; or
// that text's value.
bool is_value(std::uint32_t unit) {
  return (unit >> 31) != 0;
}
bool has_value(std::uint32_t unit) {
  return ((unit >> 8) & 1) != 0;
}
std::uint32_t value(std::uint32_t unit) {
  return unit & 0x7fffffffU;
}
std::uint32_t label(std::uint32_t unit) {
  return unit & 0x800000ffU;
}
std::size_t offset(std::uint32_t unit) {
  return static_cast<std::size_t>(unit >> 10) << ((unit & (1U << 9)) >> 6);
}

std::uint32_t little_endian(std::string_view bytes, std::size_t at) {
  std::uint32_t out = 0;
  for (std::size_t i = 4; i-- > 0;) out = (out << 8) | static_cast<unsigned char>(bytes[at + i]);
  return out;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  const std::size_t trie = bytes.size() >= 4 ? little_endian(bytes, 0) : 0;
  if (bytes.size() < 4 || trie % 4 != 0 || trie == 0 || trie > bytes.size() - 4) {
    throw Error(ErrorCode::corrupt, "the table of replacements says that its trie has " + core::format_count(trie) +
                                        " bytes, of " + core::format_count(bytes.size()) + " in all");
  }
  for (std::size_t at = 0; at < trie; at += 4) units_.push_back(little_endian(bytes, 4 + at));
  texts_ = bytes.substr(4 + trie);
  if (is_value(units_[0])) throw Error(ErrorCode::corrupt, "the table of replacements begins with a value");
  // Every step from a unit then stays within the array, and need not be checked when it is made.
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const std::uint32_t unit = units_[i];
    if (is_value(unit)) continue;
    const std::size_t children = i ^ offset(unit);
    if ((children | 0xff) >= units_.size()) {
      throw Error(ErrorCode::corrupt, "unit " + core::format_count(i) +
                                          " of the table of replacements leads past its " +
                                          core::format_count(units_.size()) + " units");
    }
    if (has_value(unit) && value(units_[children]) >= texts_.size()) {
      throw Error(ErrorCode::corrupt, "unit " + core::format_count(i) +
                                          " of the table of replacements names a text past its " +
                                          core::format_count(texts_.size()) + " bytes of texts");
    }
  }
  if (!texts_.empty() && texts_.back() != '\0')
    throw Error(ErrorCode::corrupt, "the last text of the table of replacements has no end");
}

std::optional<std::string_view> Charsmap::replacement_of(std::string_view part) const {
  std::size_t at = offset(units_[0]);
  for (char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) break;
    at ^= byte;
    const std::uint32_t unit = units_[at];
    if (label(unit) != byte) break;
    at ^= offset(unit);
    if (!has_value(unit)) continue;
    const std::size_t begin = value(units_[at]);
    const std::string_view rest = std::string_view(texts_).substr(begin);
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

std::string Charsmap::apply(std::string_view text) const {
  constexpr std::size_t kLongestCluster = 6;
  std::string out;
  std::size_t begin = 0;
  for (std::size_t end : cluster_ends(text)) {
    const std::string_view cluster = text.substr(begin, end - begin);
    begin = end;
    const auto whole = cluster.size() < kLongestCluster ? replacement_of(cluster) : std::nullopt;
    if (whole) {
      out += *whole;
      continue;
    }
    for (const Point& point : points(cluster)) {
      const std::string_view part = cluster.substr(point.begin, point.end - point.begin);
      out += replacement_of(part).value_or(part);
    }
  }
  return mend(out);
}

std::string from_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  for (char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) throw Error(ErrorCode::corrupt, "the table of replacements is no base64");
    bits = (bits << 6) | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>((bits >> count) & 0xff);
  }
  return out;
}

}  // namespace zoo::text
