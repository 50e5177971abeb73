#include "libcore/backend/cuda/cuda_discovery.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "libcore/backend/cuda/cuda_error.h"
#include "libcore/base/text.h"

namespace core::gpu {
namespace {

std::string uuid_text(const unsigned char (&bytes)[16]) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += two;
  }
  return text;
}

/// The machine's number of the visible GPU `index`: CUDA_VISIBLE_DEVICES says it where it lists numbers.
int machine_ordinal(int index) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return index;
  const std::vector<std::string_view> entries = split(visible, ',');
  if (index >= static_cast<int>(entries.size())) return index;
  std::string_view entry = entries[static_cast<std::size_t>(index)];
  int ordinal = index;
  std::from_chars(entry.data(), entry.data() + entry.size(), ordinal);
  return ordinal;
}

DeviceInfo info_of(const CudaApi& api, int gpu) {
  DeviceProperties found{};
  if (const int error = api.properties(gpu, &found); error != kSuccess) throw_cuda_error(api, error);
  char bus[32];
  std::snprintf(bus, sizeof bus, "%08X:%02X:%02X.0", static_cast<unsigned>(found.pci_domain),
                static_cast<unsigned>(found.pci_bus), static_cast<unsigned>(found.pci_device));
  return {.name = found.name,
          .total_memory = found.total_memory,
          .multiprocessors = found.multiprocessors,
          .major = found.major,
          .minor = found.minor,
          .ordinal = machine_ordinal(gpu),
          .uuid = uuid_text(found.uuid),
          .pci_bus_id = bus};
}

}  // namespace

std::vector<std::unique_ptr<Backend>> discover(const CudaApi& api, const OpTables& tables,
                                               const DiscoveryOptions& options) {
  int gpus = 0;
  if (api.device_count(&gpus) != kSuccess || gpus <= 0) {
    api.last_error();
    return {};
  }
  const int count = options.logical_devices > 0 ? options.logical_devices : gpus;
  const auto pinned = std::make_shared<PinnedCache>(api);
  std::vector<std::unique_ptr<Backend>> devices;
  for (int i = 0; i < count; ++i) {
    DeviceInfo info = info_of(api, i % gpus);
    info.device = Device(DeviceType::cuda, i);
    info.is_logical = options.logical_devices > 0;
    if (info.is_logical) info.name += " (logical)";
    devices.push_back(std::make_unique<CudaBackend>(CudaBackend::Options{
        .api = api, .ops = tables, .gpu = i % gpus, .shares_gpu = count > gpus, .info = info, .pinned = pinned}));
  }
  return devices;
}

}  // namespace core::gpu
