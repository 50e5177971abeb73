#pragma once
// The system calls that change a file, in one table, so that a test can fail or kill the k-th of them; and what an
// errno means in a sentence. Internal to libckpt/io. Thread safety: file_ops() may be read by any thread;
// set_file_ops() is for tests and trials, while no other thread writes. Use: file_ops().fsync(fd.get());

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "libcore/base/bytes.h"

namespace ckpt::detail {

/// Same contracts as the system calls of these names: -1 and errno on failure.
struct FileOps {
  int (*openat)(int folder, const char* name, int flags, mode_t mode);  ///< only for files that are made or written
  ssize_t (*pwrite)(int fd, const void* data, std::size_t size, off_t offset);
  ssize_t (*copy_file_range)(int in, off_t* in_offset, int out, off_t* out_offset, std::size_t size, unsigned flags);
  int (*fallocate)(int fd, int mode, off_t offset, off_t size);
  int (*ftruncate)(int fd, off_t size);
  int (*fsync)(int fd);
  int (*close)(int fd);
  int (*renameat2)(int old_dir, const char* old_name, int new_dir, const char* new_name, unsigned flags);
  int (*linkat)(int old_dir, const char* old_name, int new_dir, const char* new_name, int flags);
  int (*unlinkat)(int folder, const char* name, int flags);
  int (*set_lock)(int fd, const struct flock* region);  ///< fcntl F_OFD_SETLK
  int (*mkdirat)(int folder, const char* name, mode_t mode) = ::mkdirat;
};

const FileOps& file_ops();
/// The real system calls.
const FileOps& system_file_ops();
/// Replaces the table until the next call. REQUIRES: `ops` outlives its use.
void set_file_ops(const FileOps& ops);

/// An open descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// Error(io) when the process may write no file so long (ulimit -f): the system would end it with a signal.
void require_allowed(std::uint64_t size);
/// Writes all of `bytes` at `offset`: 0, or the errno that stopped it.
int write_fully(int fd, std::uint64_t offset, core::Bytes bytes);
/// fsync of an open folder: 0, or the errno. Some network and FUSE systems have none; they make names durable by
/// themselves or never, which is 0 too.
int sync_folder(int folder);

/// "no space left on the device; free some space or write elsewhere": what to know and do about an errno.
std::string describe_errno(int error);
/// Throws Error(io) "<doing>: <describe_errno>"; std::bad_alloc for ENOMEM.
[[noreturn]] void throw_errno(int error, std::string_view doing);

}  // namespace ckpt::detail
