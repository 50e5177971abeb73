#include <gtest/gtest.h>

#include "tests/libckpt/format/native_support.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using core::DType;

class NativeRoundTrip : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name = "a.ckpt") const { return dir_.path() / name; }
  test::TempDir dir_;
};

// Four well-known libraries lost data exactly here.
TEST_F(NativeRoundTrip, LazyLoadAndSaveToTheSamePathIsBitIdentical) {
  save(test::sample_checkpoint(), path());
  std::string before = test::read_file(path());
  Checkpoint lazy = open(path());
  save(lazy, path());
  EXPECT_EQ(test::read_file(path()), before);
  EXPECT_EQ(test::list_folder(dir_.path()), std::vector<std::string>{"a.ckpt"});
}

TEST_F(NativeRoundTrip, CompressedFileSavedToTheSamePathIsBitIdentical) {
  Checkpoint made = test::checkpoint({{"w", Value::tensor(test::entry(DType::f32, {64, 300}, core::ByteVector(76800)))},
                                      {"v", test::tensor(DType::f32, {40, 70})}});
  save(made, path(), {.codec = Codec::zstd});
  std::string before = test::read_file(path());
  save(open(path()), path());
  EXPECT_EQ(test::read_file(path()), before);
}

TEST_F(NativeRoundTrip, EveryKindOfValueComesBack) {
  save(test::sample_checkpoint(), path());
  Checkpoint back = open(path());
  EXPECT_EQ(back.format, "native");
  EXPECT_EQ(test::difference(back.root, test::sample_checkpoint().root), "");
  EXPECT_EQ(back.metadata, test::sample_checkpoint().metadata);
}

TEST_F(NativeRoundTrip, EveryDTypeComesBack) {
  test::Items items;
  for (int i = 0; i < core::kDTypeCount; ++i) {
    auto dtype = static_cast<DType>(i);
    items.emplace_back(std::string(core::name(dtype)), test::tensor(dtype, {2, 4, 3}, static_cast<unsigned>(i + 1)));
  }
  save(test::checkpoint(items), path());
  EXPECT_EQ(test::difference(open(path()).root, test::dict(items)), "");
}

TEST_F(NativeRoundTrip, SharedValuesStayOneObject) {
  save(test::sample_checkpoint(), path());
  Checkpoint back = open(path());
  EXPECT_EQ(back.root.find("once")->identity(), back.root.find("again")->identity());
  EXPECT_NE(back.root.find("once")->identity(), back.root.find("set")->identity());
}

TEST_F(NativeRoundTrip, OrderOfKeysIsKept) {
  save(test::checkpoint({{"z", test::tensor(DType::f32, {1})}, {"a", test::tensor(DType::f32, {1})}}), path());
  std::vector<NamedEntry> entries = list_entries(open(path()).root);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, "z");
  EXPECT_EQ(entries[1].name, "a");
}

TEST_F(NativeRoundTrip, RootsThatAreNoDict) {
  Checkpoint bare;
  bare.root = test::tensor(DType::f32, {3});
  save(bare, path());
  EXPECT_EQ(test::difference(open(path()).root, bare.root), "");
  bare.root = Value::list({test::tensor(DType::i8, {5}), Value()});
  save(bare, path());
  EXPECT_EQ(test::difference(open(path()).root, bare.root), "");
}

TEST_F(NativeRoundTrip, EmptyCheckpoint) {
  save(test::checkpoint({}), path());
  EXPECT_EQ(test::difference(open(path()).root, test::dict({})), "");
}

TEST_F(NativeRoundTrip, MoreDimensionsThanHdf5Has) {
  core::Shape shape(40, 1);
  shape[39] = 3;
  Checkpoint made = test::checkpoint({{"deep", test::tensor(DType::f32, shape)}});
  save(made, path());
  EXPECT_EQ(test::difference(open(path()).root, made.root), "");
}

TEST_F(NativeRoundTrip, NamesThatHdf5WouldChange) {
  test::Items items;
  std::string nul("n\0l", 3);
  std::string deep(200, '.');
  for (const std::string& name : {std::string("a"), std::string("a.b"), std::string("a/b"), std::string(""), nul, deep,
                                  std::string("\xff\xfe"), std::string(60000, 'x').append("/")}) {
    items.emplace_back(name, test::tensor(DType::f32, {2}, static_cast<unsigned>(items.size() + 1)));
  }
  save(test::checkpoint(items), path());
  EXPECT_EQ(test::difference(open(path()).root, test::dict(items)), "");
}

TEST_F(NativeRoundTrip, SameInputGivesTheSameBytes) {
  save(test::sample_checkpoint(), path("one.ckpt"));
  save(test::sample_checkpoint(), path("two.ckpt"), {.threads = 1});
  EXPECT_EQ(test::read_file(path("one.ckpt")), test::read_file(path("two.ckpt")));
}

TEST_F(NativeRoundTrip, BytesThatDoNotFitTheShapeAreRefused) {
  Checkpoint made = test::checkpoint({{"w", Value::tensor(test::entry(DType::f32, {3}, core::ByteVector(8)))}});
  EXPECT_EQ(test::error_of([&] { save(made, path()); }),
            "value: a tensor of shape [3] and type float32 comes with 8 bytes");
  EXPECT_TRUE(test::list_folder(dir_.path()).empty());
}

TEST_F(NativeRoundTrip, ShardsAreRefused) {
  EXPECT_EQ(test::error_of([&] { save(test::small_checkpoint(), path(), {.max_shard_size = 1000}); }),
            "unsupported: the format 'native' is not split into shards; save as .safetensors");
}

// Newer libraries clear this cache when they open a file for writing; set, an unchanged file would look changed.
TEST_F(NativeRoundTrip, SuperblockCachesNothingOfTheRootGroup) {
  save(test::small_checkpoint(), path());
  EXPECT_EQ(test::read_file(path()).substr(4096 + 72, 24), std::string(24, '\0'));
}

TEST_F(NativeRoundTrip, ReportsProgressAndSize) {
  Report report;
  std::uint64_t last = 0;
  std::uint64_t total = 0;
  SaveOptions options;
  options.report = &report;
  options.progress = [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
  };
  save(test::small_checkpoint(), path(), options);
  EXPECT_EQ(last, 32U);
  EXPECT_EQ(total, 32U);
  EXPECT_EQ(report.bytes_written, std::filesystem::file_size(path()));
}

}  // namespace
}  // namespace ckpt
