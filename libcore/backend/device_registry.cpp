#include "libcore/backend/device_registry.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <string_view>
#include <utility>

#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/cuda/cuda_backend.h"
#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/logical_backend.h"
#include "libcore/backend/meta_backend.h"
#include "libcore/backend/opaque/opaque_backend.h"
#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/backend/opaque/opaque_tables.h"
#include "libcore/backend/visible_devices.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace core {
namespace {

constexpr int kMaxDevices = 128;

using Backends = std::vector<std::unique_ptr<Backend>>;

int host_cores() {
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

std::uint64_t host_memory_total() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

enum class LogicalMemory { host, opaque };

/// The logical devices with these ordinals, as cuda:0, cuda:1, ...
Backends make_logical(const std::vector<LogicalDevice>& all, const std::vector<int>& ordinals, LogicalMemory memory) {
  Backends made;
  for (int ordinal : ordinals) {
    const LogicalDevice& wanted = all[static_cast<std::size_t>(ordinal)];
    char bus[24];
    std::snprintf(bus, sizeof bus, "00000000:%02X:00.0", ordinal + 1);
    DeviceInfo info{.device = Device(DeviceType::cuda, static_cast<int>(made.size())),
                    .name = memory == LogicalMemory::opaque ? "logical, opaque host memory" : "logical, host memory",
                    .is_logical = true,
                    .total_memory = wanted.total_memory != 0 ? wanted.total_memory : host_memory_total(),
                    .multiprocessors = wanted.multiprocessors != 0 ? wanted.multiprocessors : host_cores(),
                    .ordinal = ordinal,
                    .uuid = detail::logical_uuid(ordinal),
                    .pci_bus_id = bus};
    if (memory == LogicalMemory::opaque) {
      made.push_back(std::make_unique<OpaqueBackend>(std::move(info), wanted.peer_access));
    } else {
      made.push_back(std::make_unique<LogicalBackend>(std::move(info), wanted.peer_access));
    }
  }
  return made;
}

std::vector<int> first_ordinals(int count) {
  std::vector<int> ordinals(static_cast<std::size_t>(count));
  std::iota(ordinals.begin(), ordinals.end(), 0);
  return ordinals;
}

/// Those of `count` logical devices that CUDA_VISIBLE_DEVICES lets through.
std::vector<int> visible_logical(int count) {
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) return first_ordinals(count);
  std::vector<std::string> uuids;
  for (int i = 0; i < count; ++i) uuids.push_back(detail::logical_uuid(i));
  return detail::visible_ordinals(text, uuids);
}

struct LogicalRequest {
  int count = 0;
  bool host_only = false;
  LogicalMemory memory = LogicalMemory::host;
};

LogicalRequest logical_request() {
  const char* text = std::getenv("CORE_LOGICAL_DEVICES");
  if (text == nullptr || *text == '\0') return {};
  std::string_view rest = text;
  LogicalRequest request;
  if (rest.starts_with("host:")) {
    request.host_only = true;
    rest.remove_prefix(5);
  } else if (rest.starts_with("opaque:")) {
    request.host_only = true;
    request.memory = LogicalMemory::opaque;
    rest.remove_prefix(7);
  }
  auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), request.count);
  if (error != std::errc() || end != rest.data() + rest.size() || request.count < 0 || request.count > kMaxDevices) {
    throw Error(ErrorCode::usage,
                "CORE_LOGICAL_DEVICES: " + quote(text) + " where a number from 0 to 128, host:N or opaque:N");
  }
  return request;
}

/// The devices that there are: GPUs, or the logical ones that the environment asks for.
Backends discovered() {
  const LogicalRequest request = logical_request();
  Backends devices;
  if (!request.host_only) devices = make_cuda_backends(request.count);
  if (!devices.empty() || request.count == 0) return devices;
  if (request.memory == LogicalMemory::opaque) set_inner_tables(logical_op_tables());
  return make_logical(std::vector<LogicalDevice>(static_cast<std::size_t>(request.count)),
                      visible_logical(request.count), request.memory);
}

/// A fork() takes the memory along but none of the threads that work on it, and no GPU context.
std::atomic<bool> was_forked{false};

/// Looked for when somebody first asks: a program that works on the CPU alone starts no driver, and may fork.
class CudaDevices {
 public:
  Backends& all() {
    std::call_once(found_, [this] {
      devices_ = discovered();
      note();
    });
    return devices_;
  }
  void replace(Backends devices);
  bool were_asked_for() const { return were_asked_for_.load(std::memory_order_acquire); }

 private:
  void note() {
    pthread_atfork(nullptr, nullptr, [] { was_forked = true; });
    were_asked_for_.store(true, std::memory_order_release);
  }
  std::once_flag found_;
  std::atomic<bool> were_asked_for_{false};
  Backends devices_;
};

/// None of these is destroyed: tensors of static lifetime still need their backend.
CudaDevices& cuda_devices() {
  static auto* const made = new CudaDevices;
  return *made;
}
Backend& cpu_backend() {
  static auto* const made = new CpuBackend(Device(DeviceType::cpu));
  return *made;
}
Backend& meta_backend() {
  static auto* const made = new MetaBackend;
  return *made;
}

thread_local int current_cuda = 0;

void CudaDevices::replace(Backends devices) {
  std::call_once(found_, [this] { note(); });
  devices_ = std::move(devices);
  current_cuda = 0;
}

int checked_index(int index) {
  const Backends& devices = cuda_devices().all();
  if (devices.empty()) throw_no_cuda();
  if (was_forked.load(std::memory_order_relaxed)) {
    throw Error(ErrorCode::runtime,
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
                "'spawn' start method");
  }
  if (index >= static_cast<int>(devices.size())) throw Error(ErrorCode::device, "CUDA error: invalid device ordinal");
  return index;
}

LogicalBackend& logical_backend(Device device) {
  auto* backend = dynamic_cast<LogicalBackend*>(&backend_for(device));
  if (backend == nullptr) throw Error(ErrorCode::usage, device.str() + ": not a logical device");
  return *backend;
}

Backend& checked_backend(int index, const char* error) {
  if (index < 0 || index >= cuda::device_count()) throw Error(ErrorCode::assertion, error);
  return backend_for(Device(DeviceType::cuda, index));
}

}  // namespace

Backend& backend_for(Device device) {
  switch (device.type()) {
    case DeviceType::cpu:
      return cpu_backend();
    case DeviceType::meta:
      return meta_backend();
    case DeviceType::cuda: {
      int index = checked_index(device.has_index() ? device.index() : current_cuda);
      return *cuda_devices().all()[static_cast<std::size_t>(index)];
    }
    default:
      throw Error(ErrorCode::unsupported, "device " + quote(device.str()) + ": no backend for this device type");
  }
}

Device resolve(Device device) {
  return backend_for(device).device();
}

void inject_faults(Device device, const DeviceFaults& faults) {
  logical_backend(device).set_faults(faults);
}

void set_memory_limit(Device device, std::uint64_t bytes) {
  if (auto* gpu = dynamic_cast<CudaBackend*>(&backend_for(device))) return gpu->set_capacity(bytes);
  logical_backend(device).set_capacity(bytes);
}

void set_logical_devices(int count) {
  set_logical_devices(std::vector<LogicalDevice>(static_cast<std::size_t>(count)));
}

void set_logical_devices(const std::vector<LogicalDevice>& devices) {
  cuda_devices().replace(make_logical(devices, first_ordinals(static_cast<int>(devices.size())), LogicalMemory::host));
}

void set_opaque_devices(int count) {
  set_opaque_devices(count, logical_op_tables());
}

void set_opaque_devices(int count, const OpTables& kernels) {
  cuda_devices().replace({});  // their addresses are taken again
  set_inner_tables(kernels);
  const std::vector<LogicalDevice> devices(static_cast<std::size_t>(count));
  cuda_devices().replace(make_logical(devices, first_ordinals(count), LogicalMemory::opaque));
}

void set_cuda_backends(std::vector<std::unique_ptr<Backend>> backends) {
  cuda_devices().replace(std::move(backends));
}

Device try_gpu(int i) {
  return i >= 0 && i < cuda::device_count() ? Device(DeviceType::cuda, i) : Device();
}

std::vector<Device> try_all_gpus() {
  std::vector<Device> devices;
  for (int i = 0; i < cuda::device_count(); ++i) devices.emplace_back(DeviceType::cuda, i);
  if (devices.empty()) devices.emplace_back();
  return devices;
}

namespace cuda {

bool is_available() {
  return device_count() > 0;
}
bool is_initialized() {
  return cuda_devices().were_asked_for();
}
bool is_built() {
  return is_cuda_built();
}
int device_count() {
  return static_cast<int>(cuda_devices().all().size());
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
  return checked_backend(index, "Invalid device id").info();
}
std::string device_name(int index) {
  return device_info(index).name;
}

bool can_device_access_peer(int device, int peer) {
  Backend& from = checked_backend(device, "Invalid device id");
  return device != peer && from.can_access(checked_backend(peer, "Invalid peer device id"));
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
