#include <charconv>
#include <cmath>

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

}  // namespace

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    char c = text.front();
    std::size_t length = 1;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      append_control(out, c);
    } else if (static_cast<unsigned char>(c) < 0x80) {
      out += c;
    } else if ((length = sequence_length(text)) != 0) {
      out += text.substr(0, length);
    } else {
      out += "\xef\xbf\xbd";
      length = 1;
    }
    text.remove_prefix(length);
  }
  return out + '"';
}

JsonWriter& JsonWriter::key(std::string_view name) {
  before_value();
  out_ += json_quote(name);
  out_ += indent_ > 0 ? ": " : ":";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  return raw(json_quote(text));
}
JsonWriter& JsonWriter::value(bool value) {
  return raw(value ? "true" : "false");
}
JsonWriter& JsonWriter::value(std::int64_t number) {
  return raw(std::to_string(number));
}
JsonWriter& JsonWriter::value(std::uint64_t number) {
  return raw(std::to_string(number));
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

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!first_) out_ += ',';
  first_ = false;
  if (depth_ > 0) new_line();
}

void JsonWriter::new_line() {
  if (indent_ == 0) return;
  out_ += '\n';
  out_.append(static_cast<std::size_t>(indent_) * static_cast<std::size_t>(depth_), ' ');
}

}  // namespace ckpt
