#pragma once
// Which processes have memory of a GPU, as NVML, the library of nvidia-smi, says it. It comes with the driver and is
// loaded when it is first asked. Thread safety: all functions. Use: gpu::memory_users("00000000:1A:00.0")

#include <string>
#include <vector>

#include "libcore/backend/out_of_memory.h"

namespace core::gpu {

/// None where the library is missing or does not tell.
std::vector<detail::MemoryOfProcess> memory_users(const std::string& pci_bus_id);

}  // namespace core::gpu
