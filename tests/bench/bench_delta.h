#pragma once
// Checkpoints of one run as differences, each to the one before, in files, and what comes back of them: for ckpt_bench.
// Thread safety: none. Errors: as ckpt::open. Use: DeltaChain chain({"0.safetensors", "1.safetensors"}, 2);
// chain.make(); chain.restore();

#include <cstdint>
#include <filesystem>
#include <vector>

#include "libcore/base/bytes.h"

namespace bench {

class DeltaChain {
 public:
  /// The first of `files` is the base. Differences go to a folder of their own in that of temporary files.
  DeltaChain(std::vector<std::filesystem::path> files, unsigned threads);
  ~DeltaChain();
  DeltaChain(const DeltaChain&) = delete;
  DeltaChain& operator=(const DeltaChain&) = delete;

  /// Writes all differences, packed and not durable.
  void make() const;
  /// Reads base and differences and leaves the tensors of the last checkpoint in memory that was written before.
  /// REQUIRES: make() came before.
  void restore();

  std::uint64_t bytes() const;         ///< of the last checkpoint's tensors
  std::uint64_t stored_bytes() const;  ///< of the differences' files, divided by their number
  /// Of what restore() left: all bytes as little-endian 64-bit words, the last one of a tensor filled with zeros.
  std::uint64_t sum64() const;

 private:
  std::filesystem::path delta_path(std::size_t i) const;

  std::vector<std::filesystem::path> files_;
  unsigned threads_;
  std::filesystem::path folder_;
  std::vector<core::ByteVector> restored_;
};

}  // namespace bench
