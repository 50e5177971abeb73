#pragma once
// Whether large reads and writes go through the system's page cache or past it (O_DIRECT), and where an opened file's
// bytes are. Thread safety: plain value.
// Errors: none. Use: ckpt::SaveOptions options = {.io = ckpt::Io::direct};

#include <cstdint>
#include <optional>
#include <string_view>

namespace ckpt {

enum class Io : std::uint8_t {
  /// Past it where that is faster: large durable saves, and large reads of what is not in memory yet, on local disks.
  automatic,
  buffered,  ///< always through it
  direct,    ///< past it, whatever the size, where the file system can; else through it
};

/// The one of that name ("auto", "buffered", "direct"), nullopt for any other text.
std::optional<Io> io_named(std::string_view text);

/// Where the bytes of an opened file are until a tensor is read.
enum class Residency : std::uint8_t {
  on_demand,  ///< in the file; each read copies
  /// In the file, which is mapped: ByteSource::memory() has the bytes, and the system brings a page when it is touched.
  /// A program that makes the file shorter meanwhile ends this process by SIGBUS.
  mapped,
  resident,  ///< mapped, and all of it is brought into memory when it is opened
};

namespace detail {

inline constexpr std::size_t kDirectAlignment = 4096;      ///< of offsets, lengths and memory
inline constexpr std::uint64_t kDirectFrom = 64ULL << 20;  ///< bytes of a file for which it is worth its while
inline constexpr std::size_t kDirectBlock = 4ULL << 20;    ///< read or written at once

/// True when the file lies on a file system that is known to gain from it: a local disk.
bool gains_from_direct(int fd);
/// True when a copy inside the file system need not move a byte.
bool shares_blocks(int fd);

}  // namespace detail

}  // namespace ckpt
