// The CUDA runtime behind CudaApi, and the devices it shows. Only in builds with CUDA.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>

#include "libcore/backend/cuda/cuda_api.h"
#include "libcore/backend/cuda/cuda_backend.h"
#include "libcore/backend/cuda/cuda_discovery.h"
#include "libcore/backend/cuda/cuda_error.h"
#include "libcore/backend/cuda/cuda_tables.h"
#include "libcore/backend/cuda/driver_memory.h"
#include "libcore/backend/cuda/nccl.h"
#include "libcore/base/text.h"

namespace core {
namespace gpu {
namespace {

static_assert(kSuccess == cudaSuccess && kInvalidValue == cudaErrorInvalidValue);
static_assert(kOutOfMemory == cudaErrorMemoryAllocation && kInsufficientDriver == cudaErrorInsufficientDriver);
static_assert(kNoDevice == cudaErrorNoDevice && kInvalidDevice == cudaErrorInvalidDevice);
static_assert(kIllegalAddress == cudaErrorIllegalAddress && kAssert == cudaErrorAssert);
static_assert(kPeerAccessAlreadyEnabled == cudaErrorPeerAccessAlreadyEnabled);
static_assert(kLaunchFailure == cudaErrorLaunchFailure && kNotReady == cudaErrorNotReady);
static_assert(kInitializationError == cudaErrorInitializationError && kUnknown == cudaErrorUnknown);
static_assert(kStreamCaptureUnsupported == cudaErrorStreamCaptureUnsupported);
static_assert(static_cast<int>(CaptureMode::global) == cudaStreamCaptureModeGlobal);
static_assert(static_cast<int>(CaptureMode::of_thread) == cudaStreamCaptureModeThreadLocal);
static_assert(static_cast<int>(CaptureMode::relaxed) == cudaStreamCaptureModeRelaxed);

cudaStream_t as_stream(StreamHandle stream) {
  return static_cast<cudaStream_t>(stream);
}
cudaEvent_t as_event(EventHandle event) {
  return static_cast<cudaEvent_t>(event);
}

int properties(int device, DeviceProperties* out) {
  cudaDeviceProp found;
  if (cudaError_t error = cudaGetDeviceProperties(&found, device); error != cudaSuccess) return error;
  *out = {.name = found.name,
          .total_memory = found.totalGlobalMem,
          .multiprocessors = found.multiProcessorCount,
          .major = found.major,
          .minor = found.minor,
          .pci_domain = found.pciDomainID,
          .pci_bus = found.pciBusID,
          .pci_device = found.pciDeviceID,
          .uuid = {}};
  std::copy_n(found.uuid.bytes, sizeof out->uuid, out->uuid);
  return cudaSuccess;
}

CudaApi runtime_table() {
  CudaApi api{};
  api.device_count = [](int* count) -> int { return cudaGetDeviceCount(count); };
  api.driver_version = [](int* version) -> int { return cudaDriverGetVersion(version); };
  api.properties = properties;
  api.set_device = [](int device) -> int { return cudaSetDevice(device); };
  api.device_synchronize = []() -> int { return cudaDeviceSynchronize(); };
  api.memory_info = [](std::size_t* free, std::size_t* total) -> int { return cudaMemGetInfo(free, total); };
  api.memory_users = [](int device) {
    char bus[32] = "";
    if (cudaDeviceGetPCIBusId(bus, sizeof bus, device) != cudaSuccess) return std::vector<detail::MemoryOfProcess>();
    return memory_users(bus);
  };
  api.allocate = [](void** data, std::size_t bytes) -> int { return cudaMalloc(data, bytes); };
  api.free = [](void* data) -> int { return cudaFree(data); };
  api.allocate_host = [](void** data, std::size_t bytes) -> int {
    return cudaHostAlloc(data, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  };
  api.free_host = [](void* data) -> int { return cudaFreeHost(data); };
  api.copy = [](void* to, const void* from, std::size_t bytes, StreamHandle stream) -> int {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, as_stream(stream));
  };
  api.copy_peer = [](void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                     StreamHandle stream) -> int {
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, as_stream(stream));
  };
  api.fill = [](void* to, int byte, std::size_t bytes, StreamHandle stream) -> int {
    return cudaMemsetAsync(to, byte, bytes, as_stream(stream));
  };
  api.can_access_peer = [](int* yes, int device, int peer) -> int {
    return cudaDeviceCanAccessPeer(yes, device, peer);
  };
  api.enable_peer_access = [](int peer) -> int { return cudaDeviceEnablePeerAccess(peer, 0); };
  return api;
}

void add_streams(CudaApi& api) {
  api.stream_create = [](StreamHandle* stream, int priority) -> int {
    return cudaStreamCreateWithPriority(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking, priority);
  };
  api.stream_destroy = [](StreamHandle stream) -> int { return cudaStreamDestroy(as_stream(stream)); };
  api.stream_synchronize = [](StreamHandle stream) -> int { return cudaStreamSynchronize(as_stream(stream)); };
  api.stream_query = [](StreamHandle stream) -> int { return cudaStreamQuery(as_stream(stream)); };
  api.stream_wait_event = [](StreamHandle stream, EventHandle event) -> int {
    return cudaStreamWaitEvent(as_stream(stream), as_event(event), 0);
  };
  api.event_create = [](EventHandle* event, bool timed) -> int {
    return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event),
                                    timed ? cudaEventDefault : cudaEventDisableTiming);
  };
  api.event_destroy = [](EventHandle event) -> int { return cudaEventDestroy(as_event(event)); };
  api.event_record = [](EventHandle event, StreamHandle stream) -> int {
    return cudaEventRecord(as_event(event), as_stream(stream));
  };
  api.event_query = [](EventHandle event) -> int { return cudaEventQuery(as_event(event)); };
  api.event_synchronize = [](EventHandle event) -> int { return cudaEventSynchronize(as_event(event)); };
  api.event_elapsed = [](float* milliseconds, EventHandle start, EventHandle end) -> int {
    return cudaEventElapsedTime(milliseconds, as_event(start), as_event(end));
  };
}

void add_graphs(CudaApi& api) {
  api.begin_capture = [](StreamHandle stream, CaptureMode mode) -> int {
    return cudaStreamBeginCapture(as_stream(stream), static_cast<cudaStreamCaptureMode>(mode));
  };
  api.capture_id = [](StreamHandle stream, std::uint64_t* id) -> int {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long number = 0;
    const cudaError_t error = cudaStreamGetCaptureInfo(as_stream(stream), &status, &number);
    *id = error == cudaSuccess && status == cudaStreamCaptureStatusActive ? number : 0;
    return error;
  };
  api.end_capture = [](StreamHandle stream, GraphHandle* graph) -> int {
    return cudaStreamEndCapture(as_stream(stream), reinterpret_cast<cudaGraph_t*>(graph));
  };
  api.instantiate = [](GraphExecHandle* exec, GraphHandle graph) -> int {
    return cudaGraphInstantiateWithFlags(reinterpret_cast<cudaGraphExec_t*>(exec), static_cast<cudaGraph_t>(graph),
                                         cudaGraphInstantiateFlagAutoFreeOnLaunch);
  };
  api.launch_graph = [](GraphExecHandle exec, StreamHandle stream) -> int {
    return cudaGraphLaunch(static_cast<cudaGraphExec_t>(exec), as_stream(stream));
  };
  api.destroy_graph = [](GraphHandle graph) -> int { return cudaGraphDestroy(static_cast<cudaGraph_t>(graph)); };
  api.destroy_graph_exec = [](GraphExecHandle exec) -> int {
    return cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(exec));
  };
  api.exchange_capture_mode = [](CaptureMode* mode) -> int {
    auto exchanged = static_cast<cudaStreamCaptureMode>(*mode);
    const cudaError_t error = cudaThreadExchangeStreamCaptureMode(&exchanged);
    *mode = static_cast<CaptureMode>(exchanged);
    return error;
  };
  api.collectives = loaded_nccl;
  api.last_error = []() -> int { return cudaGetLastError(); };
  api.error_text = [](int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); };
  api.error_name = [](int error) { return cudaGetErrorName(static_cast<cudaError_t>(error)); };
}

}  // namespace

const CudaApi& cuda_runtime_api() {
  static const CudaApi api = [] {
    CudaApi made = runtime_table();
    add_streams(made);
    add_graphs(made);
    return made;
  }();
  return api;
}

}  // namespace gpu

namespace {

constexpr int kNotAsked = -1;
std::atomic<int> discovery_error{kNotAsked};

/// CORE_CUDA_ARCHITECTURES is CMake's list: "80-real,90" is sm_80, sm_90 and compute_90.
std::vector<std::string> architectures() {
  std::vector<std::string> all;
  for (const std::string_view entry : split(CORE_CUDA_ARCHITECTURES, ',')) {
    const std::string number(entry.substr(0, entry.find('-')));
    if (number.empty() || number[0] < '0' || number[0] > '9') return {};  // "native": it runs here
    if (!entry.ends_with("-virtual")) all.push_back("sm_" + number);
    if (!entry.ends_with("-real")) all.push_back("compute_" + number);
  }
  return all;
}

}  // namespace

std::vector<std::unique_ptr<Backend>> make_cuda_backends(int logical_devices) {
  int error = gpu::kSuccess;
  auto devices = gpu::discover(gpu::cuda_runtime_api(), gpu::cuda_op_tables(),
                               {.logical_devices = logical_devices, .architectures = architectures(), .error = &error});
  discovery_error = error;
  return devices;
}

bool is_cuda_built() {
  return true;
}

void throw_no_cuda() {
  const gpu::CudaApi& api = gpu::cuda_runtime_api();
  int error = discovery_error;
  if (error == kNotAsked) {  // devices were set by hand before any was looked for
    int count = 0;
    error = api.device_count(&count);
    if (error != gpu::kSuccess) api.last_error();
  }
  gpu::throw_no_device(api, error);
}

}  // namespace core
