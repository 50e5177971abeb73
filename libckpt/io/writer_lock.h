#pragma once
// WriterLock: one writer a name. The lock is a hidden file beside the target (".net.pth.ckpt-lock") that is locked
// as an open file description: it ends with the process, whatever way that ends, and the file itself is never the lock,
// since a rename gives the name a new file. The file of another user's dead writer serves as well, where it can be
// read. Readers take none. Internal to libckpt/io. Thread safety: one owner. Use: WriterLock lock(folder_fd,
// "net.pth"); sweep_folder(folder_fd, lock);

#include <string>

#include "libckpt/io/file_ops.h"
#include "libckpt/io/pending_files.h"

namespace ckpt::detail {

class WriterLock {
 public:
  WriterLock() = default;  ///< holds nothing
  /// REQUIRES: `folder` stays open as long as the lock. Errors: Error(io) naming the process that holds the lock, and
  /// when the lock file cannot be opened or is none. Where the file system has no locks, nothing is locked and nothing
  /// is said.
  WriterLock(int folder, const std::string& name);
  /// Removes the lock file and lets go.
  ~WriterLock();
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;
  WriterLock(WriterLock&& other) noexcept;
  WriterLock& operator=(WriterLock&& other) noexcept;

  /// True when the file of a writer was there that died without removing it.
  bool left_behind() const { return left_behind_; }
  /// The name that is locked, and that of the lock file.
  const std::string& target() const { return target_; }
  const std::string& file() const { return file_; }
  /// False where the file system has no locks.
  bool locked() const { return locked_; }

 private:
  enum class Attempt { taken, busy, again };
  struct Opened {
    Fd fd;
    bool existed = false;
    bool only_read = false;
  };
  Opened open_file() const;
  Attempt lock(const Opened& file);
  Attempt try_take();
  [[noreturn]] void throw_unusable(int error) const;
  void write_owner() const;

  int folder_ = -1;
  std::string target_;
  std::string file_;
  Fd fd_;
  PendingFile pending_;
  bool left_behind_ = false;
  bool locked_ = false;
  std::string busy_owner_;  ///< for the message, while another one holds it
};

/// True for a regular file of one name that holds nothing but what a writer says of itself, or nothing. Anything else
/// under the name of a lock is somebody's data (a hard link, say), and is neither written to nor removed.
bool is_lock_file(int fd);

}  // namespace ckpt::detail
