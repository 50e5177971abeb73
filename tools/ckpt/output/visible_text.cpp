#include "tools/ckpt/output/visible_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "libcore/base/text.h"

namespace cli {
namespace {

bool is_ascii(char c) {
  return c >= 0x20 && c < 0x7f;
}

/// `text` with every run of characters that are neither printable ASCII nor in `kept` given to `change`.
template <class Change>
std::string with_runs_changed(std::string_view text, std::string_view kept, const Change& change) {
  auto stays = [&](char c) { return is_ascii(c) || kept.find(c) != std::string_view::npos; };
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const char* end = std::find_if_not(text.begin(), text.end(), stays);
    auto length = static_cast<std::size_t>(end - text.begin());
    out += text.substr(0, length);
    text.remove_prefix(length);
    length = static_cast<std::size_t>(std::find_if(text.begin(), text.end(), stays) - text.begin());
    if (length > 0) out += change(text.substr(0, length));
    text.remove_prefix(length);
  }
  return out;
}

std::string printed(std::string_view run) {
  return core::printable(run);
}

/// Length of the well-formed character at the head of `text`, 1 for a byte that is part of none.
std::size_t character_length(std::string_view text) {
  for (std::size_t length = 1; length <= 4 && length <= text.size(); ++length) {
    if (core::is_utf8(text.substr(0, length))) return length;
  }
  return 1;
}

void append_unit(std::string& out, std::uint32_t unit) {
  std::array<char, 16> buffer = {};
  std::snprintf(buffer.data(), buffer.size(), "\\u%04x", unit);
  out += buffer.data();
}

/// REQUIRES: well-formed UTF-8.
void append_escaped(std::string& out, std::string_view character) {
  constexpr std::array<unsigned, 5> kLead = {0, 0x7f, 0x1f, 0x0f, 0x07};
  std::uint32_t code = static_cast<unsigned char>(character[0]) & kLead[character.size()];
  for (char c : character.substr(1)) code = (code << 6) | (static_cast<unsigned char>(c) & 0x3fU);
  if (code >= 0x10000) append_unit(out, 0xd7c0 + (code >> 10));
  append_unit(out, code >= 0x10000 ? 0xdc00 + (code & 0x3ffU) : code);
}

std::string json_run(std::string_view run) {
  std::string out;
  while (!run.empty()) {
    std::string_view character = run.substr(0, character_length(run));
    run.remove_prefix(character.size());
    if (!core::is_utf8(character)) {
      out += "\\ufffd";
    } else if (core::printable(character) == character) {
      out += character;
    } else {
      append_escaped(out, character);
    }
  }
  return out;
}

}  // namespace

bool is_plain_text(std::string_view text) {
  constexpr std::size_t kPart = 4096;
  for (; !text.empty(); text.remove_prefix(std::min(kPart, text.size()))) {
    // Without a way out, so that many characters are looked at together.
    unsigned char others = 0;
    for (char c : text.substr(0, kPart)) others |= static_cast<unsigned char>(!is_ascii(c) & (c != '\n'));
    if (others != 0) return false;
  }
  return true;
}

std::string visible(std::string_view text) {
  return with_runs_changed(text, "\n\t", printed);
}

std::string one_line(std::string_view text) {
  return with_runs_changed(text, "", printed);
}

std::string visible_json(std::string_view json) {
  return with_runs_changed(json, "\n\t", json_run);
}

}  // namespace cli
