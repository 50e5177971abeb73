#include "libckpt/analyze/stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "libcore/base/half.h"
#include "tests/libckpt/transform/trees.h"

using ckpt::TensorStats;
using ckpt::Value;

namespace {

template <class T>
Value typed(core::DType dtype, const std::vector<T>& values, core::Shape shape) {
  ckpt::Entry entry;
  entry.dtype = dtype;
  entry.shape = std::move(shape);
  core::ByteVector raw;
  for (T value : values) core::append_le(raw, value);
  entry.bytes = ckpt::memory_source(std::move(raw));
  return Value::tensor(std::make_shared<ckpt::Entry>(std::move(entry)));
}

TensorStats stats_of(const Value& tensor) {
  return ckpt::stats(ckpt::list_entries(test::dict({{"w", tensor}}))).tensors.at(0).stats;
}

}  // namespace

TEST(Stats, CountsOneTensor) {
  TensorStats s = stats_of(test::tensor({-2, 0, 1, 5, NAN, INFINITY, -INFINITY, 1e-40F}));
  EXPECT_EQ(s.values, 8u);
  EXPECT_EQ(s.nan, 1u);
  EXPECT_EQ(s.inf, 2u);
  EXPECT_EQ(s.zeros, 1u);
  EXPECT_EQ(s.negative, 2u);
  EXPECT_EQ(s.denormals, 1u);
  EXPECT_EQ(s.min, -2);
  EXPECT_EQ(s.max, 5);
  EXPECT_NEAR(s.mean, 0.8, 1e-12);
  EXPECT_NEAR(s.deviation, std::sqrt((2.8 * 2.8 + 0.64 + 0.04 + 4.2 * 4.2 + 0.64) / 5), 1e-12);
  EXPECT_NEAR(s.norm, std::sqrt(30.0), 1e-12);
}

TEST(Stats, KnowsNarrowFloats) {
  TensorStats f8 = stats_of(typed<std::uint8_t>(core::DType::f8_e4m3fn, {0x38, 0xb8, 0x7f, 0x01}, {4}));
  EXPECT_EQ(f8.nan, 1u);
  EXPECT_EQ(f8.max, 1.0);
  EXPECT_EQ(f8.min, -1.0);
  EXPECT_EQ(f8.denormals, 1u);
  TensorStats half =
      stats_of(typed<std::uint16_t>(core::DType::bf16, {core::f32_to_bf16(3), core::f32_to_bf16(-1)}, {2}));
  EXPECT_EQ(half.mean, 1.0);
}

TEST(Stats, KnowsIntegersAndBools) {
  EXPECT_EQ(stats_of(typed<std::int64_t>(core::DType::i64, {-5, 7}, {2})).max, 7);
  TensorStats flags = stats_of(typed<std::uint8_t>(core::DType::boolean, {1, 0, 1, 1}, {4}));
  EXPECT_EQ(flags.mean, 0.75);
  EXPECT_EQ(flags.zeros, 1u);
}

TEST(Stats, TakesMagnitudesOfComplexNumbers) {
  TensorStats s = stats_of(typed<float>(core::DType::c64, {3, 4, 0, 0}, {2}));
  EXPECT_EQ(s.values, 2u);
  EXPECT_EQ(s.max, 5.0);
  EXPECT_EQ(s.zeros, 1u);
}

TEST(Stats, CountsPackedValues) {
  TensorStats s = stats_of(typed<std::uint8_t>(core::DType::f4_e2m1fn_x2, {0x20}, {1}));
  EXPECT_EQ(s.values, 2u);
  EXPECT_EQ(s.max, 1.0);
}

TEST(Stats, SaysWhatIsNoNumber) {
  EXPECT_FALSE(stats_of(typed<std::uint8_t>(core::DType::bits1x8, {1}, {1})).numbers);
  ckpt::Entry meta;
  meta.shape = {3};
  EXPECT_FALSE(stats_of(Value::tensor(std::make_shared<ckpt::Entry>(meta))).numbers);
}

TEST(Stats, HistogramsOfSmallTensorsAreExact) {
  std::vector<float> values(400);
  std::iota(values.begin(), values.end(), 0.0F);
  TensorStats s = stats_of(test::tensor(values));
  EXPECT_EQ(s.histogram.low, 0);
  EXPECT_EQ(s.histogram.high, 399);
  EXPECT_EQ(s.histogram.counts, std::vector<std::uint64_t>(40, 10));
}

TEST(Stats, HistogramsOfLargeTensorsAreClose) {
  std::vector<float> values(2'000'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 1e6F - 1;
  TensorStats s = stats_of(test::tensor(values));
  std::uint64_t all = std::accumulate(s.histogram.counts.begin(), s.histogram.counts.end(), std::uint64_t{0});
  EXPECT_EQ(all, values.size());
  for (std::uint64_t count : s.histogram.counts) EXPECT_NEAR(static_cast<double>(count), 50'000, 10'000);
  EXPECT_NEAR(s.mean, 0, 1e-5);
}

TEST(Stats, TotalCountsTiesOnceAndFloatsOnly) {
  Value shared = test::tensor({1, 2});
  Value integers = typed<std::int32_t>(core::DType::i32, {9}, {1});
  auto entries = ckpt::list_entries(test::dict({{"a", shared}, {"b", shared}, {"c", integers}}));
  ckpt::ModelStats model = ckpt::stats(entries);
  EXPECT_EQ(model.total.values, 2u);
  EXPECT_EQ(model.total.max, 2);
}

TEST(Stats, DoNotDependOnTheNumberOfThreads) {
  std::vector<float> values(3'000'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  auto entries = ckpt::list_entries(test::dict({{"w", test::tensor(values)}}));
  TensorStats one = ckpt::stats(entries, {.threads = 1}).total;
  TensorStats four = ckpt::stats(entries, {.threads = 4}).total;
  EXPECT_EQ(one.mean, four.mean);
  EXPECT_EQ(one.deviation, four.deviation);
  EXPECT_EQ(one.histogram.counts, four.histogram.counts);
}

TEST(Stats, EmptyTensorsHaveNoRange) {
  TensorStats s = stats_of(test::tensor({}));
  EXPECT_EQ(s.values, 0u);
  EXPECT_TRUE(s.histogram.counts.empty());
}
