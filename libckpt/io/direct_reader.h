#pragma once
// DirectReader: large reads of a file past the page cache where its bytes are not there yet: the system then makes no
// pages for what is read once, which costs it more than the disk does. Internal to libckpt/io. Thread safety: read()
// from many threads. Use: DirectReader cold(fd.get(), size); bool done = cold.read(offset, out);

#include <atomic>
#include <cstdint>
#include <mutex>

#include "libckpt/io/file_ops.h"
#include "libckpt/io/page_cache_use.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

class DirectReader {
 public:
  /// As Io::automatic says. REQUIRES: `fd` outlives this and is a file of `size` bytes.
  DirectReader(int fd, std::uint64_t size);
  /// From now on.
  void use(Io io) const;
  /// Fills `out`; false: it did not, since the bytes are in memory, are few, or the system does not; or met an error,
  /// which a plain read of the same bytes meets again. REQUIRES: they lie in the file.
  bool read(std::uint64_t offset, core::MutableBytes out) const;
  /// Less than half of the file, by a sample, was in memory when this was first asked.
  bool was_cold() const;
  /// Large reads go past the cache therefore, or because that was asked for.
  bool waits_for_disk() const { return !off_ && (io_ == Io::direct || was_cold()); }

 private:
  bool is_cold(std::uint64_t offset, std::uint64_t length) const;
  int open_direct() const;
  bool read_blocks(std::uint64_t offset, core::MutableBytes out) const;

  int fd_;
  std::uint64_t size_;
  bool gains_;  ///< large enough, and on a disk
  mutable std::atomic<Io> io_ = Io::automatic;
  mutable std::atomic<bool> off_;  ///< always read as usual
  mutable std::once_flag looked_;
  mutable bool was_cold_ = false;
  mutable std::mutex opening_;
  mutable Fd direct_;
};

}  // namespace ckpt::detail
