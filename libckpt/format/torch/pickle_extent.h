#pragma once
// Finds where a pickle ends without building anything from it: legacy streams and bare pickles have several of them
// back to back, followed by data that may be larger than memory. Only opcodes are looked at; text and bytes are stepped
// over. Thread safety: pure. Use: PickleExtent extent = find_pickle_end(*file, offset, limits);

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/io/byte_source.h"
#include "libckpt/limits.h"

namespace ckpt {

struct PickleExtent {
  std::uint64_t length = 0;  ///< bytes up to and with STOP, or up to where the walk had to end
  bool complete = false;     ///< STOP was found
  std::string problem;       ///< why it was not, one sentence; "" when complete
};

/// Walks the opcodes from `offset`. Never throws for what the bytes say. Errors: Error(io) from the source. Cost:
/// linear in the opcodes, 64 KiB of memory.
PickleExtent find_pickle_end(const ByteSource& file, std::uint64_t offset, const Limits& limits);

/// A pickle without its long runs of bytes, which are what fills memory: values of arrays. Where one was stands a short
/// run that says which.
struct PickleOutline {
  struct Run {
    std::uint64_t offset = 0;  ///< in the file
    std::uint64_t length = 0;
  };
  core::ByteVector pickle;
  std::vector<Run> runs;
  std::uint64_t length = 0;  ///< of the whole pickle in the file

  /// The run that bytes of the outline stand for, null for bytes that are what they are.
  const Run* run_behind(core::Bytes bytes) const;
};

/// Finds bytes that lie behind a BUILD opcode and are none of the pickle, as joblib writes the values of arrays.
class BuildRuns {
 public:
  virtual ~BuildRuns() = default;
  /// Asked before every BUILD. `piece`: the outline since the last question. `behind`: where the file goes on behind
  /// the opcode. nullopt where the pickle goes on there.
  virtual std::optional<PickleOutline::Run> run_behind(core::Bytes piece, std::uint64_t behind) = 0;
};

/// The key under which the state that BUILD gives gets such a run.
inline constexpr std::string_view kRunKey = "ckpt: a run behind";

/// Of the pickle at the beginning of the file. With `runs` the outline has no frames. Errors: Error(corrupt) for one
/// that has no end; Error(refused) where what is left is longer than the limits; Error(io).
PickleOutline outline_pickle(const ByteSource& file, const Limits& limits, BuildRuns* runs = nullptr);

}  // namespace ckpt
