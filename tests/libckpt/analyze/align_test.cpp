#include "libckpt/analyze/align.h"

#include <gtest/gtest.h>

#include <numeric>

#include "libckpt/analyze/digest.h"
#include "libckpt/transform/cast.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"

using ckpt::AlignResult;
using ckpt::Checkpoint;
using ckpt::Value;
using test::dict;

namespace {

/// Values that no other seed gives.
Value filled(core::Shape shape, float seed) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = seed + static_cast<float>(i) * 0.125F;
  ckpt::Entry entry = test::float_entry(values);
  entry.shape = shape;
  return Value::tensor(std::make_shared<ckpt::Entry>(entry));
}

Checkpoint applied(const Checkpoint& a, const std::string& rules) {
  return ckpt::apply_rules(a, ckpt::parse_rules(rules, "test"));
}

void expect_same(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(to_hex(ckpt::digest(a.root).model), to_hex(ckpt::digest(b.root).model));
}

/// Aligns, and checks that the rules make B of A.
AlignResult solved(const Checkpoint& a, const Checkpoint& b) {
  AlignResult result = ckpt::align(a, b);
  EXPECT_TRUE(result.complete) << testing::PrintToString(result.wrong) << ckpt::to_toml(result.rules);
  expect_same(result.rules.empty() ? a : ckpt::apply_rules(a, result.rules), b);
  return result;
}

Checkpoint layers(int count) {
  std::vector<std::pair<std::string, Value>> items;
  float seed = 0;
  for (int i = 0; i < count; ++i) {
    std::string start = "enc.layer" + std::to_string(i + 1) + ".";
    for (const char* name : {"fc.weight", "fc.bias", "qkv"})
      items.emplace_back(start + name, filled({6, 4}, seed += 10));
  }
  return test::checkpoint(dict(std::move(items)));
}

}  // namespace

TEST(Align, SaysNothingForEqualFiles) {
  AlignResult result = solved(layers(2), layers(2));
  EXPECT_TRUE(result.rules.empty());
  EXPECT_EQ(result.verified, 6u);
}

TEST(Align, FindsAPrefix) {
  Checkpoint a = layers(3);
  AlignResult result = solved(a, applied(a, "[[rule]]\nrename = '*'\nto = 'module.*'\n"));
  EXPECT_EQ(ckpt::to_toml(result.rules), "[[rule]]\nrename = \"*\"\nto = \"module.*\"\n");
}

TEST(Align, GeneralisesLayerIndexes) {
  Checkpoint a = layers(4);
  AlignResult result = solved(a, applied(a, "[[rule]]\nrename = 'enc.layer{#i}.*'\nto = 'h.{i-1}.x.*'\n"));
  ASSERT_EQ(result.rules.size(), 1u);
  ASSERT_EQ(result.rules[0].names.size(), 1u);
  EXPECT_EQ(result.rules[0].names[0].first, "enc.layer{#i}.*");
  EXPECT_EQ(result.rules[0].names[0].second, "h.{i-1}.x.*");
}

TEST(Align, FindsTransposesAndReshapes) {
  Checkpoint a = layers(2);
  AlignResult result = solved(
      a, applied(a, "[[rule]]\ntranspose = '*.fc.weight'\n[[rule]]\nreshape = '*.fc.bias'\nshape = [6, 4, 1, 1]\n"));
  ASSERT_EQ(result.rules.size(), 2u);
  EXPECT_EQ(result.rules[0].kind, ckpt::Rule::Kind::transpose);
  EXPECT_EQ(result.rules[1].kind, ckpt::Rule::Kind::reshape);
  EXPECT_EQ(result.rules[1].was_shape, (std::vector<std::int64_t>{6, 4}));
}

TEST(Align, FindsSplitsAndFuses) {
  Checkpoint a = layers(3);
  Checkpoint b = applied(a, "[[rule]]\nsplit = 'enc.layer{#i}.qkv'\nto = ['l.{i}.q', 'l.{i}.k', 'l.{i}.v']\n");
  AlignResult split = solved(a, b);
  EXPECT_EQ(split.rules.back().kind, ckpt::Rule::Kind::split);
  EXPECT_EQ(split.rules.back().from[0], "enc.layer{#i}.qkv");
  AlignResult fuse = solved(b, a);
  EXPECT_EQ(fuse.rules.back().kind, ckpt::Rule::Kind::fuse);
  EXPECT_EQ(fuse.rules.back().from[1], "l.{i}.k");
}

TEST(Align, FindsUnevenSplitsAlongOtherDimensions) {
  Checkpoint a = test::checkpoint(dict({{"w", filled({4, 6}, 1)}, {"v", filled({6, 2}, 99)}}));
  AlignResult result =
      solved(a, applied(a,
                        "[[rule]]\nsplit = 'w'\nto = ['x', 'y']\ndim = 1\nsizes = [2, 4]\n[[rule]]\nsplit = 'v'\nto = "
                        "['p', 'q']\nsizes = [4, 2]\n"));
  EXPECT_EQ(result.rules.size(), 2u);
}

TEST(Align, FindsTransposedFuses) {
  Checkpoint a = test::checkpoint(dict({{"q", filled({4, 2}, 1)}, {"k", filled({4, 2}, 50)}}));
  solved(a, applied(a, "[[rule]]\ntranspose = '*'\n[[rule]]\nfuse = ['q', 'k']\nto = 'qk'\n"));
  solved(a, applied(a, "[[rule]]\ntranspose = '*'\n[[rule]]\nfuse = ['q', 'k']\nto = 'qk'\ndim = 1\n"));
}

TEST(Align, FindsCasts) {
  Checkpoint a = layers(2);
  AlignResult result = solved(a, applied(a, "[[rule]]\ncast = '**'\ndtype = 'f16'\n"));
  EXPECT_EQ(ckpt::to_toml(result.rules), "[[rule]]\ncast = \"**\"\ndtype = \"f16\"\nwas = \"f32\"\n");
}

TEST(Align, FindsTies) {
  Checkpoint a = layers(1);
  AlignResult result = solved(a, applied(a, "[[rule]]\ntie = 'head'\nto = 'enc.layer1.fc.weight'\n"));
  ASSERT_EQ(result.rules.size(), 1u);
  EXPECT_EQ(result.rules[0].kind, ckpt::Rule::Kind::tie);
}

TEST(Align, TellsEqualValuesApartByTheirNeighbours) {
  auto norm = [](const std::string& name, float seed) {
    return std::vector<std::pair<std::string, Value>>{{name + ".weight", filled({3}, seed)},
                                                      {name + ".mean", test::tensor({0, 0, 0})}};
  };
  std::vector<std::pair<std::string, Value>> a = norm("bn1", 1);
  std::vector<std::pair<std::string, Value>> b = norm("second", 50);
  for (auto& item : norm("bn2", 50)) a.push_back(item);
  for (auto& item : norm("first", 1)) b.push_back(item);
  AlignResult result = solved(test::checkpoint(dict(a)), test::checkpoint(dict(b)));
  for (const ckpt::AlignedTensors& pair : result.pairs) {
    if (pair.from[0] == "bn2.mean") {
      EXPECT_EQ(pair.to[0], "second.mean");
    }
  }
}

TEST(Align, ListsWhatItCannotExplain) {
  Checkpoint a = test::checkpoint(dict({{"w", filled({3}, 1)}, {"extra", filled({2}, 5)}}));
  Checkpoint b = test::checkpoint(dict({{"w", filled({3}, 1)}, {"head", filled({7}, 5)}}));
  AlignResult result = ckpt::align(a, b);
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.only_in_a, std::vector<std::string>{"extra"});
  EXPECT_EQ(result.only_in_b, std::vector<std::string>{"head"});
}

TEST(Align, DropsWhatIsUnusedWhenTold) {
  Checkpoint a = test::checkpoint(dict({{"w", filled({3}, 1)}, {"extra", filled({2}, 5)}}));
  Checkpoint b = test::checkpoint(dict({{"w", filled({3}, 1)}}));
  AlignResult result = ckpt::align(a, b, {.drop_unused = true});
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.rules[0].kind, ckpt::Rule::Kind::drop);
  expect_same(ckpt::apply_rules(a, result.rules), b);
}

TEST(Align, PairsOtherValuesByNameAndShape) {
  Checkpoint a = test::checkpoint(dict({{"a.w", filled({3, 2}, 1)}, {"a.b", filled({3}, 2)}, {"a.c", filled({5}, 2)}}));
  Checkpoint b = test::checkpoint(dict({{"n.w", filled({3, 2}, 7)}, {"n.b", filled({3}, 8)}, {"n.c", filled({5}, 9)}}));
  AlignResult result = ckpt::align(a, b);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.other_values, 3u);
  EXPECT_EQ(test::names(ckpt::apply_rules(a, result.rules)), test::names(b));
  EXPECT_FALSE(ckpt::align(a, b, {.by_shape = false}).complete);
}

TEST(Align, WorksOnTheStateDictThatIsNamed) {
  Checkpoint a =
      test::checkpoint(dict({{"student", dict({{"w", filled({3}, 1)}})}, {"teacher", dict({{"w", filled({3}, 2)}})}}));
  Checkpoint b = test::checkpoint(dict({{"x", filled({3}, 2)}}));
  EXPECT_THROW(ckpt::align(a, b), core::Error);
  EXPECT_TRUE(ckpt::align(a, b, {.at_a = "teacher"}).complete);
}

TEST(Align, EscapesNamesThatLookLikePatterns) {
  Checkpoint a = test::checkpoint(dict({{"a*b", filled({3}, 1)}, {"{x}", filled({4}, 2)}, {"c d", filled({2, 5}, 3)}}));
  Checkpoint b =
      applied(a, "[[rule]]\nrename = [['a\\*b', '\\*\\$1'], ['\\{x}', 'y']]\n[[rule]]\ntranspose = 'c\\ d'\n");
  solved(a, b);
}
