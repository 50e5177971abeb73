// What the tool says first: the verdict of diff, optimizers and unused bytes in info, repeated layers in tree and ls.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"

using ckpt::JsonDocument;
using ckpt::Value;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using namespace test;

TEST(DiffVerdict, StandsFirstAndFoldsWhatItExplains) {
  TempDir dir;
  write_model(dir, "a.pth", {"conv.weight", "conv.bias", "fc.weight", "fc.bias"});
  write_model(dir, "b.pth", {"module.conv.weight", "module.conv.bias", "module.fc.weight", "module.fc.bias"});
  std::string text = run_ckpt(dir.path(), {"diff", "a.pth", "b.pth"}).out;
  EXPECT_THAT(text, StartsWith("A and B differ: B is A with keys renamed: 'module.' is added\n8 differences: "));
  EXPECT_THAT(text, HasSubstr("  8 differences explained above (--all lists them)\n"));
  EXPECT_THAT(text, Not(HasSubstr("- conv.weight")));
  EXPECT_THAT(run_ckpt(dir.path(), {"diff", "--all", "a.pth", "b.pth"}).out, HasSubstr("- conv.weight"));
  JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), {"diff", "--json", "a.pth", "b.pth"}).out);
  ASSERT_EQ(json.root().at("differences").items().size(), 8U);
  EXPECT_EQ(json.root().at("differences").items()[0].at("verdict").as_integer(), 0);
}

TEST(DiffVerdict, SummaryIsTheVerdictAndTheTotals) {
  TempDir dir;
  write_checkpoint(dir.path() / "a.pth", dict({{"w", tensor({3, 4})}}));
  write_checkpoint(dir.path() / "b.pth", dict({{"w", tensor({3, 3})}}));
  Outcome outcome = run_ckpt(dir.path(), {"diff", "--summary", "a.pth", "b.pth"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 2) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("\u2016A\u2212B\u2016/\u2016A\u2016 0.2 where they differ\n"));
  JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), {"diff", "--json", "a.pth", "b.pth"}).out);
  EXPECT_NEAR(json.root().at("relative_norm").as_real(), 0.2, 1e-12);
  EXPECT_NEAR(json.root().at("differences").items()[0].at("relative_norm").as_real(), 0.2, 1e-12);
}

/// Three values became NaN, and diff said that they differ by rounding, at most 0 units in the last place.
TEST(DiffVerdict, ValuesThatBecameNanAreNoRounding) {
  TempDir dir;
  write_checkpoint(dir.path() / "a.pth", dict({{"w", tensor({1, 2, 3})}}));
  write_checkpoint(dir.path() / "b.pth", dict({{"w", tensor({1, NAN, NAN})}}));
  std::string text = run_ckpt(dir.path(), {"diff", "a.pth", "b.pth"}).out;
  EXPECT_THAT(text, HasSubstr("NaN: 0 in A, 2 in B"));
  EXPECT_THAT(text, Not(HasSubstr("rounding")));
  EXPECT_THAT(text, Not(HasSubstr("by up to 0")));
  JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), {"diff", "--json", "a.pth", "b.pth"}).out);
  EXPECT_EQ(json.root().at("differences").items()[0].at("nans_b").as_integer(), 2);
  EXPECT_EQ(run_ckpt(dir.path(), {"diff", "b.pth", "b.pth"}).code, 0) << "a NaN of the same bits is equal";
}
