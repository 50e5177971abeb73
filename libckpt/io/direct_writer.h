#pragma once
// DirectWriter: bytes on their way to a file past the page cache, where a large save is several times as fast as
// through it. They are gathered in aligned blocks, which two threads of its own write while the next is
// filled. What does not fill a block of the disk at the begin and the end goes through the cache. Internal to
// libckpt/io. Thread safety: one owner. Use: DirectWriter out(std::move(fd), plain, true); out.write(0, bytes);
// out.settle();

#include <cstdint>
#include <memory>

#include "libckpt/io/file_ops.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

class DirectWriter {
 public:
  /// `direct` was opened with O_DIRECT, `plain` without; both are the same file. Without `overlap` every call is made
  /// by the thread that writes. REQUIRES: `plain` outlives this.
  DirectWriter(Fd direct, int plain, bool overlap);
  /// Waits for the write under way; drops what was not settled.
  ~DirectWriter();
  DirectWriter(const DirectWriter&) = delete;
  DirectWriter& operator=(const DirectWriter&) = delete;

  /// Takes `bytes` for `offset`, best behind those that were taken last. Errors: Error(io) of this or an earlier write.
  void write(std::uint64_t offset, core::Bytes bytes);
  /// Memory for the next bytes at `offset`, not empty and perhaps less than wanted, for who makes them in place;
  /// taken by advance(). Errors: as write().
  core::MutableBytes room(std::uint64_t offset);
  void advance(std::size_t size);
  /// Everything taken so far was given to the system. Errors: as write().
  void settle();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckpt::detail
