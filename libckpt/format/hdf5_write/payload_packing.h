#pragma once
// Chooses how a payload is packed: as it is, or cut into chunks, shuffled and compressed where that pays.
// Thread safety: pure functions; sources are read. Use: Payload payload = choose_packing(planned, Codec::automatic);

#include <cstdint>
#include <vector>

#include "libckpt/format/hdf5_write/payload.h"
#include "libckpt/options.h"

namespace ckpt::detail {

/// Payloads from this size on begin on a page, so that they can be mapped and read directly; others on 64 bytes.
inline constexpr std::uint64_t kAlignedFrom = 64ULL << 10;
inline constexpr std::uint64_t kPageAlignment = 4096;
inline constexpr std::uint64_t kSmallAlignment = 64;

/// Codec, shuffle, chunk table (sizes still zero) and logical size. Codec::automatic takes zstd when a search for
/// repetitions alone (zstd_compress) saves a quarter of a sample, and leaves payloads of native files packed as they
/// are.
Payload choose_packing(const PlannedPayload& planned, Codec codec);

/// True when the bytes of `stored` in its file are what `wanted` asks for.
bool same_packing(const Payload& stored, const Payload& wanted);

/// Sizes of a chunk in elements, so that one is about `target` bytes and holds a run of row-major bytes.
std::vector<std::uint64_t> chunk_dims(const std::vector<std::uint64_t>& dims, std::uint64_t width,
                                      std::uint64_t target);

}  // namespace ckpt::detail
