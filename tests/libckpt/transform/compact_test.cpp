#include "libckpt/transform/compact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "tests/libckpt/transform/views.h"

using ckpt::CompactChanges;
using ckpt::Value;
using testing::ElementsAre;
using testing::Pair;
using namespace test;

namespace {

const ckpt::Entry& entry_at(const ckpt::Checkpoint& file, std::string_view name) {
  return ckpt::value_at(file.root, name).as_entry();
}

std::uint64_t storage_size(const ckpt::Checkpoint& file, std::string_view name) {
  return entry_at(file, name).view->storage->bytes->size();
}

/// The values through the view agree with the values through the bytes.
void expect_consistent(const ckpt::Checkpoint& file) {
  for (const ckpt::NamedEntry& named : ckpt::list_entries(file.root)) {
    if (!named.entry->view) continue;
    ckpt::SourcePtr seen = ckpt::gather(*named.entry->view, named.entry->dtype, named.entry->shape);
    EXPECT_EQ(ckpt::read_all(*seen), ckpt::read_all(*named.entry->bytes)) << named.name;
  }
}

}  // namespace

TEST(Compact, GivesASmallViewAStorageOfItsSize) {
  auto storage = floats_storage(1000);
  CompactChanges changes;
  ckpt::Checkpoint small = ckpt::compact(checkpoint(dict({{"row", view(storage, {4}, {1}, 100)}})), {}, &changes);
  EXPECT_EQ(storage_size(small, "row"), 16u);
  EXPECT_EQ(entry_at(small, "row").view->offset, 0);
  EXPECT_THAT(values_at(small.root, "row"), ElementsAre(100, 101, 102, 103));
  EXPECT_EQ(changes.views_trimmed, 1u);
  EXPECT_EQ(changes.view_bytes, 4000u - 16u);
  expect_consistent(small);
}

TEST(Compact, LeavesFullAndPermutedViewsAlone) {
  auto storage = floats_storage(6);
  ckpt::Checkpoint file = checkpoint(dict({{"t", view(storage, {2, 3}, {1, 2})}, {"own", tensor({1, 2})}}));
  CompactChanges changes;
  ckpt::Checkpoint same = ckpt::compact(file, {}, &changes);
  EXPECT_EQ(same.root.find("t")->identity(), file.root.find("t")->identity());
  EXPECT_EQ(changes.views_trimmed, 0u);
}

TEST(Compact, KeepsTiesAndOverlapsTogether) {
  auto storage = floats_storage(1000);
  ckpt::Checkpoint file = checkpoint(dict({{"a", view(storage, {10}, {1}, 20)},
                                           {"tied", view(storage, {10}, {1}, 20)},
                                           {"overlaps", view(storage, {10}, {1}, 25)},
                                           {"apart", view(storage, {10}, {1}, 80)}}));
  ckpt::Checkpoint small = ckpt::compact(file);
  EXPECT_EQ(entry_at(small, "a").view->storage, entry_at(small, "tied").view->storage);
  EXPECT_TRUE(ckpt::same_view(entry_at(small, "a"), entry_at(small, "tied")));
  EXPECT_EQ(entry_at(small, "a").view->storage, entry_at(small, "overlaps").view->storage);
  EXPECT_EQ(entry_at(small, "overlaps").view->offset, 5);
  EXPECT_NE(entry_at(small, "a").view->storage, entry_at(small, "apart").view->storage);
  EXPECT_EQ(storage_size(small, "a"), 60u);
  EXPECT_EQ(storage_size(small, "apart"), 40u);
  expect_consistent(small);
}

TEST(Compact, PartsColumnsThatLieBetweenEachOther) {
  auto storage = floats_storage(1200);  // 300 x 4
  ckpt::Checkpoint file =
      checkpoint(dict({{"q", view(storage, {300, 2}, {4, 1}, 0)}, {"v", view(storage, {300}, {4}, 3)}}));
  ckpt::Checkpoint small = ckpt::compact(file);
  EXPECT_EQ(storage_size(small, "q"), 2400u);
  EXPECT_EQ(storage_size(small, "v"), 1200u);
  std::vector<float> q = values_at(small.root, "q");
  EXPECT_THAT(std::vector<float>(q.begin(), q.begin() + 6), ElementsAre(0, 1, 4, 5, 8, 9));
  EXPECT_EQ(values_at(small.root, "v")[2], 11);
  EXPECT_EQ(entry_at(small, "v").view->strides, (core::Shape{1}));
  expect_consistent(small);
}

TEST(Compact, DoesNotPartWhatCostsMoreThanItSaves) {
  auto storage = floats_storage(12);
  ckpt::Checkpoint file = checkpoint(dict({{"a", view(storage, {4}, {1}, 0)}, {"b", view(storage, {4}, {1}, 8)}}));
  EXPECT_EQ(ckpt::compact(file).root, file.root);
}

TEST(Compact, KeepsARowAndAColumnThatCrossTogether) {
  auto storage = floats_storage(12);
  ckpt::Checkpoint file =
      checkpoint(dict({{"row", view(storage, {4}, {1}, 4)}, {"column", view(storage, {3}, {4}, 1)}}));
  ckpt::Checkpoint small = ckpt::compact(file);
  EXPECT_EQ(entry_at(small, "row").view->storage, entry_at(small, "column").view->storage);
  EXPECT_EQ(storage_size(small, "row"), 36u);  // from element 1 to 9
  expect_consistent(small);
}

TEST(Compact, EmptyAndExpandedViewsSurvive) {
  auto storage = floats_storage(1200);
  ckpt::Checkpoint file =
      checkpoint(dict({{"empty", view(storage, {0, 4}, {4, 1}, 8)}, {"expanded", view(storage, {5, 2}, {0, 1}, 2)}}));
  ckpt::Checkpoint small = ckpt::compact(file);
  EXPECT_EQ(storage_size(small, "empty"), 0u);
  EXPECT_EQ(storage_size(small, "expanded"), 8u);
  EXPECT_THAT(values_at(small.root, "expanded"), ElementsAre(2, 3, 2, 3, 2, 3, 2, 3, 2, 3));
  expect_consistent(small);
}

TEST(Compact, TensorsWithoutDataStayAsTheyAre) {
  ckpt::Entry meta;
  meta.shape = core::Shape{2};
  meta.location = "meta";
  meta.view = ckpt::View{nullptr, 0, core::Shape{1}};
  ckpt::Checkpoint file = checkpoint(dict({{"m", Value::tensor(std::make_shared<const ckpt::Entry>(meta))}}));
  EXPECT_EQ(ckpt::compact(file, {.dedupe = true}).root, file.root);
  EXPECT_EQ(ckpt::compact(file, {.untie = true}).root, file.root);
}

TEST(Compact, DedupesOnlyWhenAskedAndOnlyWhatIsEqualInEveryWay) {
  ckpt::Value other_device = tensor({1, 2, 3}, "cuda:0");
  ckpt::Checkpoint file = checkpoint(dict({{"a", tensor({1, 2, 3})},
                                           {"b", tensor({1, 2, 4})},
                                           {"c", tensor({1, 2, 3})},
                                           {"d", tensor({1, 2, 3})},
                                           {"gpu", other_device}}));
  EXPECT_EQ(ckpt::compact(file).root, file.root);
  CompactChanges changes;
  ckpt::Checkpoint shared = ckpt::compact(file, {.dedupe = true}, &changes);
  EXPECT_THAT(changes.shared, ElementsAre(Pair("c", "a"), Pair("d", "a")));
  EXPECT_EQ(changes.duplicate_bytes, 24u);
  EXPECT_EQ(entry_at(shared, "c").bytes, entry_at(shared, "a").bytes);
  EXPECT_NE(entry_at(shared, "b").bytes, entry_at(shared, "a").bytes);
  EXPECT_EQ(entry_at(shared, "gpu").location, "cuda:0");
  EXPECT_NE(entry_at(shared, "gpu").bytes, entry_at(shared, "a").bytes);
}

TEST(Compact, UntieGivesEveryNameItsOwnBytes) {
  Value weight = tensor({1, 2});
  CompactChanges changes;
  ckpt::Checkpoint apart = ckpt::compact(checkpoint(dict({{"a", weight}, {"b", weight}})), {.untie = true}, &changes);
  // One node in two places stays one node; two entries with one source are parted.
  EXPECT_EQ(changes.untied, 0u);
  ckpt::Entry copy = weight.as_entry();
  Value second = Value::tensor(std::make_shared<const ckpt::Entry>(copy));
  apart = ckpt::compact(checkpoint(dict({{"a", weight}, {"b", second}})), {.untie = true}, &changes);
  EXPECT_EQ(changes.untied, 1u);
  EXPECT_EQ(changes.untied_bytes, 8u);
  EXPECT_NE(ckpt::storage_identity(entry_at(apart, "a")), ckpt::storage_identity(entry_at(apart, "b")));
  EXPECT_THAT(values_at(apart.root, "b"), ElementsAre(1, 2));
}

TEST(Compact, SharingAndPartingContradictEachOther) {
  EXPECT_THROW(ckpt::compact(checkpoint(dict({})), {.dedupe = true, .untie = true}), core::Error);
}
