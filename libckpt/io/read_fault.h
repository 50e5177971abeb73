#pragma once
// read_fault: reads bytes to their end and says what is wrong with them.
// Thread safety: pure. Use: if (std::string fault = read_fault(*entry.bytes); !fault.empty()) ...

#include <string>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

/// Empty when all bytes can be read. Errors: Error(io) and Error(refused), which say nothing of the bytes, go on.
std::string read_fault(const ByteSource& source);

}  // namespace ckpt::detail
