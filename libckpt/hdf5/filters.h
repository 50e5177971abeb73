#pragma once
// HDF5's filters undone: shuffle, deflate, zstd, LZF, Fletcher-32, and our codec fast. Thread safety: pure functions.
// Use: core::ByteVector chunk = decode_chunk(std::move(stored), dataset, {.skipped = skipped});

#include <atomic>
#include <string>

#include "libckpt/hdf5/tree.h"

namespace ckpt::detail {

/// Why the chunks of this dataset cannot be decoded, "" when they can: "filter 32008 (bitshuffle) is not supported".
std::string filter_obstacle(const Hdf5Dataset& dataset);

struct ChunkDecoding {
  std::uint32_t skipped = 0;              ///< bit i: the filter i was not applied to this chunk
  std::atomic<bool>* let_pass = nullptr;  ///< where there is one, a checksum that does not match is noted there alone
};

/// The chunk as it was before the filters, dataset.chunk_bytes() long. Errors: Error(corrupt) for damaged data and
/// checksums that do not match. REQUIRES: filter_obstacle() is empty.
core::ByteVector decode_chunk(core::ByteVector stored, const Hdf5Dataset& dataset, const ChunkDecoding& how);

/// HDF5's Fletcher checksum: 16-bit big-endian words, two sums modulo 65535.
std::uint32_t fletcher32(core::Bytes bytes);

}  // namespace ckpt::detail
