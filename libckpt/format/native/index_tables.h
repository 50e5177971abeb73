#pragma once
// The tables of a packed index that have a row for every payload or storage, where they lie: a list reads them so, and
// makes no structure for any row. Thread safety: plain values; the bytes of the index must outlive them.
// Use: std::optional<LightIndex> index = parse_light_index(bytes, header, limits);

#include <cstdint>
#include <optional>
#include <vector>

#include "libckpt/format/native/layout.h"

namespace ckpt::detail {

/// Checked rows.
struct TableRows {
  static constexpr std::size_t kPayloadBytes = 48;
  static constexpr std::uint32_t kReordered = UINT32_MAX;

  core::Bytes payloads;
  std::vector<std::uint32_t> storage_payloads;  ///< of each storage; kReordered where it is no payload as it lies there
  std::uint64_t packed_bytes = 0;               ///< logical ones, of payloads that are packed

  std::uint64_t payload_count() const { return payloads.size() / kPayloadBytes; }
  /// Logical bytes. REQUIRES: n < payload_count().
  std::uint64_t size_of(std::uint64_t n) const {
    return core::load_le<std::uint64_t>(payloads.data() + n * kPayloadBytes + 8);
  }
};

struct LightIndex {
  NativeIndex rest;  ///< without payloads and storages
  TableRows rows;
};

/// parse_index(), after the same checks. nullopt where that refuses the index, where tensors lie in other files, and
/// where payloads do not lie in the order of their numbers.
std::optional<LightIndex> parse_light_index(const SharedBytes& bytes, const NativeHeader& header, const Limits& limits);

}  // namespace ckpt::detail
