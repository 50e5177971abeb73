// Expected values: the rules of PyTorch's caching allocator, worked out by hand.
#include "libcore/backend/caching_model.h"

#include <gtest/gtest.h>

namespace {

using core::CachingModel;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 40;

TEST(CachingModel, RoundsRequestsTo512Bytes) {
  CachingModel model;
  CachingModel::Block* block = model.allocate(24, kNoLimit);
  EXPECT_EQ(block->size, 512U);
  EXPECT_EQ(model.stats().requested_bytes.all.current, 24);
  EXPECT_EQ(model.stats().allocated_bytes.small_pool.current, 512);
  model.free(block);
  EXPECT_EQ(model.stats().allocated_bytes.all.current, 0);
  EXPECT_EQ(model.stats().allocated_bytes.all.freed, 512);
}

TEST(CachingModel, TakesSegmentsOfThreeKinds) {
  EXPECT_EQ(CachingModel::segment_size(0), 2 * kMiB);
  EXPECT_EQ(CachingModel::segment_size(kMiB), 2 * kMiB);
  EXPECT_EQ(CachingModel::segment_size(kMiB + 1), 20 * kMiB);
  EXPECT_EQ(CachingModel::segment_size(10 * kMiB - 512), 20 * kMiB);
  EXPECT_EQ(CachingModel::segment_size(10 * kMiB), 10 * kMiB);
  EXPECT_EQ(CachingModel::segment_size(11 * kMiB), 12 * kMiB);
}

TEST(CachingModel, CutsSmallBlocksFromOneSegment) {
  CachingModel model;
  CachingModel::Block* a = model.allocate(512, kNoLimit);
  CachingModel::Block* b = model.allocate(kMiB, kNoLimit);
  EXPECT_EQ(model.stats().segment.all.current, 1);
  EXPECT_EQ(b->address, a->address + 512);
  EXPECT_EQ(model.stats().inactive_split_bytes.all.current, static_cast<std::int64_t>(kMiB) - 512);
  CachingModel::Block* c = model.allocate(kMiB, kNoLimit);
  EXPECT_EQ(model.stats().segment.small_pool.current, 2);
  for (auto* block : {a, b, c}) model.free(block);
}

TEST(CachingModel, LargeBlocksAreCutOnlyWhereMoreThanAMebibyteIsLeft) {
  CachingModel model;
  CachingModel::Block* a = model.allocate(19 * kMiB, kNoLimit);  // a segment of 20 MiB, 1 MiB left
  EXPECT_EQ(a->size, 20 * kMiB);
  EXPECT_EQ(model.stats().inactive_split.all.current, 0);
  CachingModel::Block* b = model.allocate(3 * kMiB, kNoLimit);
  EXPECT_EQ(b->size, 3 * kMiB);
  EXPECT_EQ(model.stats().inactive_split_bytes.large_pool.current, static_cast<std::int64_t>(17 * kMiB));
  model.free(a);
  model.free(b);
}

TEST(CachingModel, FreeNeighboursJoin) {
  CachingModel model;
  CachingModel::Block* a = model.allocate(512, kNoLimit);
  CachingModel::Block* b = model.allocate(512, kNoLimit);
  CachingModel::Block* c = model.allocate(512, kNoLimit);
  model.free(a);
  EXPECT_EQ(model.stats().inactive_split.all.current, 2);  // a, and what follows c
  model.free(c);
  EXPECT_EQ(model.stats().inactive_split.all.current, 2);
  model.free(b);
  EXPECT_EQ(model.stats().inactive_split.all.current, 0);
  EXPECT_EQ(model.stats().inactive_split_bytes.all.current, 0);
  CachingModel::Block* d = model.allocate(kMiB, kNoLimit);
  EXPECT_EQ(d->address, 0U);
  model.free(d);
}

TEST(CachingModel, ServesFromTheSmallestBlockThatFits) {
  CachingModel model;
  CachingModel::Block* wide = model.allocate(1024, kNoLimit);
  CachingModel::Block* wall = model.allocate(512, kNoLimit);
  CachingModel::Block* narrow = model.allocate(512, kNoLimit);
  CachingModel::Block* end = model.allocate(512, kNoLimit);
  std::uint64_t hole = narrow->address;
  model.free(wide);
  model.free(narrow);
  CachingModel::Block* again = model.allocate(100, kNoLimit);
  EXPECT_EQ(again->address, hole);
  for (auto* block : {wall, end, again}) model.free(block);
}

TEST(CachingModel, FreedSegmentsStayUntilReleased) {
  CachingModel model;
  CachingModel::Block* a = model.allocate(512, kNoLimit);
  CachingModel::Block* b = model.allocate(2 * kMiB, kNoLimit);
  model.free(b);
  EXPECT_EQ(model.reserved(), 22 * kMiB);
  model.release_cached();
  EXPECT_EQ(model.reserved(), 2 * kMiB);  // a's segment is in use
  model.free(a);
  model.release_cached();
  EXPECT_EQ(model.reserved(), 0U);
  EXPECT_EQ(model.stats().num_device_free, 2);
}

TEST(CachingModel, GivesUnusedSegmentsBackBeforeItGivesUp) {
  CachingModel model;
  model.free(model.allocate(15 * kMiB, 20 * kMiB));
  CachingModel::Block* a = model.allocate(18 * kMiB, 20 * kMiB);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(model.stats().num_alloc_retries, 1);
  EXPECT_EQ(model.allocate(512, 18 * kMiB), nullptr);
  model.free(a);
}

TEST(CachingModel, PeaksAndSumsStartAnewWhenReset) {
  CachingModel model;
  model.free(model.allocate(4096, kNoLimit));
  EXPECT_EQ(model.stats().allocated_bytes.all.peak, 4096);
  model.reset_peaks();
  EXPECT_EQ(model.stats().allocated_bytes.all.peak, 0);
  EXPECT_EQ(model.stats().reserved_bytes.all.peak, static_cast<std::int64_t>(2 * kMiB));
  model.reset_accumulated();
  EXPECT_EQ(model.stats().allocation.all.allocated, 0);
  EXPECT_EQ(model.stats().allocation.all.freed, 0);
}

}  // namespace
