// Edits of native files that write the index and the HDF5 side, and leave the payloads where they lie.

#include <gtest/gtest.h>

#include "libckpt/io/edit_journal.h"
#include "libckpt/transform/cast.h"
#include "libckpt/transform/map_location.h"
#include "libckpt/transform/prefix.h"
#include "tests/libckpt/format/in_place_save.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::Checkpoint;
using ckpt::SaveOptions;
using core::DType;
using test::read_file;
namespace fs = std::filesystem;

/// Behind a header's magic, versions and size.
std::uint64_t header_field(const fs::path& path, std::size_t at) {
  return core::load_le<std::uint64_t>(core::as_bytes(read_file(path).substr(at, 8)).data());
}
std::uint64_t user_block(const fs::path& path) {
  return header_field(path, 16);
}
std::uint64_t generation(const fs::path& path) {
  return header_field(path, 24);
}

class NativeEdit : public testing::Test {
 protected:
  fs::path path() const { return dir_.path() / "net.ckpt"; }

  /// A wrapped model with a tied pair, a transposed view, a packed tensor and plain values beside it.
  void write_net() const {
    auto tied = test::tensor(DType::f32, {3, 4}, 1);
    auto turned = test::storage(DType::f32, test::noise(48, 3));
    Checkpoint net =
        test::checkpoint({{"model", test::dict({{"module.fc.weight", tied},
                                                {"module.fc.bias", test::tensor(DType::f32, {4}, 2)},
                                                {"module.turned", test::view(turned, DType::f32, {4, 3}, 0, {1, 4})},
                                                {"module.zeros", test::dict({{"x", zeros()}})},
                                                {"module.tied", tied}})},
                          {"epoch", ckpt::Value::integer(7)}});
    net.metadata = {{"license", "MIT"}};
    ckpt::save(net, path());
  }

  test::InPlaceSave save_over(const Checkpoint& edited, const SaveOptions& options = {}) const {
    return test::save_in_place(edited, path(), options);
  }

  /// All checks that `ckpt verify` makes, those of what HDF5 shows included.
  void expect_good() const {
    ckpt::VerifyResult result = ckpt::verify(path());
    for (const ckpt::Finding& finding : result.damage) ADD_FAILURE() << finding.subject << ": " << finding.text;
    EXPECT_TRUE(result.complete);
  }

  test::TempDir dir_;

 private:
  static ckpt::Value zeros() {
    constexpr std::int64_t kElements = 1 << 15;
    return ckpt::Value::tensor(
        test::entry(DType::f32, {kElements}, core::ByteVector(kElements * sizeof(float))));  // gets packed
  }
};

TEST_F(NativeEdit, MovesNoPayloadAndMeansWhatASaveMeans) {
  write_net();
  std::string before = read_file(path());
  Checkpoint stripped = ckpt::strip_prefix(ckpt::open(path()));
  ckpt::save(stripped, dir_.path() / "saved.ckpt");
  test::InPlaceSave out = save_over(stripped);
  EXPECT_FALSE(out.copied);
  EXPECT_TRUE(out.announced);
  EXPECT_EQ(out.report.rung, "in place");
  EXPECT_EQ(out.report.part, "index");
  expect_good();
  Checkpoint read = ckpt::open(path());
  Checkpoint saved = ckpt::open(dir_.path() / "saved.ckpt");
  EXPECT_EQ(test::difference(read.root, saved.root), "");
  EXPECT_EQ(read.metadata, saved.metadata);
  EXPECT_NE(read.root.as_dict().find("model")->find("fc.weight"), nullptr);
  std::string after = read_file(path());
  constexpr std::size_t kSmallPayloads = 256;
  std::uint64_t payloads = user_block(path()) + 4096;
  EXPECT_TRUE(after.substr(payloads, kSmallPayloads) == before.substr(payloads, kSmallPayloads));
  EXPECT_EQ(generation(path()), 2U);
  ckpt::EditJournal(path()).undo();
  EXPECT_TRUE(read_file(path()) == before);
  expect_good();
}

/// Of many tensors few links move, and HDF5 readers find them all.
TEST_F(NativeEdit, MovesLinksOfGroupsAlone) {
  test::Items items;
  for (int layer = 0; layer < 12; ++layer) {
    for (int part = 0; part < 20; ++part) {
      std::string name = "module.layer" + std::to_string(layer) + ".part" + std::to_string(part) + ".weight";
      items.emplace_back(name, test::tensor(DType::f32, {2}, static_cast<unsigned>(part)));
    }
  }
  ckpt::save(test::checkpoint(items), path());
  test::InPlaceSave out = save_over(ckpt::strip_prefix(ckpt::open(path())));
  EXPECT_FALSE(out.copied);
  constexpr std::uint64_t kMetadataPerTensor = 500;
  EXPECT_LT(out.report.bytes_written, items.size() * kMetadataPerTensor / 2);
  expect_good();
  EXPECT_NE(ckpt::open(path()).root.find("layer0.part0.weight"), nullptr);
  std::string stripped = read_file(path());
  EXPECT_FALSE(save_over(ckpt::add_prefix(ckpt::open(path()))).copied);
  expect_good();
  ckpt::EditJournal(path()).undo();
  EXPECT_TRUE(read_file(path()) == stripped);
}

TEST_F(NativeEdit, GoesToAndFro) {
  write_net();
  fs::copy_file(path(), dir_.path() / "first.ckpt");
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(save_over(ckpt::strip_prefix(ckpt::open(path()))).copied);
    expect_good();
    EXPECT_FALSE(save_over(ckpt::add_prefix(ckpt::open(path()), {.at = "model"})).copied);
    expect_good();
  }
  EXPECT_EQ(generation(path()), 7U);
  EXPECT_EQ(test::difference(ckpt::open(path()).root, ckpt::open(dir_.path() / "first.ckpt").root), "");
}

TEST_F(NativeEdit, NamesThatStayLeaveTheHdf5Side) {
  write_net();
  std::string before = read_file(path());
  test::InPlaceSave out = save_over(ckpt::map_location(ckpt::open(path()), {.to = "cuda:1"}));
  EXPECT_FALSE(out.copied);
  EXPECT_LT(out.report.bytes_written, user_block(path()));
  EXPECT_TRUE(read_file(path()).substr(user_block(path())) == before.substr(user_block(path())));
  expect_good();
  Checkpoint read = ckpt::open(path());
  for (const ckpt::NamedEntry& named : ckpt::list_entries(read.root)) EXPECT_EQ(named.entry->location, "cuda:1");
}

TEST_F(NativeEdit, WithoutAChangeNothingIsWritten) {
  write_net();
  std::string before = read_file(path());
  test::InPlaceSave out = save_over(ckpt::open(path()));
  EXPECT_EQ(out.report.bytes_written, 0U);
  EXPECT_TRUE(read_file(path()) == before);
  EXPECT_EQ(test::list_folder(dir_.path()).size(), 1U);
}

TEST_F(NativeEdit, AnIndexThatIsTooLongForItsRoomIsWrittenWithTheFile) {
  write_net();
  std::uint64_t room = user_block(path());
  bool copied = false;
  for (std::size_t length = 1; !copied; length += 199) {
    Checkpoint edited = ckpt::open(path());
    edited.metadata = {{"note", std::string(length, 'x')}};
    test::InPlaceSave out = save_over(edited);
    copied = out.copied;
    EXPECT_EQ(out.announced, !copied);
    expect_good();
    EXPECT_EQ(ckpt::open(path()).metadata, edited.metadata);
    EXPECT_EQ(user_block(path()) == room, !copied) << length;
    ASSERT_LT(length, room);
  }
}

TEST_F(NativeEdit, OtherBytesAreWrittenWithTheFile) {
  write_net();
  auto writes_whole = [&](const Checkpoint& edited, const SaveOptions& options, const char* why) {
    EXPECT_FALSE(ckpt::plan_in_place(edited, path(), options)) << why;
    EXPECT_TRUE(save_over(edited, options).copied) << why;
    expect_good();
  };
  writes_whole(ckpt::cast(ckpt::open(path()), {.to = DType::f16}), {}, "cast");
  write_net();
  Checkpoint dropped = ckpt::open(path());
  ckpt::Dict top = dropped.root.as_dict();
  top.items.erase(top.items.begin());
  dropped.root = ckpt::Value::dict(std::move(top));
  writes_whole(dropped, {}, "a tensor less");
  write_net();
  writes_whole(ckpt::strip_prefix(ckpt::open(path())), {.codec = ckpt::Codec::none}, "packed otherwise");
  writes_whole(ckpt::add_prefix(ckpt::open(path()), {.prefix = "a.", .at = "model"}), {.parity = 0.05},
               "with parity data");
  writes_whole(ckpt::strip_prefix(ckpt::open(path()), {.prefix = "a."}), {}, "parity data is made anew");
}

}  // namespace
