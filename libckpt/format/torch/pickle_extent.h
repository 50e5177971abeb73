#pragma once
// Finds where a pickle ends without building anything from it: legacy streams and bare pickles have several of them
// back to back, followed by data that may be larger than memory. Only opcodes are looked at; text and bytes are stepped
// over. Thread safety: pure. Use: PickleExtent extent = find_pickle_end(*file, offset, limits);

#include <cstdint>
#include <string>

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

}  // namespace ckpt
