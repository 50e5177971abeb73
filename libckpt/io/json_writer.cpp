#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "libckpt/io/eight_bytes.h"
#include "libckpt/io/json.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

/// Length of the well-formed UTF-8 sequence at the start of `text`, 0 when there is none.
std::size_t sequence_length(std::string_view text) {
  for (std::size_t length = 1; length <= 4 && length <= text.size(); ++length) {
    if (core::is_utf8(text.substr(0, length))) return length;
  }
  return 0;
}

void append_control(std::string& out, char c) {
  constexpr char kDigits[] = "0123456789abcdef";
  switch (c) {
    case '\b':
      out += "\\b";
      break;
    case '\f':
      out += "\\f";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      out += "\\u00";
      out += kDigits[static_cast<unsigned char>(c) >> 4];
      out += kDigits[c & 15];
  }
}

/// True for what stands in JSON as it is.
bool is_plain(char c) {
  auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

constexpr std::size_t kShortText = 200;

bool is_plain(std::uint64_t eight) {
  return is_ascii(eight) && !has_byte_below(eight, 0x20) && !has_byte(eight, '"') && !has_byte(eight, '\\');
}

/// Length of what stands as it is, at the start of `text`.
std::size_t plain_length(std::string_view text) {
  std::size_t length = 0;
  while (text.size() - length >= 8 && is_plain(load_eight(text.data() + length))) length += 8;
  // The last eight once more, instead of the rest of them one by one.
  if (text.size() >= 8 && text.size() - length < 8 && is_plain(load_eight(text.data() + text.size() - 8))) {
    return text.size();
  }
  while (length < text.size() && is_plain(text[length])) ++length;
  return length;
}

/// Appends what one or more bytes at the start of `text`, which are not plain, are in JSON. Returns how many they are.
std::size_t append_special(std::string& out, std::string_view text) {
  char c = text.front();
  if (c == '"' || c == '\\') {
    out += '\\';
    out += c;
  } else if (static_cast<unsigned char>(c) < 0x20) {
    append_control(out, c);
  } else if (std::size_t length = sequence_length(text); length != 0) {
    out += text.substr(0, length);
    return length;
  } else {
    out += "\xef\xbf\xbd";
  }
  return 1;
}

}  // namespace

bool is_plain_json(std::string_view text) {
  return plain_length(text) == text.size();
}

void append_json_text(std::string& out, std::string_view text) {
  std::size_t plain = plain_length(text);
  const std::size_t start = out.size();
  out.resize(start + plain + 2, '"');
  std::memcpy(out.data() + start + 1, text.data(), plain);
  if (plain == text.size()) return;
  out.pop_back();
  text.remove_prefix(plain);
  while (!text.empty()) {
    text.remove_prefix(append_special(out, text));
    plain = plain_length(text);
    out.append(text.data(), plain);
    text.remove_prefix(plain);
  }
  out += '"';
}

std::string json_quote(std::string_view text) {
  std::string out;
  append_json_text(out, text);
  return out;
}

JsonWriter& JsonWriter::quoted(std::string_view text, std::string_view behind) {
  if (indent_ > 0 || text.size() > kShortText || plain_length(text) < text.size()) {
    before_value();
    append_json_text(out_, text);
    out_ += behind;
    return *this;
  }
  std::array<char, kShortText + 8> piece;  // lists of 100,000 tensors are a million of these: one append each
  char* end = piece.data();
  if (needs_comma()) *end++ = ',';
  *end++ = '"';
  end = std::copy(text.begin(), text.end(), end);
  *end++ = '"';
  end = std::copy(behind.begin(), behind.end(), end);
  out_.append(piece.data(), static_cast<std::size_t>(end - piece.data()));
  return *this;
}

template <class Number>
JsonWriter& JsonWriter::digits(Number number) {
  std::array<char, 24> buffer;
  auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return raw({buffer.data(), end});
}

JsonWriter& JsonWriter::key(std::string_view name) {
  quoted(name, indent_ > 0 ? ": " : ":");
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  return quoted(text, "");
}
JsonWriter& JsonWriter::value(bool value) {
  return raw(value ? "true" : "false");
}
JsonWriter& JsonWriter::value(std::int64_t number) {
  return digits(number);
}
JsonWriter& JsonWriter::value(std::uint64_t number) {
  return digits(number);
}
JsonWriter& JsonWriter::null() {
  return raw("null");
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  char buffer[32];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, number);
  std::string text(buffer, end);
  // 3.0 stays a real number for a reader that tells them apart.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return raw(text);
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  before_value();
  out_ += json;
  return *this;
}

JsonWriter& JsonWriter::open(char bracket) {
  before_value();
  out_ += bracket;
  ++depth_;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  --depth_;
  if (!first_) new_line();
  out_ += bracket;
  first_ = false;
  return *this;
}

bool JsonWriter::needs_comma() {
  if (std::exchange(after_key_, false)) return false;
  return !std::exchange(first_, false);
}

void JsonWriter::before_value() {
  const bool is_item = !after_key_;
  if (needs_comma()) out_ += ',';
  if (is_item && depth_ > 0) new_line();
}

void JsonWriter::new_line() {
  if (indent_ == 0) return;
  out_ += '\n';
  out_.append(static_cast<std::size_t>(indent_) * static_cast<std::size_t>(depth_), ' ');
}

}  // namespace ckpt
