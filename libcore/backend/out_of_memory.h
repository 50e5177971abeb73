#pragma once
// The error of a device that has no memory left, with PyTorch's text. Thread safety: pure.
// Use: core::detail::throw_out_of_memory({.device = device, .wanted = bytes}, {});

#include <cstdint>
#include <vector>

#include "libcore/backend/memory_stats.h"

namespace core::detail {

/// A process that has memory of the device.
struct MemoryOfProcess {
  std::uint64_t process = 0;  ///< its id; 0: this one
  std::uint64_t bytes = 0;
};
struct OutOfMemoryText {
  double fraction = 1;                          ///< of the memory that this process may use
  std::vector<MemoryOfProcess> processes = {};  ///< as far as they are known
};
[[noreturn]] void throw_out_of_memory(const MemoryShortage& shortage, const OutOfMemoryText& text);

}  // namespace core::detail
