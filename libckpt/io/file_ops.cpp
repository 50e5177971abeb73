#include "libckpt/io/file_ops.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

int set_lock(int fd, const struct flock* region) {
  return ::fcntl(fd, F_OFD_SETLK, region);
}

int open_at(int folder, const char* name, int flags, mode_t mode) {
  return ::openat(folder, name, flags, mode);
}

constexpr FileOps kSystem = {open_at, ::pwrite,    ::copy_file_range, ::fallocate, ::ftruncate, ::fsync,
                             ::close, ::renameat2, ::linkat,          ::unlinkat,  set_lock};

std::atomic<const FileOps*> current_ops{&kSystem};

}  // namespace

const FileOps& file_ops() {
  return *current_ops.load(std::memory_order_acquire);
}

const FileOps& system_file_ops() {
  return kSystem;
}

void set_file_ops(const FileOps& ops) {
  current_ops.store(&ops, std::memory_order_release);
}

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

void require_allowed(std::uint64_t size) {
  rlimit limit{};
  std::uint64_t largest = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
  if (size > largest || size > static_cast<std::uint64_t>(INT64_MAX)) throw_errno(EFBIG, "cannot write");
}

int write_fully(int fd, std::uint64_t offset, core::Bytes bytes) {
  while (!bytes.empty()) {
    ssize_t n = file_ops().pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : ENOSPC;
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return 0;
}

int sync_folder(int folder) {
  if (file_ops().fsync(folder) == 0 || errno == EINVAL || errno == ENOTSUP || errno == ENOSYS) return 0;
  return errno;
}

std::string describe_errno(int error) {
  switch (error) {
    case ENOSPC:
      return "no space left on the device; free some space or write elsewhere";
    case EDQUOT:
      return "the disk quota is used up; free some space or write elsewhere";
    case EROFS:
      return "the file system is read-only";
    case EACCES:
    case EPERM:
      return "permission denied";
    case ENOENT:
      return "no such file or folder";
    case ENOTDIR:
      return "a part of the path is a file, not a folder";
    case EISDIR:
      return "it is a folder, not a file";
    case EEXIST:
      return "it already exists";
    case EFBIG:
      return "the file would be larger than the system allows (see ulimit -f)";
    case ENAMETOOLONG:
      return "the name is too long";
    case ELOOP:
      return "too many symbolic links";
    case EMFILE:
    case ENFILE:
      return "too many open files (see ulimit -n)";
    case EIO:
      return "the device reported an error";
    default:
      return std::strerror(error);
  }
}

void throw_errno(int error, std::string_view doing) {
  if (error == ENOMEM) throw std::bad_alloc();
  throw core::Error(core::ErrorCode::io, std::string(doing) + ": " + describe_errno(error));
}

}  // namespace ckpt::detail
