#pragma once
// Texts of any length lie in collections elsewhere in the file, and their length is said twice: where they are used and
// where they lie. libhdf5 takes memory for the first and reads the second. Thread safety: one thread.
// Use: heap.require(address, index, length);

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "libckpt/hdf5/helper/object_header.h"

namespace ckpt::detail {

class HeapTexts {
 public:
  explicit HeapTexts(const HeaderReader& reader) : reader_(reader) {}

  /// Throws Failure(corrupt) when there are not `length` bytes under this number in the collection at `address`.
  void require(std::uint64_t address, std::uint64_t index, std::uint64_t length);

  /// Bytes of all collections that were met; nullopt when they were too many to be remembered.
  std::optional<std::uint64_t> bytes() const { return bytes_; }

 private:
  using Sizes = std::unordered_map<std::uint64_t, std::uint64_t>;  ///< by number
  Sizes read(std::uint64_t address);

  const HeaderReader& reader_;
  std::unordered_map<std::uint64_t, Sizes> known_;  ///< by address
  std::uint64_t kept_ = 0;
  std::optional<std::uint64_t> bytes_ = 0;
};

}  // namespace ckpt::detail
