// Edits of NumPy archives that write names of members where they lie.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/ckpt.h"
#include "libckpt/io/edit_journal.h"
#include "libckpt/io/zip.h"
#include "tests/libckpt/format/deflated.h"
#include "tests/libckpt/format/in_place_save.h"
#include "tests/libckpt/format/zip_maker.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::Checkpoint;
using test::read_file;
using test::rename_in_place;
using test::save_in_place;
namespace fs = std::filesystem;

/// What is read of a file, in file order.
struct Member {
  std::string name;
  std::uint64_t payload = 0;
  std::uint32_t crc = 0;
  bool operator==(const Member&) const = default;
};

class NpzEdit : public testing::Test {
 protected:
  fs::path path() const { return dir_.path() / "net.npz"; }

  /// Two arrays, one under that key, as this library writes them.
  void write_net(const std::string& key) const {
    ckpt::save(test::checkpoint(test::dict({{key, test::tensor({1, 2, 3})}, {"b", test::tensor({4})}})), path(),
               {.durable = false});
  }

  std::string array(const std::vector<float>& values) const {
    fs::path file = dir_.path() / "array.npy";
    ckpt::save(test::checkpoint(test::tensor(values)), file, {.durable = false});
    std::string bytes = read_file(file);
    fs::remove(file);
    return bytes;
  }

  /// Two arrays, one under that key, with those extra fields in front of it.
  test::ZipSpec net(const std::string& key, const std::string& extra = "") const {
    test::ZipSpec zip;
    zip.add(key + ".npy", array({1, 2, 3})).extra = extra;
    zip.add("b.npy", array({4}));
    return zip;
  }

  std::vector<Member> members() const {
    ckpt::ZipArchive zip = ckpt::ZipArchive::open(ckpt::open_file(path()));
    std::vector<Member> out;
    for (const ckpt::ZipMember& member : zip.members())
      out.push_back({member.name, member.payload_offset, member.crc32});
    return out;
  }

  /// Renames the first array; what is read then is right, and of the second nothing changes.
  bool is_renamed_in_place(const std::string& key, const std::string& name) const {
    std::string before = read_file(path());
    std::vector<Member> old = members();
    test::InPlaceSave out = rename_in_place(path(), key, name);
    EXPECT_EQ(test::names(ckpt::open(path())), (std::vector<std::string>{name, "b"}));
    EXPECT_TRUE(ckpt::verify(path()).damage.empty());
    if (out.copied) return false;
    old[0].name = name + ".npy";
    EXPECT_EQ(members(), old) << name;
    std::string after = read_file(path());
    std::size_t data = old[0].payload;
    std::size_t directory = before.find("PK\x01\x02");
    EXPECT_EQ(after.substr(data, directory - data), before.substr(data, directory - data));
    EXPECT_EQ(after.size() - before.size(), name.size() - key.size());
    ckpt::EditJournal(path()).undo();
    EXPECT_EQ(read_file(path()), before) << name;
    return true;
  }

  test::TempDir dir_;
};

/// Bytes of the extra fields of the first member.
std::size_t extra_size(const std::string& file) {
  return core::load_le<std::uint16_t>(core::as_bytes(file).data() + 28);
}

TEST_F(NpzEdit, EveryNameThatFitsIsWrittenInPlace) {
  const std::string key = "module.weight";
  write_net(key);
  std::size_t room = key.size() + extra_size(read_file(path()));
  EXPECT_GE(room, key.size() + 32) << "a file of ours has room for longer names";
  for (std::size_t length = 1; length <= room + 4; ++length) {
    if (length > key.size() + 4 && length + 4 < room) continue;
    write_net(key);
    EXPECT_EQ(is_renamed_in_place(key, std::string(length, 'x')), length <= room) << length;
  }
}

TEST_F(NpzEdit, ArchivesOfOthersGetPaddingForShorterNames) {
  const std::string key = "module.weight";
  const std::string zip64(
      "\x01\0\x10\0"
      "0123456789abcdef",
      20);
  for (const std::string& extra : {std::string(), zip64, std::string("FB\x02\0ZZ", 6), std::string(3, '\0')}) {
    std::size_t room = key.size() + (extra == zip64 ? 0 : extra.size());
    for (std::size_t length = 1; length <= room + 2; ++length) {
      test::write_file(path(), net(key, extra).bytes());
      EXPECT_EQ(is_renamed_in_place(key, std::string(length, 'x')), length <= room) << length << " " << extra.size();
      if (length > room || extra != zip64) continue;
      rename_in_place(path(), key, std::string(length, 'x'));
      EXPECT_EQ(read_file(path()).substr(30 + length + 4, zip64.size()), zip64);
    }
  }
}

TEST_F(NpzEdit, GoesToAndFro) {
  test::write_file(path(), net("module.weight").bytes());
  std::string before = read_file(path());
  for (std::string name : {"weight", "w", "module.w", "module.weigh", "module.weight"}) {
    EXPECT_FALSE(rename_in_place(path(), test::names(ckpt::open(path()))[0], name).copied) << name;
  }
  EXPECT_EQ(read_file(path()), before);
}

TEST_F(NpzEdit, CompressedMembersStayCompressed) {
  test::ZipSpec zip = net("module.weight");
  for (auto& member : zip.members) member.deflated = test::deflated(member.content, test::DeflateForm::zip);
  test::write_file(path(), zip.bytes());
  EXPECT_TRUE(is_renamed_in_place("module.weight", "w"));
}

TEST_F(NpzEdit, ANameBeyondAsciiIsMarked) {
  test::write_file(path(), net("module.weight").bytes());
  rename_in_place(path(), "module.weight", "w\xc3\xa4hlbar");
  ckpt::ZipArchive zip = ckpt::ZipArchive::open(ckpt::open_file(path()));
  EXPECT_EQ(zip.members()[0].flags, 0x0800);
  EXPECT_EQ(zip.members()[1].flags, 0);
  rename_in_place(path(), "w\xc3\xa4hlbar", "w");
  EXPECT_EQ(ckpt::ZipArchive::open(ckpt::open_file(path())).members()[0].flags, 0x0800);
}

TEST_F(NpzEdit, ACommentStays) {
  std::string bytes = net("module.weight").bytes();
  bytes[bytes.size() - 2] = 5;
  test::write_file(path(), bytes + "hello");
  EXPECT_TRUE(is_renamed_in_place("module.weight", "w"));
  rename_in_place(path(), "module.weight", "w");
  EXPECT_TRUE(read_file(path()).ends_with("hello"));
}

TEST_F(NpzEdit, FieldsThatTellTheNameOrAreNoneAreNotTouched) {
  const std::string unicode_name(
      "\x75\x70\x05\0\x01"
      "abcd",
      9);
  const std::string longer_than_there_is("\x34\x12\x09\0ab", 6);
  const std::string no_zeros = "xy";
  for (const std::string& extra : {unicode_name, longer_than_there_is, no_zeros}) {
    test::write_file(path(), net("module.weight", extra).bytes());
    EXPECT_FALSE(is_renamed_in_place("module.weight", "w")) << extra;
  }
}

TEST_F(NpzEdit, RecordsInAnotherOrderThanTheDirectory) {
  test::ZipSpec zip = net("module.weight");
  zip.add("c.npy", array({5, 6}));
  zip.reversed_directory = true;
  test::write_file(path(), zip.bytes());
  std::string before = read_file(path());
  Checkpoint edited = test::with_key(test::with_key(ckpt::open(path()), "module.weight", "w"), "c", "d");
  EXPECT_FALSE(save_in_place(edited, path()).copied);
  EXPECT_EQ(test::names(ckpt::open(path())), (std::vector<std::string>{"d", "b", "w"}));
  EXPECT_EQ(ckpt::list_entries(ckpt::open(path()).root)[0].entry->shape, core::Shape{2});
  EXPECT_TRUE(ckpt::verify(path()).damage.empty());
  ckpt::EditJournal(path()).undo();
  EXPECT_EQ(read_file(path()), before);
}

TEST_F(NpzEdit, OtherArraysOrAnotherOrderAreWrittenWhole) {
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

TEST_F(NpzEdit, WhatAnArchiveHasBesideItsArraysIsNotKept) {
  test::ZipSpec folder = net("module.weight");
  folder.add("folder/", "");
  test::ZipSpec text = net("module.weight");
  text.add("notes.txt", "hello");
  const std::string archives[] = {folder.bytes(), text.bytes(), net("module.weight").bytes() + "junk"};
  for (const std::string& bytes : archives) {
    test::write_file(path(), bytes);
    Checkpoint lenient = ckpt::open(path(), {.lenient = true});
    EXPECT_TRUE(save_in_place(test::with_key(lenient, "module.weight", "w"), path()).copied);
    EXPECT_EQ(members().size(), 2U);
  }
}

/// As an archive looks that something was appended to.
TEST_F(NpzEdit, AReplacedDirectoryGoesWithTheEdit) {
  constexpr std::size_t kEndSize = 22;
  constexpr std::size_t kOffsetInEnd = 16;
  const std::string bytes = net("module.weight").bytes();
  std::size_t directory = bytes.find("PK\x01\x02");
  std::string end = bytes.substr(bytes.size() - kEndSize);
  end.replace(kOffsetInEnd, 4, test::raw(static_cast<std::uint32_t>(bytes.size())));
  test::write_file(path(), bytes + bytes.substr(directory, bytes.size() - kEndSize - directory) + end);
  ASSERT_EQ(ckpt::ZipArchive::open(ckpt::open_file(path())).dead_ranges().size(), 1U);
  EXPECT_FALSE(is_renamed_in_place("module.weight", "w"));
  EXPECT_TRUE(ckpt::ZipArchive::open(ckpt::open_file(path())).dead_ranges().empty());
}

TEST_F(NpzEdit, DamageStaysVisible) {
  std::string bytes = net("module.weight").bytes();
  bytes[bytes.find(std::string("\0\0\x80\x3f", 4))] = 1;
  test::write_file(path(), bytes);
  EXPECT_FALSE(rename_in_place(path(), "module.weight", "w").copied);
  ckpt::VerifyResult result = ckpt::verify(path());
  ASSERT_EQ(result.damage.size(), 1U);
  EXPECT_EQ(result.damage[0].subject, "w.npy");
}

TEST_F(NpzEdit, SaysWhatASaveSays) {
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
  EXPECT_THAT(out.report.warnings[0], testing::HasSubstr("device tags (cuda:0) are not kept"));
}

}  // namespace
