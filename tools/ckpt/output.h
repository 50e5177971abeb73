#pragma once
// Output: what goes to standard output, collected and written in one go, and how tables and numbers look.
// Thread safety: one owner. Use: out.print("142 tensors\n"); ... out.flush();

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

class Output {
 public:
  Output();
  /// True when standard output is a terminal that wants colors (NO_COLOR and TERM=dumb say no).
  bool colors() const { return colors_; }
  void print(std::string_view text) { buffer_ += text; }
  /// `text` in bold on a terminal.
  void print_heading(std::string_view text);
  /// Writes everything out. Error(io) when that fails; a reader that went away ends the program quietly.
  void flush();

 private:
  std::string buffer_;
  bool colors_ = false;
};

/// Writes a line to standard error, for warnings and errors; failures are ignored.
void print_error_line(std::string_view line);

/// Text in columns, as wide as their longest cell. Cells hold printable text.
class Table {
 public:
  enum class Align : std::uint8_t { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// The title line is left out when there are no rows.
  void print(Output& out) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Columns of a terminal that `text` takes: code points, without regard to wide ones.
std::size_t display_width(std::string_view text);

/// "1 tensor", "3 tensors"; thousands are grouped.
std::string count_of(std::uint64_t count, std::string_view singular);

}  // namespace cli
