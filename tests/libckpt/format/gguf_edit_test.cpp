// Edits of GGUF files that write the header where it lies.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/ckpt.h"
#include "libckpt/io/edit_journal.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/in_place_save.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::Checkpoint;
using test::read_file;
using test::rename_in_place;
using test::save_in_place;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;
using Pairs = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kSlackKey = "ckpt.slack";
constexpr std::size_t kShortestSlack = 8 + 10 + 4 + 8;  ///< key with its length, type, length of an empty text

class GgufEdit : public testing::Test {
 protected:
  fs::path path() const { return dir_.path() / "net.gguf"; }

  /// Two tensors, one under that key.
  void write_net(const std::string& key, const Pairs& metadata = {{"general.name", "a longer net"}}) const {
    Checkpoint net = test::checkpoint(test::dict({{key, test::tensor({1, 2, 3})}, {"b", test::tensor({4})}}));
    net.metadata = metadata;
    ckpt::save(net, path(), {.durable = false});
  }

  void set_metadata(const Pairs& metadata, bool copied) const {
    Checkpoint checkpoint = ckpt::open(path());
    checkpoint.metadata = metadata;
    EXPECT_EQ(save_in_place(checkpoint, path()).copied, copied);
    EXPECT_EQ(ckpt::open(path()).metadata, metadata);
  }

  test::TempDir dir_;
};

/// Where the data begin: the first value is 1.
std::size_t data_begin(const std::string& file) {
  return file.find(std::string("\0\0\x80\x3f\0\0\0\x40", 8));
}

/// Zeros in front of the data.
std::size_t padding(const std::string& file) {
  std::size_t end = file.find(std::string("b\x01\0\0\0\x01\0\0\0\0\0\0\0", 13)) + 13 + 4 + 8;  // type and offset
  return data_begin(file) - end;
}

TEST_F(GgufEdit, EveryNameThatFitsIsWrittenInPlace) {
  constexpr std::size_t kLongest = 63;
  for (std::size_t length = 1; length <= kLongest; ++length) {
    const std::string key(50, 'k');
    write_net(key);
    std::string before = read_file(path());
    std::size_t room = key.size() + padding(before);
    ASSERT_LT(room, kLongest);
    std::string name(length, 'x');
    test::InPlaceSave out = rename_in_place(path(), key, name);
    EXPECT_EQ(out.copied, length > room) << length;
    Checkpoint read = ckpt::open(path());
    EXPECT_EQ(test::names(read), (std::vector<std::string>{name, "b"}));
    EXPECT_EQ(read.metadata, (Pairs{{"general.name", "a longer net"}}));
    EXPECT_TRUE(ckpt::verify(path()).damage.empty());
    if (out.copied) continue;
    std::string after = read_file(path());
    EXPECT_EQ(after.substr(data_begin(before)), before.substr(data_begin(before)));
    EXPECT_EQ(after.find(kSlackKey) != std::string::npos, room - length >= 32) << length;
    EXPECT_EQ(out.report.bytes_written, data_begin(before));
    ckpt::EditJournal(path()).undo();
    EXPECT_EQ(read_file(path()), before) << length;
  }
}

TEST_F(GgufEdit, WhereNamesHaveNoRoomTheFirstTensorsMakeIt) {
  ckpt::Dict dict;
  for (int i = 0; i < 100; ++i) {
    std::vector<float> values(static_cast<std::size_t>(200 + i % 3));  // some are padded
    for (std::size_t at = 0; at < values.size(); ++at)
      values[at] = static_cast<float>(i) + static_cast<float>(at) / 256;
    auto entry = std::make_shared<ckpt::Entry>(test::float_entry(values));
    dict.items.emplace_back(ckpt::Value::text("layer." + std::to_string(i)), ckpt::Value::tensor(std::move(entry)));
  }
  ckpt::save(test::checkpoint(ckpt::Value::dict(std::move(dict))), path(), {.durable = false});
  const std::string before = read_file(path());
  test::write_file(dir_.path() / "before.gguf", before);
  Checkpoint old = ckpt::open(dir_.path() / "before.gguf");
  test::InPlaceSave out = save_in_place(ckpt::add_prefix(ckpt::open(path()), {.prefix = "a.long.prefix."}), path());
  EXPECT_FALSE(out.copied);
  EXPECT_EQ(out.report.part, "header and first tensors");
  Checkpoint now = ckpt::open(path());
  EXPECT_EQ(test::names(now).size(), 100U);
  EXPECT_NE(test::names(now).front(), "a.long.prefix.layer.0");  // in the order in which they lie
  for (const ckpt::NamedEntry& tensor : ckpt::list_entries(old.root)) {
    const ckpt::Value* moved = now.root.find("a.long.prefix." + tensor.name);
    ASSERT_NE(moved, nullptr) << tensor.name;
    EXPECT_EQ(ckpt::read_all(*moved->as_entry().bytes), ckpt::read_all(*tensor.entry->bytes)) << tensor.name;
  }
  EXPECT_TRUE(ckpt::verify(path()).damage.empty());
  ckpt::undo_edit(path());
  EXPECT_EQ(read_file(path()), before);
}

TEST_F(GgufEdit, GoesToAndFro) {
  const std::string key(50, 'k');
  write_net(key);
  std::string before = read_file(path());
  EXPECT_FALSE(rename_in_place(path(), key, "w").copied);
  std::string first = read_file(path());
  EXPECT_FALSE(rename_in_place(path(), "w", "module").copied);
  EXPECT_THAT(read_file(path()), HasSubstr(kSlackKey));
  EXPECT_FALSE(rename_in_place(path(), "module", "w").copied);
  EXPECT_EQ(read_file(path()), first);
  EXPECT_FALSE(rename_in_place(path(), "w", key).copied);
  EXPECT_EQ(read_file(path()), before);
}

/// Fewer bytes than the shortest value, in which padding has no place: the data move.
TEST_F(GgufEdit, RoomThatNothingFillsIsNotLeft) {
  const std::string key(40, 'k');
  for (std::size_t length = 1; length <= key.size(); ++length) {
    write_net(key, {{"general.alignment", "8"}});
    std::size_t room = key.size() - length + padding(read_file(path()));
    bool copied = rename_in_place(path(), key, std::string(length, 'x')).copied;
    EXPECT_EQ(copied, room >= 8 && room < kShortestSlack) << room;
    EXPECT_TRUE(ckpt::verify(path()).damage.empty());
  }
}

TEST_F(GgufEdit, RoomIsNoMetadata) {
  write_net(std::string(60, 'k'));
  rename_in_place(path(), std::string(60, 'k'), "w");
  std::string edited = read_file(path());
  ASSERT_THAT(edited, HasSubstr(kSlackKey));
  for (const char* copy : {"copy.gguf", "copy.safetensors"}) {
    ckpt::save(ckpt::open(path()), dir_.path() / copy);
    EXPECT_THAT(read_file(dir_.path() / copy), Not(HasSubstr(kSlackKey)));
    EXPECT_TRUE(ckpt::diff(ckpt::open(path()), ckpt::open(dir_.path() / copy)).equal()) << copy;
  }
  // Somebody else's text under that key is one, which another save cannot hold.
  std::size_t text = edited.find(kSlackKey) + 10 + 4 + 8;
  test::write_file(path(), edited.replace(text, 1, "x"));
  Checkpoint foreign = ckpt::open(path());
  EXPECT_EQ(foreign.metadata.back().first, kSlackKey);
  try {
    save_in_place(foreign, path());
    ADD_FAILURE() << "was saved";
  } catch (const core::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the key by which a file keeps room"));
  }
}

TEST_F(GgufEdit, MetadataChangesInPlace) {
  write_net("w", {{"general.name", "a name of some length for this net"}, {"general.license", "MIT"}});
  set_metadata({{"general.license", "MIT"}}, false);
  set_metadata({{"general.license", "MIT"}, {"general.name", "short"}}, false);
  set_metadata({{"general.license", "MIT"}, {"general.name", std::string(100, 'n')}}, true);
}

TEST_F(GgufEdit, AnotherAlignmentMayMoveTheData) {
  write_net("w", {{"general.alignment", "32"}, {"general.name", std::string(80, 'n')}});
  set_metadata({{"general.alignment", "64"}}, true);
  Checkpoint checkpoint = ckpt::open(path());
  EXPECT_EQ(ckpt::list_entries(checkpoint.root).size(), 2U);
}

TEST_F(GgufEdit, DataThatAreAlignedMoreThanTheySayStay) {
  for (std::size_t length : {80U, 112U}) {
    Checkpoint one = test::checkpoint(test::dict({{"w", test::tensor({1, 2, 3})}}));
    one.metadata = {{"general.alignment", "32"}, {"general.name", std::string(length, 'n')}};
    ckpt::save(one, path(), {.durable = false});
    set_metadata({{"general.alignment", "64"}}, data_begin(read_file(path())) % 64 != 0);
    EXPECT_TRUE(ckpt::verify(path()).damage.empty());
  }
}

TEST_F(GgufEdit, WhatLiesBetweenChangesIsNotWritten) {
  constexpr std::size_t kVocabulary = 1 << 20;
  write_net("module.weight", {{"tokens", std::string(kVocabulary, 't')}});
  std::string before = read_file(path());
  test::InPlaceSave out = rename_in_place(path(), "module.weight", "w");
  EXPECT_FALSE(out.copied);
  EXPECT_GT(out.report.bytes_written, 0U);
  EXPECT_LT(out.report.bytes_written, 4U * 4096);
  EXPECT_NE(ckpt::open(path()).root.find("w"), nullptr);
  ckpt::EditJournal(path()).undo();
  EXPECT_EQ(read_file(path()), before);
}

TEST_F(GgufEdit, OtherTensorsOrAnotherOrderAreWrittenWhole) {
  const std::vector<std::string> kept[] = {{"b"}, {"b", "w"}};
  for (const std::vector<std::string>& names : kept) {
    write_net("w");
    Checkpoint checkpoint = ckpt::open(path());
    ckpt::Dict dict;
    for (const std::string& name : names) dict.items.emplace_back(ckpt::Value::text(name), *checkpoint.root.find(name));
    checkpoint.root = ckpt::Value::dict(std::move(dict));
    EXPECT_TRUE(save_in_place(checkpoint, path()).copied);
    EXPECT_EQ(test::names(ckpt::open(path())), names);
  }
}

TEST_F(GgufEdit, BytesThatWereLetPassGoWithTheEdit) {
  write_net("module.weight");
  test::write_file(path(), read_file(path()) + "junk");
  Checkpoint lenient = ckpt::open(path(), {.lenient = true});
  EXPECT_TRUE(save_in_place(test::with_key(lenient, "module.weight", "w"), path()).copied);
  EXPECT_TRUE(ckpt::verify(path()).damage.empty());
}

TEST_F(GgufEdit, SaysWhatASaveSays) {
  write_net("module.weight");
  Checkpoint checkpoint = ckpt::open(path());
  ckpt::Dict dict = checkpoint.root.as_dict();
  ckpt::Entry tagged = dict.items[0].second.as_entry();
  tagged.location = "cuda:0";
  dict.items[0].second = ckpt::Value::tensor(std::make_shared<ckpt::Entry>(tagged));
  checkpoint.root = ckpt::Value::dict(std::move(dict));
  test::InPlaceSave out = save_in_place(checkpoint, path());
  EXPECT_FALSE(out.copied);
  ASSERT_EQ(out.report.warnings.size(), 1U);
  EXPECT_THAT(out.report.warnings[0], HasSubstr("device tags (cuda:0) are not kept"));
}

}  // namespace
