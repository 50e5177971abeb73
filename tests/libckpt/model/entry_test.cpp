#include "libckpt/entry.h"

#include <gtest/gtest.h>

#include <numeric>

#include "libcore/base/error.h"
#include "tests/support/temp_dir.h"

namespace {

using core::DType;
using core::Shape;

/// A storage of `count` 32-bit numbers 0, 1, 2, ...
std::shared_ptr<ckpt::Storage> counting_storage(std::uint32_t count) {
  core::ByteVector bytes;
  for (std::uint32_t i = 0; i < count; ++i) core::append_le(bytes, i);
  auto storage = std::make_shared<ckpt::Storage>();
  storage->dtype = DType::i32;
  storage->bytes = ckpt::memory_source(std::move(bytes));
  return storage;
}

std::vector<std::uint32_t> numbers(const ckpt::ByteSource& source) {
  core::ByteVector bytes = ckpt::read_all(source);
  std::vector<std::uint32_t> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

/// Element by element, the slow and plain way.
std::vector<std::uint32_t> expected(const ckpt::View& view, const Shape& shape) {
  std::vector<std::uint32_t> out;
  auto numel = static_cast<std::int64_t>(*core::try_numel(shape.span()));
  for (std::int64_t i = 0; i < numel; ++i) {
    std::int64_t rest = i;
    std::int64_t address = view.offset;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) address += rest % shape[d] * view.strides[d];
    out.push_back(static_cast<std::uint32_t>(address));
  }
  return out;
}

struct Window {
  Shape shape;
  Shape strides;
  std::int64_t offset;
};

TEST(Gather, GivesTheLogicalOrder) {
  auto storage = counting_storage(1000);
  const Window windows[] = {
      {{3, 4}, {1, 3}, 0},                // transposed
      {{2, 3, 4, 5}, {60, 1, 15, 3}, 7},  // channels last
      {{4, 5}, {0, 2}, 3},                // expanded and stepped
      {{5}, {7}, 1},                      // every seventh
      {{3, 3}, {1, 1}, 0},                // overlapping
      {{1, 6, 1}, {99, 2, 5}, 0},         // strides of single elements say nothing
  };
  for (const Window& window : windows) {
    ckpt::View view{storage, window.offset, window.strides};
    ckpt::SourcePtr source = ckpt::gather(view, DType::i32, window.shape);
    EXPECT_EQ(numbers(*source), expected(view, window.shape)) << core::to_list(window.shape);
  }
}

TEST(Gather, DenseWindowsAreSlices) {
  auto storage = counting_storage(100);
  ckpt::SourcePtr source = ckpt::gather({storage, 4, {5, 1}}, DType::i32, {2, 5});
  EXPECT_EQ(source->memory().data(), storage->bytes->memory().data() + 16);
  EXPECT_EQ(ckpt::gather({storage, 0, {1}}, DType::i32, {100}), storage->bytes);
}

TEST(Gather, LargeViewsOfAFileInParts) {
  constexpr std::int64_t kRows = 2500;
  constexpr std::int64_t kColumns = 2100;  // 20 MiB: more than one piece
  test::TempDir dir;
  auto whole = counting_storage(kRows * kColumns);
  test::write_file(dir.path() / "a", core::as_text(whole->bytes->memory()));
  auto storage = std::make_shared<ckpt::Storage>();
  storage->bytes = ckpt::open_file(dir.path() / "a");
  ckpt::View view{storage, 0, {1, kColumns}};
  Shape shape{kColumns, kRows};
  ckpt::SourcePtr source = ckpt::gather(view, DType::i32, shape);
  std::vector<std::uint32_t> all = expected(view, shape);
  EXPECT_EQ(numbers(*source), all);
  // Parts that do not end where elements or pieces end.
  core::ByteVector parts(source->size());
  for (std::uint64_t at = 0; at < parts.size();) {
    std::uint64_t size = std::min<std::uint64_t>(1'000'003, parts.size() - at);
    source->read(at, core::MutableBytes(parts).subspan(at, size));
    at += size;
  }
  EXPECT_EQ(std::memcmp(parts.data(), all.data(), parts.size()), 0);
}

TEST(Gather, WindowsOutsideTheStorageAreCorrupt) {
  auto storage = counting_storage(10);
  auto refused = [&](Shape shape, Shape strides, std::int64_t offset) {
    try {
      ckpt::gather({storage, offset, std::move(strides)}, DType::i32, shape);
    } catch (const core::Error& error) {
      return error.code() == core::ErrorCode::corrupt;
    }
    return false;
  };
  EXPECT_TRUE(refused({11}, {1}, 0));
  EXPECT_TRUE(refused({10}, {1}, 1));
  EXPECT_TRUE(refused({2, 2}, {1, 9}, 0));
  EXPECT_TRUE(refused({2}, {-1}, 5));
  EXPECT_TRUE(refused({2}, {1}, -1));
  EXPECT_TRUE(refused({-2}, {1}, 0));
  EXPECT_TRUE(refused({2}, {1, 1}, 0));
  EXPECT_TRUE(refused({2, 2}, {INT64_MAX, INT64_MAX}, 0));
  EXPECT_TRUE(refused({INT64_MAX, 4}, {0, 0}, 0));
  EXPECT_TRUE(refused({INT64_MAX}, {0}, INT64_MAX));
  EXPECT_FALSE(refused({0}, {1}, 10));
  EXPECT_FALSE(refused({2, 2}, {1, 8}, 0));
}

ckpt::Entry entry_of(const std::shared_ptr<const ckpt::Storage>& storage, Shape shape, std::int64_t offset) {
  ckpt::Entry entry;
  entry.dtype = DType::i32;
  entry.shape = std::move(shape);
  entry.view = ckpt::View{storage, offset, core::contiguous_strides(entry.shape)};
  entry.bytes = ckpt::gather(*entry.view, entry.dtype, entry.shape);
  return entry;
}

TEST(Ties, StorageIdentityAndSameView) {
  auto storage = counting_storage(10);
  ckpt::Entry a = entry_of(storage, {4}, 0);
  ckpt::Entry alias = entry_of(storage, {4}, 0);
  ckpt::Entry other_part = entry_of(storage, {4}, 4);
  ckpt::Entry reshaped = entry_of(storage, {2, 2}, 0);
  ckpt::Entry elsewhere = entry_of(counting_storage(10), {4}, 0);
  EXPECT_TRUE(ckpt::same_view(a, alias));
  EXPECT_FALSE(ckpt::same_view(a, other_part));
  EXPECT_FALSE(ckpt::same_view(a, reshaped));
  EXPECT_FALSE(ckpt::same_view(a, elsewhere));
  EXPECT_EQ(ckpt::storage_identity(a), ckpt::storage_identity(other_part));
  EXPECT_NE(ckpt::storage_identity(a), ckpt::storage_identity(elsewhere));
}

TEST(Ties, EntriesWithoutAViewShareTheirSource) {
  ckpt::Entry a;
  a.shape = {1};
  a.bytes = ckpt::memory_source(core::ByteVector(4));
  ckpt::Entry b = a;
  ckpt::Entry conjugate = a;
  conjugate.conjugate = true;
  EXPECT_TRUE(ckpt::same_view(a, b));
  EXPECT_FALSE(ckpt::same_view(a, conjugate));
  EXPECT_FALSE(ckpt::same_view(ckpt::Entry(), ckpt::Entry()));  // meta tensors are tied to nothing
}

}  // namespace
