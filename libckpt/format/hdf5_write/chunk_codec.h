#pragma once
// Packs one chunk of a payload and unpacks it: shuffle, then the compression of the payload's codec. What it makes is
// what HDF5's filters make; the codec fast is a filter that no other program has. Thread safety: pure functions.
// Errors: Error(corrupt) for bytes that were not packed so. Use: ByteVector packed = pack_chunk(payload, bytes);
// unpack_chunk(payload, packed, bytes);

#include "libckpt/format/hdf5_write/payload.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

inline constexpr unsigned kZstdLevel = 1;
inline constexpr unsigned kGzipLevel = 4;  ///< that of h5py

/// REQUIRES, here and below: the payload is packed, and the unpacked bytes are payload.chunks.chunk.
core::ByteVector pack_chunk(const Payload& payload, core::Bytes chunk);
void unpack_chunk(const Payload& payload, core::Bytes packed, core::MutableBytes chunk);
/// The most bytes that a chunk takes when packed.
std::uint64_t packed_bound(const Payload& payload);

}  // namespace ckpt::detail
