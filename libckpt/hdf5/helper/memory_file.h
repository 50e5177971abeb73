#pragma once
// A virtual file for libhdf5 that keeps the metadata it writes in memory and hands out addresses that were decided
// beforehand for tensor bytes, which it never sees. Offsets count from the end of the user block.
// Thread safety: one owner. Use: MemoryFile memory(user_block, metadata_begin); create a file on memory.access(), close
// it, then write memory.take_superblock() and memory.take_metadata() out.

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "libckpt/hdf5/helper/handle.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

class MemoryFile {
 public:
  MemoryFile(std::uint64_t user_block, std::uint64_t metadata_begin);
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// Makes it a file that is there already. REQUIRES: nothing was opened yet; at most kMaxSuperblock bytes.
  void fill(core::Bytes superblock, core::Bytes metadata);

  /// File access property list that opens this object, whatever the file name.
  hid_t access() const { return access_.get(); }

  /// The next tensor bytes that libhdf5 allocates lie here.
  void expect_payload(std::uint64_t offset, std::uint64_t size) { expected_ = Expected{offset, size}; }
  /// True when the expected allocation has happened since.
  bool payload_placed() const { return !expected_; }

  // After the file was closed:

  /// What lies at offset 0.
  core::ByteVector take_superblock() { return std::move(superblock_); }
  /// What lies at metadata_begin.
  core::ByteVector take_metadata();

  // What the driver's functions do; addresses count from the start of the file. Undefined address or false on failure.
  haddr_t allocate(H5FD_mem_t type, std::uint64_t size);
  bool write(H5FD_mem_t type, haddr_t address, core::Bytes bytes);
  bool read(haddr_t address, core::MutableBytes out) const;
  /// 0 until the library has said otherwise: that is how it tells a new file.
  haddr_t end() const { return begun_ ? user_block_ + end_ : early_end_; }
  void set_end(haddr_t address);

 private:
  struct Expected {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  std::uint64_t user_block_;
  std::uint64_t begin_;
  std::uint64_t end_;      ///< of everything, from the end of the user block
  bool begun_ = false;     ///< the superblock has been placed
  haddr_t early_end_ = 0;  ///< before that
  std::optional<Expected> expected_;
  core::ByteVector superblock_;
  core::ByteVector metadata_;
  Handle driver_;
  Handle access_;
};

}  // namespace ckpt::detail
