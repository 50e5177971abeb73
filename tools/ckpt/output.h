#pragma once
// Output: what goes to standard output, written in large pieces, and how tables and numbers look. What is printed as
// text or JSON holds no control character but line ends and tabs, whatever was in a file: callers quote names
// (core::quote, core::printable), and here stands the last line of defence.
// Thread safety: one owner. Use: out.print("142 tensors\n"); ... out.flush();

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tools/ckpt/visible_text.h"

namespace cli {

class Output {
 public:
  Output();
  /// True when standard output is a terminal that wants colors (NO_COLOR and TERM=dumb say no).
  bool colors() const { return colors_; }
  /// Columns of the terminal that standard output is ($COLUMNS where the system does not know); 0 for a file or a pipe,
  /// which take lines of any length.
  std::size_t width() const { return width_; }
  /// What follows is one JSON document of a command: "schema" (1) and "version" (of the tool) become the first members
  /// of its object; a list is put under "files".
  void expect_json() { json_ = Json::expected; }
  /// The same; what is written out in the end are the lines of that document (tools/ckpt/json_lines.h).
  void expect_json_lines() {
    json_ = Json::expected;
    lines_ = true;
  }
  /// REQUIRES: `text` holds whole characters. Error(io) as flush(), when enough has come together.
  void print(std::string_view text) {
    if (json_ == Json::expected && !text.empty()) text = open_json(text);
    is_plain_text(text) ? buffer_ += text : buffer_ += json_ == Json::none ? visible(text) : visible_json(text);
    if (buffer_.size() >= kPiece && !lines_) flush();
  }
  /// The bytes as they are, for what is no text: the values of a tensor.
  void print_bytes(std::string_view bytes) {
    buffer_ += bytes;
    if (buffer_.size() >= kPiece) flush();
  }
  /// `text` in bold on a terminal.
  void print_heading(std::string_view text);
  /// To be called once, behind everything else: flush() and what a JSON document still needs.
  void finish();
  /// Writes everything out. Error(io) when that fails; a reader that went away ends the program quietly.
  void flush();

 private:
  enum class Json : std::uint8_t { none, expected, object, list };
  static constexpr std::size_t kPiece = 64 << 10;
  /// Writes the head of the document; returns what is left of `text`.
  std::string_view open_json(std::string_view text);

  std::string buffer_;
  bool colors_ = false;
  std::size_t width_ = 0;
  Json json_ = Json::none;
  bool lines_ = false;
};

/// Writes a line (or lines) to standard error, for warnings and errors, without control characters; a JSON object stays
/// one. Failures are ignored.
void print_error_line(std::string_view line);

/// Text in columns, as wide as their longest cell; on a terminal that is too narrow the widest left-aligned columns are
/// shortened in the middle of their cells, in a pipe never. A cell is one line, whatever its text; all of them lie in
/// one buffer, so that a table of 100,000 rows costs little more than its text.
class Table {
 public:
  enum class Align : std::uint8_t { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// REQUIRES: one cell a column.
  void add_row(std::initializer_list<std::string_view> cells);
  /// The title line is left out when there are no rows.
  void print(Output& out) const;

 private:
  std::vector<std::size_t> column_widths() const;

  std::vector<Column> columns_;
  std::string text_;
  std::vector<std::uint32_t> lengths_;  ///< of the cells in text_, row by row
};

/// Columns of a terminal that `text` takes: code points, without regard to wide ones.
std::size_t display_width(std::string_view text);

/// `text` in at most `width` columns: its beginning, `dots`, its end. Whole code points; text that fits stays.
std::string shorten_middle(std::string_view text, std::size_t width, std::string_view dots = "\u2026");

/// "25,557,032 (25.6 M)": a large count for reading and for remembering; below 1,000 the count alone.
std::string count_and_size(std::uint64_t count);

/// "1 tensor", "3 tensors"; thousands are grouped.
std::string count_of(std::uint64_t count, std::string_view singular);

}  // namespace cli
