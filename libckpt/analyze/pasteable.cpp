#include "libckpt/analyze/pasteable.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "libcore/base/text.h"

namespace ckpt {
namespace {

/// What stands at the head of a text: a character, or a byte that is part of none.
struct TextPiece {
  std::string_view bytes;
  bool valid = false;  ///< well-formed UTF-8
  bool shown = false;  ///< can be shown as it is
};

TextPiece first_piece(std::string_view text) {
  for (std::size_t length = 1; length <= 4 && length <= text.size(); ++length) {
    std::string_view bytes = text.substr(0, length);
    if (core::is_utf8(bytes)) return {bytes, true, bytes == "\\" || core::printable(bytes) == bytes};
  }
  return {text.substr(0, 1), false, false};
}

unsigned byte_of(char c) {
  return static_cast<unsigned char>(c);
}

/// REQUIRES: well-formed UTF-8, or the three bytes of half a surrogate pair.
std::uint32_t code_of(std::string_view bytes) {
  constexpr std::array<unsigned, 5> kLead = {0, 0x7f, 0x1f, 0x0f, 0x07};
  std::uint32_t code = byte_of(bytes[0]) & kLead[bytes.size()];
  for (char c : bytes.substr(1)) code = (code << 6) | (byte_of(c) & 0x3fU);
  return code;
}

/// "\x1b", "\u202e", "\U000e0041": `format` is printf's.
std::string escaped(const char* format, std::uint32_t code) {
  std::array<char, 16> buffer = {};
  std::snprintf(buffer.data(), buffer.size(), format, code);
  return buffer.data();
}

bool is_shown(std::string_view text) {
  for (; !text.empty();) {
    TextPiece piece = first_piece(text);
    if (!piece.shown) return false;
    text.remove_prefix(piece.bytes.size());
  }
  return true;
}

bool is_harmless(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-./:=,+@%").find(c) != std::string_view::npos;
}

std::string with_backslashes(std::string_view text, std::string_view special) {
  std::string out;
  for (char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

/// $'...' without one quote inside, so that a shell that does not know the form still finds its end.
std::string octal_word(std::string_view text) {
  std::string out = "$'";
  while (!text.empty()) {
    TextPiece piece = first_piece(text);
    bool plain = piece.shown && piece.bytes != "'" && piece.bytes != "\\";
    if (plain) out += piece.bytes;
    for (char c : plain ? std::string_view() : piece.bytes) out += escaped("\\%03o", byte_of(c));
    text.remove_prefix(piece.bytes.size());
  }
  return out + "'";
}

/// Half a surrogate pair as Python writes it, three bytes that are no UTF-8.
bool is_surrogate(std::string_view text) {
  return text.size() >= 3 && byte_of(text[0]) == 0xed && byte_of(text[1]) >= 0xa0 && byte_of(text[1]) < 0xc0 &&
         (byte_of(text[2]) & 0xc0U) == 0x80;
}

std::string python_character(const TextPiece& piece) {
  if (piece.bytes == "'" || piece.bytes == "\\") return "\\" + std::string(piece.bytes);
  if (piece.shown) return std::string(piece.bytes);
  std::uint32_t code = code_of(piece.bytes);
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  return escaped(code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
}

enum class Surrogates : std::uint8_t { keep, bytes };

std::string python_string(std::string_view text, Surrogates surrogates) {
  std::string out = "'";
  while (!text.empty()) {
    TextPiece piece = first_piece(text);
    std::size_t length = piece.bytes.size();
    if (piece.valid) {
      out += python_character(piece);
    } else if (surrogates == Surrogates::keep && is_surrogate(text)) {
      length = 3;
      out += escaped("\\u%04x", code_of(text.substr(0, length)));
    } else {
      out += escaped("\\udc%02x", byte_of(text[0]));
    }
    text.remove_prefix(length);
  }
  return out + "'";
}

}  // namespace

std::string shell_word(std::string_view text) {
  // zsh takes "=ls" for the path of a program.
  if (!text.empty() && text.front() != '=' && std::all_of(text.begin(), text.end(), is_harmless)) {
    return std::string(text);
  }
  if (!is_shown(text)) return octal_word(text);
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string shell_file(std::string_view path) {
  bool option = path.size() > 1 && path.front() == '-';  // "-" alone is standard input
  bool list = !path.empty() && path.front() == '[';
  return shell_word(option || list ? "./" + std::string(path) : path);
}

/// Adds " -o=WORD": what stands before the word, and the word for the text that was given.
ShellCommand& ShellCommand::add(std::string_view start, std::string_view separator, std::string_view given,
                                std::string_view word) {
  exact_ = exact_ && given.find('\0') == std::string_view::npos;
  text_ += " " + (start.empty() ? std::string() : shell_word(start)) + std::string(separator) + std::string(word);
  return *this;
}

ShellCommand& ShellCommand::word(std::string_view text) {
  return add("", "", text, shell_word(text));
}

ShellCommand& ShellCommand::file(std::string_view path) {
  return add("", "", path, shell_file(path));
}

ShellCommand& ShellCommand::option(std::string_view name, std::string_view value) {
  bool dash = value.size() > 1 && value.front() == '-';
  return add(name, dash ? "=" : " ", value, shell_word(value));
}

ShellCommand& ShellCommand::file_option(std::string_view name, std::string_view path) {
  return add(name, " ", path, shell_file(path));
}

std::string python_text(std::string_view text) {
  return python_string(text, Surrogates::keep);
}

std::string python_path(std::string_view path) {
  return python_string(path, Surrogates::bytes);
}

std::string python_raw(std::string_view expression) {
  bool plain = expression.find('\'') == std::string_view::npos && !expression.ends_with('\\') && is_shown(expression);
  return plain ? "r'" + std::string(expression) + "'" : python_text(expression);
}

std::string python_pattern(std::string_view text) {
  return with_backslashes(text, ".^$*+?{}[]()|\\");
}

std::string python_replacement(std::string_view text) {
  return with_backslashes(text, "\\");
}

std::string selector_of(std::string_view text) {
  std::string out = with_backslashes(text, "*?[]{}\\ \t");
  bool special = out.starts_with('@') || out.starts_with("re:");  // a predicate, a regular expression
  return special ? "\\" + out : out;
}

std::string lfs_pattern(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    bool edge = i == 0 || i + 1 == text.size();
    bool lost = c == ',' || c == '\\' || (edge && (byte_of(c) <= 0x20));  // a list is split at ',' and trimmed
    bool first = i == 0 && (c == '!' || c == '#');
    if (!lost && (first || std::string_view("*?[]").find(c) != std::string_view::npos)) out += '\\';
    out += lost ? '?' : c;
  }
  return out;
}

}  // namespace ckpt
