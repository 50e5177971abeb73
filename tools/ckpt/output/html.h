#pragma once
// HtmlPage: one self-contained page: facts, tables, bar charts, histograms and a map of a model's layers as inline SVG.
// Light and dark by the reader's setting; no script, no network; every text is escaped; the same calls give the same
// bytes. Thread safety: one owner. Use: HtmlPage page("net.pth"); page.add_facts({{"format", "native"}});
// write_page(page, "net.html", out);

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/ckpt/output/output.h"

namespace cli {

class HtmlPage {
 public:
  /// `title` is the page's name and its top heading.
  explicit HtmlPage(std::string title);

  void add_heading(std::string_view text);
  void add_paragraph(std::string_view text);
  /// Name and value, one a line.
  void add_facts(const std::vector<std::pair<std::string, std::string>>& facts);

  struct TableData {
    std::string title = {};  ///< "" for none; a table of more than `fold` rows is folded behind it
    std::vector<Table::Column> columns = {};
    std::vector<std::vector<std::string>> rows = {};  ///< one cell a column
    std::size_t fold = 40;
  };
  void add_table(const TableData& table);

  struct Bar {
    std::string label;
    double value = 0;       ///< negative and not-a-number count as 0
    std::string text = {};  ///< behind the bar: "12 MiB"
  };
  /// One bar a row, as long as its value is of the largest. Nothing when there are none.
  void add_bars(std::string_view title, const std::vector<Bar>& bars);

  struct Histogram {
    double low = 0;   ///< left edge of the first bin
    double high = 1;  ///< right edge of the last bin
    std::vector<std::uint64_t> counts = {};
  };
  void add_histogram(std::string_view title, const Histogram& histogram);

  struct Block {
    std::string label;      ///< "layer1.0.conv1"
    std::string group;      ///< what its color stands for: "float32"
    double value = 0;       ///< its area; blocks without any are left out
    std::string text = {};  ///< behind the label where the pointer rests: "144 KiB"
    /// The module that it is drawn inside of, "" for none; its blocks lie together in a box of their own.
    std::string outer = {};
  };
  /// A rectangle divided among the blocks (a squarified treemap), colored by group with a legend. Beyond a few hundred
  /// blocks the smallest become one, "N more".
  void add_layer_map(std::string_view title, const std::vector<Block>& blocks);

  /// The whole page.
  std::string text() const;

 private:
  std::string title_;
  std::string body_;
};

/// `text` with what HTML demands escaped, what a page would not show written as \x1b; for content and attributes alike.
std::string html_escape(std::string_view text);

/// Writes the page to `path`, or to standard output when that is "-". An existing file is replaced only when it is a
/// page too. Errors: Error(io) when there is another file, or it cannot be written.
void write_page(const HtmlPage& page, const std::string& path, Output& out);

}  // namespace cli
