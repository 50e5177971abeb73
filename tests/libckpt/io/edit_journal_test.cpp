#include "libckpt/io/edit_journal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libckpt/io/atomic_file.h"
#include "libckpt/io/edit_record.h"
#include "libckpt/io/unedited_source.h"
#include "libcore/base/error.h"
#include "tests/libckpt/io/fault.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace test::fault;
using ckpt::EditJournal;
using ckpt::detail::EditRecord;
using test::list_folder;
using test::read_file;
using test::write_file;
using Names = std::vector<std::string>;
namespace fs = std::filesystem;

constexpr std::uint64_t kAt = 700;  // in the midst of the second sector
constexpr const char* kName = "net.bin";
constexpr const char* kJournal = ".net.bin.ckpt-journal";
constexpr const char* kUndo = ".net.bin.ckpt-undo";

const std::string kOld = std::string(3000, 'o');
const std::string kNew = std::string(3000, 'n');
const std::string kBefore = std::string(kAt, 'a') + kOld + std::string(500, 'z');
const std::string kAfter = std::string(kAt, 'a') + kNew + std::string(500, 'z');

void edit(const fs::path& folder) {
  EditJournal(folder / kName).replace(kAt, core::as_bytes(kOld), core::as_bytes(kNew));
}

std::string seen_in(const fs::path& path) {
  return std::string(core::as_text(ckpt::read_all(*ckpt::open_file(path))));
}

EditRecord record_of_edit() {
  core::Bytes old_bytes = core::as_bytes(kOld);
  core::Bytes new_bytes = core::as_bytes(kNew);
  return {.size = kBefore.size(),
          .offset = kAt,
          .old_bytes = {old_bytes.begin(), old_bytes.end()},
          .new_bytes = {new_bytes.begin(), new_bytes.end()}};
}

void write_record(const fs::path& path, const EditRecord& record) {
  write_file(path, core::as_text(encode(record)));
}

/// The file as an edit leaves it that is ended with `done` new bytes, and its record.
std::string interrupt(const fs::path& folder, std::size_t done) {
  std::string torn = kBefore;
  torn.replace(kAt, done, kNew, 0, done);
  write_file(folder / kName, torn);
  write_record(folder / kJournal, record_of_edit());
  return torn;
}

TEST(EditJournal, WritesTheBytesAndTakesThemBack) {
  test::TempDir dir;
  write_file(dir.path() / kName, kBefore);
  edit(dir.path());
  EXPECT_EQ(read_file(dir.path() / kName), kAfter);
  EXPECT_EQ(list_folder(dir.path()), (Names{kUndo, kName}));
  EXPECT_EQ(EditJournal(dir.path() / kName).undo(), kOld.size());
  EXPECT_EQ(read_file(dir.path() / kName), kBefore);
  EditJournal(dir.path() / kName).undo();  // the undoing is an edit as well
  EXPECT_EQ(read_file(dir.path() / kName), kAfter);
  EXPECT_EQ(list_folder(dir.path()), (Names{kUndo, kName}));
}

TEST(EditJournal, WritesNothingOverOtherBytes) {
  test::TempDir dir;
  write_file(dir.path() / kName, kAfter);
  EXPECT_NE(error_of([&] { edit(dir.path()); }).find("changed by another program"), std::string::npos);
  EXPECT_EQ(read_file(dir.path() / kName), kAfter);
  EXPECT_EQ(list_folder(dir.path()), Names{kName});
  EXPECT_NE(error_of([&] { EditJournal(dir.path() / "none"); }), "");
}

TEST(EditJournal, UndoesNoFileThatWasChangedSince) {
  test::TempDir dir;
  fs::path path = dir.path() / kName;
  write_file(path, kBefore);
  auto refuses = [&](const char* why) {
    std::string content = read_file(path);
    EXPECT_NE(error_of([&] { EditJournal(path).undo(); }).find(why), std::string::npos);
    EXPECT_EQ(read_file(path), content);
  };
  refuses("no record");
  edit(dir.path());
  std::string tail = kAfter;
  tail.back() = '!';
  ::usleep(20'000);  // times of files go by ticks
  write_file(path, tail);
  refuses("changed after");
  fs::copy_file(path, dir.path() / "copy");
  fs::rename(dir.path() / "copy", path);
  refuses("changed after");
}

TEST(EditJournal, KilledAtAnyCallTheFileIsOldOrNewAndReadsSo) {
  int at = 0;
  for (;; ++at) {
    test::TempDir dir;
    write_file(dir.path() / kName, kBefore);
    int status = run_child([&] {
      Injection injection(at, 0);
      edit(dir.path());
    });
    if (!WIFSIGNALED(status)) break;
    std::string seen = seen_in(dir.path() / kName);
    EXPECT_TRUE(seen == kBefore || seen == kAfter) << "call " << at;
    EditJournal::settle(dir.path() / kName);
    EXPECT_EQ(read_file(dir.path() / kName), seen) << "call " << at;
    { EditJournal journal(dir.path() / kName); }
    for (const std::string& name : list_folder(dir.path())) EXPECT_TRUE(name == kName || name == kUndo) << name;
  }
  EXPECT_GT(at, 8);
}

TEST(EditJournal, FailedAtAnyCallTheFileIsAsItWas) {
  for (int error : {ENOSPC, EIO, EDQUOT, EROFS}) {
    int at = 0;
    for (;; ++at) {
      test::TempDir dir;
      write_file(dir.path() / kName, kBefore);
      std::string said;
      {
        Injection injection(at, error);
        said = error_of([&] { edit(dir.path()); });
        if (!Injection::struck()) break;
      }
      std::string content = read_file(dir.path() / kName);
      EXPECT_EQ(content, said.empty() ? kAfter : kBefore) << "call " << at << ": " << said;
      bool unknown = said.find("durability is unknown") != std::string::npos;
      EXPECT_EQ(fs::exists(dir.path() / kJournal), unknown) << "call " << at << ": " << said;
      EXPECT_EQ(seen_in(dir.path() / kName), content);
    }
    EXPECT_GT(at, 6);
  }
}

TEST(EditJournal, GoesOnWhereAWriteIsShort) {
  test::TempDir dir;
  write_file(dir.path() / kName, kBefore);
  ckpt::detail::FileOps ops = ckpt::detail::system_file_ops();
  ops.pwrite = short_pwrite;
  Injection injection(-1, 0, ops);
  edit(dir.path());
  EXPECT_EQ(read_file(dir.path() / kName), kAfter);
}

TEST(EditJournal, AnInterruptedEditIsReadAndTakenBackAsItWasBefore) {
  for (std::size_t done : {0UL, 1UL, 511UL, 1536UL, 2999UL}) {
    test::TempDir dir;
    std::string torn = interrupt(dir.path(), done);
    fs::create_symlink(kName, dir.path() / "link");
    EXPECT_EQ(seen_in(dir.path() / kName), kBefore);
    EXPECT_EQ(seen_in(dir.path() / "link"), kBefore);
    EXPECT_TRUE(ckpt::detail::hides_edit(*ckpt::open_file(dir.path() / kName)));
    core::ByteVector part(3);
    ckpt::open_file(dir.path() / kName)->read(kAt + 2998, part);
    EXPECT_EQ(core::as_text(part), "ooz");
    EXPECT_EQ(read_file(dir.path() / kName), torn);  // whoever reads writes nothing
    EXPECT_TRUE(EditJournal::settle(dir.path() / "link"));
    EXPECT_EQ(read_file(dir.path() / kName), kBefore);
    EXPECT_EQ(list_folder(dir.path()), (Names{"link", kName}));
    EXPECT_FALSE(EditJournal::settle(dir.path() / kName));
  }
}

TEST(EditJournal, RecoveryThatIsKilledAgainAndAgainEndsWell) {
  for (int first = 0;; ++first) {
    test::TempDir dir;
    interrupt(dir.path(), 1536);
    bool killed = true;
    for (int round = 0; round < 5 && killed; ++round) {
      int status = run_child([&] {
        Injection injection(first, 0);
        EditJournal::settle(dir.path() / kName);
      });
      killed = WIFSIGNALED(status);
      EXPECT_EQ(seen_in(dir.path() / kName), kBefore) << "call " << first;
    }
    EditJournal::settle(dir.path() / kName);
    EXPECT_EQ(read_file(dir.path() / kName), kBefore) << "call " << first;
    EXPECT_FALSE(fs::exists(dir.path() / kJournal));
    if (!killed && first > 4) return;
  }
}

TEST(EditJournal, ASaveOverATornFileLeavesNoRecord) {
  test::TempDir dir;
  interrupt(dir.path(), 1536);
  write_record(dir.path() / kUndo, record_of_edit());
  ckpt::AtomicFile file(dir.path() / kName);
  file.write(core::as_bytes(kAfter));
  file.commit();
  EXPECT_EQ(read_file(dir.path() / kName), kAfter);
  EXPECT_EQ(list_folder(dir.path()), Names{kName});
}

TEST(EditJournal, ARecordThatIsNotWholeCountsForNothing) {
  core::ByteVector good = encode(record_of_edit());
  EXPECT_TRUE(ckpt::detail::decode(good));
  for (std::size_t length = 0; length < good.size(); length += length < 200 ? 1 : 97) {
    EXPECT_FALSE(ckpt::detail::decode(core::Bytes(good).first(length))) << length;
  }
  for (std::size_t at = 0; at < good.size(); at += at < 100 ? 1 : 61) {
    core::ByteVector bad = good;
    bad[at] ^= std::byte{1};
    EXPECT_FALSE(ckpt::detail::decode(bad)) << at;
  }
  good.push_back(std::byte{0});
  EXPECT_FALSE(ckpt::detail::decode(good));
}

TEST(EditJournal, ARecordOfAnotherFileCountsForNothing) {
  EditRecord larger = record_of_edit();
  larger.size += 1;
  EditRecord elsewhere = record_of_edit();
  elsewhere.offset += 100;
  EditRecord outside = record_of_edit();
  outside.offset = UINT64_MAX - 10;
  EditRecord nothing = record_of_edit();
  nothing.old_bytes.clear();
  nothing.new_bytes.clear();
  for (const EditRecord& forged : {larger, elsewhere, outside, nothing}) {
    test::TempDir dir;
    std::string torn = interrupt(dir.path(), 1536);
    write_record(dir.path() / kJournal, forged);
    EXPECT_EQ(seen_in(dir.path() / kName), torn);
    EXPECT_FALSE(EditJournal::settle(dir.path() / kName));
    EXPECT_EQ(read_file(dir.path() / kName), torn);
  }
}

TEST(EditJournal, ALinkOrAnotherUsersFileIsNoRecord) {
  test::TempDir dir;
  std::string torn = interrupt(dir.path(), 1536);
  fs::rename(dir.path() / kJournal, dir.path() / "record");
  auto ignored = [&] {
    EXPECT_EQ(seen_in(dir.path() / kName), torn);
    EXPECT_FALSE(EditJournal::settle(dir.path() / kName));
    EXPECT_EQ(read_file(dir.path() / kName), torn);
    EXPECT_NE(error_of([&] { EditJournal(dir.path() / kName).replace(0, core::as_bytes("a"), core::as_bytes("b")); }),
              "");
    fs::remove(dir.path() / kJournal);
  };
  fs::create_symlink("record", dir.path() / kJournal);
  ignored();
  fs::create_hard_link(dir.path() / "record", dir.path() / kJournal);
  ignored();
  fs::create_directory(dir.path() / kJournal);
  ignored();
  if (::geteuid() != 0) return;
  fs::copy_file(dir.path() / "record", dir.path() / kJournal);
  ASSERT_EQ(::chown((dir.path() / kJournal).c_str(), 1234, 1234), 0);
  ignored();
}

TEST(EditJournal, LeavesFilesAloneThatAreMoreThanOneFile) {
  test::TempDir dir;
  fs::path path = dir.path() / kName;
  write_file(path, kBefore);
  EXPECT_TRUE(EditJournal::may_edit(path));
  fs::permissions(path, fs::perms::owner_read);
  EXPECT_FALSE(EditJournal::may_edit(path));
  fs::permissions(path, fs::perms::owner_all);
  fs::create_hard_link(path, dir.path() / "other");
  EXPECT_FALSE(EditJournal::may_edit(path));
  EXPECT_FALSE(EditJournal::may_edit(dir.path()));
  EXPECT_FALSE(EditJournal::may_edit(dir.path() / "none"));
}

TEST(EditJournal, TheRecordHasOwnerAndRightsOfTheFile) {
  test::TempDir dir;
  fs::path path = dir.path() / kName;
  write_file(path, kBefore);
  bool may_give = ::geteuid() == 0;
  ASSERT_TRUE(!may_give || ::chown(path.c_str(), 1234, 1234) == 0);
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  edit(dir.path());
  struct stat status {};
  struct stat record {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  ASSERT_EQ(::stat((dir.path() / kUndo).c_str(), &record), 0);
  EXPECT_EQ(record.st_uid, status.st_uid);
  EXPECT_EQ(record.st_mode, status.st_mode);
  EditJournal(path).undo();
  EXPECT_EQ(read_file(path), kBefore);
}

TEST(EditJournal, SecondWriterIsToldWhoWrites) {
  test::TempDir dir;
  write_file(dir.path() / kName, kBefore);
  EditJournal first(dir.path() / kName);
  EXPECT_NE(error_of([&] { EditJournal(dir.path() / kName); }).find("is writing this file"), std::string::npos);
}

}  // namespace
