// What is said of a folder is what a save does there: each call that fails changes its answer, and the save goes the
// other way.

#include "libckpt/io/folder_trial.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>

#include "libckpt/io/atomic_file.h"
#include "libckpt/io/file_ops.h"
#include "libcore/base/error.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::FolderTrial;
using ckpt::try_folder;
using ckpt::detail::FileOps;
using ckpt::detail::system_file_ops;

int pwrites = 0;
int links = 0;

ssize_t counted_pwrite(int fd, const void* data, std::size_t size, off_t offset) {
  ++pwrites;
  return system_file_ops().pwrite(fd, data, size, offset);
}
int counted_link(int old_folder, const char* old_name, int new_folder, const char* new_name, int flags) {
  ++links;
  return system_file_ops().linkat(old_folder, old_name, new_folder, new_name, flags);
}
int no_reserving(int, int, off_t, off_t) {
  errno = EOPNOTSUPP;
  return -1;
}
ssize_t no_copying(int, off_t*, int, off_t*, std::size_t, unsigned) {
  errno = EXDEV;
  return -1;
}
int no_careful_rename(int old_folder, const char* old_name, int new_folder, const char* new_name, unsigned flags) {
  if (flags == 0) return system_file_ops().renameat2(old_folder, old_name, new_folder, new_name, flags);
  errno = EINVAL;
  return -1;
}
int no_folder_sync(int fd) {
  struct stat status {};
  ::fstat(fd, &status);
  if (!S_ISDIR(status.st_mode)) return system_file_ops().fsync(fd);
  errno = EINVAL;
  return -1;
}
int no_links(int, const char*, int, const char*, int) {
  errno = EPERM;
  return -1;
}
int broken_sync(int) {
  errno = EIO;
  return -1;
}
int no_locks(int, const struct flock*) {
  errno = ENOLCK;
  return -1;
}

/// The system's calls, some of them replaced.
class Table {
 public:
  Table() : ops(system_file_ops()) {
    ops.pwrite = counted_pwrite;
    ops.linkat = counted_link;
    pwrites = links = 0;
  }
  ~Table() { ckpt::detail::set_file_ops(system_file_ops()); }
  void use() const { ckpt::detail::set_file_ops(ops); }
  FileOps ops;
};

/// What a copy to a new name in the folder costs with this table: the calls that the trial speaks of.
void save_copy(const test::TempDir& dir) {
  test::write_file(dir.path() / "from", std::string(100'000, 'a'));
  pwrites = links = 0;
  ckpt::SourcePtr source = ckpt::open_file(dir.path() / "from");
  ckpt::AtomicFile file(dir.path() / "to", {.overwrite = false, .expected_size = source->size()});
  file.write_from(*source);
  file.commit();
  EXPECT_EQ(test::read_file(dir.path() / "to"), std::string(100'000, 'a'));
}

TEST(FolderTrial, LeavesNothingBehind) {
  test::TempDir dir;
  FolderTrial trial = try_folder(dir.path());
  EXPECT_GT(trial.milliseconds, 0);
  EXPECT_EQ(test::list_folder(dir.path()).size(), 0U);
  EXPECT_EQ(&ckpt::detail::file_ops(), &system_file_ops());
}

TEST(FolderTrial, SaysWhetherRoomIsReserved) {
  test::TempDir dir;
  Table table;
  table.ops.fallocate = no_reserving;
  table.use();
  EXPECT_FALSE(try_folder(dir.path()).reserves);
  save_copy(dir);
}

TEST(FolderTrial, SaysWhetherTheKernelCopies) {
  test::TempDir dir;
  Table table;
  table.use();
  bool copies = try_folder(dir.path()).copies;
  save_copy(dir);
  EXPECT_EQ(copies, pwrites == 0);
  table.ops.copy_file_range = no_copying;
  table.use();
  std::filesystem::remove(dir.path() / "to");
  EXPECT_FALSE(try_folder(dir.path()).copies);
  save_copy(dir);
  EXPECT_GT(pwrites, 0);
}

TEST(FolderTrial, SaysHowANewNameIsTaken) {
  test::TempDir dir;
  Table table;
  table.ops.renameat2 = no_careful_rename;
  table.use();
  EXPECT_FALSE(try_folder(dir.path()).renames);
  save_copy(dir);
  EXPECT_EQ(links, 1);
  EXPECT_EQ(test::list_folder(dir.path()).size(), 2U);
}

TEST(FolderTrial, SaysWhetherTheFolderIsSynced) {
  test::TempDir dir;
  Table table;
  table.use();
  EXPECT_TRUE(try_folder(dir.path()).syncs_folder);
  table.ops.fsync = no_folder_sync;
  table.use();
  EXPECT_FALSE(try_folder(dir.path()).syncs_folder);
  save_copy(dir);
}

TEST(FolderTrial, SaysWhetherThereAreLocks) {
  test::TempDir dir;
  Table table;
  table.use();
  EXPECT_TRUE(try_folder(dir.path()).locks);
  table.ops.set_lock = no_locks;
  table.use();
  EXPECT_FALSE(try_folder(dir.path()).locks);
  save_copy(dir);
}

TEST(FolderTrial, EndsAsASaveDoesWhereNothingCanBeWritten) {
  EXPECT_THROW(try_folder("/no/such/folder"), core::Error);
}

TEST(EditTrial, EditsInPlaceAndLeavesNothingBehind) {
  test::TempDir dir;
  Table table;
  table.use();
  ckpt::EditTrial trial = ckpt::try_edits(dir.path());
  EXPECT_GT(trial.milliseconds, 0);
  EXPECT_TRUE(trial.syncs_folder);
  EXPECT_TRUE(trial.links);
  EXPECT_EQ(trial.undo, ckpt::UndoKept::state_folder);
  {
    test::WithoutStateFolder none;
    EXPECT_EQ(ckpt::try_edits(dir.path()).undo, ckpt::UndoKept::beside);
  }
  EXPECT_EQ(links, 2);
  EXPECT_EQ(test::list_folder(dir.path()).size(), 0U);
}

TEST(EditTrial, SaysWhatAFolderLacks) {
  test::TempDir dir;
  Table table;
  table.ops.fsync = no_folder_sync;
  table.ops.linkat = no_links;
  table.use();
  ckpt::EditTrial trial = ckpt::try_edits(dir.path());
  EXPECT_FALSE(trial.syncs_folder);
  EXPECT_FALSE(trial.links);
  EXPECT_EQ(test::list_folder(dir.path()).size(), 0U);
}

TEST(EditTrial, EndsAsAnEditDoesWhereItCannotBeMadeDurable) {
  test::TempDir dir;
  Table table;
  table.ops.fsync = broken_sync;
  table.use();
  EXPECT_THROW(ckpt::try_edits(dir.path()), core::Error);
  EXPECT_EQ(test::list_folder(dir.path()).size(), 0U);
  EXPECT_THROW(ckpt::try_edits("/no/such/folder"), core::Error);
}

}  // namespace
