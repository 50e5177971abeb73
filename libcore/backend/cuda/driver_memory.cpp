#include "libcore/backend/cuda/driver_memory.h"

#include <unistd.h>

#include "libcore/backend/cuda/shared_library.h"

namespace core::gpu {
namespace {

/// nvmlProcessInfo_t.
struct Process {
  unsigned id;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};

struct Nvml {
  int (*init)() = nullptr;
  int (*device)(const char* pci_bus_id, void** device) = nullptr;
  int (*processes)(void* device, unsigned* count, Process* processes) = nullptr;
};

/// Null where it cannot be had.
const Nvml* load_nvml() {
  static Nvml nvml;
  const SharedLibrary* library = SharedLibrary::open({"libnvidia-ml.so.1"});
  const bool is_there = library != nullptr && library->find("nvmlInit_v2", nvml.init) &&
                        library->find("nvmlDeviceGetHandleByPciBusId_v2", nvml.device) &&
                        library->find("nvmlDeviceGetComputeRunningProcesses_v3", nvml.processes) && nvml.init() == 0;
  return is_there ? &nvml : nullptr;
}

}  // namespace

std::vector<detail::MemoryOfProcess> memory_users(const std::string& pci_bus_id) {
  static const Nvml* nvml = load_nvml();
  void* device = nullptr;
  if (nvml == nullptr || nvml->device(pci_bus_id.c_str(), &device) != 0) return {};
  std::vector<Process> found(64);
  auto count = static_cast<unsigned>(found.size());
  if (nvml->processes(device, &count, found.data()) != 0) return {};
  std::vector<detail::MemoryOfProcess> users;
  for (unsigned i = 0; i < count; ++i) {
    const bool is_this = found[i].id == static_cast<unsigned>(getpid());
    users.push_back({.process = is_this ? 0 : found[i].id, .bytes = found[i].bytes});
  }
  return users;
}

}  // namespace core::gpu
