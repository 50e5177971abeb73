#pragma once
// System calls that fail or kill the process at a chosen call, and a child process to be killed.
// Use: Injection injection(3, ENOSPC); ... EXPECT_TRUE(Injection::struck());

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>

#include "libckpt/io/file_ops.h"
#include "libcore/base/error.h"

namespace test::fault {

/// What `body` throws, or "" when it throws nothing.
inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::io) << error.what();
    return error.what();
  }
  return "";
}

/// Runs `body` in a child process; its exit status as waitpid() gives it.
inline int run_child(const std::function<void()>& body) {
  pid_t child = ::fork();
  if (child == 0) {
    try {
      body();
    } catch (...) {
      ::_exit(9);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

// A table of system calls in which the call number `countdown` fails or kills the process.
inline int countdown = -1;
inline int injected_errno = 0;

inline bool strikes() {
  if (countdown < 0 || countdown-- > 0) return false;
  if (injected_errno == 0) ::raise(SIGKILL);
  errno = injected_errno;
  return true;
}

inline int bad_open(int folder, const char* name, int flags, mode_t mode) {
  return strikes() ? -1 : ::openat(folder, name, flags, mode);
}
inline ssize_t bad_pwrite(int fd, const void* data, std::size_t size, off_t offset) {
  return strikes() ? -1 : ::pwrite(fd, data, size, offset);
}
inline ssize_t short_pwrite(int fd, const void* data, std::size_t size, off_t offset) {
  return ::pwrite(fd, data, std::min<std::size_t>(size, 3), offset);
}
inline ssize_t bad_copy(int in, off_t* in_offset, int out, off_t* out_offset, std::size_t size, unsigned flags) {
  return strikes() ? -1 : ::copy_file_range(in, in_offset, out, out_offset, size, flags);
}
inline ssize_t no_copy(int, off_t*, int, off_t*, std::size_t, unsigned) {
  errno = EXDEV;
  return -1;
}
inline int bad_fallocate(int fd, int mode, off_t offset, off_t size) {
  return strikes() ? -1 : ::fallocate(fd, mode, offset, size);
}
inline int bad_ftruncate(int fd, off_t size) {
  return strikes() ? -1 : ::ftruncate(fd, size);
}
inline int fsync_calls = 0;
inline int bad_fsync(int fd) {
  ++fsync_calls;
  return strikes() ? -1 : ::fsync(fd);
}
inline int bad_close(int fd) {
  int result = ::close(fd);
  return strikes() ? -1 : result;
}
inline int bad_rename(int old_dir, const char* old_name, int new_dir, const char* new_name, unsigned flags) {
  return strikes() ? -1 : ::renameat2(old_dir, old_name, new_dir, new_name, flags);
}

inline int bad_link(int old_dir, const char* old_name, int new_dir, const char* new_name, int flags) {
  return strikes() ? -1 : ::linkat(old_dir, old_name, new_dir, new_name, flags);
}

/// Cleaning up is never let fail, or nothing could be said about what is left; it can be killed.
inline int bad_unlink(int folder, const char* name, int flags) {
  if (injected_errno == 0) strikes();
  return ::unlinkat(folder, name, flags);
}
inline int bad_mkdir(int folder, const char* name, mode_t mode) {
  return strikes() ? -1 : ::mkdirat(folder, name, mode);
}
inline int no_lock(int, const struct flock*) {
  errno = ENOLCK;
  return -1;
}

inline const ckpt::detail::FileOps kBadOps = {bad_open,
                                              bad_pwrite,
                                              bad_copy,
                                              bad_fallocate,
                                              bad_ftruncate,
                                              bad_fsync,
                                              bad_close,
                                              bad_rename,
                                              bad_link,
                                              bad_unlink,
                                              ckpt::detail::system_file_ops().set_lock,
                                              bad_mkdir};

/// Lets the call number `at` fail with `error` (0: kill) as long as it lives.
class Injection {
 public:
  Injection(int at, int error, const ckpt::detail::FileOps& ops = kBadOps) {
    countdown = at;
    injected_errno = error;
    ckpt::detail::set_file_ops(ops);
  }
  ~Injection() {
    ckpt::detail::set_file_ops(ckpt::detail::system_file_ops());
    countdown = -1;
  }
  static bool struck() { return countdown < 0; }
};

}  // namespace test::fault
