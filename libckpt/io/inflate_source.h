#pragma once
// InflateSource: a deflated run of bytes as a source, in bounded memory whatever its size. It is decoded from the
// front; the last 32 MiB, or what readers may keep (kept_memory.h), stay at hand for readers that jump a little, a jump
// further back begins again. Thread safety: read() may be called from many threads; they take turns. Use: SourcePtr
// data = inflated(slice(file, offset, stored), {.size = size, .crc32 = crc, .what = "zip record 'a'"});

#include <optional>
#include <string>

#include "libckpt/io/byte_source.h"

namespace ckpt {

struct InflateOptions {
  std::uint64_t size = 0;              ///< of the decoded bytes, as the directory says it
  std::optional<std::uint32_t> crc32;  ///< compared once everything has been decoded
  std::string what = "the data";       ///< subject of messages
};

/// Raw deflate data as in zip members. Errors of read(): Error(corrupt) when they are damaged, are more or fewer than
/// `size` bytes, are followed by something else, or have another CRC-32.
SourcePtr inflated(SourcePtr packed, InflateOptions options);

}  // namespace ckpt
