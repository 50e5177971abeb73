#include "libckpt/transform/selector.h"

#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"

using ckpt::Entry;
using ckpt::Selector;

namespace {

Entry entry_of(core::DType dtype, core::Shape shape) {
  Entry entry;
  entry.dtype = dtype;
  entry.shape = shape;
  entry.bytes = ckpt::memory_source(core::ByteVector(*core::byte_size(dtype, entry.numel())));
  return entry;
}

const Entry kMatrix = entry_of(core::DType::bf16, {8, 4});

bool matches(const std::string& selector, const std::string& key, const Entry& entry = kMatrix) {
  return Selector::parse(selector).matches(key, entry);
}

std::string message(const std::string& selector) {
  try {
    Selector::parse(selector);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::usage);
    return error.message();
  }
  return "no error";
}

}  // namespace

TEST(Selector, GlobsCrossDots) {
  EXPECT_TRUE(matches("*.bias", "a.b.bias"));
  EXPECT_TRUE(matches("a.**", "a.b.bias"));
  EXPECT_FALSE(matches("a.{x}", "a.b.bias"));
}

TEST(Selector, TakesRegularExpressions) {
  EXPECT_TRUE(matches("re:a\\.[bc]\\..*", "a.c.w"));
  EXPECT_FALSE(matches("re:a\\.[bc]", "a.c.w"));
}

TEST(Selector, TestsTheDtype) {
  EXPECT_TRUE(matches("@dtype=bf16", "w"));
  EXPECT_TRUE(matches("@dtype=f16|bfloat16", "w"));
  EXPECT_TRUE(matches("@dtype!=f32", "w"));
  EXPECT_FALSE(matches("@dtype=f32", "w"));
}

TEST(Selector, TestsSizes) {
  EXPECT_TRUE(matches("@numel=32", "w"));
  EXPECT_TRUE(matches("@numel>31 @numel<33", "w"));
  EXPECT_FALSE(matches("@numel>1k", "w"));
  EXPECT_TRUE(matches("@ndim>=2", "w"));
  EXPECT_TRUE(matches("@bytes<=64", "w"));
  EXPECT_FALSE(matches("@bytes>1KiB", "w"));
  EXPECT_TRUE(matches("@shape=8x*", "w"));
  EXPECT_FALSE(matches("@shape=8", "w"));
  EXPECT_TRUE(matches("@shape=scalar", "w", entry_of(core::DType::f32, {})));
}

TEST(Selector, TestsTheLocation) {
  Entry entry = kMatrix;
  entry.location = "cuda:1";
  EXPECT_TRUE(matches("@location=cuda:1", "w", entry));
  EXPECT_TRUE(matches("@location=cuda*", "w", entry));
  EXPECT_FALSE(matches("@location=cuda:10", "w", entry));
}

TEST(Selector, TellsBuffersFromParameters) {
  EXPECT_TRUE(matches("@kind=buffer", "bn.running_mean"));
  EXPECT_TRUE(matches("@kind=buffer", "ids", entry_of(core::DType::i64, {2})));
  EXPECT_TRUE(matches("@kind=parameter", "fc.weight"));
  Entry parameter = entry_of(core::DType::i64, {2});
  parameter.parameter = true;
  EXPECT_TRUE(matches("@kind=parameter", "ids", parameter));
}

TEST(Selector, AllPartsMustHold) {
  EXPECT_TRUE(matches("*.weight @ndim=2 @dtype=bf16", "fc.weight"));
  EXPECT_FALSE(matches("*.weight @ndim=1", "fc.weight"));
  EXPECT_FALSE(matches("*.weight fc.*", "conv.weight"));
}

TEST(Selector, ABlankMayBelongToAName) {
  EXPECT_TRUE(matches("my\\ key", "my key"));
}

TEST(Selector, CoversWhatLiesBelow) {
  EXPECT_TRUE(Selector::parse("model").covers("model.fc.weight", kMatrix));
  EXPECT_TRUE(Selector::parse("model.fc @ndim=2").covers("model.fc.weight", kMatrix));
  EXPECT_FALSE(Selector::parse("mod").covers("model.fc.weight", kMatrix));
  EXPECT_TRUE(Selector::parse("opt").covers_value("opt.lr"));
  EXPECT_FALSE(Selector::parse("opt @ndim=0").covers_value("opt.lr"));
}

TEST(Selector, QuotesThePartThatIsWrong) {
  EXPECT_THAT(message("@dtype=nonsense"), testing::HasSubstr("'@dtype=nonsense' needs a dtype"));
  EXPECT_THAT(message("@size>3"), testing::HasSubstr("use dtype"));
  EXPECT_THAT(message("@numel>many"), testing::HasSubstr("needs a count"));
  EXPECT_THAT(message("@kind=thing"), testing::HasSubstr("needs buffer or parameter"));
  EXPECT_THAT(message("@ndim"), testing::HasSubstr("no comparison"));
  EXPECT_THAT(message("@dtype>f32"), testing::HasSubstr("only = and !="));
  EXPECT_THAT(message("@shape=ax3"), testing::HasSubstr("needs a shape"));
  EXPECT_THAT(message("@bytes>x"), testing::HasSubstr("needs a size"));
  EXPECT_THAT(message("@ndim="), testing::HasSubstr("compares with nothing"));
  EXPECT_EQ(message("  "), "the selector is empty");
}

TEST(SelectionMatcher, ExcludeWinsAndEmptyTakesAll) {
  EXPECT_TRUE(ckpt::SelectionMatcher({}).contains("a.w", kMatrix));
  ckpt::SelectionMatcher matcher({{"a"}, {"*.bias"}});
  EXPECT_TRUE(matcher.contains("a.w", kMatrix));
  EXPECT_FALSE(matcher.contains("a.bias", kMatrix));
  EXPECT_FALSE(matcher.contains("b.w", kMatrix));
  EXPECT_TRUE(matcher.contains_value("a.epoch"));
}

TEST(SelectionMatcher, ListsWhatMatchesNothing) {
  auto entries = ckpt::list_entries(test::state_dict({"a.w", "a.bias"}));
  EXPECT_EQ(ckpt::SelectionMatcher({{"a.*"}, {"*.bais"}}).unmatched(entries), std::vector<std::string>{"*.bais"});
}
