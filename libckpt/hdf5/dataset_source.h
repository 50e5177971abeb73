#pragma once
// The bytes of a dataset as the library wants them: contiguous, row-major, little-endian, decoded chunk by chunk while
// being read. Thread safety: read() from many threads. Use: Hdf5Sources sources(file); SourcePtr bytes =
// sources.open(dataset);

#include <memory>
#include <string>

#include "libckpt/hdf5/tree.h"

namespace ckpt {

namespace detail {
class Hdf5ChunkCache;
}

/// Why the values of a dataset cannot be read although it can be listed, "" when they can.
std::string dataset_obstacle(const Hdf5Dataset& dataset);

/// What happens to a chunk whose checksum does not match.
enum class DamagedChunks : std::uint8_t {
  refuse,   ///< Error(corrupt)
  pass_on,  ///< its bytes are handed out, and is_damaged() of checked_source.h says so
};

/// Makes the sources of one file; they share a cache of decoded chunks: 64 MiB, or what a row of chunks of the largest
/// dataset takes, at most 256 MiB, and no more than readers may keep (kept_memory.h).
class Hdf5Sources {
 public:
  explicit Hdf5Sources(SourcePtr file, const Limits& limits = {}, DamagedChunks damaged = DamagedChunks::refuse);
  ~Hdf5Sources();
  /// `dataset` is copied where it is needed. A dataset that cannot be decoded gives a source of the right size whose
  /// read() throws Error(unsupported) with the number of the filter, or what is too large about it. REQUIRES:
  /// dataset.is_tensor() and nothing of it lies outside.
  SourcePtr open(std::shared_ptr<const Hdf5Dataset> dataset);

 private:
  std::string expansion_obstacle(const Hdf5Dataset& dataset) const;
  SourcePtr open_chunks(std::shared_ptr<const Hdf5Dataset> dataset) const;

  SourcePtr file_;
  Limits limits_;
  DamagedChunks damaged_;
  std::shared_ptr<detail::Hdf5ChunkCache> cache_;
};

}  // namespace ckpt
