#include "libckpt/analyze/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libckpt/analyze/plain_values.h"
#include "libcore/base/half.h"
#include "tests/libckpt/transform/trees.h"

using ckpt::Difference;
using ckpt::Value;
using testing::ElementsAre;
using Kind = ckpt::Difference::Kind;
using namespace test;

namespace {

std::vector<std::string> found(const ckpt::DiffResult& result) {
  std::vector<std::string> out;
  for (const Difference& d : result.differences) out.push_back(std::string(ckpt::name(d.kind)) + " " + d.name);
  return out;
}

Value typed(core::DType dtype, core::ByteVector bytes, core::Shape shape) {
  ckpt::Entry entry;
  entry.dtype = dtype;
  entry.shape = std::move(shape);
  entry.bytes = ckpt::memory_source(std::move(bytes));
  return Value::tensor(std::make_shared<ckpt::Entry>(std::move(entry)));
}

template <class T>
core::ByteVector raw(const std::vector<T>& values) {
  core::ByteVector out;
  for (T value : values) core::append_le(out, value);
  return out;
}

}  // namespace

TEST(Diff, FindsNothingInEqualFiles) {
  ckpt::DiffResult result = ckpt::diff(checkpoint(dict({{"a", tensor({1, 2})}, {"epoch", Value::integer(3)}})),
                                       checkpoint(dict({{"a", tensor({1, 2})}, {"epoch", Value::integer(3)}})));
  EXPECT_TRUE(result.equal());
  EXPECT_EQ(result.tensors_compared, 1u);
  EXPECT_EQ(result.tensors_equal, 1u);
  EXPECT_EQ(result.bytes_compared, 8u);
}

TEST(Diff, MatchesANestedFileWithAFlatOne) {
  EXPECT_TRUE(ckpt::diff(checkpoint(dict({{"model", dict({{"w", tensor({1})}})}})),
                         checkpoint(dict({{"model.w", tensor({1})}})))
                  .equal());
}

TEST(Diff, NamesKeysOfOneSideOnly) {
  ckpt::DiffResult result = ckpt::diff(checkpoint(state_dict({"a", "b"})), checkpoint(state_dict({"a", "c"})));
  EXPECT_THAT(found(result), ElementsAre("only_in_a b", "only_in_b c"));
  EXPECT_EQ(result.differences[0].a, "float32 [1]");
}

TEST(Diff, SeesDtypeAndShape) {
  ckpt::DiffResult result = ckpt::diff(checkpoint(dict({{"x", tensor({1, 2})}, {"y", tensor({1, 2})}})),
                                       checkpoint(dict({{"x", typed(core::DType::f64, raw<double>({1, 2}), {2})},
                                                        {"y", typed(core::DType::f32, raw<float>({1, 2}), {1, 2})}})));
  EXPECT_THAT(found(result), ElementsAre("dtype x", "shape y"));
  EXPECT_EQ(result.tensors_equal, 0u);
}

TEST(Diff, CountsDifferingBitsAndTheLargestDistance) {
  ckpt::DiffResult result = ckpt::diff(checkpoint(dict({{"w", tensor({1, 2, 0.0F, 4})}})),
                                       checkpoint(dict({{"w", tensor({1, 2.5F, -0.0F, 3})}})));
  ASSERT_THAT(found(result), ElementsAre("values w"));
  EXPECT_EQ(result.differences[0].elements, 4u);
  EXPECT_EQ(result.differences[0].differing, 3u);
  EXPECT_EQ(result.differences[0].max_difference, 1.0);
}

TEST(Diff, TreatsTheSameNanAsEqualAndAnotherAsDifferent) {
  auto nan = [](std::uint32_t bits) {
    return checkpoint(dict({{"w", typed(core::DType::f32, raw<std::uint32_t>({bits}), {1})}}));
  };
  EXPECT_TRUE(ckpt::diff(nan(0x7fa00001), nan(0x7fa00001)).equal());
  EXPECT_FALSE(ckpt::diff(nan(0x7fa00001), nan(0x7fe00001)).equal());
}

TEST(Diff, KnowsHalfComplexAndIntegerValues) {
  auto file = [](float half, float imaginary, std::int16_t integer) {
    return checkpoint(dict({{"h", typed(core::DType::bf16, raw<std::uint16_t>({core::f32_to_bf16(half)}), {1})},
                            {"c", typed(core::DType::c64, raw<float>({0, imaginary}), {1})},
                            {"i", typed(core::DType::i16, raw<std::int16_t>({integer}), {1})}}));
  };
  ckpt::DiffResult result = ckpt::diff(file(1, 2, 5), file(1.5F, -1, -5));
  ASSERT_EQ(result.differences.size(), 3u);
  EXPECT_EQ(result.differences[0].max_difference, 0.5);
  EXPECT_EQ(result.differences[1].max_difference, 3.0);
  EXPECT_EQ(result.differences[2].max_difference, 10.0);
}

TEST(Diff, ComparesLogicalValuesOfLazyNegation) {
  ckpt::Entry negated = float_entry({1, -2});
  negated.negative = true;
  Value lazy = Value::tensor(std::make_shared<ckpt::Entry>(negated));
  EXPECT_TRUE(ckpt::diff(checkpoint(dict({{"w", lazy}})), checkpoint(dict({{"w", tensor({-1, 2})}}))).equal());
  EXPECT_FALSE(ckpt::diff(checkpoint(dict({{"w", lazy}})), checkpoint(dict({{"w", tensor({1, -2})}}))).equal());
}

TEST(Diff, ComparesBeyondOnePiece) {
  std::vector<float> big(600'000, 1.0F);
  std::vector<float> other = big;
  other.back() = 3;
  ckpt::DiffResult result =
      ckpt::diff(checkpoint(dict({{"w", tensor(big)}})), checkpoint(dict({{"w", tensor(other)}})));
  ASSERT_EQ(result.differences.size(), 1u);
  EXPECT_EQ(result.differences[0].differing, 1u);
  EXPECT_EQ(result.differences[0].max_difference, 2.0);
}

TEST(Diff, ComparesPlainValues) {
  ckpt::DiffResult result = ckpt::diff(
      checkpoint(dict({{"epoch", Value::integer(3)}, {"lr", Value::real(0.1)}, {"n", Value::real(NAN)}})),
      checkpoint(dict({{"epoch", Value::integer(4)}, {"flag", Value::boolean(true)}, {"n", Value::real(NAN)}})));
  EXPECT_THAT(found(result), ElementsAre("only_in_a lr", "only_in_b flag", "plain_value epoch"));
  EXPECT_EQ(result.differences[2].a, "3");
  EXPECT_EQ(result.differences[2].b, "4");
}

TEST(Diff, NotesOrderLocationAndMetadataUnlessTheyCount) {
  ckpt::Checkpoint a = checkpoint(dict({{"x", tensor({1}, "cuda:0")}, {"y", tensor({2})}}));
  ckpt::Checkpoint b = checkpoint(dict({{"y", tensor({2})}, {"x", tensor({1})}}));
  b.metadata = {{"format", "pt"}};
  ckpt::DiffResult result = ckpt::diff(a, b);
  EXPECT_TRUE(result.equal());
  EXPECT_EQ(result.notes.size(), 3u);
  EXPECT_THAT(found(ckpt::diff(a, b, {.order = true, .metadata = true, .locations = true})),
              ElementsAre("location x", "order tensors", "metadata metadata format"));
}

TEST(Diff, CountsProgressToTheEnd) {
  std::uint64_t last = 0;
  std::uint64_t total = 0;
  ckpt::Checkpoint a = checkpoint(state_dict({"a", "b"}));
  ckpt::diff(a, a, {.progress = [&](std::uint64_t done, std::uint64_t all) {
               last = done;
               total = all;
             }});
  EXPECT_EQ(last, 8u);
  EXPECT_EQ(total, 8u);
}

TEST(PlainValues, AreListedWithDottedNames) {
  Value root = dict({{"epoch", Value::integer(3)},
                     {"model", state_dict({"w"})},
                     {"betas", Value::tuple({Value::real(0.9), Value::real(0.999)})},
                     {"empty", Value::list({})}});
  std::vector<std::string> seen;
  for (const ckpt::NamedValue& v : ckpt::list_plain_values(root))
    seen.push_back(v.name + "=" + ckpt::value_text(v.value));
  EXPECT_THAT(seen, ElementsAre("epoch=3", "betas.0=0.9", "betas.1=0.999", "empty=[]"));
}

TEST(PlainValues, PrintAsPythonDoesAndStayOnOneLine) {
  EXPECT_EQ(ckpt::value_text(Value::text("a\nb")), "'a\\nb'");
  EXPECT_EQ(ckpt::value_text(Value::real(1)), "1.0");
  EXPECT_EQ(ckpt::value_text(Value::boolean(false)), "False");
  EXPECT_EQ(ckpt::value_text(Value::tuple({Value::integer(1)})), "(1,)");
  EXPECT_EQ(ckpt::value_text(Value()), "None");
  ckpt::Object size;
  size.symbol = "torch.Size";
  size.form = ckpt::Object::Form::call;
  size.args = Value::tuple({Value::list({Value::integer(2), Value::integer(3)})});
  EXPECT_EQ(ckpt::value_text(Value::object(size)), "torch.Size([2, 3])");
  EXPECT_EQ(ckpt::value_text(Value::list(Value::List(100, Value::integer(1))), 10), "[1, 1, ...");
}
