#pragma once
// Where the parity data of a native file lies and how its blocks belong together. FORMAT_NATIVE.md, "Parity data", has
// the bytes. Thread safety: plain values. Use: ParityLayout parity = plan_parity(file_end, 0.05);

#include <cstdint>
#include <optional>

#include "libckpt/io/checksum.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

inline constexpr std::uint64_t kParityHeaderBytes = 128;
/// Of a block: the low half of its 128-bit hash.
inline constexpr std::uint64_t kBlockHashBytes = 8;
inline constexpr std::uint64_t kMinParityBlock = 512;
inline constexpr std::uint64_t kMaxParityBlock = 64ULL << 10;

/// The file up to `covered` is cut into data blocks; parity blocks lie behind it. Blocks are numbered through, data
/// first; block i belongs to group i modulo `groups`, so that neighbours are in different groups and a burst is shared
/// out. Every group has `parity` parity blocks, and as many of its blocks may be lost.
struct ParityLayout {
  std::uint64_t covered = 0;  ///< bytes; a multiple of `block`
  std::uint64_t groups = 0;
  std::uint32_t block = 0;   ///< bytes; a power of two
  std::uint32_t parity = 0;  ///< parity blocks a group
  double share = 0;          ///< what was asked for

  std::uint64_t data_blocks() const { return covered / block; }
  std::uint64_t parity_blocks() const { return groups * parity; }
  std::uint64_t blocks() const { return data_blocks() + parity_blocks(); }
  /// Data blocks of a group; in the last row some groups have one less, which counts as zeros.
  std::uint64_t data_rows() const { return (data_blocks() + groups - 1) / groups; }
  std::uint64_t table_bytes() const { return blocks() * kBlockHashBytes; }

  // Offsets in the file: header and table, parity blocks, then table and header again.
  std::uint64_t first_table() const { return covered + kParityHeaderBytes; }
  std::uint64_t first_parity() const { return first_table() + table_bytes(); }
  std::uint64_t second_table() const { return first_parity() + parity_blocks() * block; }
  std::uint64_t second_header() const { return second_table() + table_bytes(); }
  std::uint64_t end() const { return second_header() + kParityHeaderBytes; }
  std::uint64_t offset_of(std::uint64_t number) const {
    return number < data_blocks() ? number * block : first_parity() + (number - data_blocks()) * block;
  }

  /// Number of the block of `group` in data row or, from data_rows() on, parity row `row`; blocks() for one of the last
  /// data row that is not there.
  std::uint64_t number_of(std::uint64_t row, std::uint64_t group) const {
    std::uint64_t number = row * groups + group;
    if (row < data_rows()) return number < data_blocks() ? number : blocks();
    std::uint64_t shift = (group + groups - data_blocks() % groups) % groups;
    return data_blocks() + (row - data_rows()) * groups + shift;
  }
  /// The row of a block in its group, as number_of() counts.
  std::uint64_t row_of(std::uint64_t number) const {
    if (number < data_blocks()) return number / groups;
    return data_rows() + (number - data_blocks()) / groups;
  }

  friend bool operator==(const ParityLayout&, const ParityLayout&) = default;
};

/// For a file whose last byte is at `end`. A run of bytes as long as `share` of the file hits no group more often than
/// it has parity blocks, wherever it begins. Errors: Error(usage) for a share that is not above 0 and at most 1.
ParityLayout plan_parity(std::uint64_t end, double share);

/// The numbers can be those of a file. Whatever comes from one is asked.
bool is_possible(const ParityLayout& layout);

/// Stands before and behind the parity data.
struct ParityHeader {
  ParityLayout layout;
  Hash128 index_hash;  ///< of the header of the file it belongs to: parity data of another one never fits
};
core::ByteVector encode_parity_header(const ParityHeader& header);
/// nullopt for anything but an undamaged header of a version that is known. REQUIRES: kParityHeaderBytes.
std::optional<ParityHeader> try_parse_parity_header(core::Bytes bytes);

}  // namespace ckpt::detail
