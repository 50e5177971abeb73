// The HTML page: escaped, self-contained, the same bytes each time; the treemap under it.

#include "tools/ckpt/output/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libcore/base/error.h"
#include "tests/cli/files.h"
#include "tools/ckpt/output/treemap.h"

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

TEST(HtmlPage, SaysChartsInWordsAndNamesRowsAndColumns) {
  std::string text = full_page().text();
  EXPECT_THAT(text, HasSubstr("aria-label=\"Bars: long 10 B; none 0 B; odd ?\""));
  EXPECT_THAT(text, HasSubstr("aria-label=\"Values: values from -1 to 1 in 3 steps, at most 4 in one\""));
  EXPECT_THAT(text, HasSubstr("aria-label=\"Map: 2 parts, the largest fc, 30 B\""));
  EXPECT_THAT(text, HasSubstr("<thead><tr><th scope=\"col\">a</th><th scope=\"col\" class=\"r\">b</th></tr>"));
  EXPECT_THAT(text, HasSubstr("<tr><th scope=\"row\">x</th><td class=\"r\">1</td></tr>"));
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

namespace {

double attribute_of(const std::string& tag, const std::string& name) {
  std::size_t at = tag.find(" " + name + "=\"");
  return at == std::string::npos ? 0 : std::stod(tag.substr(at + name.size() + 3));
}

/// Each <rect> of a map and the <text> behind it, which must lie inside, at 7.3 units a letter.
void expect_labels_inside(const std::string& page) {
  std::size_t labels = 0;
  std::string box;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    std::string tag = page.substr(at, page.find('>', at) - at);
    if (tag.starts_with("<rect")) box = tag;
    if (!tag.starts_with("<text") || box.empty()) continue;
    bool in_box = tag.find("class=\"b\"") != std::string::npos || tag.find("class=\"t\"") != std::string::npos;
    std::size_t begin = page.find('>', at) + 1;
    std::string text = page.substr(begin, page.find('<', begin) - begin);
    double end = attribute_of(tag, "x") + 7.3 * static_cast<double>(text.size());
    EXPECT_LE(end, in_box ? attribute_of(box, "x") + attribute_of(box, "width") : 960.0) << text;
    if (in_box) {
      EXPECT_LE(attribute_of(tag, "y"), attribute_of(box, "y") + attribute_of(box, "height")) << text;
    }
    ++labels;
  }
  EXPECT_GT(labels, 5U);
}

}  // namespace

TEST(HtmlPage, LabelsStayInsideTheirBoxes) {
  HtmlPage page("labels");
  std::vector<HtmlPage::Block> blocks;
  std::vector<HtmlPage::Bar> bars;
  for (int i = 1; i < 60; ++i) {
    std::string outer = "model.encoder_of_a_long_name_" + std::to_string(i % 5);
    std::string name = outer + ".block" + std::to_string(i) + ".attention.projection";
    blocks.push_back({name, "type " + std::to_string(i % 12), 10.0 * i, "1 KiB", outer});
    bars.push_back({name, 1.0 * i, "9.99 MiB  [1024, 1024, 3, 3]"});
  }
  page.add_layer_map("Map", blocks);
  page.add_bars("Bars", bars);
  expect_labels_inside(page.text());
}

TEST(HtmlPage, TheMapIsNestedByModule) {
  HtmlPage page("nested");
  page.add_layer_map("Map",
                     {{"enc.a", "f", 50, "", "enc"}, {"dec.a", "f", 45, "", "dec"}, {"enc.b", "f", 40, "", "enc"}});
  std::string text = page.text();
  EXPECT_EQ(count(text, "<g class=\"m\">"), 2U);
  EXPECT_LT(text.find(">enc.b  f<"), text.find(">dec.a  f<")) << "blocks of a module lie together";
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
