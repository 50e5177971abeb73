#include "libckpt/io/json_scan.h"

#include <cctype>

namespace ckpt::detail {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

std::uint64_t skip_space(std::string_view text, std::uint64_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

/// Behind the closing quote of the text that begins at `at`.
std::uint64_t skip_text(std::string_view text, std::uint64_t at) {
  for (++at; text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

/// Behind the value that begins at `at`.
std::uint64_t skip_value(std::string_view text, std::uint64_t at) {
  std::size_t depth = 0;
  do {
    char c = text[at];
    if (c == '"') {
      at = skip_text(text, at);
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    ++at;
  } while (at < text.size() && (depth > 0 || !(text[at] == ',' || text[at] == '}' || text[at] == ']')));
  while (is_space(text[at - 1])) --at;
  return at;
}

std::vector<JsonSpan> members_at(std::string_view text, std::uint64_t brace) {
  std::vector<JsonSpan> spans;
  std::uint64_t at = skip_space(text, brace + 1);
  while (text[at] != '}') {
    JsonSpan span;
    span.key = at;
    at = skip_space(text, skip_text(text, at));
    span.begin = skip_space(text, at + 1);
    span.end = skip_value(text, span.begin);
    spans.push_back(span);
    at = skip_space(text, span.end);
    if (text[at] == ',') at = skip_space(text, at + 1);
  }
  return spans;
}

}  // namespace

std::vector<std::uint64_t> json_key_offsets(std::string_view text, std::size_t object) {
  std::uint64_t at = 0;
  for (std::size_t seen = 0;; ++at) {
    if (text[at] == '"') at = skip_text(text, at) - 1;
    if (text[at] == '{' && seen++ == object) break;
  }
  std::vector<std::uint64_t> keys;
  for (const JsonSpan& span : members_at(text, at)) keys.push_back(span.key);
  return keys;
}

std::vector<JsonSpan> json_member_spans(std::string_view text) {
  return members_at(text, skip_space(text, 0));
}

std::optional<std::uint64_t> find_negative_zero(std::string_view text) {
  if (text.find("-0") == std::string_view::npos) return std::nullopt;
  for (std::uint64_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') {
      at = skip_text(text, at) - 1;
    } else if (text[at] == '-' && text[at + 1] == '0') {
      char next = at + 2 < text.size() ? text[at + 2] : ' ';
      if (next != '.' && next != 'e' && next != 'E') return at;
    } else if (text[at] == 'e' || text[at] == 'E') {
      ++at;  // the sign of an exponent: 1e-05
    }
  }
  return std::nullopt;
}

}  // namespace ckpt::detail
