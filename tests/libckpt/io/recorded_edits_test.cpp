// What is said of the records of edits in a folder is what undo() and the next edit do.

#include "libckpt/io/recorded_edits.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "libckpt/io/edit_journal.h"
#include "libcore/base/error.h"
#include "tests/support/pending_edit.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::EditJournal;
using ckpt::FileEdit;
using ckpt::RecordedEdit;
using State = RecordedEdit::State;
namespace fs = std::filesystem;

constexpr const char* kName = "net.bin";
constexpr const char* kJournal = ".net.bin.ckpt-journal";
constexpr const char* kUndo = ".net.bin.ckpt-undo";
const std::string kBefore(3000, 'o');
const std::string kAfter(3000, 'n');

void make_edit(const fs::path& path) {
  test::write_file(path, kBefore);
  FileEdit edit{.old_size = kBefore.size(), .new_size = kBefore.size()};
  edit.replace(0, core::as_bytes(kBefore), core::as_bytes(kAfter));
  EditJournal(path).apply(edit);
}

/// Overwrites bytes where they lie; the file stays the same one.
void write_over(const fs::path& path, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

RecordedEdit only_edit(const fs::path& folder) {
  std::vector<RecordedEdit> all = ckpt::find_recorded_edits(folder);
  EXPECT_EQ(all.size(), 1U);
  return all.empty() ? RecordedEdit() : all.front();
}

TEST(RecordedEdits, AreNoneInAFolderWithoutAny) {
  test::TempDir dir;
  test::write_file(dir.path() / kName, kBefore);
  EXPECT_TRUE(ckpt::find_recorded_edits(dir.path()).empty());
  EXPECT_THROW(ckpt::find_recorded_edits(dir.path() / "none"), core::Error);
}

TEST(RecordedEdits, TheLastOneMayBeUndoneUntilTheFileChanges) {
  test::TempDir dir;
  fs::path path = dir.path() / kName;
  make_edit(path);
  RecordedEdit edit = only_edit(dir.path());
  EXPECT_EQ(edit.file, kName);
  EXPECT_EQ(fs::path(edit.record).parent_path(), fs::path(std::getenv("XDG_STATE_HOME")) / "ckpt/undo");
  EXPECT_TRUE(fs::exists(edit.record));
  EXPECT_EQ(edit.bytes, kBefore.size());
  EXPECT_EQ(edit.state, State::may_undo);
  EditJournal(path).undo();
  EXPECT_EQ(only_edit(dir.path()).state, State::may_undo);
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::minutes(1));  // with the same bytes
  EXPECT_EQ(only_edit(dir.path()).state, State::outdated);
  EXPECT_THROW(EditJournal(path).undo(), core::Error);
}

TEST(RecordedEdits, ACopyOfTheFolderHasNothingToUndo) {
  test::TempDir dir;
  make_edit(dir.path() / kName);
  fs::copy_file(dir.path() / kName, dir.path() / "copy");
  fs::rename(dir.path() / "copy", dir.path() / kName);
  fs::last_write_time(dir.path() / kName, fs::last_write_time(dir.path() / kName) - std::chrono::minutes(1));
  EXPECT_EQ(only_edit(dir.path()).state, State::outdated);
  EXPECT_THROW(EditJournal(dir.path() / kName).undo(), core::Error);
}

TEST(RecordedEdits, OneThatWasInterruptedIsPending) {
  test::TempDir dir;
  fs::path path = dir.path() / kName;
  make_edit(path);
  test::make_pending(path);
  EXPECT_EQ(only_edit(dir.path()).state, State::may_undo);  // it stands, and the next edit says so
  write_over(path, kBefore.substr(0, 1000));
  RecordedEdit edit = only_edit(dir.path());
  EXPECT_EQ(edit.state, State::pending);
  EXPECT_EQ(edit.record, kJournal);
  EXPECT_EQ(test::list_folder(dir.path()).size(), 2U);
  EXPECT_TRUE(EditJournal::settle(path));
  EXPECT_TRUE(ckpt::find_recorded_edits(dir.path()).empty());
}

TEST(RecordedEdits, OfAnotherFileOrOfNoneOrCutAreNamedSo) {
  test::TempDir dir;
  test::WithoutStateFolder beside;
  fs::path path = dir.path() / kName;
  make_edit(path);
  EXPECT_EQ(only_edit(dir.path()).record, kUndo);
  fs::resize_file(dir.path() / kUndo, 100);
  EXPECT_EQ(only_edit(dir.path()).state, State::outdated);
  fs::remove(path);
  RecordedEdit edit = only_edit(dir.path());
  EXPECT_EQ(edit.state, State::without_file);
  EXPECT_EQ(edit.file, kUndo);
  test::write_file(path, kBefore);
  fs::create_hard_link(dir.path() / kUndo, dir.path() / "elsewhere");
  EXPECT_EQ(only_edit(dir.path()).state, State::unreadable);
}

TEST(RecordedEdits, OfAnEditOfALongNameAreFound) {
  test::TempDir dir;
  std::string name(250, 'n');
  make_edit(dir.path() / name);
  RecordedEdit edit = only_edit(dir.path());
  EXPECT_EQ(edit.file, name);
  EXPECT_EQ(edit.state, State::may_undo);
}

}  // namespace
