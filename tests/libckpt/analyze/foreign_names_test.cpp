#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/analyze/why.h"
#include "libckpt/analyze/why/fix.h"
#include "libckpt/analyze/why/window_table.h"
#include "tests/libckpt/analyze/why/model.h"

using ckpt::CauseKind;
using ckpt::Diagnosis;
using ckpt::RulePack;
using ckpt::Value;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using namespace test;

namespace {

const Parts kModel = {{"body.0.left", {2, 2}}, {"body.0.right", {2, 2}}, {"head.weight", {3, 2}}};

RulePack pack(const std::string& name, const std::string& about, const std::string& pairs) {
  return ckpt::parse_rule_pack(
      "[about]\nfrom = \"" + name + "\"\nto = \"ours\"\n" + about + "[[rule]]\nrename = [" + pairs + "]\n",
      name + "-net");
}

/// Theirs: x.0.a, x.0.b, y.weight.
RulePack theirs(const std::string& name = "theirs", const std::string& a = "left", const std::string& b = "right") {
  return pack(name, "from_key = \"x.0.a\"\nto_key = \"body.0.left\"\n",
              "[\"x.{#i}.a\", \"body.{i}." + a + "\"], [\"x.{#i}.b\", \"body.{i}." + b + "\"], [\"y.*\", \"head.*\"]");
}

Value their_file(const std::string& prefix = "") {
  return build(kModel, [prefix](const std::string& key) {
    if (key == "head.weight") return prefix + "y.weight";
    return prefix + (key == "body.0.left" ? "x.0.a" : "x.0.b");
  });
}

Diagnosis diagnose(const Value& root, const std::vector<RulePack>& packs, const Parts& model = kModel) {
  ckpt::Checkpoint file;
  file.root = root;
  ckpt::WhyOptions options;
  options.wanted = {wanted(model)};
  options.packs = [&]() -> const std::vector<RulePack>& { return packs; };
  return ckpt::why({&file, "net.pth", {}, {}}, options);
}

std::vector<std::string> steps_of(const Diagnosis& d) {
  std::vector<std::string> out;
  for (const ckpt::FixStep& step : d.plan.steps) out.push_back(step.text);
  return out;
}

}  // namespace

TEST(ForeignNames, NameTheProjectAndTheCommand) {
  Diagnosis d = diagnose(their_file(), {theirs()});
  ASSERT_THAT(d.causes, SizeIs(1));
  EXPECT_EQ(d.causes[0].kind, CauseKind::foreign_names);
  EXPECT_EQ(d.causes[0].text, "3 of 3 keys are as theirs has them, where the model has those of ours");
  EXPECT_TRUE(d.fixable());
  EXPECT_FALSE(d.guesses());
  EXPECT_EQ(ckpt::command_line(d), "ckpt rename --rules theirs-net net.pth -o net.fixed.pth");
}

TEST(ForeignNames, GoBothWays) {
  Parts model = {{"x.0.a", {2, 2}}, {"x.0.b", {2, 2}}, {"y.weight", {3, 2}}};
  Diagnosis d = diagnose(build(kModel), {theirs()}, model);
  EXPECT_TRUE(d.fixable());
  EXPECT_THAT(steps_of(d), ElementsAre("from ours's names to theirs's (rules theirs-net, backwards)"));
  EXPECT_EQ(ckpt::command_line(d), "ckpt rename --rules theirs-net --reverse net.pth -o net.fixed.pth");
}

/// Both packs bring every key to a partner of its shape, and they exchange two of them.
TEST(ForeignNames, ThatFitTwoPacksAreRefused) {
  Diagnosis d = diagnose(their_file(), {theirs(), theirs("others", "right", "left")});
  ASSERT_FALSE(d.causes.empty());
  EXPECT_FALSE(d.fixable());
  EXPECT_TRUE(d.plan.empty());
  EXPECT_EQ(d.causes[0].text,
            "the keys may be theirs's (rules theirs-net) or others's (rules others-net), which give the tensors other "
            "names");
  EXPECT_EQ(d.causes[0].advice, "say which: ckpt rename --rules theirs-net, or ckpt rename --rules others-net");
}

TEST(ForeignNames, OfTwoPacksThatSayTheSameTheFirstCounts) {
  Diagnosis d = diagnose(their_file(), {theirs(), theirs("twin")});
  EXPECT_TRUE(d.fixable());
  EXPECT_EQ(d.plan.steps.at(0).at, "theirs-net");
}

TEST(ForeignNames, AreFoundBehindWrappersAndBranches) {
  EXPECT_THAT(steps_of(diagnose(their_file("module."), {theirs()})),
              ElementsAre("strip 'module.'", HasSubstr("theirs-net")));
  EXPECT_THAT(steps_of(diagnose(their_file("backbone."), {theirs()})),
              ElementsAre("strip 'backbone.'", HasSubstr("theirs-net")));
}

TEST(ForeignNames, GetThePrefixThatABareModelLacks) {
  RulePack prefixed = pack("theirs", "from_key = \"net.x.0.a\"\nto_key = \"body.0.left\"\nfrom_prefix = \"net.\"\n",
                           R"(["net.x.{#i}.a", "body.{i}.left"], ["net.x.{#i}.b", "body.{i}.right"],
                              ["net.y.*", "head.*"])");
  EXPECT_THAT(steps_of(diagnose(their_file(), {prefixed})), ElementsAre("add 'net.'", HasSubstr("theirs-net")));
  Parts bare = {{"x.0.a", {2, 2}}, {"x.0.b", {2, 2}}, {"y.weight", {3, 2}}};
  EXPECT_THAT(steps_of(diagnose(build(kModel), {prefixed}, bare)),
              ElementsAre(HasSubstr("theirs-net, backwards"), "strip 'net.'"));
}

TEST(ForeignNames, MayNeedTwoPacks) {
  RulePack between =
      pack("theirs", "from_key = \"x.0.a\"\nto_key = \"mid.0.a\"\n", R"(["x.{#i}.*", "mid.{i}.*"], ["y.*", "end.*"])");
  RulePack ours = pack("middle", "from_key = \"mid.0.a\"\nto_key = \"body.0.left\"\n",
                       R"(["mid.{#i}.a", "body.{i}.left"], ["mid.{#i}.b", "body.{i}.right"], ["end.*", "head.*"])");
  Diagnosis d = diagnose(their_file(), {between, ours});
  EXPECT_THAT(steps_of(d), ElementsAre(HasSubstr("theirs-net"), HasSubstr("middle-net")));
  EXPECT_TRUE(d.fixable());
  EXPECT_THAT(d.causes[0].evidence, ElementsAre("'x.0.a' becomes 'body.0.left'"));
}

TEST(ForeignNames, LeaveOtherSizesToTheirOwnCauses) {
  Parts model = kModel;
  model[2].shape = {10, 2};
  Diagnosis d = diagnose(their_file(), {theirs()}, model);
  ASSERT_THAT(d.causes, SizeIs(2));
  EXPECT_EQ(d.causes[0].kind, CauseKind::foreign_names);
  EXPECT_THAT(d.mismatched, SizeIs(0));
  EXPECT_THAT(d.missing, ElementsAre("head.weight"));
}

/// GPT-2's blocks have the same names in both projects; one matrix is square.
TEST(ForeignNames, TheLayoutAloneTellsTheWay) {
  RulePack nano = ckpt::parse_rule_pack(
      "[about]\nfrom = \"hf\"\nto = \"nano\"\nfrom_key = \"transformer.h.0.attn.c_attn.weight\"\nto_key = "
      "\"transformer.h.0.attn.c_attn.weight\"\nfrom_shape = [1, 3]\nto_shape = [3, 1]\n[[rule]]\ntranspose = "
      "\"*.c_attn.weight\"\n[[rule]]\ntranspose = \"*.c_proj.weight\"\n[[rule]]\ntranspose = \"*.c_fc.weight\"\n",
      "nano");
  Diagnosis there = diagnose(build(small_gpt(2)), {nano}, small_nanogpt(2));
  EXPECT_THAT(steps_of(there), ElementsAre("from hf's names to nano's (rules nano)"));
  EXPECT_TRUE(there.fixable());
  Diagnosis back = diagnose(build(small_nanogpt(2)), {nano}, small_gpt(2));
  EXPECT_THAT(steps_of(back), ElementsAre("from nano's names to hf's (rules nano, backwards)"));
}

/// Values of a window of 2 as torchvision's Swin has them.
TEST(WindowTable, SaysWhichBiasBelongsToTwoPlaces) {
  core::ByteVector bytes = ckpt::detail::window_table(2);
  std::vector<std::int64_t> values(bytes.size() / sizeof(std::int64_t));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(values.data()));
  EXPECT_THAT(values, ElementsAre(4, 3, 1, 0, 5, 4, 2, 1, 7, 6, 4, 3, 8, 7, 5, 4));
  EXPECT_EQ(ckpt::detail::window_of({169, 3}, {2401}), 7);
  EXPECT_EQ(ckpt::detail::window_of({169, 3}, {49, 49}), 7);
  EXPECT_EQ(ckpt::detail::window_of({169, 3}, {2400}), 0);
  EXPECT_EQ(ckpt::detail::window_of({170, 3}, {2401}), 0);
}

TEST(WindowTable, IsAddedWhereTheModelWantsIt) {
  Parts model = {{"attn.relative_position_bias_table", {9, 2}},
                 {"attn.relative_position_index", {16}, core::DType::i64},
                 {"attn.proj.weight", {2, 2}}};
  Value root = build({model[0], model[2]});
  Diagnosis d = diagnose(root, {}, model);
  ASSERT_THAT(d.causes, SizeIs(1));
  EXPECT_EQ(d.causes[0].kind, CauseKind::missing_tables);
  ckpt::Checkpoint file;
  file.root = root;
  ckpt::Checkpoint fixed = ckpt::apply_fix(file, d.plan);
  const auto& items = fixed.root.as_dict().items;
  EXPECT_EQ(ckpt::step_text(items[1].first), "attn.relative_position_index");
  core::ByteVector bytes = ckpt::read_all(*items[1].second.as_entry().bytes);
  EXPECT_EQ(bytes, ckpt::detail::window_table(2));
}
