#pragma once
// Runs of tensor bytes in an HDF5 file that this library writes: where they lie and how they are packed. Shared by the
// native format and by plain .h5 files. Thread safety: plain values. Use: Payload payload = choose_packing(planned,
// codec);

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "libckpt/entry.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/float_planes.h"

namespace ckpt::detail {

inline constexpr std::string_view kHdf5Signature{"\x89HDF\r\n\x1a\n", 8};
/// The first payload begins here, behind the superblock; counted from the end of the user block as all offsets are.
inline constexpr std::uint64_t kFirstPayload = 4096;
inline constexpr std::uint64_t kMaxChunkBytes = 64ULL << 20;

enum class NativeCodec : std::uint8_t { raw = 0, zstd = 1, gzip = 2, fast = 3, elsewhere = 4, delta = 5, trimmed = 6 };

/// How a compressed payload is cut. The logical bytes are runs of equal length; each run is cut into chunks, and the
/// last chunk of a run is filled up with zeros to full size before it is packed.
struct ChunkTable {
  std::uint64_t run = 0;              ///< bytes
  std::uint32_t chunk = 0;            ///< bytes of every chunk when unpacked
  std::vector<std::uint32_t> stored;  ///< bytes of each chunk in the file, one behind the other

  std::uint64_t per_run() const { return (run + chunk - 1) / chunk; }
  /// The chunk that holds a logical byte.
  std::uint64_t index_of(std::uint64_t offset) const { return offset / run * per_run() + offset % run / chunk; }
  /// Logical bytes that chunk `i` holds, and where they begin.
  std::pair<std::uint64_t, std::uint64_t> span_of(std::uint64_t i) const {
    std::uint64_t at = i % per_run() * chunk;
    return {i / per_run() * run + at, run - at < chunk ? run - at : chunk};
  }
};

/// A run of tensor bytes in the file.
struct Payload {
  std::uint64_t offset = 0;  ///< from the end of the user block; elsewhere: number of the file that holds it
  std::uint64_t size = 0;    ///< logical bytes
  std::uint64_t stored = 0;  ///< bytes in the file
  Hash128 hash;              ///< of the logical bytes
  NativeCodec codec = NativeCodec::raw;
  std::uint8_t shuffle = 0;            ///< element width of the shuffle filter, 0 for none; delta: of a word
  FloatKind floats = FloatKind::none;  ///< what the codec fast packs; none for the others
  ChunkTable chunks;                   ///< of compressed payloads
};

/// Cut into chunks that a codec packed.
inline bool is_packed(const Payload& payload) {
  return payload.codec != NativeCodec::raw && payload.codec != NativeCodec::elsewhere;
}

/// HDF5's shuffle filter stands before the one that packs.
inline bool is_shuffled(const Payload& payload) {
  return payload.shuffle != 0 && payload.codec != NativeCodec::delta;
}

/// A payload before it is written.
struct PlannedPayload {
  SourcePtr source;
  /// Type and shape of its tensors when all of them are the whole payload and agree; such a payload may be compressed.
  const Entry* uniform = nullptr;
};

}  // namespace ckpt::detail
