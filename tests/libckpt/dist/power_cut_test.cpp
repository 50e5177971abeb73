// Saves of many ranks on a disk that loses power at every operation: what was not synced is there in any part. What is
// read afterwards is the old checkpoint or the new one, whole, and the new one where the save said that it was done.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>

#include "libckpt/io/file_ops.h"
#include "tests/libckpt/dist/crash_cases.h"
#include "tests/libckpt/dist/thread_ranks.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using test::Case;

/// What changed the disk, in the order in which it was done. Files and folders are told by numbers of our own: those of
/// the system are used again.
struct Op {
  enum class Kind { write, resize, name, sync };
  Kind kind;
  int node = -1;  ///< the file; the folder whose names change
  std::uint64_t offset = 0;
  std::string bytes = {};
  std::map<std::string, int> names = {};  ///< what they stand for from now on; -1: nothing
};

class Disk {
 public:
  static Disk*& current() {
    static Disk* disk = nullptr;
    return disk;
  }
  std::mutex mutex;
  std::vector<Op> log;
  std::map<std::pair<dev_t, ino_t>, int> numbers;
  int next = 0;

  int number(const struct stat& status) {
    auto [at, fresh] = numbers.try_emplace({status.st_dev, status.st_ino}, next);
    if (fresh) ++next;
    return at->second;
  }
  int of(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? number(status) : -1;
  }
  /// What has a name now; a new one when it was made just now.
  int at(int folder, const char* name, bool made = false) {
    struct stat status {};
    if (::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return -1;
    if (made) numbers[{status.st_dev, status.st_ino}] = next++;
    return number(status);
  }
  void names(int folder, std::map<std::string, int> names) {
    log.push_back({Op::Kind::name, of(folder), 0, {}, std::move(names)});
  }
};

bool exists(int folder, const char* name) {
  struct stat status {};
  return ::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

int noted_open(int folder, const char* name, int flags, mode_t mode) {
  Disk& disk = *Disk::current();
  std::lock_guard lock(disk.mutex);
  bool made = (flags & O_CREAT) != 0 && !exists(folder, name);
  int fd = ::openat(folder, name, flags, mode);
  if (fd >= 0 && made) disk.names(folder, {{name, disk.at(folder, name, true)}});
  return fd;
}
ssize_t noted_write(int fd, const void* data, std::size_t size, off_t offset) {
  Disk& disk = *Disk::current();
  std::lock_guard lock(disk.mutex);
  ssize_t n = ::pwrite(fd, data, size, offset);
  if (n <= 0) return n;
  disk.log.push_back({Op::Kind::write, disk.of(fd), static_cast<std::uint64_t>(offset),
                      std::string(static_cast<const char*>(data), static_cast<std::size_t>(n))});
  return n;
}
ssize_t no_copy(int, off_t*, int, off_t*, std::size_t, unsigned) {
  return errno = EXDEV, -1;  // the bytes then come by writes
}
int noted_resize(int fd, off_t size) {
  Disk& disk = *Disk::current();
  std::lock_guard lock(disk.mutex);
  int result = ::ftruncate(fd, size);
  if (result == 0) disk.log.push_back({Op::Kind::resize, disk.of(fd), static_cast<std::uint64_t>(size)});
  return result;
}
int no_room_ahead(int, int, off_t, off_t) {
  return errno = EOPNOTSUPP, -1;
}
int noted_sync(int fd) {
  Disk& disk = *Disk::current();
  std::lock_guard lock(disk.mutex);
  disk.log.push_back({Op::Kind::sync, disk.of(fd)});
  return 0;
}
int noted_rename(int old_dir, const char* old_name, int new_dir, const char* new_name, unsigned flags) {
  Disk& disk = *Disk::current();
  std::lock_guard lock(disk.mutex);
  int moved = disk.at(old_dir, old_name);
  int replaced = disk.at(new_dir, new_name);
  int result = ::renameat2(old_dir, old_name, new_dir, new_name, flags);
  if (result != 0) return result;
  int stays = (flags & RENAME_EXCHANGE) != 0 ? replaced : -1;
  if (disk.of(old_dir) == disk.of(new_dir)) {
    disk.names(old_dir, {{old_name, stays}, {new_name, moved}});
  } else {
    disk.names(old_dir, {{old_name, stays}});
    disk.names(new_dir, {{new_name, moved}});
  }
  return 0;
}
int noted_rename_without_exchange(int old_dir, const char* old_name, int new_dir, const char* new_name,
                                  unsigned flags) {
  if ((flags & RENAME_EXCHANGE) != 0) return errno = EINVAL, -1;
  return noted_rename(old_dir, old_name, new_dir, new_name, flags);
}
int noted_link(int old_dir, const char* old_name, int new_dir, const char* new_name, int flags) {
  Disk& disk = *Disk::current();
  std::lock_guard lock(disk.mutex);
  int result = ::linkat(old_dir, old_name, new_dir, new_name, flags);
  if (result == 0) disk.names(new_dir, {{new_name, disk.at(new_dir, new_name)}});
  return result;
}
int noted_unlink(int folder, const char* name, int flags) {
  Disk& disk = *Disk::current();
  std::lock_guard lock(disk.mutex);
  int result = ::unlinkat(folder, name, flags);
  if (result == 0) disk.names(folder, {{name, -1}});
  return result;
}
int noted_mkdir(int folder, const char* name, mode_t mode) {
  Disk& disk = *Disk::current();
  std::lock_guard lock(disk.mutex);
  int result = ::mkdirat(folder, name, mode);
  if (result == 0) disk.names(folder, {{name, disk.at(folder, name, true)}});
  return result;
}

/// A folder or a file as it lies on the disk.
struct Node {
  std::string bytes;
  std::map<std::string, int> names;
};
using Nodes = std::map<int, Node>;

void apply(Nodes& nodes, const Op& op, std::uint64_t most = UINT64_MAX) {
  Node& node = nodes[op.node];
  if (op.kind == Op::Kind::resize) node.bytes.resize(op.offset, '\0');
  for (const auto& [name, what] : op.names) what >= 0 ? void(node.names[name] = what) : void(node.names.erase(name));
  if (op.kind != Op::Kind::write) return;
  std::size_t size = std::min<std::uint64_t>(op.bytes.size(), most);
  // A longer file whose bytes did not come has zeros there.
  node.bytes.resize(std::max(node.bytes.size(), op.offset + op.bytes.size()), '\0');
  node.bytes.replace(op.offset, size, op.bytes, 0, size);
}

void write_out(const Nodes& nodes, int number, const fs::path& path) {
  fs::create_directory(path);
  for (const auto& [name, what] : nodes.at(number).names) {
    auto found = nodes.find(what);
    bool is_folder = found != nodes.end() && !found->second.names.empty();
    if (is_folder) {
      write_out(nodes, what, path / name);
    } else {
      test::write_file(path / name, found == nodes.end() ? "" : found->second.bytes);
    }
  }
}

/// What is on the disk when the first `cut` operations were begun: what was synced after it, and any part of the rest.
class States {
 public:
  States(Nodes start, const std::vector<Op>& log) : start_(std::move(start)), log_(log) {}

  bool is_safe(std::size_t op, std::size_t cut) const {
    for (std::size_t i = op + 1; i < cut; ++i) {
      if (log_[i].kind == Op::Kind::sync && log_[i].node == log_[op].node) return true;
    }
    return false;
  }

  /// choice 0: all is there; 1: nothing that is not safe; 2: all names and no content; 3: all content and no name;
  /// others: at random, writes torn at sectors.
  Nodes state(std::size_t cut, unsigned choice) const {
    std::mt19937 random(choice * 7919 + static_cast<unsigned>(cut));
    Nodes nodes = start_;
    for (std::size_t i = 0; i < cut; ++i) {
      const Op& op = log_[i];
      if (op.kind == Op::Kind::sync) continue;
      bool is_name = op.kind == Op::Kind::name;
      bool kept = choice == 0 || (choice == 2 && is_name) || (choice == 3 && !is_name) || is_safe(i, cut);
      std::uint64_t most = UINT64_MAX;
      if (!kept && choice > 3) {
        kept = random() % 2 == 0;
        if (kept && random() % 4 == 0) most = random() % (op.bytes.size() / 512 + 1) * 512;
      }
      if (kept) apply(nodes, op, most);
    }
    return nodes;
  }

 private:
  Nodes start_;
  const std::vector<Op>& log_;
};

/// Every name below a folder, as what it stands for.
Nodes read_nodes(Disk& disk, const fs::path& folder) {
  Nodes nodes;
  Node& node = nodes[disk.at(AT_FDCWD, folder.c_str())];
  for (const auto& entry : fs::directory_iterator(folder)) {
    int what = disk.at(AT_FDCWD, entry.path().c_str());
    node.names[entry.path().filename().string()] = what;
    if (entry.is_directory()) nodes.merge(read_nodes(disk, entry.path()));
    if (entry.is_regular_file()) nodes[what].bytes = test::read_file(entry.path());
  }
  return nodes;
}

/// Changes the log as a mistake in the order of the save would.
using Mistake = std::function<void(std::vector<Op>& log, int parent)>;

class PowerCut : public testing::TestWithParam<Case> {
 protected:
  PowerCut() {
    if (fs::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 1);
  }

  void save(const fs::path& path, float version) const {
    Case tried = GetParam();
    std::vector<std::string> errors = test::run_ranks_as_threads(tried.ranks, [&](ckpt::dist::Ranks& ranks) {
      test::save_of(tried, ranks, test::part_of(tried, ranks.rank(), version), path);
    });
    ASSERT_THAT(errors, testing::Each(""));
  }

  ckpt::detail::FileOps ops() const {
    ckpt::detail::FileOps ops = ckpt::detail::system_file_ops();
    ops.openat = noted_open;
    ops.pwrite = noted_write;
    ops.copy_file_range = no_copy;
    ops.fallocate = no_room_ahead;
    ops.ftruncate = noted_resize;
    ops.fsync = noted_sync;
    ops.renameat2 = GetParam().exchange ? noted_rename : noted_rename_without_exchange;
    ops.linkat = noted_link;
    ops.unlinkat = noted_unlink;
    ops.mkdirat = noted_mkdir;
    return ops;
  }

  /// How many states were looked at, and what was wrong with some.
  struct Outcome {
    int points = 0;
    std::vector<std::string> wrong;
  };

  Outcome run(unsigned choices, const Mistake& mistake = nullptr) {
    Case tried = GetParam();
    test::TempDir dir;
    fs::path folder = dir.path() / "disk";
    fs::create_directory(folder);
    if (tried.overwrite) save(folder / "run", 1);
    Disk disk;
    Nodes start = read_nodes(disk, folder);
    int parent = disk.at(AT_FDCWD, folder.c_str());
    Disk::current() = &disk;
    ckpt::detail::FileOps noted = ops();
    ckpt::detail::set_file_ops(noted);
    save(folder / "run", 2);
    ckpt::detail::set_file_ops(ckpt::detail::system_file_ops());
    Nodes now = start;
    for (const Op& op : disk.log) apply(now, op);
    EXPECT_EQ(test::found_in(tried, materialise(now, parent, dir.path() / "all")), "new")
        << "the log does not account for the folder";
    if (mistake) mistake(disk.log, parent);
    Outcome outcome;
    States states(start, disk.log);
    std::set<std::string> seen;
    for (std::size_t cut = 0; cut <= disk.log.size(); ++cut) {
      for (unsigned choice = 0; choice < choices; ++choice) {
        judge(states.state(cut, choice), parent, cut == disk.log.size(), dir.path() / "cut", seen, outcome,
              "cut at " + std::to_string(cut) + " of " + std::to_string(disk.log.size()) + ", choice " +
                  std::to_string(choice));
      }
    }
    return outcome;
  }

  static fs::path materialise(const Nodes& nodes, int parent, const fs::path& at) {
    fs::remove_all(at);
    write_out(nodes, parent, at);
    return at / "run";
  }

  /// A state that was seen before is a point as well, and not read again.
  void judge(const Nodes& nodes, int parent, bool returned, const fs::path& at, std::set<std::string>& seen,
             Outcome& outcome, const std::string& what) const {
    ++outcome.points;
    std::string key = returned ? "+" : "-";
    describe(nodes, parent, key);
    if (!seen.insert(key).second) return;
    std::string found = test::found_in(GetParam(), materialise(nodes, parent, at));
    bool good = found == "new" || (!returned && found == (GetParam().overwrite ? "old" : "none"));
    if (!good) outcome.wrong.push_back(what + ": " + found);
  }

  static void describe(const Nodes& nodes, int number, std::string& out) {
    auto found = nodes.find(number);
    if (found == nodes.end()) return;
    out += std::to_string(found->second.bytes.size()) + ":" + found->second.bytes + "{";
    for (const auto& [name, what] : found->second.names) {
      out += name + "=";
      describe(nodes, what, out);
    }
    out += "}";
  }
};

TEST_P(PowerCut, WhatIsLeftIsTheOldCheckpointOrTheNew) {
  Outcome outcome = run(24);
  EXPECT_THAT(outcome.wrong, testing::IsEmpty());
  std::printf("%d points\n", outcome.points);
}

INSTANTIATE_TEST_SUITE_P(Saves, PowerCut,
                         testing::Values(Case{"dcp", 1, false, true}, Case{"dcp", 2, true, true},
                                         Case{"dcp", 2, true, false}, Case{"dcp", 3, true, true},
                                         Case{"dcp", 3, false, true}, Case{"native", 2, true, true},
                                         Case{"native", 3, false, true}, Case{"safetensors", 2, true, true},
                                         Case{"safetensors", 2, true, false}, Case{"native", 1, false, true, 2},
                                         Case{"native", 1, true, true, 3}, Case{"native", 1, true, false, 2},
                                         Case{"dcp", 1, true, true, 2}),
                         test::case_name);

class Planted : public PowerCut {};

/// The rename that puts the folder in place.
std::size_t commit_in(const std::vector<Op>& log, int parent) {
  for (std::size_t i = 0; i < log.size(); ++i) {
    auto run = log[i].names.find("run");
    if (log[i].node == parent && run != log[i].names.end() && run->second >= 0) return i;
  }
  return log.size();
}

/// A save that does these in another order, or leaves them out, is told from one that does not.
TEST_P(Planted, MistakesAreFound) {
  const std::map<std::string, Mistake> mistakes = {
      {"no file is synced",
       [](std::vector<Op>& log, int parent) {
         std::set<int> folders = {parent};
         for (const Op& op : log) {
           if (op.kind == Op::Kind::name) folders.insert(op.node);
         }
         std::erase_if(log, [&](const Op& op) { return op.kind == Op::Kind::sync && !folders.contains(op.node); });
       }},
      {"the new folder is not synced",
       [](std::vector<Op>& log, int parent) {
         std::set<int> folders;
         for (const Op& op : log) {
           if (op.kind == Op::Kind::name && op.node != parent) folders.insert(op.node);
         }
         std::erase_if(log, [&](const Op& op) { return op.kind == Op::Kind::sync && folders.contains(op.node); });
       }},
      {"its parent is not synced after the rename",
       [](std::vector<Op>& log, int parent) {
         std::erase_if(log, [&](const Op& op) { return op.kind == Op::Kind::sync && op.node == parent; });
       }},
      {"renamed before the parts are written",
       [](std::vector<Op>& log, int parent) {
         std::size_t at = commit_in(log, parent);
         std::size_t first = 0;
         while (log[first].kind != Op::Kind::write) ++first;
         ASSERT_LT(first, at);
         std::rotate(log.begin() + static_cast<std::ptrdiff_t>(first), log.begin() + static_cast<std::ptrdiff_t>(at),
                     log.begin() + static_cast<std::ptrdiff_t>(at) + 1);
       }},
      {"renamed before the last part is synced", [](std::vector<Op>& log, int parent) {
         std::size_t at = commit_in(log, parent);
         std::size_t last = at;
         while (log[last].kind != Op::Kind::write) --last;
         std::rotate(log.begin() + static_cast<std::ptrdiff_t>(last) + 1, log.begin() + static_cast<std::ptrdiff_t>(at),
                     log.begin() + static_cast<std::ptrdiff_t>(at) + 1);
       }}};
  for (const auto& [name, mistake] : mistakes) {
    EXPECT_FALSE(run(12, mistake).wrong.empty()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Saves, Planted,
                         testing::Values(Case{"dcp", 2, false, true}, Case{"native", 2, false, true},
                                         Case{"safetensors", 2, false, true}, Case{"native", 1, false, true, 2}),
                         test::case_name);

}  // namespace
