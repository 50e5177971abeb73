#include "libckpt/transform/average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libckpt/transform/cast_values.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/views.h"

using ckpt::AverageReport;
using ckpt::Value;
using core::DType;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;

namespace {

core::Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error;
  }
  return {core::ErrorCode::internal, "no error"};
}

Value typed(const std::vector<float>& values, DType dtype) {
  ckpt::Entry entry = float_entry(values);
  entry.bytes = ckpt::cast_source(entry.bytes, DType::f32, dtype);
  entry.dtype = dtype;
  return Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry)));
}

ckpt::Checkpoint model(const std::vector<float>& values) {
  return checkpoint(dict({{"w", tensor(values)}}));
}

}  // namespace

TEST(Average, IsTheMeanRoundedOnce) {
  ckpt::Checkpoint mean = ckpt::average({model({1, 0.1F}), model({2, 0.2F}), model({6, 0.4F})});
  double sum = static_cast<double>(0.1F) + static_cast<double>(0.2F) + static_cast<double>(0.4F);
  EXPECT_THAT(values_at(mean.root, "w"), ElementsAre(3, static_cast<float>(sum / 3)));
}

TEST(Average, WeightsAreDividedByTheirSum) {
  ckpt::Checkpoint mean = ckpt::average({model({1}), model({5})}, {.weights = {3, 1}});
  EXPECT_THAT(values_at(mean.root, "w"), ElementsAre(2));
}

TEST(Average, AFileThatCountsNothingSpoilsNothing) {
  ckpt::Checkpoint mean = ckpt::average({model({1}), model({NAN}), model({3})}, {.weights = {1, 0, 1}});
  EXPECT_THAT(values_at(mean.root, "w"), ElementsAre(2));
}

TEST(Average, MovesInTheOrderGiven) {
  ckpt::Checkpoint moved = ckpt::average({model({8}), model({4}), model({0})}, {.ema_decay = 0.5});
  EXPECT_THAT(values_at(moved.root, "w"), ElementsAre(3));
}

TEST(Average, KeepsNarrowTypesAndRoundsToThem) {
  auto file = [](float value) {
    return checkpoint(dict({{"h", typed({value}, DType::bf16)}, {"f", typed({value}, DType::f16)}}));
  };
  ckpt::Checkpoint mean = ckpt::average({file(1), file(1.0078125F)});
  EXPECT_EQ(ckpt::value_at(mean.root, "h").as_entry().dtype, DType::bf16);
  auto half = core::load_le<std::uint16_t>(ckpt::read_all(*ckpt::value_at(mean.root, "h").as_entry().bytes).data());
  EXPECT_EQ(half, 0x3f80);  // 1.00390625 lies half-way: to even
  EXPECT_EQ(core::load_le<std::uint16_t>(ckpt::read_all(*ckpt::value_at(mean.root, "f").as_entry().bytes).data()),
            0x3c04);
}

TEST(Average, ReadsAnywhereInPieces) {
  std::vector<float> a(70'000);
  std::vector<float> b(70'000);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(3 * i);
  }
  ckpt::Checkpoint mean = ckpt::average({model(a), model(b)});
  const ckpt::Entry& entry = ckpt::value_at(mean.root, "w").as_entry();
  core::ByteVector whole = ckpt::read_all(*entry.bytes);
  core::ByteVector part(140'001);
  entry.bytes->read(131'070, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 131'070));
  EXPECT_EQ(core::load_le<float>(whole.data() + 4 * 69'999), 2 * 69'999.0F);
  EXPECT_THROW(entry.bytes->read(280'000, part), core::Error);
}

TEST(Average, IntegersMustAgreeOrTheLastCounts) {
  auto file = [](float count, float same) {
    return checkpoint(dict({{"bn.running_mean", tensor({0})},
                            {"bn.num_batches_tracked", typed({count}, DType::i64)},
                            {"ids", typed({same}, DType::i64)}}));
  };
  AverageReport report;
  ckpt::Checkpoint mean = ckpt::average({file(5, 7), file(9, 7)}, {}, &report);
  EXPECT_THAT(report.taken_last, ElementsAre("bn.num_batches_tracked"));
  EXPECT_THAT(report.norm_buffers, ElementsAre("bn.running_mean"));
  EXPECT_EQ(report.averaged, 1u);
  EXPECT_EQ(report.equal, 1u);
  const ckpt::Entry& count = ckpt::value_at(mean.root, "bn.num_batches_tracked").as_entry();
  EXPECT_EQ(core::load_le<std::int64_t>(ckpt::read_all(*count.bytes).data()), 9);
}

TEST(Average, TiedNamesStayTied) {
  auto file = [](float value) {
    ckpt::Entry entry = float_entry({value});
    auto second = std::make_shared<const ckpt::Entry>(entry);
    return checkpoint(
        dict({{"a", Value::tensor(std::make_shared<const ckpt::Entry>(entry))}, {"b", Value::tensor(second)}}));
  };
  ckpt::Checkpoint mean = ckpt::average({file(1), file(2)});
  EXPECT_EQ(ckpt::value_at(mean.root, "a").as_entry().bytes, ckpt::value_at(mean.root, "b").as_entry().bytes);
}

TEST(Average, TakesTheModelOutOfTrainingFiles) {
  ckpt::Checkpoint training = checkpoint(dict({{"epoch", Value::integer(1)}, {"model", state_dict({"w"}, {"", "w"})}}));
  ckpt::Checkpoint mean = ckpt::average({training, training});
  EXPECT_THAT(names(mean), ElementsAre("w"));
  EXPECT_THAT(modules(mean.root), ElementsAre("", "w"));
  ckpt::Checkpoint both = checkpoint(dict({{"a", state_dict({"w"})}, {"b", state_dict({"w"})}}));
  EXPECT_EQ(error_of([&] { ckpt::average({both, both}); }).code(), core::ErrorCode::usage);
  EXPECT_THAT(names(ckpt::average({both, training}, {.at = {"b", "model"}})), ElementsAre("w"));
}

TEST(Average, RefusesModelsThatDifferAndListsHow) {
  ckpt::Checkpoint first = checkpoint(dict({{"a", tensor({1})}, {"b", tensor({1, 2})}, {"c", tensor({1})}}));
  ckpt::Checkpoint other = checkpoint(dict({{"b", tensor({1})}, {"c", typed({1}, DType::f16)}, {"d", tensor({1})}}));
  core::Error error = error_of([&] { ckpt::average({first, other}); });
  EXPECT_EQ(error.code(), core::ErrorCode::refused);
  EXPECT_THAT(error.what(),
              HasSubstr("checkpoint 2: does not fit the first checkpoint: 'a' is missing; 'b' is float32 [1] "
                        "where the first has float32 [2]; 'c' is float16 [1] where the first has float32 "
                        "[1]; 'd' is not in the first"));
}

TEST(Average, RefusesNumbersThatMakeNoSense) {
  auto code = [](const ckpt::AverageOptions& options) {
    return error_of([&] { ckpt::average({model({1}), model({1})}, options); }).code();
  };
  EXPECT_EQ(code({.weights = {1}}), core::ErrorCode::usage);
  EXPECT_EQ(code({.weights = {1, -1}}), core::ErrorCode::usage);
  EXPECT_EQ(code({.weights = {0, 0}}), core::ErrorCode::usage);
  EXPECT_EQ(code({.weights = {1, NAN}}), core::ErrorCode::usage);
  EXPECT_EQ(code({.ema_decay = 1}), core::ErrorCode::usage);
  EXPECT_EQ(code({.weights = {1, 1}, .ema_decay = 0.5}), core::ErrorCode::usage);
  EXPECT_EQ(error_of([] { ckpt::average({model({1})}); }).code(), core::ErrorCode::usage);
}
