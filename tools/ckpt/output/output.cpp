#include "tools/ckpt/output/output.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/ckpt/output/json_lines.h"

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

std::size_t terminal_width() {
  constexpr std::size_t kUsual = 80;
  if (::isatty(STDOUT_FILENO) != 1) return 0;
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  std::size_t width = 0;
  if (columns == nullptr) return kUsual;
  std::from_chars(columns, columns + std::strlen(columns), width);
  return width > 0 ? width : kUsual;
}

/// Narrows the widest left-aligned columns, all to one width, until the row fits. Where it does not fit with columns of
/// `kLeast`, lines wrap anyway, so names stay whole.
void fit_columns(const std::vector<Table::Column>& columns, std::vector<std::size_t>& widths, std::size_t terminal) {
  constexpr std::size_t kLeast = 12;
  const std::vector<std::size_t> whole = widths;
  std::size_t total = 2 * (widths.size() - 1);
  for (std::size_t width : widths) total += width;
  while (total > terminal) {
    std::size_t widest = columns.size();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      bool shrinks = columns[i].align == Table::Align::left && widths[i] > kLeast;
      if (shrinks && (widest == columns.size() || widths[i] > widths[widest])) widest = i;
    }
    if (widest == columns.size()) {
      widths = whole;
      return;
    }
    --widths[widest];
    --total;
  }
}

/// Where the code point at or behind byte `at` begins.
std::size_t next_start(std::string_view text, std::size_t at) {
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U) ++at;
  return at;
}

void append_cell(std::string& line, std::string_view cell, std::size_t width, Table::Align align, bool last) {
  std::size_t padding = width - std::min(width, display_width(cell));
  if (align == Table::Align::right) line.append(padding, ' ');
  line += cell;
  if (last) return;
  if (align != Table::Align::right) line.append(padding, ' ');
  line += "  ";
}

/// Until some can be written: a pipe may be left so that nobody waits in write(), by whoever has its other end.
void wait_for_room(int fd) {
  pollfd there = {fd, POLLOUT, 0};
  ::poll(&there, 1, -1);
}

/// 0, or the number of what went wrong.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      wait_for_room(fd);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

int write_out(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error == EPIPE) std::raise(SIGPIPE);  // ends the program as `head` expects
  return error;
}

void require_written(int error) {
  if (error == 0) return;
  throw core::Error(core::ErrorCode::io, std::string("cannot write: ") + std::strerror(error))
      .add_context("standard output");
}

}  // namespace

Output::Output() : colors_(wants_colors()), width_(terminal_width()) {}

std::string_view Output::open_json(std::string_view text) {
  const std::string schema = std::to_string(kSchema);
  const std::string members = "\"schema\":" + schema + ",\"version\":\"" CKPT_VERSION "\"";
  if (text.front() == '[' || (shape_.of_files && text.front() == '{')) {
    json_ = text.front() == '[' ? Json::list : Json::list_of_one;
    buffer_ += "{" + members + (json_ == Json::list ? ",\"files\":" : ",\"files\":[");
    return text;
  }
  json_ = Json::object;
  if (text.front() != '{') return text;
  bool indented = text.size() > 1 && text[1] == '\n';
  std::string head = "{" + members;
  if (indented) head = "{\n  \"schema\": " + schema + ",\n  \"version\": \"" CKPT_VERSION "\"";
  buffer_ += text.size() > 1 && text[1] == '}' ? head : head + ",";
  return text.substr(1);
}

void Output::finish() {
  if (json_ == Json::list_of_one) buffer_ += "]}\n";
  if (json_ == Json::list) buffer_ += "}\n";
  if (shape_.lines && json_ != Json::expected) buffer_ = visible_json(json_lines(buffer_));
  json_ = Json::none;
  flush();
}

void Output::print_heading(std::string_view text) {
  if (colors_) buffer_ += "\033[1m";
  buffer_ += visible(text);
  if (colors_) buffer_ += "\033[0m";
}

void Output::use_colors(ColorWhen when) {
  if (when != ColorWhen::automatic) colors_ = when == ColorWhen::always;
}

void Output::print_tone(Tone tone, std::string_view text) {
  static constexpr std::string_view kCodes[] = {"\033[32m", "\033[31m", "\033[33m"};
  if (!colors_ || json_ != Json::none) return print(text);
  buffer_ += kCodes[static_cast<std::size_t>(tone)];
  buffer_ += visible(text);
  buffer_ += "\033[0m";
}

void Output::flush() {
  const int error = write_out(buffer_);
  buffer_.clear();
  require_written(error);
}

void Output::write_behind(std::string_view text) {
  flush();
  require_written(write_out(text));
}

void print_error_line(std::string_view line) {
  std::string text = line.starts_with('{') ? visible_json(line) : visible(line);
  text += '\n';
  write_all(STDERR_FILENO, text);
}

void Table::add_row(std::initializer_list<std::string_view> cells) {
  for (std::string_view cell : cells) {
    std::size_t start = text_.size();
    bool plain = is_plain_text(cell) && cell.find('\n') == std::string_view::npos;
    plain ? text_ += cell : text_ += one_line(cell);
    lengths_.push_back(static_cast<std::uint32_t>(text_.size() - start));
  }
}

std::vector<std::size_t> Table::column_widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.title));
  std::size_t at = 0;
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    std::string_view cell = std::string_view(text_).substr(at, lengths_[i]);
    std::size_t& width = widths[i % columns_.size()];
    width = std::max(width, display_width(cell));
    at += lengths_[i];
  }
  return widths;
}

void Table::print(Output& out) const {
  if (lengths_.empty()) return;
  std::size_t count = columns_.size();
  std::vector<std::size_t> widths = column_widths();
  if (out.width() > 0) fit_columns(columns_, widths, out.width());
  std::string line;
  for (std::size_t c = 0; c < count; ++c) {
    append_cell(line, columns_[c].title, widths[c], columns_[c].align, c + 1 == count);
  }
  out.print_heading(line.substr(0, line.find_last_not_of(' ') + 1));
  out.print("\n");
  std::size_t at = 0;
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    if (i % count == 0) line.clear();
    std::string_view cell = std::string_view(text_).substr(at, lengths_[i]);
    at += lengths_[i];
    std::size_t width = widths[i % count];
    bool fits = cell.size() <= width || display_width(cell) <= width;
    append_cell(line, fits ? cell : shorten_middle(cell, width), width, columns_[i % count].align,
                (i + 1) % count == 0);
    if ((i + 1) % count != 0) continue;
    line.erase(line.find_last_not_of(' ') + 1);
    line += '\n';
    out.print(line);
  }
}

std::string shorten_middle(std::string_view text, std::size_t width, std::string_view dots) {
  std::size_t length = display_width(text);
  if (length <= width) return std::string(text);
  std::size_t kept = width - std::min(width, display_width(dots));
  // The end of a dotted name says more than its beginning.
  std::size_t tail = kept - kept / 2;
  std::size_t head_end = 0;
  for (std::size_t i = 0; i < kept / 2; ++i) head_end = next_start(text, head_end + 1);
  std::size_t tail_start = head_end;
  for (std::size_t i = kept / 2; i + tail < length; ++i) tail_start = next_start(text, tail_start + 1);
  return std::string(text.substr(0, head_end)) + std::string(dots) + std::string(text.substr(tail_start));
}

std::string count_and_size(std::uint64_t count) {
  static constexpr const char* kUnits[] = {"", "k", "M", "B", "T"};
  std::string text = core::format_count(count);
  if (count < 1000) return text;
  auto value = static_cast<double>(count);
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, value < 99.95 ? "%.1f" : "%.0f", value);
  return text + " (" + buffer + " " + kUnits[unit] + ")";
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string count_of(std::uint64_t count, std::string_view singular) {
  return core::format_count(count) + " " + std::string(singular) + (count == 1 ? "" : "s");
}

}  // namespace cli
