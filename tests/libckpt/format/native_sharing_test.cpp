#include <gtest/gtest.h>

#include "libckpt/format/shared_tensors.h"
#include "libckpt/io/checked_source.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using core::DType;

class NativeSharing : public ::testing::Test {
 protected:
  Checkpoint through_file(const test::Items& items) {
    save(test::checkpoint(items), dir_.path() / "a.ckpt");
    Checkpoint back = open(dir_.path() / "a.ckpt");
    EXPECT_EQ(test::difference(back.root, test::dict(items)), "");
    return back;
  }
  std::uint64_t file_size() const { return std::filesystem::file_size(dir_.path() / "a.ckpt"); }
  test::TempDir dir_;
};

const Entry& at(const Checkpoint& checkpoint, std::string_view key) {
  return checkpoint.root.find(key)->as_entry();
}

TEST_F(NativeSharing, TiedSourcesStayTiedAndAreStoredOnce) {
  auto first = test::entry(DType::f32, {1000}, test::noise(4000));
  auto second = std::make_shared<Entry>(*first);
  second->location = "cuda:1";
  Checkpoint back = through_file({{"a", Value::tensor(first)}, {"b", Value::tensor(second)}});
  EXPECT_TRUE(same_view(at(back, "a"), at(back, "b")));
  std::uint64_t tied = file_size();
  auto apart = test::entry(DType::f32, {1000}, test::noise(4000));
  Checkpoint separate = through_file({{"a", Value::tensor(first)}, {"b", Value::tensor(apart)}});
  EXPECT_FALSE(same_view(at(separate, "a"), at(separate, "b")));
  EXPECT_GE(file_size(), tied + 4000);
}

TEST_F(NativeSharing, OneTensorUnderTwoKeysIsOneEntry) {
  Value weight = test::tensor(DType::f32, {4});
  Checkpoint back = through_file({{"a", weight}, {"b", weight}});
  EXPECT_EQ(back.root.find("a")->entry_ptr(), back.root.find("b")->entry_ptr());
}

TEST_F(NativeSharing, TiedSourcesMayHaveDifferentShapes) {
  auto first = test::entry(DType::f32, {6}, test::noise(24));
  auto second = std::make_shared<Entry>(*first);
  second->shape = {2, 3};
  Checkpoint back = through_file({{"a", Value::tensor(first)}, {"b", Value::tensor(second)}});
  EXPECT_EQ(storage_identity(at(back, "a")), storage_identity(at(back, "b")));
}

TEST_F(NativeSharing, OverlappingViewsShareTheirStorage) {
  auto storage = test::storage(DType::f32, test::noise(400), "cuda:2");
  Checkpoint back = through_file({{"a", test::view(storage, DType::f32, {60}, 0, {1})},
                                  {"b", test::view(storage, DType::f32, {60}, 40, {1})},
                                  {"t", test::view(storage, DType::f32, {10, 10}, 0, {1, 10})},
                                  {"i", test::view(storage, DType::i32, {5}, 7, {2})}});
  EXPECT_EQ(at(back, "a").view->storage, at(back, "b").view->storage);
  EXPECT_EQ(at(back, "a").view->storage, at(back, "t").view->storage);
  EXPECT_EQ(at(back, "a").view->storage, at(back, "i").view->storage);
}

TEST_F(NativeSharing, EqualStridedViewsOfASharedStorageAreOneCopy) {
  auto storage = test::storage(DType::f32, test::noise(40'000));
  test::Items items = {{"whole", test::view(storage, DType::f32, {100, 100}, 0, {100, 1})},
                       {"t", test::view(storage, DType::f32, {100, 100}, 0, {1, 100})}};
  through_file(items);
  std::uint64_t once = file_size();
  items.emplace_back("t2", test::view(storage, DType::f32, {100, 100}, 0, {1, 100}));
  Checkpoint back = through_file(items);
  EXPECT_TRUE(same_view(at(back, "t"), at(back, "t2")));
  EXPECT_LT(file_size(), once + 5000);
}

TEST_F(NativeSharing, TransposedTensorKeepsItsStrides) {
  auto storage = test::storage(DType::f32, test::noise(96));
  Checkpoint back = through_file({{"w", test::view(storage, DType::f32, {2, 3, 4}, 0, {1, 8, 2})}});
  EXPECT_EQ(at(back, "w").view->strides, (core::Shape{1, 8, 2}));
}

TEST_F(NativeSharing, WindowIntoALargerStorageLeavesTheRestBehind) {
  auto storage = test::storage(DType::f32, test::noise(400'000));
  save(test::checkpoint({{"w", test::view(storage, DType::f32, {10}, 50, {2})}}), dir_.path() / "a.ckpt");
  Checkpoint back = open(dir_.path() / "a.ckpt");
  EXPECT_FALSE(at(back, "w").view.has_value());
  EXPECT_EQ(read_all(*at(back, "w").bytes), read_all(*gather({storage, 50, {2}}, DType::f32, {10})));
  EXPECT_LT(file_size(), 50'000U);
}

TEST_F(NativeSharing, ExpandedTensorKeepsItsStrides) {
  auto storage = test::storage(DType::f32, test::noise(8));
  Checkpoint back = through_file({{"w", test::view(storage, DType::f32, {1000, 2}, 0, {0, 1})}});
  EXPECT_EQ(at(back, "w").view->storage->bytes->size(), 8U);
}

TEST_F(NativeSharing, HugeExpansionIsNotWrittenOut) {
  auto storage = test::storage(DType::f32, test::noise(4));
  Value huge = test::view(storage, DType::f32, {1LL << 40}, 0, {0});
  save(test::checkpoint({{"w", huge}}), dir_.path() / "a.ckpt");
  EXPECT_LT(file_size(), 50'000U);
  core::ByteVector some(8);
  EXPECT_THROW(at(open(dir_.path() / "a.ckpt"), "w").bytes->read(1LL << 41, some), core::Error);
  OpenOptions trusting;
  trusting.limits.max_expansion = 1'000'000'000;
  Checkpoint back = open(dir_.path() / "a.ckpt", trusting);
  at(back, "w").bytes->read(1LL << 41, some);
  EXPECT_EQ(core::ByteVector(some.begin() + 4, some.end()), test::noise(4));
}

TEST_F(NativeSharing, WhatLiesInAnotherFileIsMappedToo) {
  const Checkpoint checkpoint = test::checkpoint({{"w", test::tensor(DType::f32, {4000})}});
  save(checkpoint, dir_.path() / "a.ckpt", {.codec = Codec::none});
  save(sharing(checkpoint, {dir_.path() / "a.ckpt"}), dir_.path() / "b.ckpt", {.codec = Codec::none});
  const Checkpoint mapped = open(dir_.path() / "b.ckpt", {.residency = Residency::mapped});
  EXPECT_EQ(unchecked(*at(mapped, "w").bytes).memory().size(), 16'000U);
}

}  // namespace
}  // namespace ckpt
