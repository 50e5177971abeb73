#pragma once
// A source whose CRC-32 is compared with the recorded one when it is first read. Thread safety: as every source.
// Use: source = crc_checked(source, member.crc32, "data/0");

#include <string>

#include "libckpt/io/byte_source.h"

namespace ckpt {

/// read() throws Error(corrupt) naming `name` when the bytes do not give `crc`. The first read reads all of it.
SourcePtr crc_checked(SourcePtr source, std::uint32_t crc, std::string name);

}  // namespace ckpt
