#pragma once
// Packing and unpacking of all tensors of a checkpoint in memory, as a save to .ckpt packs them: for ckpt_bench.
// Thread safety: none. Errors: as ckpt::open. Use: PackedTensors packed(file, ckpt::Codec::zstd); packed.pack(1);

#include <cstdint>
#include <filesystem>
#include <vector>

#include "libckpt/format/hdf5_write/payload.h"
#include "libckpt/options.h"

namespace bench {

class PackedTensors {
 public:
  /// Reads every tensor into memory.
  PackedTensors(const std::filesystem::path& file, ckpt::Codec codec);
  /// Chooses the packing of every tensor and packs it.
  void pack(unsigned threads);
  /// Unpacks into memory that was written before. REQUIRES: pack() came before.
  void unpack(unsigned threads);

  /// What unpack() leaves, copied from the plain bytes by one thread.
  void copy();

  std::uint64_t bytes() const;
  std::uint64_t stored_bytes() const;
  /// Of what unpack() left: all bytes as little-endian 64-bit words, the last one of a tensor filled with zeros.
  std::uint64_t sum64() const;
  /// Error(internal) where unpack() left something else than was read.
  void require_same() const;

 private:
  struct Tensor {
    ckpt::EntryPtr entry;
    ckpt::SourcePtr memory;
    ckpt::detail::Payload payload;
    std::vector<core::ByteVector> chunks;  ///< packed
    core::ByteVector unpacked;
  };
  struct Piece {
    Tensor* tensor;
    std::size_t chunk;
  };
  static void pack(Piece piece);
  static void unpack(Piece piece);
  std::vector<Piece> pieces();

  ckpt::Codec codec_;
  std::vector<Tensor> tensors_;
};

}  // namespace bench
