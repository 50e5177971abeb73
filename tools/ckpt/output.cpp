#include "tools/ckpt/output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace cli {
namespace {

bool wants_colors() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return false;
  if (term == nullptr || std::strcmp(term, "dumb") == 0) return false;
  return ::isatty(STDOUT_FILENO) == 1;
}

void append_cell(std::string& line, std::string_view cell, std::size_t width, Table::Align align, bool last) {
  std::size_t padding = width - std::min(width, display_width(cell));
  if (align == Table::Align::right) line.append(padding, ' ');
  line += cell;
  if (last) return;
  if (align == Table::Align::left) line.append(padding, ' ');
  line += "  ";
}

}  // namespace

Output::Output() : colors_(wants_colors()) {}

void Output::print_heading(std::string_view text) {
  if (colors_) buffer_ += "\033[1m";
  buffer_ += text;
  if (colors_) buffer_ += "\033[0m";
}

void Output::flush() {
  std::string_view left = buffer_;
  while (!left.empty()) {
    ssize_t n = ::write(STDOUT_FILENO, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) std::raise(SIGPIPE);  // ends the program as `head` expects
    if (n < 0) {
      int error = errno;
      buffer_.clear();
      throw core::Error(core::ErrorCode::io, std::string("cannot write: ") + std::strerror(error))
          .add_context("standard output");
    }
    left.remove_prefix(static_cast<std::size_t>(n));
  }
  buffer_.clear();
}

void print_error_line(std::string_view line) {
  std::string text(line);
  text += '\n';
  std::string_view left = text;
  while (!left.empty()) {
    ssize_t n = ::write(STDERR_FILENO, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    left.remove_prefix(static_cast<std::size_t>(n));
  }
}

void Table::add_row(std::initializer_list<std::string_view> cells) {
  for (std::string_view cell : cells) {
    text_ += cell;
    lengths_.push_back(static_cast<std::uint32_t>(cell.size()));
  }
}

void Table::print(Output& out) const {
  if (lengths_.empty()) return;
  std::size_t count = columns_.size();
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.title));
  std::size_t at = 0;
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    std::string_view cell = std::string_view(text_).substr(at, lengths_[i]);
    widths[i % count] = std::max(widths[i % count], display_width(cell));
    at += lengths_[i];
  }
  std::string line;
  for (std::size_t c = 0; c < count; ++c) {
    append_cell(line, columns_[c].title, widths[c], columns_[c].align, c + 1 == count);
  }
  out.print_heading(line.substr(0, line.find_last_not_of(' ') + 1));
  out.print("\n");
  at = 0;
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    if (i % count == 0) line.clear();
    std::string_view cell = std::string_view(text_).substr(at, lengths_[i]);
    append_cell(line, cell, widths[i % count], columns_[i % count].align, (i + 1) % count == 0);
    at += lengths_[i];
    if ((i + 1) % count != 0) continue;
    line.erase(line.find_last_not_of(' ') + 1);
    line += '\n';
    out.print(line);
  }
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string count_of(std::uint64_t count, std::string_view singular) {
  return core::format_count(count) + " " + std::string(singular) + (count == 1 ? "" : "s");
}

}  // namespace cli
