#pragma once
// How sources of differences and of packed ones know each other: who saves the former packs them by the codec delta,
// who adds the latter does so while they are unpacked. Thread safety: as every source. Use: if (const
// PackedDifferences* d = packed_differences(*source)) d->add_to(offset, 2, out);

#include <cstdint>

#include "libckpt/io/byte_source.h"
#include "libckpt/io/checked_source.h"

namespace ckpt::detail {

/// Bytes that are differences of words (io/word_planes.h), to be saved.
class DifferenceBytes : public ByteSource {
 public:
  /// As read(), by who saves all of them: part after part, several threads at once.
  virtual void read_to_save(std::uint64_t offset, MutableBytes out) const = 0;
};

/// Bytes most parts of which end in many zeros, to be saved without them: part after part of `part` bytes, the last one
/// of what is left, each made for itself.
class TrimmedBytes : public ByteSource {
 public:
  virtual std::uint64_t part() const = 0;
  /// The bytes of the part that begins there, without zeros behind them.
  virtual core::ByteVector trimmed_part(std::uint64_t begin) const = 0;
};

/// A source that lies in a file in chunks.
class PackedDifferences {
 public:
  /// Adds the differences there to words faster than they are read and added. False, and nothing is done, where that is
  /// not so: they are packed in another way or lie in several chunks. The checksum of the chunk is compared, but none
  /// of the whole source. REQUIRES: the range is inside, and whole words.
  virtual bool add_to(std::uint64_t offset, std::uint32_t width, MutableBytes words) const = 0;
  /// Where the chunk ends that holds byte `offset`. REQUIRES: offset < size().
  virtual std::uint64_t chunk_end(std::uint64_t offset) const = 0;

 protected:
  ~PackedDifferences() = default;
};

/// Null for a source that is none; whether or not its checksum is compared when it is read.
inline const PackedDifferences* packed_differences(const ByteSource& source) {
  return dynamic_cast<const PackedDifferences*>(&unchecked(source));
}

}  // namespace ckpt::detail
