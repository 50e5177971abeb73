#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::Checkpoint;
using ckpt::Value;
using testing::HasSubstr;

/// Four tensors of one byte each, all of them `letter`.
Checkpoint model_of(char letter) {
  ckpt::Dict dict;
  for (const char* name : {"a", "b", "c", "d"}) {
    ckpt::Entry entry;
    entry.dtype = core::DType::u8;
    entry.shape = {1};
    entry.bytes = ckpt::memory_source(core::ByteVector{static_cast<std::byte>(letter)});
    dict.items.emplace_back(Value::text(name), Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry))));
  }
  Checkpoint checkpoint;
  checkpoint.root = Value::dict(std::move(dict));
  return checkpoint;
}

std::string letters_of(const Checkpoint& checkpoint) {
  std::string letters;
  for (const ckpt::NamedEntry& tensor : ckpt::list_entries(checkpoint.root)) {
    letters += static_cast<char>(ckpt::read_all(*tensor.entry->bytes).at(0));
  }
  return letters;
}

void save(char letter, const std::filesystem::path& index) {
  ckpt::save(model_of(letter), index, {.durable = false, .shards = 4});
}

/// Names come back after two saves, so that a reader of an old index may even find new files under all of its names.
TEST(ShardSet, AReaderDuringReplacingSavesGetsOneModelWhole) {
  test::TempDir dir;
  auto index = dir.path() / "m.safetensors.index.json";
  save('a', index);
  std::atomic<bool> stop = false;
  std::atomic<int> saves = 0;
  std::thread writer([&] {
    for (char letter = 'b'; !stop; letter = letter == 'z' ? 'a' : static_cast<char>(letter + 1)) {
      save(letter, index);
      ++saves;
    }
  });
  int readings = 0;
  std::string problem;
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  for (; std::chrono::steady_clock::now() < end && problem.empty(); ++readings) {
    try {
      std::string letters = letters_of(ckpt::open(index));
      if (letters != std::string(4, letters.at(0))) problem = "parts of several models: " + letters;
    } catch (const core::Error& error) {
      problem = error.what();
    }
  }
  stop = true;
  writer.join();
  EXPECT_EQ(problem, "");
  EXPECT_GT(readings, 10);
  EXPECT_GT(saves, 10);
}

TEST(ShardSet, AMissingShardOfAnIndexThatStandsIsSaidAtOnce) {
  test::TempDir dir;
  auto index = dir.path() / "m.safetensors.index.json";
  save('a', index);
  std::filesystem::remove(dir.path() / "m-00003-of-00004.safetensors");
  try {
    ckpt::open(index);
    FAIL() << "a model without one of its files was opened";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::corrupt);
    EXPECT_THAT(error.what(), HasSubstr("is missing, although the index names it"));
  }
}

TEST(ShardSet, SavingTheSameModelTwiceWritesItsShardsOnce) {
  test::TempDir dir;
  auto index = dir.path() / "m.safetensors.index.json";
  save('a', index);
  auto names = test::list_folder(dir.path());
  ckpt::Report report;
  ckpt::save(model_of('a'), index, {.durable = false, .shards = 4, .report = &report});
  EXPECT_EQ(test::list_folder(dir.path()), names);
  EXPECT_TRUE(report.warnings.empty());
  EXPECT_EQ(letters_of(ckpt::open(index)), "aaaa");
}

TEST(ShardSet, AFileThatTheIndexDoesNotDescribeWhollyStaysAndIsNamed) {
  test::TempDir dir;
  auto index = dir.path() / "m.safetensors.index.json";
  save('a', index);
  ckpt::save(model_of('x'), dir.path() / "m-00002-of-00004.safetensors", {.durable = false});
  ckpt::Report report;
  ckpt::save(model_of('b'), index, {.durable = false, .shards = 4, .report = &report});
  ASSERT_EQ(report.warnings.size(), 1U);
  EXPECT_THAT(report.warnings[0],
              HasSubstr("'m-00002-of-00004.safetensors' (the index does not list 3 of its tensors)"));
  EXPECT_EQ(letters_of(ckpt::open(dir.path() / "m-00002-of-00004.safetensors")), "xxxx");
  EXPECT_EQ(letters_of(ckpt::open(index)), "bbbb");
}

}  // namespace
