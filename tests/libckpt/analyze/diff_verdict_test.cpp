#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "libckpt/analyze/diff.h"
#include "libckpt/transform/cast.h"
#include "libckpt/transform/rules.h"
#include "tests/libckpt/transform/trees.h"

using ckpt::Checkpoint;
using ckpt::Value;
using test::dict;
using testing::Contains;
using testing::ElementsAre;

namespace {

Value matrix(float seed, core::Shape shape = {4, 3}) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = seed + static_cast<float>(i) * 0.1F;
  ckpt::Entry entry = test::float_entry(values);
  entry.shape = shape;
  return Value::tensor(std::make_shared<ckpt::Entry>(entry));
}

Checkpoint model() {
  return test::checkpoint(dict({{"fc1.weight", matrix(1)}, {"fc1.bias", matrix(2, {4})}, {"fc2.weight", matrix(-3)}}));
}

Checkpoint changed(const std::string& rules) {
  return ckpt::apply_rules(model(), ckpt::parse_rules(rules, "test"));
}

std::vector<std::string> verdicts(const Checkpoint& a, const Checkpoint& b) {
  return ckpt::diff(a, b).verdicts;
}

}  // namespace

TEST(DiffVerdict, Same) {
  EXPECT_THAT(verdicts(model(), model()), ElementsAre("A and B are the same"));
}

TEST(DiffVerdict, Cast) {
  Checkpoint half = ckpt::cast(model(), {.to = core::DType::bf16});
  EXPECT_THAT(verdicts(model(), half), ElementsAre("B is A cast to bfloat16"));
  EXPECT_THAT(verdicts(half, model()), ElementsAre("A is B cast to bfloat16"));
  EXPECT_THAT(verdicts(model(), changed("[[rule]]\ncast = 'fc1'\ndtype = 'f16'\n")),
              ElementsAre("B is A with 2 of 3 tensors cast to float16"));
}

TEST(DiffVerdict, Rounded) {
  Checkpoint back = ckpt::cast(ckpt::cast(model(), {.to = core::DType::bf16}), {.to = core::DType::f32});
  EXPECT_THAT(verdicts(model(), back), ElementsAre("B is A rounded to bfloat16"));
}

TEST(DiffVerdict, OneTensorTransposed) {
  EXPECT_THAT(verdicts(model(), changed("[[rule]]\ntranspose = 'fc1.weight'\n")),
              ElementsAre("only one tensor differs: 'fc1.weight' is transposed"));
}

TEST(DiffVerdict, ASquareTensorTransposed) {
  Checkpoint a = test::checkpoint(dict({{"w", matrix(1, {3, 3})}}));
  Checkpoint b = ckpt::apply_rules(a, ckpt::parse_rules("[[rule]]\ntranspose = 'w'\n", "t"));
  EXPECT_THAT(verdicts(a, b), ElementsAre("only one tensor differs: 'w' is transposed"));
}

TEST(DiffVerdict, Reshaped) {
  EXPECT_THAT(verdicts(model(), changed("[[rule]]\nreshape = 'fc1.weight'\nshape = [4, 3, 1, 1]\n")),
              ElementsAre("only one tensor differs: 'fc1.weight' is reshaped"));
}

TEST(DiffVerdict, RowsAdded) {
  Checkpoint a = test::checkpoint(dict({{"emb", matrix(1, {4, 2})}}));
  Checkpoint b = test::checkpoint(dict({{"emb", matrix(1, {6, 2})}}));
  EXPECT_THAT(verdicts(a, b), ElementsAre("only one tensor differs: 'emb' has rows added"));
}

TEST(DiffVerdict, KeysRenamed) {
  EXPECT_THAT(verdicts(model(), changed("[[rule]]\nrename = '*'\nto = 'module.*'\n")),
              ElementsAre("B is A with keys renamed: 'module.' is added"));
  EXPECT_THAT(verdicts(changed("[[rule]]\nrename = '*'\nto = 'module.*'\n"), model()),
              ElementsAre("B is A with keys renamed: 'module.' is removed"));
  EXPECT_THAT(verdicts(model(), changed("[[rule]]\nrename = 'fc1.bias'\nto = 'fc1.b'\n")),
              ElementsAre("B is A with keys renamed: 'fc1.bias' is 'fc1.b'"));
}

/// Every tensor of another name was told as gone and added, which says nothing of the prefix.
TEST(DiffVerdict, KeysRenamedWithOtherValues) {
  Checkpoint b = test::checkpoint(dict({{"module.fc1.weight", matrix(5)}, {"module.fc1.bias", matrix(6, {4})}}));
  Checkpoint a = test::checkpoint(dict({{"fc1.weight", matrix(1)}, {"fc1.bias", matrix(2, {4})}}));
  EXPECT_THAT(verdicts(a, b), ElementsAre("2 tensors with another name and other values: 'module.' is added; "
                                          "--ignore-prefix 'module.' compares them"));
}

/// NaN in one of two tensors that differ was said to be in both.
TEST(DiffVerdict, CountsTheTensorsThatHaveNan) {
  Checkpoint a = test::checkpoint(dict({{"a", test::tensor({1, 2})}, {"b", test::tensor({3})}}));
  Checkpoint b = test::checkpoint(dict({{"a", test::tensor({1, std::nanf("")})}, {"b", test::tensor({4})}}));
  EXPECT_THAT(verdicts(a, b), Contains("NaN: 0 in A, 1 in B (1 tensor)"));
}

TEST(DiffVerdict, LoraAdded) {
  Checkpoint b = model();
  ckpt::Dict with = b.root.as_dict();
  with.items.emplace_back(Value::text("fc1.lora_A.weight"), matrix(9));
  with.items.emplace_back(Value::text("fc1.lora_B.weight"), matrix(8));
  b.root = Value::dict(with);
  EXPECT_THAT(verdicts(model(), b), ElementsAre("only lora_* is added (2 tensors)"));
  EXPECT_THAT(verdicts(b, model()), ElementsAre("only lora_* is gone (2 tensors)"));
}

TEST(DiffVerdict, ABranchAdded) {
  Checkpoint b = model();
  ckpt::Dict with = b.root.as_dict();
  with.items.emplace_back(Value::text("head.a"), matrix(9));
  with.items.emplace_back(Value::text("head.b"), matrix(8));
  b.root = Value::dict(with);
  EXPECT_THAT(verdicts(model(), b), ElementsAre("only 'head' is added (2 tensors)"));
}

TEST(DiffVerdict, OnlyTheOptimizerDiffers) {
  auto training = [](float moment, int step) {
    Value state = dict({{"0", dict({{"exp_avg", matrix(moment)}})}});
    Value optimizer = dict({{"state", state}, {"param_groups", Value::list({})}});
    return test::checkpoint(dict({{"model", model().root}, {"optimizer", optimizer}, {"epoch", Value::integer(step)}}));
  };
  EXPECT_THAT(verdicts(training(1, 1), training(5, 1)), Contains("only the optimizer differs"));
  EXPECT_THAT(verdicts(training(1, 1), training(5, 2)), Contains("only the optimizer differs, and 1 plain value"));
  EXPECT_THAT(verdicts(training(1, 1), training(1, 2)),
              ElementsAre("same weights; only plain values differ (epoch 1 -> 2)"));
}

TEST(DiffVerdict, OnlyABranchDiffers) {
  Checkpoint b =
      test::checkpoint(dict({{"fc1.weight", matrix(1)}, {"fc1.bias", matrix(2, {4})}, {"fc2.weight", matrix(5)}}));
  EXPECT_THAT(verdicts(model(), b), Contains("only 'fc2' differs (1 tensor of 3)"));
}

TEST(DiffVerdict, OtherDeviceTags) {
  Checkpoint a = test::checkpoint(dict({{"w", test::tensor({1}, "cpu")}}));
  Checkpoint b = test::checkpoint(dict({{"w", test::tensor({1}, "cuda:1")}}));
  EXPECT_THAT(verdicts(a, b), ElementsAre("same weights, other device tags (cpu -> cuda:1)"));
}

TEST(DiffVerdict, Rounding) {
  Checkpoint a = test::checkpoint(dict({{"w", test::tensor({1.0F, 2.0F})}}));
  Checkpoint b = test::checkpoint(dict({{"w", test::tensor({std::nextafter(1.0F, 2.0F), 2.0F})}}));
  EXPECT_THAT(verdicts(a, b), ElementsAre("values differ by rounding (at most 1 unit in the last place)"));
}

TEST(DiffNumbers, SayHowFar) {
  Checkpoint a = test::checkpoint(dict({{"w", test::tensor({1.0F, 0.0F})}}));
  Checkpoint b = test::checkpoint(dict({{"w", test::tensor({2.0F, 0.0F})}}));
  ckpt::DiffResult result = ckpt::diff(a, b);
  EXPECT_EQ(result.differences[0].max_relative, 0.5);
  EXPECT_EQ(result.differences[0].max_ulp, 8'388'608u);
  EXPECT_NEAR(*result.differences[0].cosine, 1.0, 1e-12);
}

TEST(DiffNumbers, CosineCountsEqualPiecesToo) {
  std::vector<float> x(3'000'000, 1.0F);
  std::vector<float> y = x;
  y[0] = -1;
  ckpt::DiffResult result = ckpt::diff(test::checkpoint(dict({{"w", test::tensor(x)}})),
                                       test::checkpoint(dict({{"w", test::tensor(y)}})), {.verdicts = false});
  EXPECT_NEAR(*result.differences[0].cosine, 1 - 2.0 / 3e6, 1e-9);
}

TEST(DiffNumbers, ToleranceForgivesSmallDistances) {
  Checkpoint a = test::checkpoint(dict({{"w", test::tensor({1.0F, NAN})}}));
  Checkpoint b = test::checkpoint(dict({{"w", test::tensor({1.001F, -NAN})}}));
  EXPECT_FALSE(ckpt::diff(a, b).equal());
  EXPECT_TRUE(ckpt::diff(a, b, {.rtol = 0.01}).equal());
  EXPECT_FALSE(ckpt::diff(a, b, {.atol = 1e-5}).equal());
}

TEST(DiffScope, IgnoresPrefixes) {
  Checkpoint b = changed("[[rule]]\nrename = '*'\nto = 'module.*'\n");
  EXPECT_TRUE(ckpt::diff(model(), b, {.ignore_prefixes = {"module"}}).equal());
}

TEST(DiffScope, AppliesRulesToA) {
  ckpt::Rules rules = ckpt::parse_rules("[[rule]]\ntranspose = 'fc1.weight'\n", "t");
  EXPECT_TRUE(ckpt::diff(model(), ckpt::apply_rules(model(), rules), {.rules = rules}).equal());
}

TEST(DiffScope, ComparesOnlyWhatIsSelected) {
  Checkpoint b = changed("[[rule]]\ntranspose = 'fc1.weight'\n");
  EXPECT_TRUE(ckpt::diff(model(), b, {.selection = {.exclude = {"fc1.weight"}}}).equal());
  EXPECT_FALSE(ckpt::diff(model(), b, {.selection = {.include = {"*.weight"}}}).equal());
}

TEST(DiffScope, CountsOnlyTheKindsThatMatter) {
  Checkpoint b = changed("[[rule]]\ntranspose = 'fc1.weight'\n");
  ckpt::DiffResult result = ckpt::diff(model(), b, {.structure = false});
  EXPECT_TRUE(result.equal());
  EXPECT_EQ(result.notes.size(), 1u);
}

TEST(DiffScope, DoesNotDependOnTheNumberOfThreads) {
  std::vector<float> x(2'500'000);
  std::iota(x.begin(), x.end(), 0.5F);
  std::vector<float> y = x;
  for (std::size_t i = 0; i < y.size(); i += 3) y[i] *= 1.001F;
  Checkpoint a = test::checkpoint(dict({{"w", test::tensor(x)}}));
  Checkpoint b = test::checkpoint(dict({{"w", test::tensor(y)}}));
  ckpt::Difference one = ckpt::diff(a, b, {.threads = 1}).differences[0];
  ckpt::Difference four = ckpt::diff(a, b, {.threads = 4}).differences[0];
  EXPECT_EQ(one.cosine, four.cosine);
  EXPECT_EQ(one.max_relative, four.max_relative);
}
