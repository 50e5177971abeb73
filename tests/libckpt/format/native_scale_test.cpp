#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "libckpt/format/native/opened_file.h"
#include "libckpt/io/file_ops.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using core::DType;

// The bound (processor time, so that a busy machine does not matter) is far above what it takes, about 0.1 s, so that a
// sanitizer build passes and a walk of the HDF5 objects (2 s) does not.
TEST(NativeScale, ListsAHundredThousandTensorsFromTheIndex) {
  test::TempDir dir;
  test::Items items;
  for (int i = 0; i < 100'000; ++i) {
    items.emplace_back("layers." + std::to_string(i / 4) + ".w" + std::to_string(i % 4), test::tensor(DType::f32, {2}));
  }
  save(test::checkpoint(items), dir.path() / "a.ckpt", {.durable = false});
  std::clock_t begin = std::clock();
  std::vector<NamedEntry> entries = list_entries(open(dir.path() / "a.ckpt").root);
  double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_EQ(entries.size(), 100'000U);
  EXPECT_EQ(entries[99'999].name, "layers.24999.w3");
  EXPECT_LT(seconds, 1.0);
}

std::uint64_t reserved = 0;

int note_reserved(int fd, int mode, off_t offset, off_t size) {
  reserved = static_cast<std::uint64_t>(offset + size);
  return detail::system_file_ops().fallocate(fd, mode, offset, size);
}

/// Saves `count` tensors named `prefix` and a number; what was reserved beyond the size of the file.
std::int64_t reserved_too_much(const test::TempDir& dir, int count, const std::string& prefix) {
  test::Items items;
  for (int i = 0; i < count; ++i) {
    std::string name = prefix;
    for (std::size_t at; (at = name.find('#')) != std::string::npos;) name.replace(at, 1, std::to_string(i));
    items.emplace_back(name + std::to_string(i), test::tensor(DType::f32, {4}));
  }
  detail::FileOps ops = detail::system_file_ops();
  ops.fallocate = note_reserved;
  detail::set_file_ops(ops);
  save(test::checkpoint(items), dir.path() / "a.ckpt", {.overwrite = true, .durable = false});
  detail::set_file_ops(detail::system_file_ops());
  return static_cast<std::int64_t>(reserved - std::filesystem::file_size(dir.path() / "a.ckpt"));
}

TEST(NativeScale, ReservesWhatASmallFileTakesAndLittleMore) {
  test::TempDir dir;
  for (const auto& [count, prefix] : std::vector<std::pair<int, std::string>>{
           {1, "w"}, {1, "a.b.c.d.e.f.g.h.w"}, {10, "layer.w"}, {10, "layer#.w"}, {300, "w"}, {300, "a#.b#.c#.w"}}) {
    std::int64_t more = reserved_too_much(dir, count, prefix);
    EXPECT_GE(more, 0) << count << " " << prefix;
    EXPECT_LE(more, 16 * 1024 + count * (prefix.size() > 8 ? 6144 : 1024)) << count << " " << prefix;
  }
}

// What opening compares with its hash: a group and a dataset took 1,088 bytes, most of them unused.
TEST(NativeScale, DescribesAGroupAndItsDatasetInFewBytes) {
  test::TempDir dir;
  const std::filesystem::path path = dir.path() / "a.ckpt";
  test::Items items;
  for (int i = 0; i < 1000; ++i) items.emplace_back("w" + std::to_string(i) + ".w", test::tensor(DType::f32, {4}));
  save(test::checkpoint(items), path, {.durable = false});
  const Input input = open_input(path);
  const auto file = detail::open_index(input, {});
  EXPECT_LE(file->index.ranges.back().length, 1000 * 210U);
}

TEST(NativeScale, ThreadsSaveAndLoadAtOnce) {
  test::TempDir dir;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::filesystem::path path = dir.path() / (std::to_string(t) + ".ckpt");
      for (int round = 0; round < 5; ++round) {
        save(test::sample_checkpoint(), path, {.durable = false});
        if (!test::difference(open(path).root, test::sample_checkpoint().root).empty()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(test::read_file(dir.path() / "0.ckpt"), test::read_file(dir.path() / "3.ckpt"));
}

/// More bytes than the test may hold, made up as they are read; remembers the largest read.
class Endless final : public ByteSource {
 public:
  explicit Endless(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const override { return size_; }
  void require_unchanged() const override {}
  void read(std::uint64_t offset, MutableBytes out) const override {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>((offset + i) >> 9);
    std::uint64_t before = largest_;
    while (out.size() > before && !largest_.compare_exchange_weak(before, out.size())) {
    }
  }
  std::uint64_t largest() const { return largest_; }

 private:
  std::uint64_t size_;
  mutable std::atomic<std::uint64_t> largest_ = 0;
};

TEST(NativeScale, LargeSourcesAreReadInPieces) {
  test::TempDir dir;
  auto source = std::make_shared<Endless>(24 << 20);
  auto made = std::make_shared<Entry>();
  made->dtype = DType::u8;
  made->shape = {24 << 20};
  made->bytes = source;
  for (Codec codec : {Codec::none, Codec::zstd}) {
    save(test::checkpoint({{"w", Value::tensor(made)}}), dir.path() / "a.ckpt", {.durable = false, .codec = codec});
    EXPECT_LE(source->largest(), 4U << 20);
    EXPECT_TRUE(verify(dir.path() / "a.ckpt").damage.empty());
  }
}

}  // namespace
}  // namespace ckpt
