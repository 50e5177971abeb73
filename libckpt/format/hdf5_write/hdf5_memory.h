#pragma once
// A virtual file for libhdf5 that keeps the metadata it writes in memory and hands out addresses that were decided
// beforehand for tensor bytes, which it never sees. Offsets count from the end of the user block.
// Thread safety: one owner; several objects may be used at once. Use: Hdf5Memory memory(user_block, metadata_begin);
// create a file on memory.driver_list(), close it, then write memory.superblock() and memory.metadata() out.

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "libcore/base/bytes.h"

namespace ckpt::detail {

/// An identifier of libhdf5 that closes itself. Error(internal) with the library's reason for a negative one.
class Hid {
 public:
  using Close = herr_t (*)(hid_t);
  Hid() = default;
  Hid(hid_t id, Close close);
  Hid(Hid&& other) noexcept;
  Hid& operator=(Hid&& other) noexcept;
  ~Hid();
  hid_t get() const { return id_; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Throws Error(internal) with the innermost reason of libhdf5's error stack when `result` is negative.
void require_hdf5(herr_t result);

/// Stops libhdf5 from printing its error stack in this thread, as long as the object lives.
class Hdf5Silence {
 public:
  Hdf5Silence();
  ~Hdf5Silence();
  Hdf5Silence(const Hdf5Silence&) = delete;
  Hdf5Silence& operator=(const Hdf5Silence&) = delete;

 private:
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

class Hdf5Memory {
 public:
  Hdf5Memory(std::uint64_t user_block, std::uint64_t metadata_begin);
  Hdf5Memory(const Hdf5Memory&) = delete;
  Hdf5Memory& operator=(const Hdf5Memory&) = delete;

  /// File access property list that opens this object, whatever the file name.
  hid_t driver_list() const { return access_.get(); }

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
  Hid driver_;
  Hid access_;
};

}  // namespace ckpt::detail
