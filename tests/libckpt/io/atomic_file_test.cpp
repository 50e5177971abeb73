#include "libckpt/io/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "libckpt/io/hidden_names.h"
#include "libcore/base/error.h"
#include "tests/libckpt/io/fault.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace test::fault;
using ckpt::AtomicFile;
using test::list_folder;
using test::read_file;
using test::write_file;
using Names = std::vector<std::string>;

void save(const std::filesystem::path& path, std::string_view content, AtomicFile::Options options = {}) {
  AtomicFile file(path, options);
  file.write(core::as_bytes(content));
  file.commit();
}

mode_t mode_of(const std::filesystem::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

TEST(AtomicFile, NothingIsThereBeforeCommit) {
  test::TempDir dir;
  auto path = dir.path() / "a.ckpt";
  AtomicFile file(path);
  file.write(core::as_bytes("new"));
  EXPECT_FALSE(std::filesystem::exists(path));
  file.commit();
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(list_folder(dir.path()), Names{"a.ckpt"});
}

TEST(AtomicFile, WithoutCommitTheOldFileStays) {
  test::TempDir dir;
  auto path = dir.path() / "a.ckpt";
  write_file(path, "old");
  { AtomicFile(path).write(core::as_bytes("new")); }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(list_folder(dir.path()), Names{"a.ckpt"});
}

TEST(AtomicFile, ReadsFromTheFileThatItReplaces) {
  test::TempDir dir;
  auto path = dir.path() / "a.ckpt";
  std::string content(3'000'000, 'x');
  content[1'500'000] = 'y';
  write_file(path, content);
  ckpt::SourcePtr source = ckpt::open_file(path);
  AtomicFile file(path, {.expected_size = source->size()});
  file.write_from(*source);
  file.commit();
  EXPECT_EQ(read_file(path), content);
}

TEST(AtomicFile, CopiesThroughMemoryWhereTheKernelCannot) {
  test::TempDir dir;
  std::string content(2'500'000, 'x');
  content[2'400'000] = 'y';
  write_file(dir.path() / "in", content);
  ckpt::detail::FileOps ops = kBadOps;
  ops.copy_file_range = no_copy;
  Injection injection(-1, 0, ops);
  AtomicFile file(dir.path() / "out");
  file.write(core::as_bytes("head"));
  file.write_from(*ckpt::slice(ckpt::open_file(dir.path() / "in"), 100, 2'499'000));
  file.commit();
  EXPECT_EQ(read_file(dir.path() / "out"), "head" + content.substr(100, 2'499'000));
}

TEST(AtomicFile, ShortWritesAreContinued) {
  test::TempDir dir;
  ckpt::detail::FileOps ops = kBadOps;
  ops.pwrite = short_pwrite;
  Injection injection(-1, 0, ops);
  save(dir.path() / "a", "0123456789");
  EXPECT_EQ(read_file(dir.path() / "a"), "0123456789");
}

TEST(AtomicFile, WriteAtAndSkip) {
  test::TempDir dir;
  AtomicFile file(dir.path() / "a");
  file.skip_to(4);
  file.write(core::as_bytes("tail"));
  file.write_at(0, core::as_bytes("head"));
  file.write_at(100, core::as_bytes("cut off by commit"));
  EXPECT_EQ(file.position(), 8U);
  file.commit();
  EXPECT_EQ(read_file(dir.path() / "a"), "headtail");
}

TEST(AtomicFile, PreallocationLeavesNoTail) {
  test::TempDir dir;
  save(dir.path() / "a", "abc", {.expected_size = 1 << 20});
  EXPECT_EQ(std::filesystem::file_size(dir.path() / "a"), 3U);
}

TEST(AtomicFile, KeepsModeAndAttributesOfTheOldFile) {
  test::TempDir dir;
  auto path = dir.path() / "a";
  write_file(path, "old");
  ::chmod(path.c_str(), 0640);
  bool attributes = ::setxattr(path.c_str(), "user.note", "hello", 5, 0) == 0;
  save(path, "new");
  EXPECT_EQ(mode_of(path), 0640U);
  if (!attributes) return;  // a file system without extended attributes
  char value[8] = {};
  EXPECT_EQ(::getxattr(path.c_str(), "user.note", value, sizeof value), 5);
  EXPECT_STREQ(value, "hello");
}

TEST(AtomicFile, NewFileFollowsTheUmask) {
  test::TempDir dir;
  mode_t old = ::umask(027);
  save(dir.path() / "a", "new");
  ::umask(old);
  EXPECT_EQ(mode_of(dir.path() / "a"), 0640U);
}

TEST(AtomicFile, WritesBehindSymbolicLinks) {
  test::TempDir dir;
  std::filesystem::create_directory(dir.path() / "data");
  write_file(dir.path() / "data" / "real", "old");
  std::filesystem::create_symlink("data/real", dir.path() / "link");
  std::filesystem::create_symlink("link", dir.path() / "link2");
  save(dir.path() / "link2", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(dir.path() / "link2"));
  EXPECT_EQ(read_file(dir.path() / "data" / "real"), "new");
  EXPECT_EQ(list_folder(dir.path() / "data"), Names{"real"});
}

TEST(AtomicFile, RefusesToOverwriteWhenAsked) {
  test::TempDir dir;
  auto path = dir.path() / "a";
  AtomicFile early(path, {.overwrite = false});
  early.write(core::as_bytes("late"));
  write_file(path, "other");
  EXPECT_THAT(error_of([&] { early.commit(); }), testing::HasSubstr("already exists"));
  EXPECT_THAT(error_of([&] { save(path, "x", {.overwrite = false}); }), testing::HasSubstr("already exists"));
  EXPECT_EQ(read_file(path), "other");
}

TEST(AtomicFile, RefusesToReplaceAFileThatAnotherProgramChanged) {
  test::TempDir dir;
  auto path = dir.path() / "a";
  write_file(path, "old");
  {
    AtomicFile file(path);
    file.write(core::as_bytes("new"));
    write_file(path, "theirs");
    EXPECT_THAT(error_of([&] { file.commit(); }), testing::HasSubstr("changed by another program"));
  }
  EXPECT_EQ(read_file(path), "theirs");
  EXPECT_EQ(list_folder(dir.path()), Names{"a"});
}

TEST(AtomicFile, EachPlaceThatCannotBeWrittenHasItsSentence) {
  test::TempDir dir;
  write_file(dir.path() / "file", "x");
  ::mkfifo((dir.path() / "pipe").c_str(), 0600);
  std::filesystem::create_symlink("loop", dir.path() / "loop");
  auto sentence = [&](const char* name) { return error_of([&] { AtomicFile(dir.path() / name); }); };
  EXPECT_THAT(sentence("missing/a"), testing::HasSubstr("missing/a: cannot open the folder"));
  EXPECT_THAT(sentence("missing/a"), testing::HasSubstr("no such file or folder"));
  EXPECT_THAT(sentence(""), testing::HasSubstr("it is a folder"));
  EXPECT_THAT(sentence("file/a"), testing::HasSubstr("is a file, not a folder"));
  EXPECT_THAT(sentence("pipe"), testing::HasSubstr("not a regular file"));
  EXPECT_THAT(sentence("loop"), testing::HasSubstr("too many symbolic links"));
  EXPECT_THAT(sentence(std::string(300, 'n').c_str()), testing::HasSubstr("name is too long"));
  EXPECT_THROW(AtomicFile(""), core::Error);
}

TEST(AtomicFile, LongestNameThatTheSystemAllows) {
  test::TempDir dir;
  std::string name(255, 'n');
  save(dir.path() / name, "x");
  EXPECT_EQ(list_folder(dir.path()), Names{name});
}

TEST(AtomicFile, NoPermission) {
  test::TempDir dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0555));
  int status = run_child([&] {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(8);
    std::string error = error_of([&] { AtomicFile(dir.path() / "a"); });
    ::_exit(error.find("permission denied") != std::string::npos ? 0 : 7);
  });
  EXPECT_EQ(status, 0);
}

TEST(AtomicFile, NotEnoughSpaceIsSaidBeforeAnyWork) {
  test::TempDir dir;
  std::string error = error_of([&] { AtomicFile(dir.path() / "a", {.expected_size = 1ULL << 55}); });
  EXPECT_THAT(error, testing::AnyOf(testing::HasSubstr("no space left"), testing::HasSubstr("larger than the system")));
  EXPECT_EQ(list_folder(dir.path()), Names{});
}

TEST(AtomicFile, FileSizeLimitIsAnErrorNotASignal) {
  test::TempDir dir;
  int status = run_child([&] {
    rlimit limit{1 << 16, 1 << 16};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::string error = error_of([&] { save(dir.path() / "a", std::string(1 << 17, 'x')); });
    ::_exit(error.find("ulimit -f") != std::string::npos ? 0 : 7);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(list_folder(dir.path()), Names{});
}

/// One save that uses every system call of the table.
void save_fully(const std::filesystem::path& source, const std::filesystem::path& target) {
  AtomicFile file(target, {.expected_size = 100'003});
  file.write(core::as_bytes("new"));
  file.write_from(*ckpt::open_file(source));
  file.commit();
}

TEST(AtomicFile, WhicheverCallFailsTheOldFileStaysWhole) {
  test::TempDir dir;
  auto path = dir.path() / "a";
  write_file(dir.path() / "source", std::string(100'000, 's'));
  int calls = 0;
  for (int error : {ENOSPC, EIO, EDQUOT, EROFS}) {
    for (int at = 0;; ++at) {
      write_file(path, "old");
      Injection injection(at, error);
      std::string message = error_of([&] { save_fully(dir.path() / "source", path); });
      if (!Injection::struck()) break;
      calls = std::max(calls, at + 1);
      bool copied_otherwise = message.empty();
      bool in_place = message.find("durability is unknown") != std::string::npos || copied_otherwise;
      EXPECT_EQ(read_file(path), in_place ? "new" + std::string(100'000, 's') : "old") << at << " " << message;
      EXPECT_EQ(list_folder(dir.path()), (Names{"a", "source"})) << at << " " << message;
    }
  }
  EXPECT_EQ(calls,
            10);  // two files opened, fallocate, pwrite, copy, ftruncate, fsync, close, rename, fsync of the folder
}

TEST(AtomicFile, FsyncIsNeverRepeated) {
  test::TempDir dir;
  Injection injection(4, EIO);  // two files opened, pwrite, ftruncate, fsync
  fsync_calls = 0;
  EXPECT_THAT(error_of([&] { save(dir.path() / "a", "new"); }), testing::HasSubstr("fsync"));
  EXPECT_EQ(fsync_calls, 1);
}

TEST(AtomicFile, DurableSavesSyncFileAndFolder) {
  test::TempDir dir;
  Injection injection(-1, 0);
  fsync_calls = 0;
  save(dir.path() / "a", "new");
  EXPECT_EQ(fsync_calls, 2);
  save(dir.path() / "a", "newer", {.durable = false});
  EXPECT_EQ(fsync_calls, 2);
}

TEST(AtomicFile, KilledAtAnyCallItLeavesTheOldOrTheNewFileWhole) {
  int kills = 0;
  for (int at = 0;; ++at) {
    test::TempDir dir;
    auto path = dir.path() / "a";
    write_file(dir.path() / "source", std::string(100'000, 's'));
    write_file(path, "old");
    int status = run_child([&] {
      Injection injection(at, 0);
      save_fully(dir.path() / "source", path);
    });
    if (WIFEXITED(status)) break;
    ++kills;
    bool is_new = kills > 9;  // after the rename: removal of the lock file, fsync of the folder
    EXPECT_EQ(read_file(path).size(), is_new ? 100'003U : 3U) << at;
    save(path, "a new save works");
    EXPECT_EQ(list_folder(dir.path()), (Names{"a", "source"})) << at;
  }
  EXPECT_EQ(kills, 11);
}

TEST(AtomicFile, SecondWriterIsToldWhoIsWriting) {
  test::TempDir dir;
  auto path = dir.path() / "a";
  AtomicFile first(path);
  std::string error = error_of([&] { AtomicFile second(path); });
  EXPECT_THAT(error, testing::HasSubstr("process " + std::to_string(::getpid()) + " on "));
  EXPECT_THAT(error, testing::HasSubstr("is writing this file"));
  save(dir.path() / "b", "another name is free");
  first.write(core::as_bytes("first"));
  first.commit();
  EXPECT_EQ(list_folder(dir.path()), (Names{"a", "b"}));
  save(path, "second");
  EXPECT_EQ(read_file(path), "second");
}

/// A sweep may take the lock of a writer that has made the file and not yet locked it, and be kept from going on.
TEST(AtomicFile, ASweepThatHoldsItsLockForAWhileIsNoOtherWriter) {
  test::TempDir dir;
  auto path = dir.path() / "a";
  auto lock = dir.path() / ckpt::detail::lock_name("a");
  int fd = ::open(lock.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  struct flock region {};
  region.l_type = F_WRLCK;
  region.l_whence = SEEK_SET;
  ASSERT_EQ(::fcntl(fd, F_OFD_SETLK, &region), 0);
  std::thread sweep([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ::unlink(lock.c_str());
    ::close(fd);
  });
  EXPECT_EQ(error_of([&] { save(path, "new"); }), "");
  sweep.join();
  EXPECT_EQ(list_folder(dir.path()), (Names{"a"}));
}

/// Starts a save in a child and kills it before anything is in place.
void leave_a_dead_save(const std::filesystem::path& path) {
  int status = run_child([&] {
    AtomicFile file(path);
    file.write(core::as_bytes("half"));
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST(AtomicFile, NextSaveToTheFolderRemovesWhatKilledOnesLeft) {
  test::TempDir dir;
  leave_a_dead_save(dir.path() / "a");
  leave_a_dead_save(dir.path() / "ab");
  EXPECT_EQ(list_folder(dir.path()).size(), 2U);  // a lock and a temporary file; the second took the first one's away
  save(dir.path() / "c", "whatever the name");
  EXPECT_EQ(list_folder(dir.path()), Names{"c"});
}

TEST(AtomicFile, WithoutLocksOnlyFilesOfDeadProcessesGo) {
  test::TempDir dir;
  ckpt::detail::FileOps ops = kBadOps;
  ops.set_lock = no_lock;
  leave_a_dead_save(dir.path() / "a");
  std::string dead;
  for (const std::string& name : list_folder(dir.path())) {
    if (name.find("ckpt-tmp-") != std::string::npos) dead = name;
  }
  std::string other_boot = ".a.ckpt-tmp-00000000-1-0123456789abcdef";
  std::string alive = dead.substr(0, dead.find("tmp-") + 13) + "1-0123456789abcdef";  // process 1 of this boot
  write_file(dir.path() / other_boot, "x");
  write_file(dir.path() / alive, "x");
  write_file(dir.path() / ".a.ckpt-tmp-mine", "of another shape");
  Injection injection(-1, 0, ops);
  save(dir.path() / "a", "new");
  std::vector<std::string> left = list_folder(dir.path());
  EXPECT_THAT(left, testing::UnorderedElementsAre(other_boot, alive, ".a.ckpt-tmp-mine", "a"));
}

TEST(AtomicFile, UnderTheLockFilesOfAnEarlierBootGoToo) {
  test::TempDir dir;
  leave_a_dead_save(dir.path() / "a");
  write_file(dir.path() / ".a.ckpt-tmp-00000000-1-0123456789abcdef", "x");
  save(dir.path() / "a", "new");
  EXPECT_EQ(list_folder(dir.path()), Names{"a"});
}

TEST(AtomicFile, RefusesToReplaceAFileThatAppearedMeanwhile) {
  test::TempDir dir;
  auto path = dir.path() / "a";
  {
    AtomicFile file(path);
    file.write(core::as_bytes("new"));
    write_file(path, "theirs");
    EXPECT_THAT(error_of([&] { file.commit(); }), testing::HasSubstr("created by another program"));
  }
  EXPECT_EQ(read_file(path), "theirs");
  EXPECT_EQ(list_folder(dir.path()), Names{"a"});
}

TEST(AtomicFile, FileSizeLimitThatComesLaterIsAnErrorToo) {
  test::TempDir dir;
  int status = run_child([&] {
    AtomicFile file(dir.path() / "a");
    rlimit limit{16, 16};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::string error = error_of([&] {
      file.skip_to(1 << 20);
      file.commit();
    });
    // The lock of a second file has no room for its owner's name; that is no reason to die either.
    error += error_of([&] { save(dir.path() / "b", std::string(1 << 10, 'x')); });
    ::_exit(error.find("ulimit -f") != error.rfind("ulimit -f") ? 0 : 7);
  });
  EXPECT_EQ(status, 0);
}

TEST(AtomicFile, PreparedFilesArePutInPlaceByCommit) {
  test::TempDir dir;
  AtomicFile file(dir.path() / "a");
  file.write(core::as_bytes("new"));
  file.prepare();
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "a"));
  file.commit();
  EXPECT_EQ(read_file(dir.path() / "a"), "new");
}

}  // namespace
