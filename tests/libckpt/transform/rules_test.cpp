#include "libckpt/transform/rules.h"

#include <gtest/gtest.h>

#include <numeric>

#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"

using ckpt::Checkpoint;
using ckpt::EntryPtr;
using ckpt::RuleReport;

namespace {

/// Values 0, 1, 2, ... in the given shape.
ckpt::Value counting(core::Shape shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0.0F);
  ckpt::Entry entry = test::float_entry(values);
  entry.shape = shape;
  return ckpt::Value::tensor(std::make_shared<ckpt::Entry>(entry));
}

std::vector<float> values_of(const Checkpoint& checkpoint, const std::string& key) {
  core::ByteVector raw = ckpt::read_all(*ckpt::value_at(checkpoint.root, key).as_entry().bytes);
  std::vector<float> out(raw.size() / sizeof(float));
  std::memcpy(out.data(), raw.data(), raw.size());
  return out;
}

core::Shape shape_of(const Checkpoint& checkpoint, const std::string& key) {
  return ckpt::value_at(checkpoint.root, key).as_entry().shape;
}

Checkpoint applied(const Checkpoint& checkpoint, const std::string& text, RuleReport* report = nullptr) {
  return ckpt::apply_rules(checkpoint, ckpt::parse_rules(text, "test"), {}, report);
}

core::Error error_of(const Checkpoint& checkpoint, const std::string& text, ckpt::RuleOptions options = {}) {
  try {
    ckpt::apply_rules(checkpoint, ckpt::parse_rules(text, "test"), options);
  } catch (const core::Error& error) {
    return error;
  }
  return {core::ErrorCode::internal, "no error"};
}

}  // namespace

TEST(Rules, RenamesByPattern) {
  Checkpoint a = test::checkpoint(test::state_dict({"layer1.0.w", "layer2.0.w", "fc.w"}));
  Checkpoint b = applied(a, "[[rule]]\nrename = 'layer{#i}.*'\nto = 'stages.{i-1}.*'\n");
  EXPECT_EQ(test::names(b), (std::vector<std::string>{"stages.0.0.w", "stages.1.0.w", "fc.w"}));
}

TEST(Rules, RenamesTheFirstPairThatMatches) {
  Checkpoint a = test::checkpoint(test::state_dict({"a", "b", "c"}));
  Checkpoint b = applied(a, "[[rule]]\nrename = [['a', 'b'], ['b', 'a'], ['*', 'x.*']]\n");
  EXPECT_EQ(test::names(b), (std::vector<std::string>{"b", "a", "x.c"}));
}

TEST(Rules, RenamesByModuleInTheOrderOfThePairs) {
  Checkpoint a = test::checkpoint(test::state_dict({"a.b.w", "a.c", "a.d.w", "ab.c", "a.b"}));
  Checkpoint b =
      applied(a, "[[rule]]\nrename = [['*.d.w', 'x.*'], ['a.b.w', 'y'], ['a.b.*', 'z.*'], ['a.*', 'w.*']]\n");
  EXPECT_EQ(test::names(b), (std::vector<std::string>{"y", "w.c", "x.a", "ab.c", "w.b"}));
  Checkpoint c = applied(a, "[[rule]]\nrename = [['a.*', 'w.*'], ['a.b.*', 'z.*'], ['a.c', 'y']]\n");
  EXPECT_EQ(test::names(c), (std::vector<std::string>{"w.b.w", "w.c", "w.d.w", "ab.c", "w.b"}));
}

TEST(Rules, ActOneAfterTheOther) {
  Checkpoint a = test::checkpoint(test::state_dict({"module.fc.w"}));
  Checkpoint b = applied(a, "[[rule]]\nrename = 'module.*'\nto = '*'\n[[rule]]\nrename = 'fc.*'\nto = 'head.*'\n");
  EXPECT_EQ(test::names(b), std::vector<std::string>{"head.w"});
}

TEST(Rules, AFlatJsonObjectRenamesAtOnce) {
  Checkpoint a = test::checkpoint(test::state_dict({"a", "b"}));
  EXPECT_EQ(test::names(applied(a, "{\"a\": \"b\", \"b\": \"a\"}")), (std::vector<std::string>{"b", "a"}));
}

TEST(Rules, RefuseCollisionsNamingBothKeys) {
  core::Error error =
      error_of(test::checkpoint(test::state_dict({"a.w", "b.w"})), "[[rule]]\nrename = 'a.*'\nto = 'b.*'\n");
  EXPECT_EQ(error.code(), core::ErrorCode::collision);
  EXPECT_EQ(error.message(), "keys 'a.w' and 'b.w' would both become 'b.w'");
  EXPECT_EQ(error.context()[0], "rule 1 (rename 'a.*' to 'b.*')");
}

TEST(Rules, Drop) {
  RuleReport report;
  Checkpoint b = applied(test::checkpoint(test::state_dict({"a.w", "a.b.n", "c"})), "[[rule]]\ndrop = 'a'\n", &report);
  EXPECT_EQ(test::names(b), std::vector<std::string>{"c"});
  EXPECT_EQ(report.dropped, (std::vector<std::string>{"a.w", "a.b.n"}));
}

TEST(Rules, Transpose) {
  Checkpoint b = applied(test::checkpoint(test::dict({{"w", counting({2, 3})}})), "[[rule]]\ntranspose = 'w'\n");
  EXPECT_EQ(shape_of(b, "w"), (core::Shape{3, 2}));
  EXPECT_EQ(values_of(b, "w"), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(Rules, PermuteByDims) {
  Checkpoint b = applied(test::checkpoint(test::dict({{"w", counting({2, 1, 3})}})),
                         "[[rule]]\ntranspose = 'w'\ndims = [2, 0, 1]\n");
  EXPECT_EQ(shape_of(b, "w"), (core::Shape{3, 2, 1}));
  EXPECT_EQ(values_of(b, "w"), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(Rules, Reshape) {
  Checkpoint b =
      applied(test::checkpoint(test::dict({{"g", counting({4})}})), "[[rule]]\nreshape = 'g'\nshape = [-1, 1, 1]\n");
  EXPECT_EQ(shape_of(b, "g"), (core::Shape{4, 1, 1}));
}

TEST(Rules, ReshapeKeepsTheSizeWhereItSaysZero) {
  Checkpoint a = test::checkpoint(test::dict({{"w", counting({2, 3})}, {"none", counting({0, 3})}}));
  EXPECT_EQ(shape_of(applied(a, "[[rule]]\nreshape = 'w'\nshape = [0, 0, 1, 1]\nwas = [0, 0]\n"), "w"),
            (core::Shape{2, 3, 1, 1}));
  EXPECT_EQ(shape_of(applied(a, "[[rule]]\nreshape = 'none'\nshape = [0, 1, 3]\n"), "none"), (core::Shape{0, 1, 3}));
}

TEST(Rules, SplitAlongAnyDimension) {
  Checkpoint a = test::checkpoint(test::dict({{"0.qkv", counting({2, 3})}}));
  std::string rule = "[[rule]]\nsplit = '{#i}.qkv'\nto = ['{i}.q', '{i}.k', '{i}.v']\ndim = 1\n";
  Checkpoint b = applied(a, rule);
  EXPECT_EQ(test::names(b), (std::vector<std::string>{"0.q", "0.k", "0.v"}));
  EXPECT_EQ(shape_of(b, "0.q"), (core::Shape{2, 1}));
  EXPECT_EQ(values_of(b, "0.k"), (std::vector<float>{1, 4}));
}

TEST(Rules, SplitBySizes) {
  Checkpoint a = test::checkpoint(test::dict({{"w", counting({5})}}));
  Checkpoint b = applied(a, "[[rule]]\nsplit = 'w'\nto = ['a', 'b']\nsizes = [2, 3]\n");
  EXPECT_EQ(values_of(b, "b"), (std::vector<float>{2, 3, 4}));
}

TEST(Rules, FuseIsTheInverseOfSplit) {
  Checkpoint a = test::checkpoint(test::dict({{"x.w", counting({2, 6})}, {"x.b", counting({4})}}));
  ckpt::Rules rules =
      ckpt::parse_rules("[[rule]]\nsplit = '{m}.w'\nto = ['{m}.a', '{m}.b2', '{m}.c']\ndim = -1\n", "t");
  Checkpoint b = ckpt::apply_rules(a, rules);
  Checkpoint c = ckpt::apply_rules(b, ckpt::reversed(rules));
  EXPECT_EQ(test::names(c), (std::vector<std::string>{"x.w", "x.b"}));
  EXPECT_EQ(values_of(c, "x.w"), values_of(a, "x.w"));
}

TEST(Rules, FuseReadsAnyPiece) {
  Checkpoint a = test::checkpoint(test::dict({{"q", counting({3, 2})}, {"k", counting({3, 1})}}));
  Checkpoint b = applied(a, "[[rule]]\nfuse = ['q', 'k']\nto = 'qk'\ndim = 1\nsizes = [2, 1]\n");
  EXPECT_EQ(values_of(b, "qk"), (std::vector<float>{0, 1, 0, 2, 3, 1, 4, 5, 2}));
  core::ByteVector middle(12);
  ckpt::value_at(b.root, "qk").as_entry().bytes->read(8, core::MutableBytes(middle));
  EXPECT_EQ(core::load_le<float>(middle.data() + 4), 2.0F);
}

TEST(Rules, FuseNamesAMissingPart) {
  core::Error error =
      error_of(test::checkpoint(test::state_dict({"0.q"})), "[[rule]]\nfuse = ['{#i}.q', '{i}.k']\nto = '{i}.qk'\n");
  EXPECT_EQ(error.code(), core::ErrorCode::key);
  EXPECT_EQ(error.message(), "the part '0.k' is not there");
}

TEST(Rules, FuseWantsEqualPartsUnlessTheSizesAreSaid) {
  Checkpoint a = test::checkpoint(test::dict({{"q", counting({2})}, {"k", counting({1})}}));
  EXPECT_THAT(error_of(a, "[[rule]]\nfuse = ['q', 'k']\nto = 'x'\n").message(), testing::HasSubstr("give sizes"));
}

TEST(Rules, Cast) {
  Checkpoint a = test::checkpoint(test::dict({{"w", test::tensor({1.0F, 2.5F})}}));
  Checkpoint b = applied(a, "[[rule]]\ncast = '*'\ndtype = 'bf16'\n");
  EXPECT_EQ(ckpt::value_at(b.root, "w").as_entry().dtype, core::DType::bf16);
  EXPECT_EQ(ckpt::value_at(b.root, "w").as_entry().byte_size(), 4u);
}

TEST(Rules, AddChangesEveryValue) {
  Checkpoint a = test::checkpoint(test::dict({{"a.v", counting({3})}, {"b", counting({1})}}));
  RuleReport report;
  Checkpoint b = applied(a, "[[rule]]\nadd = '*.v'\nvalue = -0.5\n", &report);
  EXPECT_EQ(values_of(b, "a.v"), (std::vector<float>{-0.5F, 0.5F, 1.5F}));
  EXPECT_EQ(values_of(b, "b"), std::vector<float>{0});
  EXPECT_EQ(report.changed, 1u);
}

TEST(Rules, AddMeansWhatAViewNegates) {
  ckpt::Entry entry = counting({2}).as_entry();
  entry.negative = true;
  Checkpoint a = test::checkpoint(test::dict({{"v", ckpt::Value::tensor(std::make_shared<ckpt::Entry>(entry))}}));
  Checkpoint b = applied(a, "[[rule]]\nadd = 'v'\nvalue = 3\n");
  EXPECT_EQ(values_of(b, "v"), (std::vector<float>{3, 2}));
  EXPECT_FALSE(ckpt::value_at(b.root, "v").as_entry().negative);
}

TEST(Rules, FoldTakesATensorIntoOthers) {
  Checkpoint a = test::checkpoint(test::dict(
      {{"0.bias", counting({3})}, {"0.mean", counting({3})}, {"0.w", counting({3, 2})}, {"bias", counting({1})}}));
  RuleReport report;
  Checkpoint b = applied(a, "[[rule]]\nfold = '{#i}.bias'\nto = ['{i}.mean', '{i}.w']\nby = 'multiply'\n", &report);
  EXPECT_EQ(test::names(b), (std::vector<std::string>{"0.mean", "0.w", "bias"}));
  EXPECT_EQ(values_of(b, "0.mean"), (std::vector<float>{0, 1, 4}));
  EXPECT_EQ(values_of(b, "0.w"), (std::vector<float>{0, 0, 2, 3, 8, 10}));
  EXPECT_EQ(report.dropped, std::vector<std::string>{"0.bias"});
  EXPECT_EQ(report.changed, 2u);
  Checkpoint c = applied(a, "[[rule]]\nfold = '{#i}.bias'\nto = '{i}.w'\nby = 'subtract'\n");
  EXPECT_EQ(values_of(c, "0.w"), (std::vector<float>{0, 1, 1, 2, 2, 3}));
}

TEST(Rules, FoldReadsAnyPiece) {
  const std::int64_t rows = 400, inner = 150;  // more than are computed at once
  Checkpoint a = test::checkpoint(test::dict({{"g", counting({rows})}, {"w", counting({rows, inner})}}));
  Checkpoint b = applied(a, "[[rule]]\nfold = 'g'\nto = 'w'\nby = 'subtract'\n");
  const ckpt::SourcePtr bytes = ckpt::value_at(b.root, "w").as_entry().bytes;
  for (std::uint64_t at : {0U, 149U, 150U, 16383U, 16384U, 59999U}) {
    float value = -1;
    bytes->read(at * sizeof value, std::as_writable_bytes(std::span(&value, 1)));
    EXPECT_EQ(value, static_cast<float>(at) - static_cast<float>(at / 150)) << at;
  }
}

TEST(Rules, FoldByAddIsUndoneByZeros) {
  Checkpoint a = test::checkpoint(test::dict({{"bias", counting({3})}, {"w", counting({3, 2})}}));
  const std::string text = "[[rule]]\nfold = 'bias'\nto = 'w'\nby = 'add'\n";
  Checkpoint b = applied(a, text);
  EXPECT_EQ(values_of(b, "w"), (std::vector<float>{0, 1, 3, 4, 6, 7}));
  const ckpt::Rules back = ckpt::reversed(ckpt::parse_rules(text, "test"));
  EXPECT_EQ(values_of(ckpt::apply_rules(b, back), "bias"), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(ckpt::to_toml(ckpt::reversed(back)), ckpt::to_toml(ckpt::parse_rules(text, "test")));
}

TEST(Rules, UnfoldMakesWhatChangesNothing) {
  Checkpoint a = test::checkpoint(test::dict({{"0.mean", counting({2})}, {"1.w", counting({3, 2})}}));
  Checkpoint b = applied(a,
                         "[[rule]]\nunfold = '*.mean'\nto = '*.bias'\nby = 'subtract'\n"
                         "[[rule]]\nunfold = '*.w'\nto = '*.gamma'\nby = 'multiply'\n");
  EXPECT_EQ(test::names(b), (std::vector<std::string>{"0.bias", "0.mean", "1.gamma", "1.w"}));
  EXPECT_EQ(values_of(b, "0.bias"), (std::vector<float>{0, 0}));
  EXPECT_EQ(values_of(b, "1.gamma"), (std::vector<float>{1, 1, 1}));
  Checkpoint claims = test::checkpoint(test::dict({{"w", counting({1'000'000'000'000'000, 0})}}));
  EXPECT_EQ(error_of(claims, "[[rule]]\nunfold = 'w'\nto = 'g'\nby = 'multiply'\n").message(),
            "a tensor of shape [1000000000000000, 0] has no values");
  core::Error there = error_of(b, "[[rule]]\nunfold = '*.mean'\nto = '*.bias'\nby = 'subtract'\n");
  EXPECT_EQ(there.code(), core::ErrorCode::collision);
}

TEST(Rules, MakeAddsConstantsAndDropTakesThemAway) {
  Checkpoint a = test::checkpoint(test::state_dict({"a"}));
  const std::string text =
      "[[rule]]\nmake = 'n.mean'\nvalues = [0.5, 2]\ndtype = 'f32'\n[[rule]]\nmake = 'n.count'\nvalues = 7\ndtype = "
      "'i32'\n";
  Checkpoint b = applied(a, text);
  EXPECT_EQ(test::names(b), (std::vector<std::string>{"a", "n.mean", "n.count"}));
  EXPECT_EQ(values_of(b, "n.mean"), (std::vector<float>{0.5F, 2}));
  EXPECT_EQ(shape_of(b, "n.count"), core::Shape{});
  EXPECT_EQ(ckpt::value_at(b.root, "n.count").as_entry().dtype, core::DType::i32);
  EXPECT_EQ(error_of(b, text).code(), core::ErrorCode::collision);
  ckpt::Rules back = ckpt::reversed(ckpt::parse_rules(text, "test"));
  EXPECT_EQ(test::names(ckpt::apply_rules(b, back)), std::vector<std::string>{"a"});
  EXPECT_EQ(ckpt::to_toml(ckpt::reversed(back)), ckpt::to_toml(ckpt::parse_rules(text, "test")));
}

TEST(Rules, MakeIsAMatch) {
  RuleReport report;
  applied(test::checkpoint(test::state_dict({"a"})), "[[rule]]\nmake = 'n'\nvalues = [1]\ndtype = 'f32'\n", &report);
  EXPECT_EQ(report.steps[0].matched, 1u);
  EXPECT_TRUE(report.unmatched.empty());
}

TEST(Rules, MakeHoldsTheValuesThatAreWritten) {
  auto message = [](const std::string& values, const std::string& dtype) {
    try {
      ckpt::parse_rules("[[rule]]\nmake = 'n'\nvalues = " + values + "\ndtype = '" + dtype + "'\n", "r");
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), core::ErrorCode::usage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("[0, 0.5]", "i32"), "r: rule 1: int32 does not hold the value 0.5");
  EXPECT_EQ(message("[300]", "u8"), "r: rule 1: uint8 does not hold the value 300.0");
  EXPECT_EQ(message("1e6", "f16"), "r: rule 1: float16 does not hold the value 1000000.0");
  EXPECT_EQ(message("9007199254740993", "i64"), "r: rule 1: has a number beyond 2^53");
  EXPECT_EQ(message("[0.1, 255]", "bf16"), "");
}

TEST(Rules, DropSaysWhichValuesDoNotComeBack) {
  RuleReport report;
  Checkpoint a = test::checkpoint(test::dict({{"a", counting({2})}, {"b", counting({2})}, {"c", counting({3})}}));
  applied(a,
          "[[rule]]\ndrop = 'a'\nwas = [0, 1]\ndtype = 'f32'\n[[rule]]\ndrop = 'b'\nwas = [0, 5]\ndtype = "
          "'f32'\n[[rule]]\ndrop = 'c'\nwas = 0\ndtype = 'f32'\n",
          &report);
  EXPECT_EQ(report.lost,
            (std::vector<std::string>{"'b' had [0.0, 1.0], and [0.0, 5.0] is what the way back makes",
                                      "'c' had float32 values of shape [3], and 0.0 is what the way back makes"}));
}

TEST(Rules, FoldsDoNotDependOnTheOrderOfKeys) {
  Checkpoint a = test::checkpoint(test::dict({{"c0", counting({2})}, {"c1", counting({2})}, {"d2", counting({2})}}));
  EXPECT_EQ(std::string(error_of(a, "[[rule]]\nfold = 'c{#i}'\nto = ['d2', 'd2']\nby = 'subtract'\n").what()),
            "rule 1 (fold 'c{#i}' to 'd2', 'd2'): 'c0': 'd2' would take it twice");
  Checkpoint chain =
      test::checkpoint(test::dict({{"a.b.b", counting({2})}, {"a.b", counting({2})}, {"a", counting({2})}}));
  EXPECT_EQ(std::string(error_of(chain, "[[rule]]\nfold = '*.b'\nto = '*'\nby = 'subtract'\n").what()),
            "rule 1 (fold '*.b' to '*'): 'a.b.b': 'a.b', which it would go into, would go into another");
}

TEST(Rules, ComputedValuesAreSharedOnlyByTheSameSign) {
  ckpt::Entry plain = counting({2}).as_entry();
  ckpt::Entry negated = plain;
  negated.negative = true;
  Checkpoint a = test::checkpoint(test::dict({{"p", ckpt::Value::tensor(std::make_shared<ckpt::Entry>(plain))},
                                              {"n", ckpt::Value::tensor(std::make_shared<ckpt::Entry>(negated))}}));
  Checkpoint b = applied(a, "[[rule]]\nadd = '*'\nvalue = 2\n");
  EXPECT_EQ(values_of(b, "p"), (std::vector<float>{2, 3}));
  EXPECT_EQ(values_of(b, "n"), (std::vector<float>{2, 1}));
}

TEST(Rules, FoldNamesWhatDoesNotFit) {
  ckpt::Entry whole = counting({3}).as_entry();
  whole.dtype = core::DType::i32;
  Checkpoint a = test::checkpoint(test::dict({{"b", counting({2})},
                                              {"w", counting({3, 2})},
                                              {"n", ckpt::Value::tensor(std::make_shared<ckpt::Entry>(whole))}}));
  auto message = [&](const std::string& to) {
    return std::string(error_of(a, "[[rule]]\nfold = 'b'\nto = '" + to + "'\nby = 'subtract'\n").what());
  };
  EXPECT_EQ(message("w"),
            "rule 1 (fold 'b' to 'w'): 'b': 'w': what goes into it has shape [2] where its own [3, 2] asks for [3]");
  EXPECT_EQ(message("x"), "rule 1 (fold 'b' to 'x'): 'b': 'x', which it would go into, is not there");
  EXPECT_EQ(message("b"), "rule 1 (fold 'b' to 'b'): 'b': it would go into itself");
  EXPECT_EQ(message("n"),
            "rule 1 (fold 'b' to 'n'): 'b': 'n': its values are int32, where floating-point numbers are computed");
}

TEST(Rules, OfFoldsTurnRound) {
  const std::string text =
      "[[rule]]\nfold = '{l}.conv{#i}.bias'\nto = ['{l}.bn{i}.mean', '{l}.conv{i}.w']\nby = "
      "'multiply'\n[[rule]]\nadd = '*.var'\nvalue = 0.25\n";
  const ckpt::Rules rules = ckpt::parse_rules(text, "test");
  const ckpt::Rules back = ckpt::reversed(rules);
  EXPECT_EQ(ckpt::to_toml(back),
            "[[rule]]\nadd = \"*.var\"\nvalue = -0.25\n\n[[rule]]\nunfold = "
            "[\"{l}.bn{#i}.mean\", \"{l}.conv{#i}.w\"]\nto = \"{l}.conv{i}.bias\"\nby = "
            "\"multiply\"\n");
  EXPECT_EQ(ckpt::to_toml(ckpt::reversed(ckpt::reversed(back))), ckpt::to_toml(back));
}

TEST(Rules, TieAddsAName) {
  Checkpoint b = applied(test::checkpoint(test::state_dict({"wte"})), "[[rule]]\ntie = 'head'\nto = 'wte'\n");
  EXPECT_EQ(test::names(b), (std::vector<std::string>{"wte", "head"}));
  EXPECT_TRUE(ckpt::same_view(ckpt::value_at(b.root, "wte").as_entry(), ckpt::value_at(b.root, "head").as_entry()));
}

TEST(Rules, TieRefusesOtherValues) {
  core::Error error =
      error_of(test::checkpoint(test::state_dict({"wte", "head"})), "[[rule]]\ntie = 'head'\nto = 'wte'\n");
  EXPECT_EQ(error.code(), core::ErrorCode::refused);
}

TEST(Rules, TiedTensorsStayTied) {
  ckpt::Value shared = counting({2, 3});
  Checkpoint a = test::checkpoint(test::dict({{"a", shared}, {"b", shared}}));
  Checkpoint b = applied(a, "[[rule]]\ntranspose = '*'\n");
  EXPECT_EQ(ckpt::value_at(b.root, "a").as_entry().bytes, ckpt::value_at(b.root, "b").as_entry().bytes);
}

TEST(Rules, VersionsFollow) {
  Checkpoint a = test::checkpoint(test::state_dict({"m.bn.w", "m.bn.n", "old.w"}, {"", "m", "m.bn", "old"}));
  Checkpoint b = applied(a, "[[rule]]\nrename = 'm.*'\nto = '*'\n[[rule]]\ndrop = 'old'\n");
  EXPECT_EQ(test::modules(b.root), (std::vector<std::string>{"", "bn"}));
}

TEST(Rules, ReportWhatMatchedNothing) {
  RuleReport report;
  Checkpoint a = test::checkpoint(test::state_dict({"a.w"}));
  applied(a, "[[rule]]\nrename = [['a.*', 'b.*'], ['q', 'r']]\n[[rule]]\ndrop = 'z'\n", &report);
  EXPECT_EQ(report.unmatched, (std::vector<std::string>{"rename 'q' to 'r'", "drop 'z'"}));
  EXPECT_EQ(report.steps[0].matched, 1u);
  EXPECT_EQ(report.keys.renamed[0].to, "b.w");
}

TEST(Rules, MayRequireThatAllMatch) {
  core::Error error =
      error_of(test::checkpoint(test::state_dict({"a"})), "[[rule]]\ndrop = 'z'\n", {.require_matches = true});
  EXPECT_EQ(error.code(), core::ErrorCode::key);
  EXPECT_EQ(error.message(), "rules that match nothing: drop 'z'");
}

TEST(Rules, LeaveOptimizerStatesAlone) {
  ckpt::Value state = test::dict({{"0", test::dict({{"exp_avg", test::tensor({1})}})}});
  ckpt::Value groups = ckpt::Value::list({test::dict(
      {{"params", ckpt::Value::list({})}, {"param_names", ckpt::Value::list({ckpt::Value::text("m.w")})}})});
  Checkpoint a = test::checkpoint(test::dict(
      {{"model", test::state_dict({"m.w"})}, {"optim", test::dict({{"state", state}, {"param_groups", groups}})}}));
  Checkpoint b = applied(a, "[[rule]]\nrename = '*'\nto = 'x.*'\n");
  EXPECT_EQ(test::names(b), (std::vector<std::string>{"model.x.m.w", "optim.state.0.exp_avg"}));
  EXPECT_EQ(ckpt::value_at(b.root, "optim.param_groups.0.param_names.0").as_text(), "x.m.w");
}

TEST(Rules, NameTheTensorWhoseShapeDoesNotFit) {
  Checkpoint a = test::checkpoint(test::dict({{"w", counting({2, 3})}, {"b", counting({3})}}));
  core::Error transposed = error_of(a, "[[rule]]\ntranspose = '*'\n");
  EXPECT_EQ(transposed.code(), core::ErrorCode::value);
  EXPECT_EQ(transposed.context()[1], "'b'");
  EXPECT_EQ(error_of(a, "[[rule]]\nreshape = 'w'\nshape = [4, -1]\n").code(), core::ErrorCode::value);
  EXPECT_EQ(error_of(a, "[[rule]]\nsplit = 'w'\nto = ['x', 'y']\ndim = 1\n").code(), core::ErrorCode::value);
  EXPECT_EQ(error_of(a, "[[rule]]\nsplit = 'w'\nto = ['x', 'y']\ndim = 5\n").code(), core::ErrorCode::value);
  EXPECT_EQ(error_of(a, "[[rule]]\nfuse = ['w', 'b']\nto = 'x'\n").code(), core::ErrorCode::value);
  EXPECT_EQ(error_of(a, "[[rule]]\ntranspose = 'w'\ndims = [0, 0]\n").code(), core::ErrorCode::value);
}

TEST(Rules, NoStateDictIsAnError) {
  EXPECT_EQ(error_of(test::checkpoint(ckpt::Value::integer(3)), "{\"a\": \"b\"}").code(), core::ErrorCode::key);
}

TEST(Rules, TurnRound) {
  Checkpoint a = test::checkpoint(test::dict({{"layer1.w", counting({2, 3})}, {"layer1.g", counting({4})}}));
  ckpt::Rules rules = ckpt::parse_rules(
      "[[rule]]\nrename = 'layer{#i}.*'\nto = 's.{i-1}.*'\n"
      "[[rule]]\ntranspose = '*.w'\n"
      "[[rule]]\nreshape = '*.g'\nshape = [2, 2]\nwas = [4]\n"
      "[[rule]]\ncast = '*.w'\ndtype = 'f64'\nwas = 'f32'\n",
      "test");
  Checkpoint b = ckpt::apply_rules(a, rules);
  EXPECT_EQ(test::names(b), (std::vector<std::string>{"s.0.w", "s.0.g"}));
  Checkpoint c = ckpt::apply_rules(b, ckpt::reversed(rules));
  EXPECT_EQ(test::names(c), test::names(a));
  EXPECT_EQ(values_of(c, "layer1.w"), values_of(a, "layer1.w"));
  EXPECT_EQ(shape_of(c, "layer1.g"), (core::Shape{4}));
}

TEST(Rules, SayWhichRuleDoesNotTurnRound) {
  for (const char* text : {"[[rule]]\ndrop = 'a'\n", "[[rule]]\nreshape = 'a'\nshape = [1]\n",
                           "[[rule]]\ncast = 'a'\ndtype = 'bf16'\nwas = 'f32'\n", "[[rule]]\ntie = 'a'\nto = 'b'\n",
                           "[[rule]]\nrename = 'a.*'\nto = 'b'\n"}) {
    try {
      ckpt::reversed(ckpt::parse_rules(text, "test"));
      ADD_FAILURE() << text;
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), core::ErrorCode::unsupported);
      EXPECT_THAT(error.context()[0], testing::StartsWith("rule 1 ("));
    }
  }
}
