#pragma once
// A virtual file driver of libhdf5 over a descriptor that the parent opened: the library can read a part of that file
// and nothing else; it never opens, writes or locks one. Tensor bytes are not read at all: capture() learns where they
// lie. Thread safety: one thread. Use: ReadOnlyFile file(0, begin, length); H5Fopen("", H5F_ACC_RDONLY, file.access());

#include <hdf5.h>

#include <cstdint>
#include <optional>

#include "libckpt/hdf5/helper/handle.h"

namespace ckpt::detail {

class ReadOnlyFile {
 public:
  /// The library sees `length` bytes from byte `begin` of the file behind `fd`.
  ReadOnlyFile(int fd, std::uint64_t begin, std::uint64_t length);
  ReadOnlyFile(const ReadOnlyFile&) = delete;
  ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;

  /// File access property list that opens this file, whatever the name.
  hid_t access() const { return access_.get(); }

  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  /// The next reads of tensor bytes do not happen; captured() says where the first one would have been.
  void capture() {
    capturing_ = true;
    captured_.reset();
  }
  std::optional<Range> captured() {
    capturing_ = false;
    return captured_;
  }

  // What the driver's functions do.
  bool read(H5FD_mem_t type, haddr_t address, std::size_t size, void* out);
  haddr_t size() const { return length_; }
  haddr_t end = 0;  ///< of what the library may address

 private:
  int fd_;
  std::uint64_t begin_;
  std::uint64_t length_;
  bool capturing_ = false;
  std::optional<Range> captured_;
  Handle driver_;
  Handle access_;
};

}  // namespace ckpt::detail
