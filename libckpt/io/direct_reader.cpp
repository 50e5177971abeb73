#include "libckpt/io/direct_reader.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "libckpt/io/scratch.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kWorthIt = 256ULL << 10;

std::uint64_t down(std::uint64_t value) {
  return value / kDirectAlignment * kDirectAlignment;
}

/// How many bytes were read, 0 for any failure.
std::size_t read_some(int fd, std::uint64_t offset, core::MutableBytes out) {
  ssize_t n = 0;
  do {
    n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
  } while (n < 0 && errno == EINTR);
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

}  // namespace

DirectReader::DirectReader(int fd, std::uint64_t size)
    : fd_(fd), gains_(size >= kDirectFrom && gains_from_direct(fd)), off_(!gains_) {}

void DirectReader::use(Io io) const {
  io_ = io;
  off_ = io == Io::buffered || (io == Io::automatic && !gains_);
}

bool DirectReader::read(std::uint64_t offset, core::MutableBytes out) const {
  if (off_ || out.size() < (io_ == Io::direct ? kDirectAlignment : kWorthIt)) return false;
  if (io_ == Io::automatic && !is_cold(offset, out.size())) return false;
  return read_blocks(offset, out);
}

/// Less than half of it is in memory. cachestat(2) is there from Linux 6.5 on; without it nothing is taken for cold.
bool DirectReader::is_cold(std::uint64_t offset, std::uint64_t length) const {
  constexpr long kCachestat = 451;
  struct {
    std::uint64_t offset;
    std::uint64_t length;
  } range = {offset, length};
  struct {
    std::uint64_t cached, dirty, written_back, evicted, recently_evicted;
  } pages = {};
  if (::syscall(kCachestat, fd_, &range, &pages, 0) != 0) {
    off_ = true;
    return false;
  }
  return pages.cached * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) < length / 2;
}

/// -1 where the system refuses.
int DirectReader::open_direct() const {
  std::lock_guard lock(opening_);
  if (!direct_ && !off_) {
    // By what is open, so that a new file of the same name is not taken for it.
    direct_ = Fd(::open(("/proc/self/fd/" + std::to_string(fd_)).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    off_ = !direct_;
  }
  return direct_.get();
}

bool DirectReader::read_blocks(std::uint64_t offset, core::MutableBytes out) const {
  const int fd = open_direct();
  if (fd < 0) return false;
  const Scratch bounce(std::min(kDirectBlock, out.size() + 2 * kDirectAlignment));
  while (!out.empty()) {
    const bool in_place = offset % kDirectAlignment == 0 && out.size() >= kDirectAlignment &&
                          reinterpret_cast<std::uintptr_t>(out.data()) % kDirectAlignment == 0;
    const std::uint64_t begin = down(offset);
    const std::size_t skip = offset - begin;
    core::MutableBytes block =
        bounce.bytes().first(std::min<std::size_t>(kDirectBlock, down(skip + out.size() + kDirectAlignment - 1)));
    if (in_place) block = out.first(down(std::min(out.size(), kDirectBlock)));
    const std::size_t got = read_some(fd, begin, block);
    if (got <= skip) return false;
    const std::size_t used = std::min(got - skip, out.size());
    if (!in_place) std::memcpy(out.data(), block.data() + skip, used);
    offset += used;
    out = out.subspan(used);
  }
  return true;
}

}  // namespace ckpt::detail
