#include "libckpt/io/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <memory>

#include "libckpt/io/file_tree.h"
#include "libckpt/io/hidden_names.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using detail::Fd;
using detail::file_ops;
using Kind = Leftover::Kind;
using Writer = Leftover::Writer;
using Process = detail::TemporaryOwner::Process;

constexpr int kOpen = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

/// Hidden names in an open folder, those of writers only.
std::vector<std::string> writers_names(int folder) {
  int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, int (*)(DIR*)> entries(copy < 0 ? nullptr : ::fdopendir(copy), ::closedir);
  if (entries == nullptr) detail::throw_errno(errno, "the folder cannot be read");
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(entries.get())) {
    if (entry->d_name[0] != '.') continue;
    if (detail::is_lock_name(entry->d_name) || detail::temporary_owner(entry->d_name))
      names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// A lock that a server keeps may be invisible here, and a process there cannot be asked.
bool is_shared_between_machines(int folder) {
  struct statfs system {};
  if (::fstatfs(folder, &system) != 0) return true;
  auto magic = static_cast<std::uint32_t>(system.f_type);
  constexpr std::array<std::uint32_t, 8> kShared = {0x6969,     0x0bd00bd0, 0xff534d42, 0xfe534d42,
                                                    0x65735546, 0x01021997, 0x47504653, 0x00c36400};
  return std::find(kShared.begin(), kShared.end(), magic) != kShared.end();
}

struct flock whole_file(short type) {
  struct flock region {};
  region.l_type = type;
  region.l_whence = SEEK_SET;
  return region;
}

Writer holder_of(int folder, const std::string& name) {
  Fd fd(::openat(folder, name.c_str(), O_RDONLY | kOpen));
  if (!fd) return errno == ENOENT ? Writer::dead : Writer::unknown;
  if (!detail::is_lock_file(fd.get())) return Writer::unknown;
  struct flock region = whole_file(F_WRLCK);
  if (::fcntl(fd.get(), F_OFD_GETLK, &region) != 0) return Writer::unknown;
  return region.l_type == F_UNLCK ? Writer::dead : Writer::alive;
}

/// Removed while it is held, as a writer does it: whoever waits for it finds it without a name and starts again.
bool remove_lock(int folder, const std::string& name) {
  Fd fd(::openat(folder, name.c_str(), O_RDWR | kOpen));
  struct flock region = whole_file(F_WRLCK);
  if (!fd || file_ops().set_lock(fd.get(), &region) != 0) return false;
  struct stat mine {};
  struct stat named {};
  return ::fstat(fd.get(), &mine) == 0 && ::fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         mine.st_ino == named.st_ino && file_ops().unlinkat(folder, name.c_str(), 0) == 0;
}

class Search {
 public:
  /// `lock` may be null. `type`: S_IFREG, or S_IFDIR for temporary folders.
  Search(int folder, const detail::WriterLock* lock, mode_t type = S_IFREG)
      : folder_(folder), lock_(lock), type_(type) {}

  std::vector<Leftover> run() {
    std::vector<std::string> names = writers_names(folder_);
    for (const std::string& name : names) add(name, Kind::temporary);
    bool unknown =
        std::any_of(found_.begin(), found_.end(), [](const Leftover& left) { return left.writer == Writer::unknown; });
    // A writer has its lock before its file, so whoever wrote what was just seen and lives is found by a second look.
    if (unknown) names = writers_names(folder_);
    for (const std::string& name : names) add(name, Kind::lock);
    if (!may_judge_) return std::move(found_);
    for (Leftover& left : found_) {
      if (left.writer == Writer::unknown && left.kind == Kind::temporary) left.writer = Writer::dead;
    }
    return std::move(found_);
  }

 private:
  void add(const std::string& name, Kind kind) {
    struct stat status {};
    bool is_kind = detail::is_lock_name(name) == (kind == Kind::lock);
    bool own = lock_ != nullptr && name == lock_->file();
    if (!is_kind || own || ::fstatat(folder_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    mode_t wanted = kind == Kind::temporary ? type_ : S_IFREG;
    if ((status.st_mode & S_IFMT) != wanted) return;
    Leftover left{name,
                  kind,
                  Writer::unknown,
                  status.st_uid == ::geteuid(),
                  static_cast<std::uint64_t>(status.st_size),
                  static_cast<std::int64_t>(::time(nullptr) - status.st_mtim.tv_sec)};
    left.writer = kind == Kind::lock ? holder(name) : writer(name);
    found_.push_back(std::move(left));
  }

  Writer holder(const std::string& name) {
    Writer writer = shared_ ? Writer::unknown : holder_of(folder_, name);
    if (writer != Writer::dead) may_judge_ = false;
    return writer;
  }

  Writer writer(const std::string& name) const {
    detail::TemporaryOwner owner = *detail::temporary_owner(name);
    if (owner.process == Process::alive) return Writer::alive;
    // Other containers of this machine see the same boot and other processes; their numbers are told apart.
    if (owner.process == Process::dead) return Writer::dead;
    bool locked = lock_ != nullptr && lock_->locked();
    return locked && detail::is_temporary_for(owner, lock_->target()) ? Writer::dead : Writer::unknown;
  }

  int folder_;
  const detail::WriterLock* lock_;
  mode_t type_;
  bool shared_ = is_shared_between_machines(folder_);
  bool may_judge_ = !shared_ && (lock_ == nullptr || lock_->locked());
  std::vector<Leftover> found_;
};

std::vector<Leftover> sweep(int folder, const detail::WriterLock* lock, mode_t type = S_IFREG) {
  std::vector<Leftover> left = Search(folder, lock, type).run();
  std::erase_if(left, [&](const Leftover& file) {
    if (file.writer != Writer::dead || !file.is_mine) return true;
    if (file.kind == Kind::lock) return !remove_lock(folder, file.name);
    return detail::remove_tree(folder, file.name) != 0;
  });
  return left;
}

Fd open_folder(const std::filesystem::path& folder) {
  Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) detail::throw_errno(errno, "the folder cannot be read");
  return fd;
}

}  // namespace

std::vector<Leftover> find_leftovers(const std::filesystem::path& folder) {
  return core::with_context(folder.string(), [&] {
    std::vector<Leftover> found = Search(open_folder(folder).get(), nullptr).run();
    std::sort(found.begin(), found.end(), [](const Leftover& a, const Leftover& b) { return a.name < b.name; });
    return found;
  });
}

std::vector<Leftover> find_hidden_folders(const std::filesystem::path& folder) {
  return core::with_context(folder.string(), [&] {
    std::vector<Leftover> found = Search(open_folder(folder).get(), nullptr, S_IFDIR).run();
    std::erase_if(found, [](const Leftover& left) { return left.kind == Kind::lock; });
    for (Leftover& left : found) left.kind = Kind::folder;
    std::sort(found.begin(), found.end(), [](const Leftover& a, const Leftover& b) { return a.name < b.name; });
    return found;
  });
}

std::vector<Leftover> sweep_leftovers(const std::filesystem::path& folder) {
  return core::with_context(folder.string(), [&] { return sweep(open_folder(folder).get(), nullptr); });
}

std::vector<Leftover> sweep_hidden_folders(const std::filesystem::path& folder) {
  return core::with_context(folder.string(), [&] { return sweep(open_folder(folder).get(), nullptr, S_IFDIR); });
}

namespace detail {

void sweep_folder(int folder, const WriterLock& lock) {
  try {
    sweep(folder, &lock);
  } catch (const core::Error&) {
    return;  // it cannot be listed
  }
}

void sweep_hidden_folders(int folder, const WriterLock& lock) {
  try {
    sweep(folder, &lock, S_IFDIR);
  } catch (const core::Error&) {
    return;
  }
}

}  // namespace detail
}  // namespace ckpt
