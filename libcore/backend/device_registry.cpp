#include "libcore/backend/device_registry.h"

#include <unistd.h>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/cuda/cuda_backend.h"
#include "libcore/backend/host_memory.h"
#include "libcore/backend/meta_backend.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace core {
namespace {

constexpr int kMaxDevices = 128;

struct Registry {
  CpuBackend cpu{Device(DeviceType::cpu)};
  MetaBackend meta;
  std::vector<std::unique_ptr<Backend>> cuda;
  bool logical = false;

  Registry();
};

std::uint64_t host_memory_total() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

std::vector<std::unique_ptr<Backend>> make_logical(int count) {
  std::vector<std::unique_ptr<Backend>> made;
  for (int i = 0; i < count; ++i) {
    made.push_back(std::make_unique<LogicalBackend>(Device(DeviceType::cuda, i), host_memory_total()));
  }
  return made;
}

/// Entries of CUDA_VISIBLE_DEVICES that name one of `count` devices; the list ends at the first that does not, and a
/// duplicate leaves none, as the driver has it. Only how many are left matters on host memory.
int visible_count(int count) {
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) return count;
  std::vector<int> seen;
  for (std::string_view item : split(text, ',')) {
    int index = -1;
    auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), index);
    if (error != std::errc() || index < 0 || index >= count) break;
    for (int other : seen) {
      if (other == index) return 0;
    }
    seen.push_back(index);
  }
  return static_cast<int>(seen.size());
}

struct LogicalRequest {
  int count = 0;
  bool host_only = false;
};

LogicalRequest logical_request() {
  const char* text = std::getenv("CORE_LOGICAL_DEVICES");
  if (text == nullptr || *text == '\0') return {};
  std::string_view rest = text;
  LogicalRequest request;
  if (rest.starts_with("host:")) {
    request.host_only = true;
    rest.remove_prefix(5);
  }
  auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), request.count);
  if (error != std::errc() || end != rest.data() + rest.size() || request.count < 0 || request.count > kMaxDevices) {
    throw Error(ErrorCode::usage, "CORE_LOGICAL_DEVICES: " + quote(text) + " where a number from 0 to 128 or host:N");
  }
  return request;
}

Registry::Registry() {
  LogicalRequest request = logical_request();
  if (!request.host_only) cuda = make_cuda_backends();
  if (cuda.empty() && request.count > 0) {
    cuda = make_logical(visible_count(request.count));
    logical = true;
  }
}

/// Never destroyed: tensors of static lifetime still need their backend.
Registry& registry() {
  static auto* made = new Registry;
  return *made;
}

thread_local int current_cuda = 0;

int checked_index(int index) {
  const auto& devices = registry().cuda;
  if (devices.empty()) throw_no_cuda();
  if (index >= static_cast<int>(devices.size())) throw Error(ErrorCode::device, "CUDA error: invalid device ordinal");
  return index;
}

LogicalBackend* try_logical(Device device) {
  return registry().logical ? static_cast<LogicalBackend*>(&backend_for(device)) : nullptr;
}

LogicalBackend& logical_backend(Device device) {
  LogicalBackend* backend = try_logical(device);
  if (backend == nullptr) throw Error(ErrorCode::usage, device.str() + ": not a logical device");
  return *backend;
}

}  // namespace

Backend& backend_for(Device device) {
  switch (device.type()) {
    case DeviceType::cpu:
      return registry().cpu;
    case DeviceType::meta:
      return registry().meta;
    case DeviceType::cuda: {
      int index = checked_index(device.has_index() ? device.index() : current_cuda);
      return *registry().cuda[static_cast<std::size_t>(index)];
    }
    default:
      throw Error(ErrorCode::unsupported, "device " + quote(device.str()) + ": no backend for this device type");
  }
}

Device resolve(Device device) {
  return backend_for(device).device();
}

void inject_faults(Device device, const DeviceFaults& faults) {
  logical_backend(device).set_faults(faults.fail_allocation, faults.fail_launch);
}

void set_memory_limit(Device device, std::uint64_t bytes) {
  logical_backend(device).set_limit(bytes);
}

void set_logical_devices(int count) {
  registry().cuda = make_logical(count);
  registry().logical = true;
  current_cuda = 0;
}

namespace cuda {

bool is_available() {
  return device_count() > 0;
}
int device_count() {
  return static_cast<int>(registry().cuda.size());
}
int current_device() {
  return checked_index(current_cuda);
}
void set_device(int index) {
  current_cuda = checked_index(index);
}

void synchronize(std::optional<Device> device) {
  backend_for(device.value_or(DeviceType::cuda)).synchronize();
}

DeviceInfo device_info(int index) {
  Device device(DeviceType::cuda, checked_index(index));
  LogicalBackend* logical = try_logical(device);
  if (logical == nullptr) return {device, device.str(), false, 0};
  return {device, "logical, host memory", true, logical->total_memory()};
}

MemoryStats memory_stats(Device device) {
  return backend_for(device).memory_stats();
}
std::uint64_t memory_allocated(Device device) {
  return memory_stats(device).allocated;
}
std::uint64_t max_memory_allocated(Device device) {
  return memory_stats(device).peak_allocated;
}
std::uint64_t memory_reserved(Device device) {
  return memory_stats(device).reserved;
}

void reset_peak_memory_stats(Device device) {
  if (LogicalBackend* backend = try_logical(device)) backend->reset_peak();
}

void empty_cache() {
  for (int i = 0; i < device_count(); ++i) {
    if (LogicalBackend* backend = try_logical(Device(DeviceType::cuda, i))) backend->empty_cache();
  }
  host_trim();
}

DeviceGuard::DeviceGuard(Device device) {
  if (!device.is_cuda()) return;
  previous_ = current_cuda;
  set_device(device.has_index() ? device.index() : current_cuda);
}

DeviceGuard::~DeviceGuard() {
  if (previous_ >= 0) current_cuda = previous_;
}

}  // namespace cuda
}  // namespace core
