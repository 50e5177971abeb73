#pragma once
// SmallReads: a reader of headers that lie all over a file asks for a few bytes, then for those behind them, then for
// both again. The first call brings a little more than was asked for, and the others need none. Internal to libckpt/io.
// Thread safety: read() from many threads. Use: SmallReads near(fd.get()); bool done = near.read(offset, out);

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "libcore/base/bytes.h"

namespace ckpt::detail {

class SmallReads {
 public:
  /// REQUIRES: `fd` outlives this. What is read is how the file once was: the caller looks whether it was changed.
  explicit SmallReads(int fd) : fd_(fd) {}
  /// Fills `out`; false: it did not, since it asks for much, another thread is at it, or the system refuses.
  bool read(std::uint64_t offset, core::MutableBytes out) const;

 private:
  static constexpr std::size_t kWindow = 512;
  static constexpr std::size_t kMostKept = 8192;  ///< windows: 4 MiB

  struct Window {
    std::uint64_t begin = 0;
    std::size_t size = 0;
    std::byte bytes[kWindow];
  };

  bool read_and_keep(std::uint64_t offset, core::MutableBytes out, Window& window) const;

  int fd_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::uint64_t, std::unique_ptr<Window>> windows_;  ///< by the page they begin in
};

}  // namespace ckpt::detail
