#pragma once
// The answer to the jobs "describe" and "relink". Thread safety: one thread. Use: send_image(memory, datasets, reply);

#include <cstdint>

#include "libckpt/hdf5/helper/memory_file.h"
#include "libckpt/hdf5/helper/reply.h"

namespace ckpt::detail {

/// Sends superblock, metadata and the end with `count`. REQUIRES: the file was closed.
void send_image(MemoryFile& memory, std::uint64_t count, Reply& reply);

}  // namespace ckpt::detail
