#pragma once
// Output: what goes to standard output, written in large pieces, and how tables and numbers look.
// Thread safety: one owner. Use: out.print("142 tensors\n"); ... out.flush();

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

class Output {
 public:
  Output();
  /// True when standard output is a terminal that wants colors (NO_COLOR and TERM=dumb say no).
  bool colors() const { return colors_; }
  /// Error(io) as flush(), when enough has come together.
  void print(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= kPiece) flush();
  }
  /// `text` in bold on a terminal.
  void print_heading(std::string_view text);
  /// Writes everything out. Error(io) when that fails; a reader that went away ends the program quietly.
  void flush();

 private:
  static constexpr std::size_t kPiece = 64 << 10;
  std::string buffer_;
  bool colors_ = false;
};

/// Writes a line to standard error, for warnings and errors; failures are ignored.
void print_error_line(std::string_view line);

/// Text in columns, as wide as their longest cell. Cells hold printable text; all of them lie in one buffer, so that a
/// table of 100,000 rows costs little more than its text.
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
  std::vector<Column> columns_;
  std::string text_;
  std::vector<std::uint32_t> lengths_;  ///< of the cells in text_, row by row
};

/// Columns of a terminal that `text` takes: code points, without regard to wide ones.
std::size_t display_width(std::string_view text);

/// "1 tensor", "3 tensors"; thousands are grouped.
std::string count_of(std::uint64_t count, std::string_view singular);

}  // namespace cli
