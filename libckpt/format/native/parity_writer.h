#pragma once
// Writes the parity data behind the HDF5 part of a native file, from what the file then holds.
// Thread safety: plain functions. Use: write_parity(file, {layout, header.index_hash}, options);

#include <optional>

#include "libckpt/checkpoint.h"
#include "libckpt/format/native/parity_layout.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/options.h"

namespace ckpt::detail {

/// The share to write: that of the options, else that of the native file which `checkpoint` was read from. A negative
/// share in the options means none, whatever the source had. Says in the report when it is carried over.
double parity_share(const Checkpoint& checkpoint, const SaveOptions& options);

/// Makes the HDF5 part reach to `end`, so that programs which open it for writing leave what we put there alone.
void extend_superblock(core::ByteVector& superblock, std::uint64_t end);

/// REQUIRES: everything up to the end of the HDF5 part is written. Moves the position to the end of the file.
/// Cost: reads the file once more, from the system's cache as far as it lies there; options.max_memory is held.
void write_parity(AtomicFile& file, const ParityHeader& header, const SaveOptions& options);

}  // namespace ckpt::detail
