#include "libckpt/format/torch/pickle_cursor.h"

#include <algorithm>

#include "libckpt/limits.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The number that `count` hexadecimal digits at the head of `text` give.
std::uint32_t parse_hex(std::string_view text, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    int digit = i < text.size() ? hex_digit(text[i]) : -1;
    if (digit < 0) throw Error(ErrorCode::corrupt, "the pickle holds text with a broken escape");
    value = value * 16 + static_cast<std::uint32_t>(digit);
  }
  return value;
}

char simple_escape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return c;
    default:
      throw Error(ErrorCode::corrupt, "the pickle holds text with a broken escape");
  }
}

/// Length of an octal escape at the head of `text` (up to three digits).
std::size_t octal_length(std::string_view text) {
  std::size_t length = 0;
  while (length < 3 && length < text.size() && text[length] >= '0' && text[length] <= '7') ++length;
  return length;
}

void multiply_add(core::ByteVector& number, unsigned factor, unsigned addend) {
  unsigned carry = addend;
  for (std::byte& b : number) {
    unsigned value = std::to_integer<unsigned>(b) * factor + carry;
    b = static_cast<std::byte>(value & 0xffU);
    carry = value >> 8;
  }
  if (carry != 0) number.push_back(static_cast<std::byte>(carry));
}

void negate(core::ByteVector& number) {
  unsigned carry = 1;
  for (std::byte& b : number) {
    unsigned value = (~std::to_integer<unsigned>(b) & 0xffU) + carry;
    b = static_cast<std::byte>(value & 0xffU);
    carry = value >> 8;
  }
}

}  // namespace

std::uint8_t PickleCursor::opcode() {
  if (frame_end_ == position_) frame_end_.reset();
  return number<std::uint8_t>();
}

core::Bytes PickleCursor::bytes(std::uint64_t length) {
  if (length > remaining()) {
    throw Error(ErrorCode::corrupt, "the pickle is cut off: " + core::format_size(length) + " promised at byte " +
                                        std::to_string(position_) + " where " + core::format_size(remaining()) +
                                        " are left");
  }
  if (frame_end_ && length > *frame_end_ - position_) {
    throw Error(ErrorCode::corrupt, "the pickle crosses the end of a frame at byte " + std::to_string(*frame_end_));
  }
  core::Bytes out = bytes_.subspan(position_, length);
  position_ += length;
  return out;
}

std::string_view PickleCursor::line() {
  std::string_view rest = core::as_text(bytes_.subspan(position_));
  std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) throw Error(ErrorCode::corrupt, "the pickle is cut off inside a line");
  return core::as_text(bytes(end + 1)).substr(0, end);
}

void PickleCursor::open_frame(std::uint64_t length) {
  if (frame_end_) throw Error(ErrorCode::corrupt, "the pickle opens a frame inside a frame");
  if (length > remaining()) {
    throw Error(ErrorCode::corrupt, "the pickle has a frame of " + core::format_size(length) + " where " +
                                        core::format_size(remaining()) + " are left");
  }
  frame_end_ = position_ + length;
}

bool is_pickle_utf8(std::string_view text) {
  for (std::size_t from = 0;;) {
    std::size_t at = text.find('\xed', from);
    while (at != std::string_view::npos &&
           !(at + 2 < text.size() && (text[at + 1] & 0xe0) == 0xa0 && (text[at + 2] & 0xc0) == 0x80)) {
      at = text.find('\xed', at + 1);
    }
    if (!core::is_utf8(text.substr(from, at == std::string_view::npos ? at : at - from))) return false;
    if (at == std::string_view::npos) return true;
    from = at + 3;
  }
}

std::string parse_quoted(std::string_view line) {
  while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
  if (line.size() < 2 || line.front() != line.back() || (line.front() != '\'' && line.front() != '"')) {
    throw Error(ErrorCode::corrupt, "the pickle holds text without quotes");
  }
  line = line.substr(1, line.size() - 2);
  std::string out;
  while (!line.empty()) {
    std::size_t used = 1;
    if (line[0] != '\\') {
      out += line[0];
    } else if (line.size() > 1 && line[1] == 'x') {
      out += static_cast<char>(parse_hex(line.substr(2), 2));
      used = 4;
    } else if (std::size_t octal = octal_length(line.substr(1)); octal > 0) {
      unsigned value = 0;
      for (char c : line.substr(1, octal)) value = value * 8 + static_cast<unsigned>(c - '0');
      out += static_cast<char>(value);
      used = 1 + octal;
    } else {
      out += simple_escape(line.size() > 1 ? line[1] : '\0');
      used = 2;
    }
    line.remove_prefix(used);
  }
  return out;
}

std::string parse_raw_unicode(std::string_view line) {
  std::string out;
  while (!line.empty()) {
    bool escape = line.size() > 1 && line[0] == '\\' && (line[1] == 'u' || line[1] == 'U');
    if (!escape) {
      append_utf8(out, static_cast<unsigned char>(line[0]));
      line.remove_prefix(1);
      continue;
    }
    std::size_t digits = line[1] == 'u' ? 4 : 8;
    std::uint32_t code = parse_hex(line.substr(2), digits);
    if (code > 0x10ffff) throw Error(ErrorCode::corrupt, "the pickle holds text with a broken escape");
    append_utf8(out, code);
    line.remove_prefix(2 + digits);
  }
  return out;
}

core::ByteVector parse_decimal(std::string_view digits) {
  if (digits.ends_with('\r')) digits.remove_suffix(1);
  if (digits.ends_with('L')) digits.remove_suffix(1);
  bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() || digits.size() > kMaxPickleDigits)
    throw Error(ErrorCode::corrupt, "the pickle holds a broken number");
  core::ByteVector number;
  for (char c : digits) {
    if (c < '0' || c > '9') throw Error(ErrorCode::corrupt, "the pickle holds a broken number");
    multiply_add(number, 10, static_cast<unsigned>(c - '0'));
  }
  number.push_back(std::byte{0});
  if (negative) negate(number);
  trim_integer(number);
  return number;
}

void append_utf8(std::string& out, std::uint32_t code) {
  auto tail = [&](unsigned shift) { out += static_cast<char>(0x80U | ((code >> shift) & 0x3fU)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0U | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0U | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0U | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

void trim_integer(core::ByteVector& number) {
  auto sign = [](std::byte b) { return (b & std::byte{0x80}) != std::byte{0} ? std::byte{0xff} : std::byte{0}; };
  while (number.size() > 1 && number.back() == sign(number[number.size() - 2])) number.pop_back();
  if (number.size() == 1 && number[0] == std::byte{0}) number.clear();
}

std::optional<std::int64_t> small_integer(core::Bytes number) {
  if (number.size() > 8) {
    core::ByteVector copy(number.begin(), number.end());
    trim_integer(copy);
    if (copy.size() > 8) return std::nullopt;
    return small_integer(copy);
  }
  if (number.empty()) return 0;
  bool negative = (number.back() & std::byte{0x80}) != std::byte{0};
  std::uint64_t value = negative ? ~0ULL : 0;
  std::memcpy(&value, number.data(), number.size());
  return static_cast<std::int64_t>(value);
}

}  // namespace ckpt
