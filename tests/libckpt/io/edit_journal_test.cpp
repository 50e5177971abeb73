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
using ckpt::FileEdit;
using ckpt::UndoKept;
using ckpt::detail::EditRecord;
using ckpt::detail::reversed;
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

FileEdit the_edit() {
  FileEdit edit{.old_size = kBefore.size(), .new_size = kBefore.size()};
  edit.replace(kAt, core::as_bytes(kOld), core::as_bytes(kNew));
  return edit;
}

/// One of each kind.
struct Sample {
  const char* name = "";
  std::string before = kBefore;
  std::string after;
  FileEdit edit;
};

/// `end` in place of all that follows the first kAt bytes and 1,000 more, some bytes in front of it being replaced,
/// too.
Sample with_end(const char* name, const std::string& end, bool patched) {
  constexpr std::uint64_t kEndAt = kAt + 1000;
  Sample sample{.name = name, .after = kBefore.substr(0, kEndAt) + end, .edit = {}};
  if (patched) {
    sample.after.replace(100, 5, "patch");
    sample.edit.replace(100, core::as_bytes("aaaaa"), core::as_bytes("patch"));
  }
  sample.edit.replace_end(kEndAt, core::as_bytes(kBefore).subspan(kEndAt), core::as_bytes(end));
  return sample;
}

std::vector<Sample> samples() {
  std::string old_end = kBefore.substr(kAt + 1000);
  return {{.name = "replaced", .after = kAfter, .edit = the_edit()},
          with_end("appended", old_end + std::string(3000, 'e'), false),
          with_end("longer", std::string(5000, 'e'), true),
          with_end("cut", old_end.substr(0, 700), false),
          with_end("shorter", std::string(700, 'e'), true)};
}

void edit(const fs::path& folder) {
  EditJournal(folder / kName).apply(the_edit());
}

std::string seen_in(const fs::path& path) {
  return std::string(core::as_text(ckpt::read_all(*ckpt::open_file(path))));
}

EditRecord record_of_edit() {
  return {.edit = the_edit()};
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
  for (const Sample& sample : samples()) {
    if (sample.edit.appends()) continue;
    SCOPED_TRACE(sample.name);
    test::TempDir dir;
    write_file(dir.path() / kName, sample.before);
    EditJournal(dir.path() / kName).apply(sample.edit);
    EXPECT_EQ(read_file(dir.path() / kName), sample.after);
    EXPECT_EQ(list_folder(dir.path()), Names{kName});
    EXPECT_EQ(EditJournal(dir.path() / kName).undo(), sample.edit.length());
    EXPECT_EQ(read_file(dir.path() / kName), sample.before);
    EXPECT_EQ(EditJournal(dir.path() / kName).can_undo(), !reversed(sample.edit).appends());
    if (reversed(sample.edit).appends()) continue;
    EditJournal(dir.path() / kName).undo();  // the undoing is an edit as well
    EXPECT_EQ(read_file(dir.path() / kName), sample.after);
    EXPECT_EQ(list_folder(dir.path()), Names{kName});
  }
}

/// What the file was before is there still, and an older record of it has no use any more.
TEST(EditJournal, KeepsNoRecordOfWhatOnlyAppends) {
  Sample appended = samples().at(1);
  ASSERT_TRUE(appended.edit.appends());
  test::TempDir dir;
  write_file(dir.path() / kName, appended.before);
  write_record(dir.path() / kUndo, {.edit = the_edit()});
  EditJournal(dir.path() / kName).apply(appended.edit);
  EXPECT_EQ(read_file(dir.path() / kName), appended.after);
  EXPECT_EQ(list_folder(dir.path()), Names{kName});
  EXPECT_FALSE(EditJournal(dir.path() / kName).can_undo());
  write_record(dir.path() / kJournal, {.edit = appended.edit});  // as a power cut may bring it back
  EditJournal::settle(dir.path() / kName);
  EXPECT_EQ(read_file(dir.path() / kName), appended.after);
  EXPECT_EQ(list_folder(dir.path()), Names{kName});
}

/// Models lie in folders that others read, and an edit leaves nothing there while it can be helped.
TEST(EditJournal, KeepsTheRecordBesideTheFileOnlyWithoutAStateFolder) {
  test::TempDir dir;
  test::TempDir state;
  fs::path path = dir.path() / kName;
  auto edit_with = [&](const char* variable, const fs::path& value) {
    ::setenv(variable, value.c_str(), 1);
    write_file(path, kBefore);
    return EditJournal(path).apply(the_edit());
  };
  {
    test::WithoutStateFolder none;
    EXPECT_EQ(edit_with("XDG_STATE_HOME", "/dev/null"), UndoKept::beside);
    EXPECT_EQ(list_folder(dir.path()), (Names{kUndo, kName}));
    EditJournal(path).undo();
    EXPECT_EQ(read_file(path), kBefore);
    EXPECT_EQ(edit_with("XDG_STATE_HOME", state.path() / "new/folder"), UndoKept::state_folder);
    EXPECT_EQ(list_folder(dir.path()), Names{kName});  // the one beside it was of an older edit
    EXPECT_EQ(list_folder(state.path() / "new/folder/ckpt/undo").size(), 1U);
    EXPECT_EQ(fs::status(state.path() / "new/folder/ckpt").permissions(), fs::perms::owner_all);
  }
}

TEST(EditJournal, ARecordOfLongAgoGoesWithTheNext) {
  test::TempDir dir;
  test::WithoutStateFolder none;
  ::setenv("XDG_STATE_HOME", (dir.path() / "state").c_str(), 1);
  fs::path undo = dir.path() / "state/ckpt/undo";
  fs::create_directories(undo);
  write_file(undo / "old.bin-0123456789abcdef.ckpt-undo", "");
  write_file(undo / "mine.txt", "");
  for (const auto& entry : fs::directory_iterator(undo)) {
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(24 * 31));
  }
  write_file(undo / "young.bin-0123456789abcdef.ckpt-undo", "");
  write_file(dir.path() / kName, kBefore);
  edit(dir.path());
  Names left = list_folder(undo);
  ASSERT_EQ(left.size(), 3U);
  EXPECT_EQ(left[0], "mine.txt");
  EXPECT_EQ(left[1].substr(0, 8), "net.bin-");
  EXPECT_EQ(left[2].substr(0, 9), "young.bin");
}

TEST(EditJournal, IsAsLongAsWhatItChanges) {
  std::vector<std::uint64_t> lengths;
  for (const Sample& sample : samples()) lengths.push_back(sample.edit.length());
  EXPECT_EQ(lengths, (std::vector<std::uint64_t>{3000, 3000, 5005, 1800, 2505}));
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

void kill_at_every_call(const Sample& sample) {
  int at = 0;
  for (;; ++at) {
    SCOPED_TRACE(sample.name + std::string(", call ") + std::to_string(at));
    test::TempDir dir;
    write_file(dir.path() / kName, sample.before);
    int status = run_child([&] {
      Injection injection(at, 0);
      EditJournal(dir.path() / kName).apply(sample.edit);
    });
    if (!WIFSIGNALED(status)) break;
    std::string seen = seen_in(dir.path() / kName);
    EXPECT_TRUE(seen == sample.before || seen == sample.after);
    EditJournal::settle(dir.path() / kName);
    EXPECT_EQ(read_file(dir.path() / kName), seen);
    { EditJournal journal(dir.path() / kName); }
    for (const std::string& name : list_folder(dir.path())) EXPECT_TRUE(name == kName || name == kUndo) << name;
  }
  EXPECT_GT(at, 8);
}

TEST(EditJournal, KilledAtAnyCallTheFileIsOldOrNewAndReadsSo) {
  for (const Sample& sample : samples()) kill_at_every_call(sample);
}

void fail_at_every_call(const Sample& sample, int error) {
  int at = 0;
  for (;; ++at) {
    SCOPED_TRACE(sample.name + std::string(", call ") + std::to_string(at));
    test::TempDir dir;
    write_file(dir.path() / kName, sample.before);
    std::string said;
    {
      Injection injection(at, error);
      said = error_of([&] { EditJournal(dir.path() / kName).apply(sample.edit); });
      if (!Injection::struck()) break;
    }
    std::string content = read_file(dir.path() / kName);
    EXPECT_EQ(content, said.empty() ? sample.after : sample.before) << said;
    bool unknown = said.find("durability is unknown") != std::string::npos;
    EXPECT_EQ(fs::exists(dir.path() / kJournal), unknown) << said;
    EXPECT_EQ(seen_in(dir.path() / kName), content);
  }
  EXPECT_GT(at, 6);
}

TEST(EditJournal, FailedAtAnyCallTheFileIsAsItWas) {
  for (const Sample& sample : samples()) {
    for (int error : {ENOSPC, EIO, EDQUOT, EROFS}) fail_at_every_call(sample, error);
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

/// Every length between the old and the new one, and anything where a power cut left no bytes behind the old end.
TEST(EditJournal, AnInterruptedEditOfTheEndIsReadAndTakenBackAsItWasBefore) {
  for (const Sample& sample : samples()) {
    std::size_t shorter = std::min(sample.before.size(), sample.after.size());
    const std::string& longer = sample.before.size() > sample.after.size() ? sample.before : sample.after;
    for (std::size_t length = shorter; length <= longer.size(); length += 613) {
      SCOPED_TRACE(sample.name + std::string(", length ") + std::to_string(length));
      test::TempDir dir;
      std::string torn = longer.substr(0, length);
      if (length > shorter) torn.replace((shorter + length) / 2, 1, 1, '?');
      write_file(dir.path() / kName, torn);
      write_record(dir.path() / kJournal, {.edit = sample.edit});
      bool whole = torn == sample.after;
      EXPECT_EQ(seen_in(dir.path() / kName), whole ? sample.after : sample.before);
      core::ByteVector part(600);
      ckpt::SourcePtr source = ckpt::open_file(dir.path() / kName);
      source->read(source->size() - part.size(), part);
      const std::string& seen = whole ? sample.after : sample.before;
      EXPECT_EQ(core::as_text(part), seen.substr(seen.size() - part.size()));
      EditJournal::settle(dir.path() / kName);
      EXPECT_EQ(read_file(dir.path() / kName), whole ? sample.after : sample.before);
      EXPECT_FALSE(fs::exists(dir.path() / kJournal));
    }
  }
}

/// What the journal records of the edit, which is more than what it was given.
EditRecord recorded(const Sample& sample) {
  test::TempDir dir;
  fs::path path = dir.path() / kName;
  write_file(path, sample.before);
  int status = run_child([&] {
    ckpt::detail::FileOps ops = ckpt::detail::system_file_ops();
    // What follows the edit does not come.
    ops.renameat2 = [](int, const char*, int, const char*, unsigned) -> int { ::_exit(0); };
    ops.unlinkat = [](int, const char*, int) -> int { ::_exit(0); };
    ckpt::detail::set_file_ops(ops);
    EditJournal(path).apply(sample.edit);
  });
  EXPECT_EQ(status, 0);
  return *ckpt::detail::decode(core::as_bytes(read_file(dir.path() / kJournal)));
}

/// Of any length: none may be cut or filled up for what the record says of another file.
TEST(EditJournal, AFileThatIsNotTheOneOfTheRecordIsLeftAlone) {
  for (const Sample& sample : samples()) {
    EditRecord record = recorded(sample);
    for (std::size_t length : {100UL, 1700UL, 2400UL, 4200UL, 5000UL, 7000UL, 7200UL, 9000UL}) {
      SCOPED_TRACE(sample.name + std::string(", length ") + std::to_string(length));
      std::string foreign(length, 'f');
      test::TempDir dir;
      write_file(dir.path() / kName, foreign);
      write_record(dir.path() / kJournal, record);
      EXPECT_EQ(seen_in(dir.path() / kName), foreign);
      EditJournal::settle(dir.path() / kName);
      EXPECT_EQ(read_file(dir.path() / kName), foreign);
      EXPECT_FALSE(fs::exists(dir.path() / kJournal));
    }
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
  larger.edit.old_size += 1;
  larger.edit.new_size += 1;
  EditRecord elsewhere = record_of_edit();
  elsewhere.edit.patches[0].offset += 100;
  EditRecord outside = record_of_edit();
  outside.edit.patches[0].offset = UINT64_MAX - 10;
  EditRecord nothing = record_of_edit();
  nothing.edit.patches.clear();
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
    EXPECT_NE(error_of([&] { edit(dir.path()); }), "");
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
  test::WithoutStateFolder beside;
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
