#pragma once
// The job "describe": superblock and metadata of an HDF5 file whose tensor bytes lie elsewhere already.
// Thread safety: one thread. Use: describe(bytes, reply);

#include "libckpt/hdf5/helper/reply.h"

namespace ckpt::detail {

/// Reads what the library sends: a length of 8 bytes, and as many bytes. Empty when it hangs up before the last of
/// them.
core::ByteVector read_description(int fd);

/// Sends superblock, metadata and the end. The same description gives the same bytes. Cost: about 20 µs a dataset, and
/// its metadata in memory (about 500 bytes each). Throws Failure for what libhdf5 refuses, with the dataset's name.
void describe(core::Bytes description, Reply& reply);

}  // namespace ckpt::detail
