#include "libckpt/io/page_cache_use.h"

#include <sys/statfs.h>

namespace ckpt {

std::optional<Io> io_named(std::string_view text) {
  if (text == "auto") return Io::automatic;
  if (text == "buffered") return Io::buffered;
  if (text == "direct") return Io::direct;
  return std::nullopt;
}

namespace {

// As statfs(2) numbers them.
constexpr std::uint64_t kExt4 = 0xef53;
constexpr std::uint64_t kXfs = 0x58465342;
constexpr std::uint64_t kF2fs = 0xf2f52010;
constexpr std::uint64_t kBtrfs = 0x9123683e;

std::uint64_t system_of(int fd) {
  struct statfs status {};
  return ::fstatfs(fd, &status) == 0 ? static_cast<std::uint64_t>(status.f_type) : 0;
}

}  // namespace

/// Not btrfs, which writes through the cache where it keeps checksums, nor networks.
bool detail::gains_from_direct(int fd) {
  const std::uint64_t system = system_of(fd);
  return system == kExt4 || system == kXfs || system == kF2fs;
}

bool detail::shares_blocks(int fd) {
  const std::uint64_t system = system_of(fd);
  return system == kXfs || system == kBtrfs;
}

}  // namespace ckpt
