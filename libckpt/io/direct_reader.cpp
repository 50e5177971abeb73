#include "libckpt/io/direct_reader.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "libckpt/io/scratch.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kWorthIt = 128ULL << 10;

std::uint64_t down(std::uint64_t value) {
  return value / kDirectAlignment * kDirectAlignment;
}

std::uint64_t up(std::uint64_t value) {
  return down(value + kDirectAlignment - 1);
}

/// How many bytes were read, 0 for any failure.
std::size_t read_some(int fd, std::uint64_t offset, const iovec* to, int count) {
  ssize_t n = 0;
  do {
    n = ::preadv(fd, to, count, static_cast<off_t>(offset));
  } while (n < 0 && errno == EINTR);
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

/// How a piece of a file gets into memory that is not aligned as the file is. Its middle is read into the memory
/// itself, up to a block away from its place, and then moved there, which costs much less than a copy from elsewhere:
/// the memory has to be touched anyhow. The two ends, for which the memory has no whole blocks, take a way round.
struct PieceInPlace {
  std::uint64_t begin;  ///< in the file, of the block in which the piece begins
  std::size_t head;     ///< bytes of the piece before the middle
  std::size_t middle;   ///< bytes, whole blocks; 0: the memory is too small for one
  std::byte* aligned;   ///< where the middle is read to
  std::size_t tail;     ///< bytes of the piece behind the middle

  PieceInPlace(std::uint64_t offset, core::MutableBytes out) {
    const auto memory = reinterpret_cast<std::uintptr_t>(out.data());
    const std::size_t before = up(memory) - memory;  // of the memory, before its first whole block
    begin = down(offset);
    head = up(offset) - offset;
    const std::size_t unusable = std::max(head, before);
    middle = unusable < out.size() ? down(out.size() - unusable) : 0;
    aligned = out.data() + before;
    tail = out.size() - std::min(out.size(), head + middle);
  }
};

/// False, and `out` holds anything, where not all of it could be read. REQUIRES: the piece has a middle.
bool read_in_place(int fd, const PieceInPlace& piece, core::MutableBytes out) {
  const Scratch ends(3 * kDirectAlignment);  // a block before the middle, up to two behind it
  std::byte* first = ends.bytes().data();
  std::byte* last = first + kDirectAlignment;
  const std::size_t first_size = piece.head == 0 ? 0 : kDirectAlignment;
  const iovec parts[] = {{first, first_size}, {piece.aligned, piece.middle}, {last, up(piece.tail)}};
  const std::size_t wanted = first_size + piece.middle + piece.tail;
  const int skipped = piece.head == 0 ? 1 : 0;
  if (read_some(fd, piece.begin, parts + skipped, (piece.tail == 0 ? 2 : 3) - skipped) < wanted) return false;
  std::byte* place = out.data() + piece.head;
  if (place != piece.aligned) std::memmove(place, piece.aligned, piece.middle);
  std::memcpy(out.data(), last - piece.head, piece.head);
  std::memcpy(place + piece.middle, last, piece.tail);
  return true;
}

/// The same for few bytes, by a copy of all.
bool read_around(int fd, std::uint64_t offset, core::MutableBytes out) {
  const std::size_t skip = offset - down(offset);
  const Scratch blocks(up(skip + out.size()));
  const iovec all = {blocks.bytes().data(), blocks.bytes().size()};
  if (read_some(fd, down(offset), &all, 1) < skip + out.size()) return false;
  std::memcpy(out.data(), blocks.bytes().data() + skip, out.size());
  return true;
}

}  // namespace

DirectReader::DirectReader(int fd, std::uint64_t size)
    : fd_(fd), size_(size), gains_(size >= kDirectFrom && gains_from_direct(fd)), off_(!gains_) {}

void DirectReader::use(Io io) const {
  io_ = io;
  off_ = io == Io::buffered || (io == Io::automatic && !gains_);
}

bool DirectReader::read(std::uint64_t offset, core::MutableBytes out) const {
  if (off_ || out.size() < (io_ == Io::direct ? kDirectAlignment : kWorthIt)) return false;
  if (io_ == Io::automatic && !was_cold() && !is_cold(offset, out.size())) return false;
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

/// Of the whole file, once: where its records lie close to each other, small reads of these make the system bring what
/// is between them, and the next large read through the cache what comes behind it, and so on to the end of the file.
/// A look at places all over it, since the system would take a millisecond to count a gigabyte of pages.
bool DirectReader::was_cold() const {
  constexpr std::uint64_t kPlaces = 16;
  constexpr std::uint64_t kPlace = 1ULL << 20;
  std::call_once(looked_, [&] {
    std::uint64_t cold = 0;
    for (std::uint64_t i = 0; i < kPlaces; ++i) {
      const std::uint64_t begin = size_ / kPlaces * i;
      cold += is_cold(begin, std::min(kPlace, size_ - begin)) ? 1 : 0;
    }
    was_cold_ = cold > kPlaces / 2;
  });
  return was_cold_;
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
  while (!out.empty()) {
    // Pieces end where a block of the file does, so that no block is read twice.
    const std::uint64_t end = down(offset + kDirectBlock);
    const core::MutableBytes bytes = out.first(std::min<std::uint64_t>(out.size(), end - offset));
    const PieceInPlace piece(offset, bytes);
    if (!(piece.middle > 0 ? read_in_place(fd, piece, bytes) : read_around(fd, offset, bytes))) return false;
    offset += bytes.size();
    out = out.subspan(bytes.size());
  }
  return true;
}

}  // namespace ckpt::detail
