#pragma once
// WriterLock: one writer a name. The lock is a hidden file beside the target (".net.pth.ckpt-lock") that is locked
// as an open file description: it ends with the process, whatever way that ends, and the file itself is never the lock,
// since a rename gives the name a new file. Readers take none. Internal to libckpt/io. Thread safety: one owner.
// Use: WriterLock lock(folder_fd, "net.pth"); if (lock.left_behind()) remove_leftovers(folder_fd, "net.pth", lock);

#include <string>

#include "libckpt/io/file_ops.h"
#include "libckpt/io/pending_files.h"

namespace ckpt::detail {

class WriterLock {
 public:
  WriterLock() = default;  ///< holds nothing
  /// REQUIRES: `folder` stays open as long as the lock. Errors: Error(io) naming the process that holds the lock, and
  /// when the lock file cannot be opened. Where the file system has no locks, nothing is locked and nothing is said.
  WriterLock(int folder, const std::string& name);
  /// Removes the lock file and lets go.
  ~WriterLock();
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;
  WriterLock(WriterLock&& other) noexcept;
  WriterLock& operator=(WriterLock&& other) noexcept;

  /// True when the file of a writer was there that died without removing it.
  bool left_behind() const { return left_behind_; }
  /// False where the file system has no locks.
  bool locked() const { return locked_; }

 private:
  bool try_take();
  void write_owner() const;

  int folder_ = -1;
  std::string file_;
  Fd fd_;
  PendingFile pending_;
  bool left_behind_ = false;
  bool locked_ = false;
};

/// ".net.pth.ckpt-tmp-1a2b3c4d-4711-0123456789abcdef": a fresh hidden name that says whose it is (first digits of the
/// boot id, process), so that leftovers of a dead process can be told. Errors: Error(io).
std::string temporary_name(const std::string& name);

/// Removes temporary files for `name` that nobody will finish: all of them under the lock; where the file system has no
/// locks, those of dead processes of this machine since it was started. Returns how many.
int remove_leftovers(int folder, const std::string& name, const WriterLock& lock);

}  // namespace ckpt::detail
