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
