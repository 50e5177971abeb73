#include "libckpt/io/small_reads.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace ckpt::detail {

bool SmallReads::read(std::uint64_t offset, core::MutableBytes out) const {
  constexpr std::uint64_t kPage = 4096;
  if (out.empty() || out.size() > kPage) return false;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  if (windows_.size() >= kMostKept) windows_.clear();
  std::unique_ptr<Window>& window = windows_[offset / kPage];
  if (window == nullptr) window = std::make_unique_for_overwrite<Window>();
  if (out.size() > kWindow / 2) return read_and_keep(offset, out, *window);
  const bool inside = window->begin <= offset && offset + out.size() <= window->begin + window->size;
  if (!inside) {
    const ssize_t n = ::pread(fd_, window->bytes, kWindow, static_cast<off_t>(offset));
    window->begin = offset;
    window->size = n < 0 ? 0 : static_cast<std::size_t>(n);
    if (window->size < out.size()) return false;
  }
  std::memcpy(out.data(), window->bytes + (offset - window->begin), out.size());
  return true;
}

bool SmallReads::read_and_keep(std::uint64_t offset, core::MutableBytes out, Window& window) const {
  const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
  if (n < 0 || static_cast<std::size_t>(n) != out.size()) return false;
  window.begin = offset;
  window.size = std::min(out.size(), kWindow);
  std::memcpy(window.bytes, out.data(), window.size);
  return true;
}

}  // namespace ckpt::detail
