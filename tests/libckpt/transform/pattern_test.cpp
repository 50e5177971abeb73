#include "libckpt/transform/pattern.h"

#include <gtest/gtest.h>

#include "libcore/base/error.h"

using ckpt::Captures;
using ckpt::Pattern;
using ckpt::Template;

namespace {

std::string renamed(const std::string& pattern, const std::string& to, const std::string& key) {
  Pattern from = Pattern::parse(pattern);
  std::optional<Captures> captures = from.match(key);
  return captures ? Template::parse(to, from).expand(*captures) : "no match";
}

std::string message(const std::string& pattern, const std::string& to) {
  try {
    Pattern from = Pattern::parse(pattern);
    Template::parse(to, from);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::usage);
    return error.message();
  }
  return "no error";
}

}  // namespace

TEST(Pattern, StarsCaptureAsLittleAsFits) {
  EXPECT_EQ(Pattern::parse("*.layer.*").match("a.b.layer.0.layer.w"), Captures({"a.b", "0.layer.w"}));
  EXPECT_EQ(Pattern::parse("**.weight").match("a.b.weight"), Captures({"a.b"}));
  EXPECT_FALSE(Pattern::parse("*.weight").match("weight"));
}

TEST(Pattern, FieldsStayInOneComponent) {
  Pattern pattern = Pattern::parse("h.{#i}.{leaf}.w");
  EXPECT_EQ(pattern.match("h.12.attn.w"), Captures({"12", "attn"}));
  EXPECT_FALSE(pattern.matches("h.x.attn.w"));
  EXPECT_FALSE(pattern.matches("h.1.a.b.w"));
}

TEST(Pattern, AFieldThatStandsTwiceIsTheSameBothTimes) {
  Pattern pattern = Pattern::parse("block{#i}.block{#i}-{#j}");
  EXPECT_TRUE(pattern.matches("block2.block2-0"));
  EXPECT_FALSE(pattern.matches("block2.block3-0"));
}

TEST(Pattern, KnowsANameFromAPattern) {
  EXPECT_TRUE(Pattern::parse("fc.weight").is_name());
  EXPECT_TRUE(Pattern::parse("a\\*b").is_name());
  EXPECT_EQ(Pattern::parse("a\\*b").name(), "a*b");
  EXPECT_FALSE(Pattern::parse("fc.*").is_name());
  EXPECT_TRUE(Pattern::parse("a[b").is_name());
}

TEST(Pattern, SetsAndSingleCharactersMatchAsInGlobs) {
  EXPECT_TRUE(Pattern::parse("l{#i}[!0-9]?").matches("l12ab"));
  EXPECT_FALSE(Pattern::parse("l{#i}[!0-9]?").matches("l1234"));
}

TEST(Pattern, RegularExpressionsMatchTheWholeKey) {
  EXPECT_TRUE(Pattern::parse("re:layers\\.\\d+\\.w").matches("layers.3.w"));
  EXPECT_FALSE(Pattern::parse("re:layers\\.\\d+").matches("layers.3.w"));
  EXPECT_FALSE(Pattern::parse("re:layers.3").is_name());
}

TEST(Pattern, NamesWhatIsWrong) {
  EXPECT_THAT(message("re:(", "x"), testing::HasSubstr("is not a regular expression: missing )"));
  EXPECT_THAT(message("a{b", "x"), testing::HasSubstr("'\\{'"));
  EXPECT_EQ(message("", "x"), "the pattern is empty");
}

TEST(Template, UsesStarsInOrderAndFieldsByName) {
  EXPECT_EQ(renamed("a.*.b.*", "x.*.y.*", "a.1.b.2"), "x.1.y.2");
  EXPECT_EQ(renamed("a.*.b.*", "$2.${1}", "a.1.b.2"), "2.1");
  EXPECT_EQ(renamed("h.{#i}.{leaf}", "blocks.{i}.{leaf}", "h.7.w"), "blocks.7.w");
  EXPECT_EQ(renamed("re:h\\.(?P<i>\\d+)\\.(.*)", "b.{i}.\\2", "h.7.w"), "b.7.w");
}

TEST(Template, CountsOn) {
  EXPECT_EQ(renamed("layer{#i}.*", "stages.{i-1}.*", "layer4.w"), "stages.3.w");
  EXPECT_EQ(renamed("features.{#i}.*", "layers.{i/2}.*", "features.5.w"), "layers.2.w");
  EXPECT_EQ(renamed("f.{#i}", "g.{i*2+1}", "f.3"), "g.7");
}

TEST(Template, CountingBelowZeroIsAnError) {
  EXPECT_THROW(renamed("layer{#i}", "stages.{i-1}", "layer0"), core::Error);
}

TEST(Template, NamesACaptureThatIsNotThere) {
  EXPECT_THAT(message("a.*", "b.*.*"), testing::HasSubstr("more '*'"));
  EXPECT_THAT(message("a.{x}", "b.{y}"), testing::HasSubstr("{y}"));
  EXPECT_THAT(message("a.{x}", "b.{x+1}"), testing::HasSubstr("not a number"));
  EXPECT_THAT(message("a.*", "b.$2"), testing::HasSubstr("capture 2"));
  EXPECT_THAT(message("a.{#x}", "b.{x%2}"), testing::HasSubstr("{x%2}"));
}

TEST(Template, EscapesAreTakenAsTheyAre) {
  EXPECT_EQ(renamed("a", "b\\*\\{\\$1", "a"), "b*{$1");
  EXPECT_EQ(ckpt::escape_pattern("re:a*{b$"), "\\re:a\\*\\{b\\$");
  EXPECT_EQ(Pattern::parse(ckpt::escape_pattern("re:a*{b$[0]?\\")).name(), "re:a*{b$[0]?\\");
}

TEST(Template, TurnsRound) {
  auto turned = ckpt::reverse_pattern("layer{#i}.*.bn.*", "s.{i-1}.*.norm.*");
  ASSERT_TRUE(turned);
  EXPECT_EQ(turned->pattern, "s.{#i}.*.norm.*");
  EXPECT_EQ(turned->replacement, "layer{i+1}.*.bn.*");
  EXPECT_EQ(renamed(turned->pattern, turned->replacement, "s.0.1.norm.w"), "layer1.1.bn.w");
}

TEST(Template, StarsThatChangePlacesTurnRound) {
  auto turned = ckpt::reverse_pattern("*.x.*", "$2.y.$1");
  ASSERT_TRUE(turned);
  EXPECT_EQ(renamed(turned->pattern, turned->replacement, "b.y.a"), "a.x.b");
}

TEST(Template, WhatForgetsACaptureDoesNotTurnRound) {
  EXPECT_FALSE(ckpt::reverse_pattern("a.*", "b"));
  EXPECT_FALSE(ckpt::reverse_pattern("re:a(.)", "b$1"));
  EXPECT_FALSE(ckpt::reverse_pattern("a.{#i}", "b.{i/2}"));
  EXPECT_FALSE(ckpt::reverse_pattern("a?", "b"));
}
