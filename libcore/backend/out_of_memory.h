#pragma once
// The error of a device that has no memory left, with PyTorch's text. Thread safety: pure.
// Use: core::detail::throw_out_of_memory({.device = device, .wanted = bytes}, {});

#include <cstdint>
#include <optional>

#include "libcore/backend/memory_stats.h"

namespace core::detail {

struct OutOfMemoryText {
  double fraction = 1;                               ///< of the memory that this process may use
  std::optional<std::uint64_t> process_in_use = {};  ///< bytes of this process, where the device says so
};
[[noreturn]] void throw_out_of_memory(const MemoryShortage& shortage, const OutOfMemoryText& text);

}  // namespace core::detail
