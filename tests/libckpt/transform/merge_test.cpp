#include "libckpt/transform/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "libckpt/open_save.h"
#include "libckpt/transform/sparse_difference.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/views.h"
#include "tests/support/message_of.h"

namespace {

using ckpt::MergeMethod;
using testing::HasSubstr;

constexpr std::size_t kCount = 200'000;  // several blocks

ckpt::Checkpoint model_of(const std::vector<float>& values) {
  ckpt::Checkpoint model;
  model.root = test::dict({{"w", ckpt::Value::tensor(std::make_shared<ckpt::Entry>(test::float_entry(values)))}});
  return model;
}

std::vector<float> values_of(const ckpt::Checkpoint& checkpoint) {
  const core::ByteVector bytes = ckpt::read_all(*checkpoint.root.find("w")->as_entry().bytes);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

std::vector<float> ramp(float step) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = step * (static_cast<float>(i % 1000) + 1);
  return values;
}

ckpt::Checkpoint dare(std::uint64_t seed, double density = 0.3) {
  return ckpt::merge({model_of(std::vector<float>(kCount)), model_of(ramp(0.001F))},
                     {.method = MergeMethod::dare_linear, .densities = {density}, .seed = seed});
}

TEST(Merge, DareKeepsItsShareAndTheSumOfSizes) {
  const std::vector<float> before = ramp(0.001F);
  const std::vector<float> after = values_of(dare(1));
  const auto kept = std::count_if(after.begin(), after.end(), [](float value) { return value != 0; });
  EXPECT_NEAR(static_cast<double>(kept) / kCount, 0.3, 0.005);
  double sum_before = 0;
  double sum_after = 0;
  for (float value : before) sum_before += value;
  for (float value : after) sum_after += value;
  EXPECT_NEAR(sum_after / sum_before, 1, 1e-5);
}

TEST(Merge, DareDependsOnTheSeedAlone) {
  const ckpt::Checkpoint first = dare(1);
  const std::vector<float> whole = values_of(first);
  EXPECT_EQ(whole, values_of(dare(1)));
  EXPECT_NE(whole, values_of(dare(2)));
  // Whatever is read first, and in whatever pieces.
  const ckpt::Checkpoint again = dare(1);
  std::vector<float> piece(333);
  again.root.find("w")->as_entry().bytes->read(4 * 150'001, std::as_writable_bytes(std::span(piece)));
  EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + 150'001));
}

TEST(Merge, TiesKeepsTheFirstOfEqualValues) {
  const std::vector<float> values = {1, -3, 2, 2, 2, 0.5F};
  const ckpt::Checkpoint merged = ckpt::merge({model_of(std::vector<float>(6)), model_of(values)},
                                              {.method = MergeMethod::ties, .densities = {0.5}});
  EXPECT_EQ(values_of(merged), (std::vector<float>{0, -3, 2, 2, 0, 0}));
}

TEST(Merge, TiesFollowsTheSignWithMoreWeight) {
  const ckpt::Checkpoint merged =
      ckpt::merge({model_of({0, 0}), model_of({1, 1}), model_of({-3, 3})}, {.method = MergeMethod::ties});
  EXPECT_EQ(values_of(merged), (std::vector<float>{-3, 2}));
}

TEST(Merge, FindsTheLargestValuesAmongMany) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    values[i] = std::ldexp(1 + static_cast<float>(i) * 1e-6F, static_cast<int>(i * 7 % 40) - 20);
  const auto pieces = [&](const auto& take) {
    for (std::size_t at = 0; at < kCount; at += 777) {
      take(at, std::span<const float>(values).subspan(at, std::min<std::size_t>(777, kCount - at)));
    }
  };
  const ckpt::detail::Kept kept = ckpt::detail::largest_values(kCount, 0.123, true, pieces);
  std::vector<float> sorted = values;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const auto wanted = static_cast<std::size_t>(0.123 * kCount);
  std::size_t count = 0;
  double sum = 0;
  double all = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    all += values[i];
    if (!kept.has(values[i], i)) continue;
    ++count;
    sum += values[i];
    EXPECT_GE(values[i], sorted[wanted - 1]);
  }
  EXPECT_EQ(count, wanted);
  EXPECT_NEAR(kept.scale, all / sum, 1e-9);
}

TEST(Merge, RefusesNumbersThatMakeNoSense) {
  const ckpt::Checkpoint one = model_of({1});
  auto refused = [&](std::size_t count, const ckpt::MergeOptions& options) {
    return test::message_of([&] { ckpt::merge(std::vector<ckpt::Checkpoint>(count, one), options); });
  };
  EXPECT_THAT(refused(3, {.method = MergeMethod::slerp}), HasSubstr("slerp takes two models, not 3"));
  EXPECT_THAT(refused(1, {.method = MergeMethod::ties}), HasSubstr("ties takes a base and a model or more, not 0"));
  EXPECT_THAT(refused(2, {.weights = {1, 2, 3}}), HasSubstr("3 weights were given for 2 models"));
  EXPECT_THAT(refused(2, {.weights = {1, -1}}), HasSubstr("the weights add up to 0"));
  EXPECT_THAT(refused(2, {.method = MergeMethod::ties, .densities = {1.5}}), HasSubstr("the density 1.5"));
}

TEST(Merge, TakesIntegersOfTheFirstAndSaysWhichDiffer) {
  ckpt::Checkpoint a = model_of({1});
  ckpt::Checkpoint b = model_of({3});
  auto number = [](std::int64_t value) {
    auto entry = std::make_shared<ckpt::Entry>();
    entry->dtype = core::DType::i64;
    core::ByteVector bytes(8);
    core::store_le(bytes.data(), value);
    entry->bytes = ckpt::memory_source(std::move(bytes));
    return ckpt::Value::tensor(entry);
  };
  a.root = test::dict({{"w", *a.root.find("w")}, {"steps", number(5)}, {"same", number(1)}});
  b.root = test::dict({{"w", *b.root.find("w")}, {"steps", number(6)}, {"same", number(1)}});
  ckpt::MergeReport report;
  const ckpt::Checkpoint merged = ckpt::merge({a, b}, {}, &report);
  EXPECT_EQ(report.taken_first, std::vector<std::string>{"steps"});
  EXPECT_EQ(report.equal, 1U);
  EXPECT_EQ(values_of(merged), std::vector<float>{2});
}

}  // namespace
