// What each format costs over a network: requests and bytes until a checkpoint is open, and that it holds what the file
// holds. The figures are those that the README promises.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libckpt/io/byte_source.h"
#include "libckpt/open_save.h"
#include "libckpt/remote/remote.h"
#include "tests/libckpt/remote/web_server.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/golden.h"

namespace fs = std::filesystem;
using namespace test;

namespace {

Nginx& web() {
  static Nginx server;
  return server;
}

ckpt::Checkpoint model(int tensors, std::size_t floats) {
  ckpt::Dict dict;
  for (int i = 0; i < tensors; ++i) {
    std::vector<float> values(floats, static_cast<float>(i));
    values.front() = -1.0F;
    dict.items.emplace_back(ckpt::Value::text("block." + std::to_string(i) + ".weight"), tensor(values));
  }
  return checkpoint(ckpt::Value::dict(std::move(dict)));
}

struct Cost {
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
};

ckpt::Checkpoint open_far(const std::string& url, Cost& cost) {
  ckpt::enable_remote_files();
  ckpt::Checkpoint out = ckpt::open(url);
  cost = {ckpt::remote_traffic().requests, ckpt::remote_traffic().bytes};
  return out;
}

void expect_same(const ckpt::Checkpoint& far, const ckpt::Checkpoint& near) {
  auto left = ckpt::list_entries(far.root);
  auto right = ckpt::list_entries(near.root);
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    ASSERT_EQ(left[i].name, right[i].name);
    ASSERT_EQ(left[i].entry->shape, right[i].entry->shape);
    ASSERT_TRUE(ckpt::read_all(*left[i].entry->bytes) == ckpt::read_all(*right[i].entry->bytes)) << left[i].name;
  }
}

/// What was asked for last, for the message of a test.
std::string ranges(std::size_t count) {
  std::string out;
  for (const LoggedRequest& request : web().requests(count)) out += "\n" + request.line + " " + request.range;
  return out;
}

/// Saves, opens over the network within `requests`, and compares every byte.
void check_format(const std::string& file, std::uint64_t requests, const ckpt::SaveOptions& save = {}) {
  ckpt::save(model(300, 10'000), web().root() / file, save);
  Cost cost;
  ckpt::Checkpoint far = open_far(web().url(file), cost);
  EXPECT_LE(cost.requests, requests) << file << ranges(cost.requests);
  EXPECT_LE(cost.bytes, 512U << 10) << file;
  EXPECT_EQ(web().requests(1).back().status, "206");
  expect_same(far, ckpt::open(web().root() / file));
}

TEST(RemoteFormats, SafetensorsNeedsOneRequest) {
  check_format("net.safetensors", 1);
}

TEST(RemoteFormats, NativeNeedsOneRequest) {
  check_format("net.ckpt", 1);
}

TEST(RemoteFormats, GgufNeedsOneRequest) {
  check_format("net.gguf", 1);
}

TEST(RemoteFormats, ZipFilesNeedAtMostFour) {
  check_format("net.pth", 4);
  // Each array has a header of its own, so all of such a file is looked at.
  ckpt::save(model(300, 10'000), web().root() / "net.npz");
  Cost cost;
  ckpt::Checkpoint far = open_far(web().url("net.npz"), cost);
  EXPECT_LE(cost.requests, 16U);
  expect_same(far, ckpt::open(web().root() / "net.npz"));
}

TEST(RemoteFormats, ALongHeaderOfSafetensorsNeedsTwoRequests) {
  ckpt::save(model(4'000, 1), web().root() / "many.safetensors");
  Cost cost;
  ckpt::Checkpoint far = open_far(web().url("many.safetensors"), cost);
  EXPECT_EQ(cost.requests, 2U);
  EXPECT_LE(cost.bytes, 512U << 10);
  expect_same(far, ckpt::open(web().root() / "many.safetensors"));
}

TEST(RemoteFormats, AHundredGigabytesAreLookedAtWithOneRequest) {
  constexpr std::uint64_t kEach = 50 << 20;
  std::string header = "{";
  for (std::uint64_t i = 0; i < 2'000; ++i) {
    std::string name = "model.layers." + std::to_string(i / 10) + ".self_attention.part_" + std::to_string(i % 10);
    header += (i > 0 ? ",\"" : "\"") + name + ".weight\":{\"dtype\":\"F32\",\"shape\":[12800,1024],\"data_offsets\":[" +
              std::to_string(i * kEach) + "," + std::to_string((i + 1) * kEach) + "]}";
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  fs::path file = web().root() / "big.safetensors";
  write_file(file, length + header);
  fs::resize_file(file, 8 + header.size() + 2'000 * kEach);
  Cost cost;
  ckpt::Checkpoint far = open_far(web().url("big.safetensors"), cost);
  EXPECT_EQ(ckpt::list_entries(far.root).size(), 2'000U);
  EXPECT_LE(cost.requests, 2U);
  EXPECT_LE(cost.bytes, 512U << 10);
  // One tensor costs its own bytes.
  EXPECT_EQ(ckpt::read_all(*ckpt::list_entries(far.root)[1'999].entry->bytes).size(), kEach);
  EXPECT_LE(ckpt::remote_traffic().bytes - cost.bytes, kEach + (1 << 20));
  EXPECT_LE(ckpt::remote_traffic().requests - cost.requests, 8U);
  fs::remove(file);
}

TEST(RemoteFormats, ShardsAreAskedForOnceEach) {
  fs::create_directory(web().root() / "set");
  ckpt::SaveOptions save;
  save.max_shard_size = 1 << 20;
  fs::path index = web().root() / "set" / "model.safetensors";
  ckpt::save(model(300, 10'000), index, save);
  std::size_t shards = 0;
  for (const std::string& name : list_folder(web().root() / "set")) shards += name.ends_with(".safetensors") ? 1 : 0;
  ASSERT_GE(shards, 10U);
  Cost cost;
  ckpt::Checkpoint far = open_far(web().url("set/model.safetensors.index.json"), cost);
  EXPECT_EQ(cost.requests, 1 + shards);
  expect_same(far, ckpt::open(web().root() / "set"));
  // By its folder: the index has the first of the usual names.
  open_far(web().url("set/"), cost);
  EXPECT_EQ(cost.requests, 1 + shards);
}

/// A file of one tensor of `bytes` bytes that take no room on the disk.
void write_sparse(const fs::path& file, const std::string& tensor, std::uint64_t bytes) {
  std::string header = "{\"" + tensor + "\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(bytes) +
                       "],\"data_offsets\":[0," + std::to_string(bytes) + "]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  write_file(file, length + header);
  fs::resize_file(file, 8 + header.size() + bytes);
}

TEST(RemoteFormats, ManyLargeShardsBehindASmallIndexAreNoBomb) {
  constexpr std::uint64_t kEach = 1ULL << 30;
  constexpr int kShards = 100;  // more than are asked for at once
  fs::path folder = web().root() / "large";
  fs::create_directory(folder);
  std::string map;
  for (int i = 0; i < kShards; ++i) {
    std::string name = "part-" + std::to_string(i) + ".safetensors";
    write_sparse(folder / name, "t" + std::to_string(i), kEach);
    map += (i > 0 ? ",\"t" : "\"t") + std::to_string(i) + "\":\"" + name + "\"";
  }
  write_file(folder / "model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  Cost cost;
  ckpt::Checkpoint far = open_far(web().url("large/model.safetensors.index.json"), cost);
  EXPECT_EQ(cost.requests, 1U + kShards);
  core::ByteVector some(1'000);
  for (const ckpt::NamedEntry& named : ckpt::list_entries(far.root)) named.entry->bytes->read(kEach / 2, some);
  fs::remove_all(folder);
}

TEST(RemoteFormats, ShardsOfPyTorchAreReadToo) {
  std::optional<fs::path> golden = golden_file("checkpoints/safetensors/sharded_bin");
  if (!golden) GTEST_SKIP() << "golden data are not unpacked";
  fs::copy(*golden, web().root() / "bin", fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  Cost cost;
  ckpt::Checkpoint far = open_far(web().url("bin/"), cost);
  expect_same(far, ckpt::open(*golden));
  // Two names that are not there, the index, and the shards, which are small enough to come with their fronts.
  EXPECT_EQ(cost.requests, 2U + 1 + list_folder(*golden).size() - 1) << ranges(cost.requests);
}

TEST(RemoteFormats, OfADistributedCheckpointTheMetadataSuffice) {
  std::optional<fs::path> golden = golden_file("checkpoints/dcp/one_rank");
  if (!golden) GTEST_SKIP() << "golden data are not unpacked";
  fs::copy(*golden, web().root() / "dcp", fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  Cost cost;
  ckpt::Checkpoint far = open_far(web().url("dcp/.metadata"), cost);
  EXPECT_LE(cost.requests, 2U);  // the second for values that are no tensors
  expect_same(far, ckpt::open(*golden));
}

TEST(RemoteFormats, AnEmptyFileIsNoCheckpoint) {
  write_file(web().root() / "empty.pth", "");
  ckpt::enable_remote_files();
  EXPECT_EQ(ckpt::open_file(web().url("empty.pth"))->size(), 0U);
  EXPECT_THROW(ckpt::open(web().url("empty.pth")), core::Error);
}

TEST(RemoteReads, GoOnInGrowingSteps) {
  write_file(web().root() / "run.bin", std::string(40 << 20, 'r'));
  ckpt::enable_remote_files();
  ckpt::SourcePtr file = ckpt::open_file(web().url("run.bin"));
  core::ByteVector piece(16 << 10);
  for (std::uint64_t at = 0; at < file->size(); at += piece.size()) {
    file->read(at, piece);
    ASSERT_TRUE(std::ranges::all_of(piece, [](std::byte b) { return b == std::byte{'r'}; })) << at;
  }
  EXPECT_LE(ckpt::remote_traffic().requests, 16U);
  EXPECT_EQ(ckpt::remote_traffic().bytes, file->size());  // each byte once
}

TEST(RemoteReads, ALargePieceComesInEightPartsAtOnce) {
  std::string text(64 << 20, '\0');
  for (std::size_t i = 0; i < text.size(); i += 4096) text[i] = static_cast<char>(i >> 12);
  write_file(web().root() / "large.bin", text);
  ckpt::enable_remote_files();
  ckpt::SourcePtr file = ckpt::open_file(web().url("large.bin"));
  core::ByteVector all = ckpt::read_all(*file);
  EXPECT_TRUE(core::as_text(all) == text);
  EXPECT_LE(ckpt::remote_traffic().requests, 1U + 8U);
  EXPECT_EQ(ckpt::remote_traffic().bytes, text.size());
}

TEST(RemoteReads, AreWithinTheFile) {
  ckpt::enable_remote_files();
  write_file(web().root() / "five.bin", "12345");
  ckpt::SourcePtr file = ckpt::open_file(web().url("five.bin"));
  core::ByteVector room(3);
  EXPECT_THROW(file->read(3, room), core::Error);
  EXPECT_THROW(file->read(~0ULL, room), core::Error);
  file->read(2, room);
  EXPECT_EQ(core::as_text(room), "345");
  EXPECT_EQ(ckpt::remote_traffic().requests, 1U);
}

TEST(RemoteReads, OfManyThreadsAskForNothingTwice) {
  write_file(web().root() / "shared.bin", std::string(4 << 20, 's'));
  ckpt::enable_remote_files();
  ckpt::SourcePtr file = ckpt::open_file(web().url("shared.bin"));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      core::ByteVector piece(10'000);
      for (std::uint64_t at = 0; at + piece.size() <= file->size(); at += piece.size()) file->read(at, piece);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(ckpt::remote_traffic().bytes, file->size());
}

}  // namespace
