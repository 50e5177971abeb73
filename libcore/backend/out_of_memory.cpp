#include "libcore/backend/out_of_memory.h"

#include <cstdio>
#include <string>
#include <utility>

namespace core::detail {
namespace {

/// "20.00 MiB", as in PyTorch's message.
std::string memory_text(std::uint64_t bytes) {
  constexpr std::uint64_t kKiB = 1024, kMiB = kKiB * kKiB, kGiB = kMiB * kKiB;
  if (bytes <= kKiB) return std::to_string(bytes) + " bytes";
  std::uint64_t unit = bytes <= kMiB ? kKiB : bytes <= kGiB ? kMiB : kGiB;
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %s", static_cast<double>(bytes) / static_cast<double>(unit),
                unit == kKiB   ? "KiB"
                : unit == kMiB ? "MiB"
                               : "GiB");
  return text;
}

}  // namespace

void throw_out_of_memory(const MemoryShortage& s, const OutOfMemoryText& more) {
  std::string text = "CUDA out of memory. Tried to allocate " + memory_text(s.wanted) + ". GPU " +
                     std::to_string(s.device.index()) + " has a total capacity of " + memory_text(s.capacity) +
                     " of which " + memory_text(s.free) + " is free. ";
  for (const MemoryOfProcess& user : more.processes) {
    text +=
        user.process == 0 ? "Including non-PyTorch memory, this process" : "Process " + std::to_string(user.process);
    text += " has " + memory_text(user.bytes) + " memory in use. ";
  }
  if (more.fraction < 1) {
    text += memory_text(static_cast<std::uint64_t>(more.fraction * static_cast<double>(s.capacity))) + " allowed; ";
  }
  text += "Of the allocated memory " + memory_text(s.allocated) + " is allocated by PyTorch, and " +
          memory_text(s.reserved - s.allocated) +
          " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
          "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
          "Management  (https://docs.pytorch.org/docs/stable/notes/"
          "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";
  throw OutOfMemoryError(std::move(text), s);
}

}  // namespace core::detail
