#include "libcore/base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace core {
namespace {

/// Length of the well-formed UTF-8 sequence at the head of `text`, 0 when there is none; its code point in `code`.
std::size_t utf8_length(std::string_view text, std::uint32_t& code) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(0);
  if (first < 0x80) {
    code = first;
    return 1;
  }
  std::size_t length = first >= 0xf0 && first <= 0xf4  ? 4
                       : first >= 0xe0 && first < 0xf0 ? 3
                       : first >= 0xc2 && first < 0xe0 ? 2
                                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  code = first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
    code = (code << 6) | (byte(i) & 0x3fU);
  }
  constexpr std::array<std::uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < kSmallest[length] || surrogate || code > 0x10ffff ? 0 : length;
}

struct CodeRange {
  std::uint32_t first;
  std::uint32_t last;
};

/// Control characters of C1, line and paragraph separators, marks that reorder text, and all that Unicode says is shown
/// as nothing (Default_Ignorable_Code_Point: zero-width characters, variation selectors, tags).
constexpr CodeRange kHidden[] = {
    {0x7f, 0x9f},     {0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},     {0x115f, 0x1160},   {0x17b4, 0x17b5},
    {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},   {0x3164, 0x3164},   {0xfe00, 0xfe0f},
    {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

bool is_hidden(std::uint32_t code) {
  return std::any_of(std::begin(kHidden), std::end(kHidden),
                     [code](const CodeRange& range) { return code >= range.first && code <= range.last; });
}

/// Printed as it is: nearly all characters of nearly all names.
bool is_plain(char c) {
  return c >= 0x20 && c < 0x7f && c != '\\';
}

void append_escaped(std::string& out, std::uint32_t code, std::string_view raw) {
  switch (code) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\\':
      out += "\\\\";
      return;
    default:
      break;
  }
  char buffer[12];
  if (code < 0x20) {
    std::snprintf(buffer, sizeof buffer, "\\x%02x", code);
    out += buffer;
  } else if (is_hidden(code)) {
    std::snprintf(buffer, sizeof buffer, code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
    out += buffer;
  } else {
    out += raw;
  }
}

}  // namespace

std::string printable(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::uint32_t code = 0;
    std::size_t length = utf8_length(text, code);
    if (length == 0) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\x%02x", static_cast<unsigned char>(text[0]));
      out += buffer;
      length = 1;
    } else {
      append_escaped(out, code, text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string quote(std::string_view text, std::size_t max) {
  bool cut = text.size() > max;
  std::string body = printable(cut ? text.substr(0, max) : text);
  std::string out = "'";
  for (char c : body) {
    if (c == '\'') out += '\\';
    out += c;
  }
  return out + (cut ? "...'" : "'");
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    std::uint32_t code = 0;
    std::size_t length = utf8_length(text, code);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i != 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string format_size(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, value >= 99.95 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return buffer;
}

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

std::string format_count(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::optional<std::uint64_t> try_parse_size(std::string_view text) {
  std::string copy(text);
  char* end = nullptr;
  double number = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str() || !std::isfinite(number) || number < 0) return std::nullopt;
  std::string_view unit = std::string_view(copy).substr(static_cast<std::size_t>(end - copy.c_str()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  int power = 0;
  if (!unit.empty()) {
    std::size_t at = std::string_view("KMGTkmgt").find(unit.front());
    if (at != std::string_view::npos) {
      power = static_cast<int>(at % 4) + 1;
      unit.remove_prefix(1);
    }
  }
  bool decimal = power > 0 && (unit == "B" || unit == "b");
  bool valid = unit.empty() || unit == "B" || unit == "b" || (power > 0 && (unit == "iB" || unit == "i"));
  if (!valid) return std::nullopt;
  double value = number * std::pow(decimal ? 1000.0 : 1024.0, power);
  if (value >= 18446744073709551615.0) return std::nullopt;
  return static_cast<std::uint64_t>(value);
}

}  // namespace core
