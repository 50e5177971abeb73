// Saves of many ranks that are killed, or whose system calls fail, at every point: what is in the folder afterwards is
// the old checkpoint or the new one, whole, and no rank says anything else.
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <mutex>
#include <set>

#include "libckpt/ckpt.h"
#include "libckpt/dist/save.h"
#include "tests/libckpt/dist/child_ranks.h"
#include "tests/libckpt/dist/crash_cases.h"
#include "tests/libckpt/dist/thread_ranks.h"
#include "tests/libckpt/io/fault.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

using test::Case;
using test::found_in;
using test::options_of;
using test::part_of;

constexpr int kKill = 0;

int no_exchange(int old_dir, const char* old_name, int new_dir, const char* new_name, unsigned flags) {
  if ((flags & RENAME_EXCHANGE) != 0) return errno = EINVAL, -1;
  return test::fault::bad_rename(old_dir, old_name, new_dir, new_name, flags);
}

class Crash : public testing::TestWithParam<Case> {
 protected:
  /// In memory where that is: there are thousands of saves, each durable.
  Crash() {
    if (fs::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 1);
    struck_ = static_cast<bool*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~Crash() override { ::munmap(struck_, 4096); }

  std::vector<test::ChildEnding> save(const fs::path& path, float version, int victim = -1, int at = 0, int error = 0) {
    *struck_ = false;
    Case tried = GetParam();
    return test::run_child_ranks(tried.ranks, [&](ckpt::dist::Ranks& ranks) {
      ckpt::detail::FileOps ops = test::fault::kBadOps;
      ckpt::Value mine = part_of(tried, ranks.rank(), version);
      if (!tried.exchange) ops.renameat2 = no_exchange;
      bool is_victim = ranks.rank() == victim;
      test::fault::Injection injection(is_victim ? at : -1, error, ops);
      auto note = [&] { *struck_ = *struck_ || (is_victim && test::fault::Injection::struck()); };
      try {
        if (is_victim && error == kKill) *struck_ = true;  // unless it gets to the end
        test::save_of(tried, ranks, mine, path);
      } catch (...) {
        note();
        throw;
      }
      if (is_victim) *struck_ = test::fault::Injection::struck();
    });
  }

  /// One trial in a fresh folder. False when the save has fewer calls than that.
  bool try_at(int victim, int at, int error) {
    Case tried = GetParam();
    test::TempDir dir;
    fs::path path = dir.path() / "run";
    if (tried.overwrite) {
      for (const test::ChildEnding& end : save(path, 1)) EXPECT_EQ(end.status, 0) << end.error;
    }
    std::vector<test::ChildEnding> ends = save(path, 2, victim, at, error);
    bool struck = *struck_;
    std::string what = "rank " + std::to_string(victim) + ", call " + std::to_string(at) + ", " +
                       (error == kKill ? "killed" : std::strerror(error));
    judge(ends, found_in(tried, path), what, error);
    // The next save works, and nothing of the failed one stays.
    if (tried.overwrite || !fs::exists(path)) {
      for (const test::ChildEnding& end : save(path, 2)) EXPECT_EQ(end.status, 0) << what << ": next: " << end.error;
      EXPECT_EQ(found_in(tried, path), "new") << what;
      for (const auto& entry : fs::directory_iterator(dir.path())) EXPECT_EQ(entry.path(), path) << what;
    }
    ++points_;
    return struck;
  }

  void judge(const std::vector<test::ChildEnding>& ends, const std::string& found, const std::string& what, int error) {
    std::string old = GetParam().overwrite ? "old" : "none";
    EXPECT_THAT(found, testing::AnyOf(old, "new")) << what;
    bool unknown = false;
    for (const test::ChildEnding& end : ends) {
      unknown = unknown || end.error.find("durability is unknown") != std::string::npos;
      if (end.status == 0) {
        EXPECT_EQ(found, "new") << what << ": a rank said that it was saved";
      }
      if (error == kKill) continue;
      EXPECT_EQ(end.status, ends[0].status) << what << ": " << end.error;
      EXPECT_EQ(end.error, ends[0].error) << what;
    }
    if (error != kKill && ends[0].status == 1 && !unknown) {
      EXPECT_EQ(found, old) << what << ": " << ends[0].error;
    }
  }

  void try_all(int error) {
    for (int victim = 0; victim < GetParam().ranks; ++victim) {
      int at = 0;
      while (try_at(victim, at, error) && !HasFailure()) ++at;
      EXPECT_GE(at, 8) << "hardly anything was tried";
    }
  }

  bool* struck_;
  int points_ = 0;
};

TEST_P(Crash, KilledAtAnyCallTheOldOrTheNewIsThere) {
  try_all(kKill);
  RecordProperty("points", points_);
  std::printf("%d points\n", points_);
}

TEST_P(Crash, AFailedCallIsTheSameErrorOnEveryRankAndTheOldStays) {
  for (int error : {ENOSPC, EIO, EACCES}) try_all(error);
  std::printf("%d points\n", points_);
}

/// What was done to which file or folder, in the order in which it was done, by every thread.
struct Recorded {
  enum class What { write, sync, rename, make };
  What what;
  ino_t inode;
  std::string name;  ///< of a rename: the new one
};
std::mutex recording;
std::vector<Recorded> recorded;

ino_t inode_of(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? status.st_ino : 0;
}
ino_t inode_at(int folder, const char* name) {
  struct stat status {};
  return ::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 ? status.st_ino : 0;
}
void note(Recorded::What what, ino_t inode, const std::string& name = "") {
  std::lock_guard lock(recording);
  recorded.push_back({what, inode, name});
}
ssize_t noted_pwrite(int fd, const void* data, std::size_t size, off_t offset) {
  note(Recorded::What::write, inode_of(fd));
  return ::pwrite(fd, data, size, offset);
}
int noted_fsync(int fd) {
  note(Recorded::What::sync, inode_of(fd));
  return ::fsync(fd);
}
int noted_rename(int old_dir, const char* old_name, int new_dir, const char* new_name, unsigned flags) {
  ino_t moved = inode_at(old_dir, old_name);
  int result = ::renameat2(old_dir, old_name, new_dir, new_name, flags);
  if (result == 0) {
    note(Recorded::What::write, inode_of(new_dir));  // the folder has another entry
    note(Recorded::What::rename, moved, new_name);
  }
  return result;
}

/// Everything that was changed before operation `end`, and not synced after its last change.
std::set<ino_t> unsynced_before(std::size_t end) {
  std::set<ino_t> open;
  for (std::size_t i = 0; i < end; ++i) {
    if (recorded[i].what == Recorded::What::write) open.insert(recorded[i].inode);
    if (recorded[i].what == Recorded::What::sync) open.erase(recorded[i].inode);
  }
  return open;
}

class Durable : public testing::TestWithParam<std::string> {};

// What a power cut leaves is what was synced: all files and their folder before the rename, its parent after it.
TEST_P(Durable, AllIsSyncedBeforeTheRenameAndItsFolderAfterIt) {
  test::TempDir dir;
  Case tried{GetParam(), 3, false, true};
  recorded.clear();
  ckpt::detail::FileOps ops = ckpt::detail::system_file_ops();
  ops.pwrite = noted_pwrite;
  ops.fsync = noted_fsync;
  ops.renameat2 = noted_rename;
  ckpt::detail::set_file_ops(ops);
  std::vector<std::string> errors = test::run_ranks_as_threads(3, [&](ckpt::dist::Ranks& ranks) {
    ckpt::dist::save_by(ranks, part_of(tried, ranks.rank(), 1), dir.path() / "run", options_of(tried, ranks.rank()));
  });
  ckpt::detail::set_file_ops(ckpt::detail::system_file_ops());
  EXPECT_THAT(errors, testing::Each(""));
  auto last = std::find_if(recorded.begin(), recorded.end(), [](const Recorded& op) { return op.name == "run"; });
  ASSERT_NE(last, recorded.end());
  auto place = static_cast<std::size_t>(last - recorded.begin());
  ino_t parent = recorded[place - 1].inode;
  std::set<ino_t> before = unsynced_before(place - 1);
  before.erase(parent);
  std::erase_if(before, [&](ino_t inode) {  // who writes stands in the lock file, which nobody needs after a power cut
    return std::none_of(recorded.begin(), recorded.end(),
                        [&](const Recorded& op) { return op.what != Recorded::What::write && op.inode == inode; });
  });
  EXPECT_THAT(before, testing::IsEmpty()) << "changed and not durable when the folder got its name";
  EXPECT_FALSE(unsynced_before(recorded.size()).contains(parent)) << "the new name is not durable";
  std::size_t files = 0;
  for (const auto& file : fs::directory_iterator(dir.path() / "run")) {
    ino_t inode = inode_at(AT_FDCWD, file.path().c_str());
    bool synced = std::any_of(recorded.begin(), last,
                              [&](const Recorded& op) { return op.what == Recorded::What::sync && op.inode == inode; });
    EXPECT_TRUE(synced) << file.path();
    ++files;
  }
  EXPECT_GE(files, 4U);
}

INSTANTIATE_TEST_SUITE_P(Saves, Durable, testing::Values("dcp", "native", "safetensors"));

INSTANTIATE_TEST_SUITE_P(
    Saves, Crash,
    testing::Values(Case{"dcp", 1, false, true}, Case{"dcp", 1, true, true}, Case{"dcp", 1, true, false},
                    Case{"dcp", 2, false, true}, Case{"dcp", 2, true, true}, Case{"dcp", 2, true, false},
                    Case{"dcp", 3, true, true}, Case{"native", 2, true, true}, Case{"native", 3, false, true},
                    Case{"native", 1, true, false}, Case{"dcp", 3, false, true}, Case{"dcp", 3, true, false},
                    Case{"safetensors", 1, true, false}, Case{"safetensors", 2, true, true},
                    Case{"safetensors", 3, false, true}, Case{"native", 1, false, true, 2},
                    Case{"native", 1, true, true, 3}, Case{"native", 1, true, false, 2}, Case{"dcp", 1, true, true, 2}),
    test::case_name);

}  // namespace
