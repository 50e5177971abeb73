// The HTML page: escaped, self-contained, the same bytes each time; the treemap under it.

#include "tools/ckpt/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libcore/base/error.h"
#include "tests/cli/files.h"
#include "tools/ckpt/treemap.h"

using cli::HtmlPage;
using testing::HasSubstr;
using testing::Not;
using namespace test;

namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

HtmlPage full_page() {
  HtmlPage page("net <1> & \"2\"");
  page.add_facts({{"format", "native"}, {"bad", "<script>alert(1)</script>"}});
  page.add_table({.title = "T", .columns = {{"a"}, {"b", cli::Table::Align::right}}, .rows = {{"x", "1"}, {"y", "2"}}});
  page.add_bars("Bars", {{"long", 10, "10 B"}, {"none", 0, "0 B"}, {"odd", std::nan(""), "?"}});
  page.add_histogram("Values", {-1, 1, {1, 0, 4}});
  page.add_layer_map("Map", {{"fc", "float32", 30, "30 B"}, {"bn", "float16", 10, "10 B"}, {"empty", "x", 0}});
  return page;
}

}  // namespace

TEST(HtmlPage, EscapesEveryText) {
  std::string text = full_page().text();
  EXPECT_THAT(text, HasSubstr("<h1>net &lt;1&gt; &amp; &quot;2&quot;</h1>"));
  EXPECT_THAT(text, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;"));
  EXPECT_THAT(text, Not(HasSubstr("<script")));
  EXPECT_EQ(cli::html_escape("a'b\x1b[31m\xff"), "a&#39;b\\x1b[31m\\xff");
}

TEST(HtmlPage, NeedsNoNetworkAndClosesWhatItOpens) {
  std::string text = full_page().text();
  EXPECT_THAT(text, Not(HasSubstr("src=")));
  EXPECT_THAT(text, Not(HasSubstr("href=")));
  EXPECT_THAT(text, Not(HasSubstr("url(")));
  EXPECT_THAT(text, HasSubstr("default-src 'none'"));
  EXPECT_THAT(text, HasSubstr("prefers-color-scheme:dark"));
  for (const char* tag : {"svg", "table", "dl", "g", "text", "title", "body", "html", "h2"}) {
    std::string name = tag;
    EXPECT_EQ(count(text, "<" + name + ">") + count(text, "<" + name + " "), count(text, "</" + name + ">")) << tag;
  }
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

TEST(HtmlPage, IsTheSameEachTime) {
  EXPECT_EQ(full_page().text(), full_page().text());
}

TEST(HtmlPage, FoldsLongTablesAndJoinsSmallBlocks) {
  HtmlPage page("many");
  HtmlPage::TableData table{"Rows", {{"n"}}};
  std::vector<HtmlPage::Block> blocks;
  for (int i = 0; i < 1000; ++i) {
    table.rows.push_back({std::to_string(i)});
    blocks.push_back({"layer" + std::to_string(i), "float32", 1.0 + i, ""});
  }
  page.add_table(table);
  page.add_layer_map("Map", blocks);
  EXPECT_THAT(page.text(), HasSubstr("<details><summary>Rows (1,000 rows)</summary>"));
  EXPECT_EQ(count(page.text(), "<rect"), 401U);  // 400 blocks and the legend
  EXPECT_THAT(page.text(), HasSubstr("601 more"));
}

TEST(Treemap, FillsTheRectangleInProportion) {
  std::vector<double> areas = {6, 6, 4, 3, 2, 2, 1};  // the example of the paper
  std::vector<cli::Rect> rects = cli::treemap(areas, {0, 0, 6, 4});
  ASSERT_EQ(rects.size(), areas.size());
  for (std::size_t i = 0; i < areas.size(); ++i) {
    EXPECT_NEAR(rects[i].width * rects[i].height, areas[i], 1e-9);
    EXPECT_GE(rects[i].x, -1e-9);
    EXPECT_LE(rects[i].x + rects[i].width, 6 + 1e-9);
    EXPECT_LE(rects[i].y + rects[i].height, 4 + 1e-9);
  }
  EXPECT_NEAR(rects[0].width, 3, 1e-9);
  EXPECT_NEAR(rects[0].height, 2, 1e-9);
}

TEST(WritePage, ReplacesPagesOnly) {
  TempDir dir;
  cli::Output out;
  std::string path = (dir.path() / "net.html").string();
  cli::write_page(full_page(), path, out);
  cli::write_page(HtmlPage("second"), path, out);
  EXPECT_THAT(read_file(path), HasSubstr("<h1>second</h1>"));
  write_file(dir.path() / "net.pth", "a checkpoint");
  EXPECT_THROW(cli::write_page(full_page(), (dir.path() / "net.pth").string(), out), core::Error);
  EXPECT_EQ(read_file(dir.path() / "net.pth"), "a checkpoint");
}
