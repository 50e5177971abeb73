#include "tools/ckpt/output/html.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <unordered_map>

#include "libckpt/io/atomic_file.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/output/html_style.h"
#include "tools/ckpt/output/treemap.h"

namespace cli {
namespace {

constexpr std::string_view kStart = "<!doctype html>";
constexpr double kPageWidth = 960;
constexpr std::size_t kMaxBlocks = 400;
constexpr std::size_t kColors = 8;
constexpr double kLetter = 7.3;  // of the monospace fonts at 12 pixels and below, at most

std::string number(double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.1f", value);
  return buffer;
}

std::string edge_text(double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.4g", value);
  return buffer;
}

double positive(double value) {
  return value > 0 && std::isfinite(value) ? value : 0;
}

std::string attribute(std::string_view name, std::string_view value) {
  return " " + std::string(name) + "=\"" + html_escape(value) + "\"";
}

std::string rect(const Rect& r, std::string_view style) {
  return "<rect" + attribute("class", style) + attribute("x", number(r.x)) + attribute("y", number(r.y)) +
         attribute("width", number(r.width)) + attribute("height", number(r.height));
}

std::string label(double x, double y, std::string_view style, std::string_view text) {
  std::string out = "<text" + attribute("x", number(x)) + attribute("y", number(y));
  if (!style.empty()) out += attribute("class", style);
  return out + ">" + html_escape(text) + "</text>";
}

std::string svg_start(double height, std::string_view title) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"" + attribute("aria-label", title) +
         attribute("viewBox", "0 0 " + number(kPageWidth) + " " + number(height)) + ">\n";
}

using Blocks = std::vector<HtmlPage::Block>;

/// The largest blocks, largest first; the others become one, so that a page of 100,000 tensors stays a page.
Blocks largest(const Blocks& blocks) {
  Blocks sorted;
  for (const HtmlPage::Block& block : blocks) {
    if (positive(block.value) > 0) sorted.push_back(block);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.value > b.value; });
  if (sorted.size() <= kMaxBlocks) return sorted;
  HtmlPage::Block rest{core::format_count(sorted.size() - kMaxBlocks + 1) + " more", sorted.back().group, 0};
  for (std::size_t i = kMaxBlocks - 1; i < sorted.size(); ++i) rest.value += sorted[i].value;
  sorted.resize(kMaxBlocks - 1);
  sorted.push_back(std::move(rest));
  return sorted;
}

/// Groups in the order in which they are met, largest block first.
std::vector<std::string> groups_of(const Blocks& blocks) {
  std::vector<std::string> groups;
  for (const HtmlPage::Block& block : blocks) {
    if (std::find(groups.begin(), groups.end(), block.group) == groups.end()) groups.push_back(block.group);
  }
  return groups;
}

std::string color_of(const std::vector<std::string>& groups, const std::string& group) {
  auto at = static_cast<std::size_t>(std::find(groups.begin(), groups.end(), group) - groups.begin());
  return "f" + std::to_string(std::min(at, kColors - 1));
}

/// Columns that `text` takes at most in any font: letters beyond ASCII count twice.
std::size_t widest(std::string_view text) {
  auto wide = static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0xc0U; }));
  return display_width(text) + wide;
}

/// A label that stays inside `width`; "" where nothing readable would be left.
std::string fitting(std::string_view text, double width) {
  auto letters = static_cast<std::size_t>(std::max(0.0, width / kLetter));
  std::string shown = core::printable(text);
  for (std::size_t columns = letters; columns >= 4; --columns) {
    std::string cut = shorten_middle(shown, columns, "...");
    if (widest(cut) <= letters) return cut;
  }
  return "";
}

std::string draw_block(const HtmlPage::Block& block, const Rect& r, const std::string& color) {
  std::string full = block.label + (block.text.empty() ? "" : "  " + block.text);
  std::string out = "<g>" + rect(r, "g " + color) + "/><title>" +
                    html_escape(core::printable(full + "  " + block.group)) + "</title>";
  std::string inside = block.label;
  if (!block.outer.empty() && inside.starts_with(block.outer + ".")) inside.erase(0, block.outer.size() + 1);
  std::string shown = r.height >= 14 ? fitting(inside, r.width - 8) : "";
  if (!shown.empty()) out += label(r.x + 4, r.y + 12, "b", shown);
  return out + "</g>\n";
}

std::string draw_legend(const std::vector<std::string>& groups, double y) {
  std::string out;
  double x = 0;
  for (const std::string& group : groups) {
    std::string shown = core::printable(group);
    double width = 40 + 7.5 * static_cast<double>(widest(shown));
    if (x + width > kPageWidth && x > 0) break;
    out += rect({x, y, 10, 10}, color_of(groups, group)) + "/>" +
           label(x + 15, y + 9, "s", fitting(shown, kPageWidth - x - 15)) + "\n";
    x += width;
  }
  return out;
}

std::string draw_blocks(const std::vector<const HtmlPage::Block*>& blocks, const Rect& whole,
                        const std::vector<std::string>& groups) {
  std::vector<double> areas;
  for (const HtmlPage::Block* block : blocks) areas.push_back(block->value);
  std::vector<Rect> rects = treemap(areas, whole);
  std::string out;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    out += draw_block(*blocks[i], rects[i], color_of(groups, blocks[i]->group));
  }
  return out;
}

/// The blocks of one module, in a frame with its name where there is room.
std::string draw_module(const std::vector<const HtmlPage::Block*>& blocks, const Rect& r,
                        const std::vector<std::string>& groups) {
  constexpr double kHead = 15;
  const std::string& name = blocks.front()->outer;
  std::string shown = r.height >= 3 * kHead ? fitting(name, r.width - 8) : "";
  if (name.empty() || shown.empty()) return draw_blocks(blocks, r, groups);
  std::string out = "<g class=\"m\"><title>" + html_escape(core::printable(name)) + "</title>" + rect(r, "o") + "/>" +
                    label(r.x + 4, r.y + 12, "t", shown) + "\n";
  Rect inner{r.x + 2, r.y + kHead, std::max(1.0, r.width - 4), r.height - kHead - 2};
  return out + draw_blocks(blocks, inner, groups) + "</g>\n";
}

/// Blocks by module, the largest module first; inside each in the order given, largest first.
std::vector<std::vector<const HtmlPage::Block*>> by_module(const Blocks& blocks) {
  std::unordered_map<std::string_view, std::size_t> places;
  std::vector<std::vector<const HtmlPage::Block*>> out;
  std::vector<double> sums;
  for (const HtmlPage::Block& block : blocks) {
    auto [at, fresh] = places.try_emplace(block.outer, out.size());
    if (fresh) {
      out.emplace_back();
      sums.push_back(0);
    }
    out[at->second].push_back(&block);
    sums[at->second] += block.value;
  }
  std::vector<std::size_t> order(out.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sums[a] > sums[b]; });
  std::vector<std::vector<const HtmlPage::Block*>> sorted;
  for (std::size_t i : order) sorted.push_back(std::move(out[i]));
  return sorted;
}

/// A row of a table; its first cell is the heading of the row, all cells of `heads` are those of columns.
std::string cells(const std::vector<Table::Column>& columns, const std::vector<std::string>& texts, bool heads) {
  std::string out = "<tr>";
  for (std::size_t i = 0; i < texts.size() && i < columns.size(); ++i) {
    const bool right = columns[i].align == Table::Align::right;
    const std::string tag = heads || i == 0 ? "th" : "td";
    const std::string scope = tag == "td" ? "" : heads ? " scope=\"col\"" : " scope=\"row\"";
    out += "<" + tag + scope + (right ? " class=\"r\">" : ">") + html_escape(texts[i]) + "</" + tag + ">";
  }
  return out + "</tr>\n";
}

/// What a reader hears of a chart: "Bytes by type: float32 97.5 MiB, 161 tensors; int64 424 B, 53 tensors".
std::string spoken(std::string_view title, const std::vector<HtmlPage::Bar>& bars) {
  constexpr std::size_t kMost = 20;
  std::string out(title);
  for (std::size_t i = 0; i < std::min(kMost, bars.size()); ++i) {
    out += (i == 0 ? ": " : "; ") + core::printable(bars[i].label) + " " + bars[i].text;
  }
  return out + (bars.size() > kMost ? "; and more" : "");
}

}  // namespace

std::string html_escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : one_line(text)) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out += c;
    }
  }
  return out;
}

HtmlPage::HtmlPage(std::string title) : title_(std::move(title)) {}

void HtmlPage::add_heading(std::string_view text) {
  body_ += "<h2>" + html_escape(text) + "</h2>\n";
}

void HtmlPage::add_paragraph(std::string_view text) {
  body_ += "<p>" + html_escape(text) + "</p>\n";
}

void HtmlPage::add_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  body_ += "<dl>\n";
  for (const auto& [name, value] : facts) {
    body_ += "<dt>" + html_escape(name) + "</dt><dd>" + html_escape(value) + "</dd>\n";
  }
  body_ += "</dl>\n";
}

void HtmlPage::add_table(const TableData& table) {
  bool folded = table.rows.size() > table.fold;
  std::string title = table.title.empty() ? "table" : table.title;
  if (folded) {
    body_ +=
        "<details><summary>" + html_escape(title + " (" + count_of(table.rows.size(), "row") + ")") + "</summary>\n";
  } else if (!table.title.empty()) {
    add_heading(table.title);
  }
  // What scrolls sideways must be reached by keys.
  body_ += "<div class=\"wide\" role=\"region\" tabindex=\"0\"" + attribute("aria-label", title) + "><table" +
           attribute("aria-label", title) + ">\n<thead>";
  std::vector<std::string> titles;
  for (const Table::Column& column : table.columns) titles.push_back(column.title);
  body_ += cells(table.columns, titles, true) + "</thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) body_ += cells(table.columns, row, false);
  body_ += folded ? "</tbody></table></div></details>\n" : "</tbody></table></div>\n";
}

void HtmlPage::add_bars(std::string_view title, const std::vector<Bar>& bars) {
  if (bars.empty()) return;
  constexpr double kRow = 20;
  constexpr double kLeft = 300;
  constexpr std::size_t kMaxText = 44;
  std::size_t longest_text = 0;
  for (const Bar& bar : bars) longest_text = std::max(longest_text, std::min(kMaxText, widest(bar.text)));
  double longest = kPageWidth - kLeft - 8 - kLetter * static_cast<double>(longest_text + 1);
  double largest_value = 0;
  for (const Bar& bar : bars) largest_value = std::max(largest_value, positive(bar.value));
  add_heading(title);
  body_ += svg_start(kRow * static_cast<double>(bars.size()), spoken(title, bars));
  double y = 0;
  for (const Bar& bar : bars) {
    double length = largest_value > 0 ? longest * positive(bar.value) / largest_value : 0;
    std::string name = core::printable(bar.label);
    body_ += "<g><title>" + html_escape(name) + "</title>" + label(0, y + 14, "", fitting(name, kLeft - 8)) +
             rect({kLeft, y + 3, length, kRow - 6}, "f0") + "/>" +
             label(kLeft + length + 6, y + 14, "s", shorten_middle(bar.text, kMaxText, "...")) + "</g>\n";
    y += kRow;
  }
  body_ += "</svg>\n";
}

void HtmlPage::add_histogram(std::string_view title, const Histogram& histogram) {
  if (histogram.counts.empty()) return;
  constexpr double kHigh = 160;
  double step = kPageWidth / static_cast<double>(histogram.counts.size());
  double width = (histogram.high - histogram.low) / static_cast<double>(histogram.counts.size());
  std::uint64_t most = *std::max_element(histogram.counts.begin(), histogram.counts.end());
  add_heading(title);
  body_ += svg_start(kHigh + 22, std::string(title) + ": values from " + edge_text(histogram.low) + " to " +
                                     edge_text(histogram.high) + " in " + core::format_count(histogram.counts.size()) +
                                     " steps, at most " + core::format_count(most) + " in one");
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    double x = step * static_cast<double>(i);
    double part = most > 0 ? static_cast<double>(histogram.counts[i]) / static_cast<double>(most) : 0;
    double from = histogram.low + width * static_cast<double>(i);
    std::string tip =
        edge_text(from) + " to " + edge_text(from + width) + ": " + core::format_count(histogram.counts[i]);
    body_ += "<g><title>" + html_escape(tip) + "</title>" + rect({x, kHigh * (1 - part), step, kHigh * part}, "g f0") +
             "/></g>\n";
  }
  body_ += "<line class=\"a\" x1=\"0\" x2=\"" + number(kPageWidth) + "\" y1=\"" + number(kHigh) + "\" y2=\"" +
           number(kHigh) + "\"/>\n" + label(0, kHigh + 16, "s", edge_text(histogram.low));
  std::string end = edge_text(histogram.high);
  body_ += label(kPageWidth - 7.5 * static_cast<double>(end.size()), kHigh + 16, "s", end) + "\n</svg>\n";
}

void HtmlPage::add_layer_map(std::string_view title, const std::vector<Block>& blocks) {
  Blocks shown = largest(blocks);
  if (shown.empty()) return;
  constexpr double kHigh = 480;
  std::vector<std::string> groups = groups_of(shown);
  std::vector<std::vector<const Block*>> modules = by_module(shown);
  std::vector<double> areas;
  for (const auto& module : modules) {
    areas.push_back(0);
    for (const Block* block : module) areas.back() += block->value;
  }
  std::vector<Rect> rects = treemap(areas, {0, 0, kPageWidth, kHigh});
  add_heading(title);
  const std::string largest_text = shown.front().text.empty() ? "" : ", " + shown.front().text;
  body_ += svg_start(kHigh + 24, std::string(title) + ": " + core::format_count(shown.size()) + " parts, the largest " +
                                     core::printable(shown.front().label) + largest_text);
  for (std::size_t i = 0; i < modules.size(); ++i) body_ += draw_module(modules[i], rects[i], groups);
  body_ += draw_legend(groups, kHigh + 10) + "</svg>\n";
}

std::string HtmlPage::text() const {
  std::string title = html_escape(core::printable(title_));
  return std::string(kStart) +
         "\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
         "<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light "
         "dark\">\n"
         "<title>" +
         title + "</title>\n<style>" + detail::kPageStyle + "</style>\n</head>\n<body>\n<main>\n<h1>" + title +
         "</h1>\n" + body_ + "</main>\n</body>\n</html>\n";
}

void write_page(const HtmlPage& page, const std::string& path, Output& out) {
  if (path == "-") return out.print(page.text());
  core::with_context(path, [&] {
    std::error_code ignored;
    bool taken = std::filesystem::exists(path, ignored);
    if (taken) {
      ckpt::SourcePtr old = ckpt::open_file(path);
      core::ByteVector head(std::min<std::uint64_t>(old->size(), kStart.size()));
      old->read(0, head);
      if (!std::equal(head.begin(), head.end(), core::as_bytes(kStart).begin(), core::as_bytes(kStart).end())) {
        throw core::Error(core::ErrorCode::io,
                          "exists already and is not an HTML page; choose another name for --html");
      }
    }
    ckpt::AtomicFile file(path, {.overwrite = taken});
    file.write(core::as_bytes(page.text()));
    file.commit();
  });
}

}  // namespace cli
