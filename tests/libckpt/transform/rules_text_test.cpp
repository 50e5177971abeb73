#include <gtest/gtest.h>

#include "libckpt/transform/rules.h"
#include "libcore/base/error.h"

namespace {

constexpr const char* kAll = R"([[rule]]
rename = "a.{#i}.*"
to = "b.{i+1}.*"

[[rule]]
rename = [
  ["x", "y"],
  ["re:(.*)\\.gamma", "$1.weight"],
]

[[rule]]
drop = "*.num_batches_tracked @dtype=i64"

[[rule]]
transpose = "*.weight"
dims = [1, 0]

[[rule]]
reshape = "*.gamma"
shape = [-1, 1, 1]
was = [-1]

[[rule]]
split = "{m}.qkv"
to = ["{m}.q", "{m}.k", "{m}.v"]
dim = 0
sizes = [1, 1, 2]

[[rule]]
fuse = ["{m}.q", "{m}.k"]
to = "{m}.qk"
dim = 1

[[rule]]
cast = "**"
dtype = "bf16"
was = "f32"

[[rule]]
tie = "lm_head.weight"
to = "wte.weight"

[[rule]]
add = "*.running_var"
value = 0.00099

[[rule]]
fold = "{m}.bias"
to = ["{m}.bn.running_mean", "{m}.other"]
by = "subtract"

[[rule]]
unfold = "{m}.running_mean"
to = "{m}.weight"
by = "multiply"

[[rule]]
make = "normalization.mean"
values = [0.485, 1.0, -2.0]
dtype = "f32"

[[rule]]
drop = "normalization.count"
was = 3.0
dtype = "i32"
)";

core::Error error_of(const std::string& text) {
  try {
    ckpt::parse_rules(text, "my.toml");
  } catch (const core::Error& error) {
    return error;
  }
  return {core::ErrorCode::internal, "no error"};
}

}  // namespace

TEST(RulesText, WritesWhatItReads) {
  EXPECT_EQ(ckpt::to_toml(ckpt::parse_rules(kAll, "all")), kAll);
}

TEST(RulesText, ReadsJson) {
  ckpt::Rules rules = ckpt::parse_rules(R"({"rules": [{"drop": "a"}, {"rename": [["b", "c"]]}]})", "r.json");
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[1].names[0].second, "c");
}

TEST(RulesText, ReadsNumbersOfJson) {
  ckpt::Rules rules = ckpt::parse_rules(R"({"rules": [{"add": "v", "value": 1.5}, {"make": "m", "values": [1, 2.5],
                                          "dtype": "f32"}]})",
                                        "my.json");
  EXPECT_EQ(rules.at(0).value, 1.5);
  EXPECT_EQ(rules.at(1).constant->values, (std::vector<double>{1, 2.5}));
}

TEST(RulesText, ReadsATableOfNames) {
  ckpt::Rules rules = ckpt::parse_rules("[rename]\n'a' = 'b'\n'c.*' = 'd.*'\n", "r.toml");
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(rules[0].names.size(), 2u);
}

TEST(RulesText, MaySayWhoseNamesTheyAre) {
  ckpt::Rules rules = ckpt::parse_rules("[about]\nfrom = \"a\"\n[[rule]]\ndrop = \"x\"\n", "rules");
  EXPECT_EQ(rules.size(), 1u);
}

TEST(RulesText, MayBeEmpty) {
  EXPECT_TRUE(ckpt::parse_rules("# nothing to do\n", "r.toml").empty());
}

TEST(RulesText, NamesTheLineThatIsNoToml) {
  core::Error error = error_of("[[rule]]\ndrop = 'a'\nrename = = 3\n");
  EXPECT_EQ(error.code(), core::ErrorCode::corrupt);
  EXPECT_THAT(error.message(), testing::StartsWith("line 3 is not TOML"));
  EXPECT_EQ(error.context()[0], "my.toml");
  EXPECT_EQ(error_of("{\"a\": ").code(), core::ErrorCode::corrupt);
}

TEST(RulesText, TakesLettersOutsideAscii) {
  const ckpt::Rules rules = ckpt::parse_rules(
      "\xef\xbb\xbf# \u03a4\n[[rule]]\nrename = \"\u03a4.\\\"u__u\u03b1\" # \u03a9\nto = '\u00e9'\n", "r.toml");
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(rules[0].names[0].first, "\u03a4.\"u__u\u03b1");
  EXPECT_EQ(rules[0].names[0].second, "\u00e9");
  const ckpt::Rules table = ckpt::parse_rules("[rename]\n'\u03a4' = '\u0244'\n", "r.toml");
  EXPECT_EQ(table[0].names[0].first, "\u03a4");
  EXPECT_THAT(error_of("[[rule]]\nrename =0\"h\u0244\"\n").message(), testing::StartsWith("line 2 is not TOML"));
  EXPECT_THAT(error_of("a = '\xff'").message(), testing::HasSubstr("not UTF-8"));
}

TEST(RulesText, NamesTheRuleAndTheField) {
  auto said = [](const std::string& text) {
    core::Error error = error_of(text);
    EXPECT_EQ(error.code(), core::ErrorCode::usage) << text;
    return std::string(error.what());
  };
  EXPECT_EQ(
      said("[[rule]]\ndrop = 'a'\n[[rule]]\nto = 'b'\n"),
      "my.toml: rule 2: has no action; a rule has one of rename, drop, transpose, reshape, split, fuse, cast, tie, "
      "add, fold, unfold, make");
  EXPECT_THAT(said("[[rule]]\ndrop = 'a'\ncast = 'b'\n"), testing::HasSubstr("more than one action"));
  EXPECT_THAT(said("[[rule]]\nrename = 'a'\n"), testing::HasSubstr("has no 'to'"));
  EXPECT_THAT(said("[[rule]]\ndrop = 'a'\ncolor = 'red'\n"), testing::HasSubstr("unknown field 'color'"));
  EXPECT_THAT(said("[[rule]]\ncast = 'a'\ndtype = 'f33'\n"), testing::HasSubstr("'f33'"));
  EXPECT_THAT(said("[[rule]]\nsplit = 'a'\nto = 'b'\n"), testing::HasSubstr("not a list of two or more"));
  EXPECT_THAT(said("[[rule]]\nsplit = 'a'\nto = ['b', 'c']\nsizes = [1]\n"), testing::HasSubstr("number of sizes"));
  EXPECT_THAT(said("[[rule]]\nreshape = 'a'\nshape = [-1, -1]\n"), testing::HasSubstr("more than one -1"));
  EXPECT_THAT(said("[[rule]]\nreshape = 'a'\nshape = ['x']\n"), testing::HasSubstr("not a list of integers"));
  EXPECT_THAT(said("[[rule]]\nrename = 'a'\nto = 'b.*'\n"), testing::HasSubstr("more '*'"));
  EXPECT_THAT(said("[[rule]]\ndrop = '@x=1'\n"), testing::HasSubstr("has an unknown name"));
  EXPECT_THAT(said("[[rule]]\nadd = 'a'\nvalue = 'x'\n"), testing::HasSubstr("'value' that is not a number"));
  EXPECT_THAT(said("[[rule]]\nadd = 'a'\nvalue = inf\n"), testing::HasSubstr("'value' that is not a number"));
  EXPECT_THAT(said("[[rule]]\nfold = 'a'\nto = 'b'\nby = 'adding'\n"),
              testing::HasSubstr("'by' of 'adding'; it is subtract, multiply or add"));
  EXPECT_THAT(said("[[rule]]\nunfold = 'a'\nto = ['b', 'c']\nby = 'multiply'\n"),
              testing::HasSubstr("several texts where one is meant"));
  EXPECT_THAT(said("[[rule]]\nmake = 'a*'\nvalues = 1\ndtype = 'f32'\n"), testing::HasSubstr("names a pattern"));
  EXPECT_THAT(said("[[rule]]\ndrop = 'a*'\nwas = 1\ndtype = 'f32'\n"), testing::HasSubstr("names a pattern"));
  EXPECT_THAT(said("[[rule]]\nmake = 'a'\nvalues = ['x']\ndtype = 'f32'\n"),
              testing::HasSubstr("not a list of numbers"));
  EXPECT_THAT(said("[[rule]]\ndrop = 'a'\nwas = 1\n"), testing::HasSubstr("has no 'dtype'"));
  EXPECT_THAT(said("colour = 3\n[[rule]]\ndrop = 'a'\n"), testing::HasSubstr("unknown entry 'colour'"));
  EXPECT_THAT(said("{}"), testing::HasSubstr("there is no rule"));
  EXPECT_EQ(error_of("{\"a\": 3}").message(), "the new name of 'a' is not text");
}
