#include "libckpt/io/replaced_file.h"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <vector>

#include "libckpt/io/edit_journal.h"
#include "libckpt/io/remote_name.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr int kMaxLinks = 40;

/// The path behind any chain of symbolic links; a link to nothing yields the path it names.
std::filesystem::path follow_links(std::filesystem::path path) {
  std::error_code error;
  for (int links = 0; std::filesystem::is_symlink(path, error); ++links) {
    if (links == kMaxLinks) throw_errno(ELOOP, "cannot write");
    std::filesystem::path next = std::filesystem::read_symlink(path, error);
    if (error) throw_errno(error.value(), "cannot follow the symbolic link");
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return path;
}

std::optional<struct stat> status_of_name(int folder, const std::string& name) {
  struct stat status {};
  if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return status;
  if (errno == ENOENT) return std::nullopt;
  throw_errno(errno, "cannot look at the target");
}

bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size && same_time(a.st_mtim, b.st_mtim) &&
         same_time(a.st_ctim, b.st_ctim);
}

/// When the group could not be kept, its rights must not go to another group.
mode_t without_group(mode_t mode) {
  mode_t others = mode & S_IRWXO;
  return (mode & ~mode_t{S_IRWXG | S_ISGID}) | (((others << 3) & S_IRWXG) & mode);
}

void copy_attribute(int from, int to, const char* name) {
  ssize_t size = ::fgetxattr(from, name, nullptr, 0);
  if (size < 0) return;
  std::vector<char> value(static_cast<std::size_t>(size));
  size = ::fgetxattr(from, name, value.data(), value.size());
  // Attributes such as security.* may be readable but not settable; that is the system's decision.
  if (size >= 0) (void)::fsetxattr(to, name, value.data(), static_cast<std::size_t>(size), 0);
}

void copy_attributes(int from, int to) {
  ssize_t size = ::flistxattr(from, nullptr, 0);
  if (size <= 0) return;
  std::string names(static_cast<std::size_t>(size), '\0');
  size = ::flistxattr(from, names.data(), names.size());
  if (size <= 0) return;
  names.resize(static_cast<std::size_t>(size));
  for (std::string_view name : core::split(names, '\0')) {
    if (!name.empty()) copy_attribute(from, to, std::string(name).c_str());
  }
}

}  // namespace

Target look_up(const std::filesystem::path& path) {
  if (path.empty()) throw Error(ErrorCode::usage, "the name of the target is empty");
  if (is_remote_name(path)) {
    throw Error(ErrorCode::unsupported, "files on other machines are only read; name a file here as the output");
  }
  std::filesystem::path real = follow_links(path);
  std::error_code ignored;
  if (!real.has_filename() || std::filesystem::is_directory(real, ignored)) throw_errno(EISDIR, "cannot write");
  std::string folder = real.has_parent_path() ? real.parent_path().string() : ".";
  Fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) throw_errno(errno, "cannot open the folder " + core::quote(folder));
  Target target{std::move(opened), folder, real.filename().string(), std::nullopt};
  target.old = status_of_name(target.folder.get(), target.name);
  if (target.old && !S_ISREG(target.old->st_mode)) {
    throw Error(ErrorCode::io, "cannot write: it is a device or pipe, not a regular file");
  }
  return target;
}

void require_unchanged(const Target& target) {
  std::optional<struct stat> now = status_of_name(target.folder.get(), target.name);
  if (!now || (target.old && same_file(*now, *target.old))) return;
  if (!target.old) {
    throw Error(ErrorCode::io,
                "the file was created by another program while the new one was being written; nothing was replaced");
  }
  throw Error(ErrorCode::io,
              "the file was changed by another program while the new one was being written; nothing was "
              "replaced");
}

void keep_attributes(const Target& target, int fd) {
  if (!target.old) return;
  struct stat mine {};
  if (::fstat(fd, &mine) != 0) throw_errno(errno, "cannot look at the temporary file");
  mode_t mode = target.old->st_mode & 07777;
  bool same_owner = mine.st_uid == target.old->st_uid && mine.st_gid == target.old->st_gid;
  if (!same_owner && ::fchown(fd, target.old->st_uid, target.old->st_gid) != 0 &&
      ::fchown(fd, static_cast<uid_t>(-1), target.old->st_gid) != 0) {
    mode = without_group(mode);
  }
  if (::fchmod(fd, mode) != 0) throw_errno(errno, "cannot set the mode of the new file");
  Fd old(::openat(target.folder.get(), target.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (old) copy_attributes(old.get(), fd);
}

int rename_file(const Place& from, const Place& to, Taken taken) {
  struct stat file {};
  bool known = ::fstatat(from.folder, from.name.c_str(), &file, AT_SYMLINK_NOFOLLOW) == 0;
  const FileOps& ops = file_ops();
  unsigned flags = taken == Taken::replace ? 0 : RENAME_NOREPLACE;
  int result = ops.renameat2(from.folder, from.name.c_str(), to.folder, to.name.c_str(), flags);
  if (result != 0 && errno == EINVAL && taken == Taken::refuse) {
    // A file system without RENAME_NOREPLACE; a hard link refuses a taken name as well.
    result = ops.linkat(from.folder, from.name.c_str(), to.folder, to.name.c_str(), 0);
    if (result == 0) ops.unlinkat(from.folder, from.name.c_str(), 0);
  }
  if (result == 0) return 0;
  int error = errno;
  // An NFS client may repeat a rename that has succeeded and then report that the old name is gone.
  struct stat named {};
  bool repeated = error == ENOENT && known && ::fstatat(to.folder, to.name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                  named.st_dev == file.st_dev && named.st_ino == file.st_ino;
  return repeated ? 0 : error;
}

void put_in_place(const Place& from, const Place& to, Taken taken) {
  settle_edit(to.folder, to.name);  // its record must not come upon a file that it was not made for
  int error = rename_file(from, to, taken);
  if (error != 0) throw_errno(error, "cannot put the new file in place");
  drop_undo(to.folder, to.name);
}

void sync_new_names(int folder) {
  int error = sync_folder(folder);
  if (error == 0) return;
  throw Error(ErrorCode::io, "the new file is in place, but its durability is unknown: fsync of the folder failed: " +
                                 describe_errno(error));
}

}  // namespace ckpt::detail
