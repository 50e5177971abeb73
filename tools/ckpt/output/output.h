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

#include "tools/ckpt/output/visible_text.h"

namespace cli {

/// The form of all JSON documents. It goes up when a program that reads one would have to change.
inline constexpr int kSchema = 2;

struct JsonShape {
  bool lines = false;     ///< what is written out in the end are lines (json_lines.h)
  bool of_files = false;  ///< of a command that takes several files: one file is a list of one
};

/// What a verdict says: green, red and yellow on a terminal.
enum class Tone : std::uint8_t { good, bad, warning };

/// --color. Automatic: on a terminal, unless NO_COLOR or TERM=dumb say no.
enum class ColorWhen : std::uint8_t { automatic, always, never };

class Output {
 public:
  Output();
  /// True when what is printed is to have colors.
  bool colors() const { return colors_; }
  void use_colors(ColorWhen when);
  /// Columns of the terminal that standard output is ($COLUMNS where the system does not know); 0 for a file or a pipe,
  /// which take lines of any length.
  std::size_t width() const { return width_; }
  /// What follows is one JSON document of a command: "schema" and "version" (of the tool) become the first members of
  /// its object; a list is put under "files".
  void expect_json(JsonShape shape = {}) {
    json_ = Json::expected;
    shape_ = shape;
  }
  /// The document answers for all files together.
  void answer_is_one() { shape_.of_files = false; }
  /// REQUIRES: `text` holds whole characters. Error(io) as flush(), when enough has come together.
  void print(std::string_view text) {
    if (json_ == Json::expected && !text.empty()) text = open_json(text);
    const bool plain = is_plain_text(text);
    if (plain && text.size() >= kPiece && !shape_.lines) return write_behind(text);
    plain ? buffer_ += text : buffer_ += json_ == Json::none ? visible(text) : visible_json(text);
    if (buffer_.size() >= kPiece && !shape_.lines) flush();
  }
  /// The bytes as they are, for what is no text: the values of a tensor.
  void print_bytes(std::string_view bytes) {
    buffer_ += bytes;
    if (buffer_.size() >= kPiece) flush();
  }
  /// `text` in bold on a terminal.
  void print_heading(std::string_view text);
  /// A verdict, or the mark in front of one, in its color: "good", "3 findings". The words alone say as much. JSON and
  /// files get no color.
  void print_tone(Tone tone, std::string_view text);
  void print_good(std::string_view text) { print_tone(Tone::good, text); }
  void print_bad(std::string_view text) { print_tone(Tone::bad, text); }
  void print_warning(std::string_view text) { print_tone(Tone::warning, text); }
  /// To be called once, behind everything else: flush() and what a JSON document still needs.
  void finish();
  /// Writes everything out. Error(io) when that fails; a reader that went away ends the program quietly.
  void flush();

 private:
  enum class Json : std::uint8_t { none, expected, object, list, list_of_one };
  static constexpr std::size_t kPiece = 64 << 10;
  /// Writes out what is there, then `text`, which is not copied.
  void write_behind(std::string_view text);
  /// Writes the head of the document; returns what is left of `text`.
  std::string_view open_json(std::string_view text);

  std::string buffer_;
  bool colors_ = false;
  std::size_t width_ = 0;
  Json json_ = Json::none;
  JsonShape shape_;
};

/// Writes a line (or lines) to standard error, for warnings and errors, without control characters; a JSON object stays
/// one. Failures are ignored.
void print_error_line(std::string_view line);

/// Text in columns, as wide as their longest cell; on a terminal that is too narrow the widest left-aligned columns are
/// shortened in the middle of their cells, as long as that helps, in a pipe never. A cell is one line, whatever its
/// text; all of them lie in one buffer, so that a table of 100,000 rows costs little more than its text.
class Table {
 public:
  enum class Align : std::uint8_t { left, right, bar };  ///< a bar is never shortened
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
