#pragma once
// Checksums: XXH3 with 128 bits for the content of tensors, CRC-32 as zip files record it, SHA-256 as hubs do.
// Thread safety: pure functions; a hasher has one owner. Use: ckpt::Hash128 h = ckpt::hash128(bytes);

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "libckpt/io/byte_source.h"

namespace ckpt {

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

/// 32 lower-case hexadecimal digits, as xxh128sum prints it.
std::string to_hex(const Hash128& hash);

/// XXH3-128 of bytes that come in parts.
class Hasher128 {
 public:
  Hasher128();
  ~Hasher128();
  Hasher128(Hasher128&&) noexcept;
  Hasher128& operator=(Hasher128&&) noexcept;
  void update(Bytes bytes);
  /// Of everything so far; more may follow.
  Hash128 finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Hash128 hash128(Bytes bytes);
/// Reads all of `source` through a buffer of 1 MiB.
Hash128 hash128(const ByteSource& source);

/// SHA-256 of all of `source` as 64 lower-case hexadecimal digits; its first eight stand in the names of published
/// files.
std::string sha256_hex(const ByteSource& source, const std::function<void(std::uint64_t done)>& progress = {});

/// CRC-32 (the zip polynomial) of `bytes` behind those that gave `so_far`.
std::uint32_t crc32(Bytes bytes, std::uint32_t so_far = 0);
std::uint32_t crc32(const ByteSource& source);

/// Calls `body` with consecutive parts of `source`, at most 1 MiB each; memory sources are passed as they are.
void for_each_part(const ByteSource& source, const std::function<void(Bytes)>& body);

}  // namespace ckpt
