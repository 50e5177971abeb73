// The plan of a save by many ranks: who writes what, and what does not fit.
#include "libckpt/dist/plan.h"

#include <gmock/gmock.h>

#include "tests/libckpt/dist/samples.h"

namespace {

using ckpt::dist::LocalPlan;
using ckpt::dist::Plan;
using testing::HasSubstr;

LocalPlan plan_of(const ckpt::Value& state, const ckpt::dist::Pieces& pieces = {}) {
  return ckpt::dist::decode_plan(ckpt::dist::encode_plan(ckpt::dist::local_plan(state, pieces)));
}

std::string merge_error(const std::vector<LocalPlan>& plans) {
  return test::said_by([&] { ckpt::dist::merge_plans(plans); });
}

ckpt::dist::Pieces piece(const core::Shape& whole, const core::Shape& offset) {
  return {{"w", {whole, offset, {}}}};
}

TEST(DistPlan, APlanComesThroughAMessage) {
  LocalPlan made = ckpt::dist::local_plan(test::sample_part(1, 3, 1), test::sample_pieces(1, 3));
  LocalPlan read = ckpt::dist::decode_plan(ckpt::dist::encode_plan(made));
  ASSERT_EQ(read.items.size(), made.items.size());
  for (std::size_t i = 0; i < made.items.size(); ++i) {
    EXPECT_EQ(read.items[i].item.name, made.items[i].item.name);
    EXPECT_EQ(read.items[i].item.path, made.items[i].item.path);
    EXPECT_EQ(read.items[i].item.shape, made.items[i].item.shape);
    EXPECT_EQ(read.items[i].box.offsets, made.items[i].box.offsets);
    EXPECT_EQ(read.items[i].box.sizes, made.items[i].box.sizes);
  }
}

TEST(DistPlan, ACutMessageIsRefused) {
  std::string text = ckpt::dist::encode_plan(ckpt::dist::local_plan(test::sample_whole(1), {}));
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_THROW(ckpt::dist::decode_plan(text.substr(0, size)), core::Error) << size;
  }
}

TEST(DistPlan, WhatAllHaveIsWrittenOnceAndSpreadByBytes) {
  ckpt::Value state = test::dict({{"a", test::matrix(0, {100})},
                                  {"b", test::matrix(0, {60})},
                                  {"c", test::matrix(0, {50})},
                                  {"d", ckpt::Value(7)}});
  Plan plan = ckpt::dist::merge_plans({plan_of(state), plan_of(state)});
  ASSERT_EQ(plan.items.size(), 4U);
  for (const ckpt::dist::PlannedItem& item : plan.items) {
    EXPECT_EQ(item.owners.size(), 1U) << item.item.name;
    EXPECT_EQ(item.replicas, std::vector<std::uint32_t>{2}) << item.item.name;
  }
  EXPECT_EQ(plan.load, (std::vector<std::uint64_t>{400, 440}));
}

// As on a mesh whose other dimension replicates, and where ranks are numbered from the end.
TEST(DistPlan, PiecesMayComeInAnyOrderAndSeveralTimes) {
  ckpt::Value two = test::dict({{"w", test::matrix(0, {2})}});
  for (const std::vector<std::int64_t>& places : std::vector<std::vector<std::int64_t>>{
           {0, 2, 4, 0, 2, 4}, {4, 2, 0, 4, 2, 0}, {4, 4, 0, 0, 2, 2}, {0, 4, 2, 2, 4, 0}}) {
    std::vector<LocalPlan> plans;
    for (std::int64_t place : places) plans.push_back(plan_of(two, piece({6}, {place})));
    Plan plan = ckpt::dist::merge_plans(plans);
    const ckpt::dist::PlannedItem& item = plan.items.at(0);
    ASSERT_EQ(item.item.chunks.size(), 3U);
    EXPECT_EQ(item.replicas, (std::vector<std::uint32_t>{2, 2, 2}));
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(places[item.owners[k]], item.item.chunks[k].offsets[0]) << "a rank writes what it does not have";
    }
    plans.push_back(plan_of(two, piece({6}, {1})));
    EXPECT_THAT(merge_error(plans), HasSubstr("overlap"));
  }
}

TEST(DistPlan, RanksThatDisagreeAreNamed) {
  ckpt::Value four = test::dict({{"w", test::matrix(0, {4})}});
  ckpt::Value five = test::dict({{"w", test::matrix(0, {5})}});
  ckpt::Value text = test::dict({{"w", ckpt::Value("x")}});
  EXPECT_THAT(merge_error({plan_of(four), plan_of(five)}),
              HasSubstr("'w': rank 1 has float32 [5] where rank 0 has float32 [4]"));
  EXPECT_THAT(merge_error({plan_of(four), plan_of(four), plan_of(text)}),
              HasSubstr("'w': rank 2 has a value that is no tensor where rank 0 has float32 [4]"));
}

TEST(DistPlan, PiecesMustFillTheTensorOnce) {
  ckpt::Value two = test::dict({{"w", test::matrix(0, {2})}});
  EXPECT_THAT(merge_error({plan_of(two, piece({5}, {0})), plan_of(two, piece({5}, {3}))}),
              HasSubstr("'w' (the pieces of rank 0, 1): its chunks hold 4 of 5 elements"));
  EXPECT_THAT(merge_error({plan_of(two, piece({3}, {0})), plan_of(two, piece({3}, {1}))}), HasSubstr("overlap"));
  EXPECT_THAT(test::said_by([&] { plan_of(two, piece({3}, {2})); }),
              HasSubstr("'w': its piece [2] at [2] reaches outside"));
  EXPECT_THAT(test::said_by([&] { plan_of(two, {{"v", {{2}, {0}, {}}}}); }), HasSubstr("there is no tensor"));
}

TEST(DistPlan, ShardIsPyTorchsRule) {
  EXPECT_EQ(ckpt::dist::shard({7, 3}, 0, 2, 3).offset, (core::Shape{6, 0}));
  EXPECT_EQ(ckpt::dist::shard({7, 3}, 0, 2, 3).sizes, (core::Shape{1, 3}));
  EXPECT_EQ(ckpt::dist::shard({1, 3}, 0, 1, 2).sizes, (core::Shape{0, 3}));
  EXPECT_EQ(ckpt::dist::shard({4, 6}, -1, 1, 4).offset, (core::Shape{0, 2}));
  EXPECT_THROW(ckpt::dist::shard({4}, 1, 0, 2), core::Error);
}

}  // namespace
