#pragma once
// What a GGUF file is to be: its header, and where the data of its tensors lie behind it. Data begin where the header
// ends, so a header that becomes shorter while they stay gets one more value: a text of spaces, which no reader asks
// for. Thread safety: pure functions. Use: GgufPlan plan = plan_gguf(entries, metadata_values(checkpoint, nullptr));

#include <optional>
#include <vector>

#include "libckpt/format/flat_state.h"
#include "libckpt/format/gguf/gguf_metadata.h"

namespace ckpt::detail {

struct GgufPlan {
  core::ByteVector header = {};  ///< padded: data begin behind it
  std::uint64_t alignment = kGgufAlignment;
  std::vector<std::uint64_t> offsets = {};  ///< of the tensors, from where data begin
  std::uint64_t data_size = 0;              ///< the padding of the last tensor included

  std::uint64_t total_size() const { return header.size() + data_size; }
};

/// The type that an entry is stored with; null where the format has none for it.
const GgmlType* gguf_type(const Entry& entry);
/// Why a tensor of this name cannot be held.
std::optional<Obstacle> gguf_obstacle(const std::string& name, const Entry& entry);

/// Errors: Error(corrupt) for sizes that overflow.
GgufPlan plan_gguf(const std::vector<FlatEntry>& entries, const std::vector<GgufValue>& values);
/// The same with data that begin at byte `data_begin`; nullopt where the header is longer, where that is not a multiple
/// of the alignment, and where the room between them is too short for a value (never with an alignment of 32 or more).
/// REQUIRES: there are entries.
std::optional<GgufPlan> plan_gguf_before(const std::vector<FlatEntry>& entries, std::vector<GgufValue> values,
                                         std::uint64_t data_begin);

}  // namespace ckpt::detail
