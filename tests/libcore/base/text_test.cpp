#include "libcore/base/text.h"

#include <gtest/gtest.h>

namespace {

TEST(Text, QuoteEscapesWhatMovesTheCursor) {
  EXPECT_EQ(core::quote("fc.weight"), "'fc.weight'");
  EXPECT_EQ(core::quote("a\nb\x1b[2J"), "'a\\nb\\x1b[2J'");
  EXPECT_EQ(core::quote("it's"), "'it\\'s'");
  EXPECT_EQ(core::quote("\xe2\x80\xae"
                        "abc"),
            "'\\u202eabc'");
  EXPECT_EQ(core::quote("\xff"), "'\\xff'");
  EXPECT_EQ(core::quote("权重"), "'权重'");
}

TEST(Text, PrintableShowsWhatIsShownAsNothing) {
  EXPECT_EQ(core::printable("\xc2\x9b"
                            "2J"),
            "\\u009b2J");  // a control character of C1
  EXPECT_EQ(core::printable("a\xe2\x80\x8b"
                            "b"),
            "a\\u200bb");                                         // zero width
  EXPECT_EQ(core::printable("\xe2\x81\xa6"), "\\u2066");          // an isolate
  EXPECT_EQ(core::printable("\xe2\x80\xa8"), "\\u2028");          // a line separator
  EXPECT_EQ(core::printable("\xd8\x9c"), "\\u061c");              // a mark of direction
  EXPECT_EQ(core::printable("\xef\xbf\xb9"), "\\ufff9");          // interlinear
  EXPECT_EQ(core::printable("\xef\xb8\x8f"), "\\ufe0f");          // a variation selector
  EXPECT_EQ(core::printable("\xf3\xa0\x81\x81"), "\\U000e0041");  // a tag
  EXPECT_EQ(core::printable("\x7f"), "\\u007f");
  EXPECT_EQ(core::printable("\xf0\x9f\x98\x80 \xc3\xa9"), "\xf0\x9f\x98\x80 \xc3\xa9");
}

TEST(Text, QuoteCutsLongNames) {
  EXPECT_EQ(core::quote("abcdef", 3), "'abc...'");
}

TEST(Text, Utf8RefusesSurrogatesAndOverlongForms) {
  EXPECT_TRUE(core::is_utf8("权重 \xf0\x9f\x98\x80"));
  EXPECT_FALSE(core::is_utf8("\xed\xa0\x80"));
  EXPECT_FALSE(core::is_utf8("\xc0\xaf"));
  EXPECT_FALSE(core::is_utf8("\xf5\x80\x80\x80"));
  EXPECT_FALSE(core::is_utf8("\xe2\x80"));
}

TEST(Text, Sizes) {
  EXPECT_EQ(core::format_size(312), "312 B");
  EXPECT_EQ(core::format_size(1536), "1.5 KiB");
  EXPECT_EQ(core::format_size(8ULL << 30), "8.0 GiB");
  EXPECT_EQ(core::format_count(1234567), "1,234,567");
  EXPECT_EQ(core::try_parse_size("64K"), 65536U);
  EXPECT_EQ(core::try_parse_size("1.5GB"), 1500000000U);
  EXPECT_EQ(core::try_parse_size("2 GiB"), 2ULL << 30);
  EXPECT_EQ(core::try_parse_size("-1"), std::nullopt);
  EXPECT_EQ(core::try_parse_size("12 parsecs"), std::nullopt);
}

TEST(Text, SplitAndJoinAreInverse) {
  auto parts = core::split("a..b", '.');
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[1], "");
  std::vector<std::string> owned(parts.begin(), parts.end());
  EXPECT_EQ(core::join(owned, "."), "a..b");
}

TEST(Text, WritesFloatsAsPython) {
  EXPECT_EQ(core::python_float(0.1), "0.1");
  EXPECT_EQ(core::python_float(1), "1.0");
  EXPECT_EQ(core::python_float(1e-5), "1e-05");
  EXPECT_EQ(core::python_float(0.0001), "0.0001");
  EXPECT_EQ(core::python_float(1e16), "1e+16");
  EXPECT_EQ(core::python_float(-123456789012345.0), "-123456789012345.0");
}

}  // namespace
