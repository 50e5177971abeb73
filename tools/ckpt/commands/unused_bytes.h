#pragma once
// Bytes of a file that no tensor uses and that `ckpt compact` leaves behind.
// Thread safety: pure; reads the directory of an archive or the metadata of HDF5, no tensor.
// Use: if (unused_bytes(checkpoint) > 0) ...

#include <cstdint>

#include "libckpt/checkpoint.h"

namespace cli {

/// Parts of storages outside of every view, records of a PyTorch archive that its pickle does not name, and records
/// that a later append replaced, places of HDF5 and native files that nothing uses. 0 where nothing is known.
std::uint64_t unused_bytes(const ckpt::Checkpoint& checkpoint);

}  // namespace cli
