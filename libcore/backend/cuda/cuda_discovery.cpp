#include "libcore/backend/cuda/cuda_discovery.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "libcore/backend/cuda/cuda_error.h"
#include "libcore/base/text.h"
#include "libcore/base/warning.h"

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

DeviceInfo info_of(const DeviceProperties& found, int gpu) {
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

/// Whether code for `architecture` runs on a device of this compute capability: machine code ("sm_80") within its
/// generation, from its number on, or on one device alone ("sm_90a"); PTX ("compute_80") on all later ones.
bool runs_on(std::string_view architecture, const DeviceInfo& device) {
  const std::size_t digits = architecture.find_first_of("0123456789");
  if (digits == std::string_view::npos) return false;
  int code = 0;
  const char* end = architecture.data() + architecture.size();
  const char* rest = std::from_chars(architecture.data() + digits, end, code).ptr;
  const int here = device.major * 10 + device.minor;
  if (rest != end) return here == code;
  return architecture.starts_with("sm_") ? here / 10 == code / 10 && here >= code : here >= code;
}

/// As PyTorch says it when it looks at the devices.
void check_architecture(const DeviceInfo& device, const std::vector<std::string>& architectures) {
  const auto fits = [&](const std::string& architecture) { return runs_on(architecture, device); };
  if (architectures.empty() || std::any_of(architectures.begin(), architectures.end(), fits)) return;
  const std::string number = std::to_string(device.major * 10 + device.minor);
  std::string all;
  for (const std::string& architecture : architectures) all += (all.empty() ? "" : " ") + architecture;
  warn(device.name + " with CUDA capability sm_" + number +
       " is not compatible with the current PyTorch installation.\nThe current PyTorch install supports CUDA "
       "capabilities " +
       all + ".\nIf you want to use the " + device.name +
       " GPU, build libckpt with -DCMAKE_CUDA_ARCHITECTURES=" + number);
}

struct Gpu {
  int number;  ///< the driver's
  DeviceInfo info;
};

/// Those that can be read. `error`: of one that cannot.
std::vector<Gpu> readable(const CudaApi& api, int count, int& error) {
  std::vector<Gpu> gpus;
  for (int i = 0; i < count; ++i) {
    DeviceProperties found{};
    const int status = api.properties(i, &found);
    if (status == kSuccess) {
      gpus.push_back({i, info_of(found, i)});
      continue;
    }
    api.last_error();
    error = status;
    warn("GPU " + std::to_string(i) + " cannot be read and is left out: CUDA error " + std::to_string(status) + ": " +
         api.error_text(status));
  }
  return gpus;
}

std::vector<Gpu> find_gpus(const CudaApi& api, int& error) {
  int count = 0;
  error = api.device_count(&count);
  if (error == kSuccess) return readable(api, count, error);
  api.last_error();  // else the next launch would be taken to have it
  int version = 0;
  if (error == kInsufficientDriver) api.driver_version(&version);
  const bool is_usual = error == kNoDevice || (error == kInsufficientDriver && version == 0);
  if (!is_usual) warn("CUDA initialization: " + no_device_text(api, error));
  return {};
}

}  // namespace

std::vector<std::unique_ptr<Backend>> discover(const CudaApi& api, const OpTables& tables,
                                               const DiscoveryOptions& options) {
  int error = kSuccess;
  const std::vector<Gpu> gpus = find_gpus(api, error);
  if (options.error != nullptr) *options.error = error;
  if (gpus.empty()) return {};
  for (const Gpu& gpu : gpus) check_architecture(gpu.info, options.architectures);
  const std::size_t count =
      options.logical_devices > 0 ? static_cast<std::size_t>(options.logical_devices) : gpus.size();
  const auto events = std::make_shared<EventPool>(api);
  const auto pinned = std::make_shared<PinnedCache>(api, events);
  std::vector<std::unique_ptr<Backend>> devices;
  for (std::size_t i = 0; i < count; ++i) {
    const Gpu& gpu = gpus[i % gpus.size()];
    DeviceInfo info = gpu.info;
    info.device = Device(DeviceType::cuda, static_cast<int>(i));
    info.is_logical = options.logical_devices > 0;
    if (info.is_logical) info.name += " (logical)";
    devices.push_back(std::make_unique<CudaBackend>(CudaBackend::Options{.api = api,
                                                                         .ops = tables,
                                                                         .gpu = gpu.number,
                                                                         .shares_gpu = count > gpus.size(),
                                                                         .info = info,
                                                                         .events = events,
                                                                         .pinned = pinned}));
  }
  return devices;
}

}  // namespace core::gpu
