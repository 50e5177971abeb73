#pragma once
// The calls of the CUDA runtime that the backend makes, as a table of function pointers: the real one
// (cuda_runtime.cpp) or, in tests, a simulated driver. Compiles without CUDA's headers; handles are opaque pointers,
// results are numbers of cudaError_t. Only CudaBackend and what it is made of call these. Thread safety: constant;
// every function may be called from any thread, and acts on the device that set_device() made current on that thread.
// Use: if (int error = api.allocate(&data, bytes); error != gpu::kSuccess) ...

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libcore/backend/out_of_memory.h"

namespace core::gpu {

using StreamHandle = void*;     ///< cudaStream_t; null is the device's default stream
using EventHandle = void*;      ///< cudaEvent_t
using GraphHandle = void*;      ///< cudaGraph_t
using GraphExecHandle = void*;  ///< cudaGraphExec_t

// Numbers of cudaError_t that decide something.
inline constexpr int kSuccess = 0;
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kInitializationError = 3;
inline constexpr int kInsufficientDriver = 35;  ///< none, or older than this program needs
inline constexpr int kNoDevice = 100;
inline constexpr int kInvalidDevice = 101;
inline constexpr int kIllegalAddress = 700;
inline constexpr int kPeerAccessAlreadyEnabled = 704;
inline constexpr int kAssert = 710;  ///< a kernel refused its input
inline constexpr int kLaunchFailure = 719;
inline constexpr int kNotReady = 600;
inline constexpr int kStreamCaptureUnsupported = 900;
inline constexpr int kUnknown = 999;

/// cudaStreamCaptureMode: whose calls a capture forbids that it could not repeat (taking memory, asking for an event):
/// everybody's, those of the thread that captures, or nobody's.
enum class CaptureMode : int { global = 0, of_thread = 1, relaxed = 2 };

struct DeviceProperties {
  std::string name;
  std::uint64_t total_memory;
  int multiprocessors;
  int major, minor;  ///< compute capability
  int pci_domain, pci_bus, pci_device;
  unsigned char uuid[16];
};

class Nccl;

/// Every function gives kSuccess or an error; an error of work that ran earlier may come from any of them.
struct CudaApi {
  int (*device_count)(int* count);
  int (*driver_version)(int* version);  ///< 0: no driver
  int (*properties)(int device, DeviceProperties* out);
  int (*set_device)(int device);
  int (*device_synchronize)();

  int (*memory_info)(std::size_t* free, std::size_t* total);
  /// Who has memory of `device`, as far as the driver tells; never fails.
  std::vector<detail::MemoryOfProcess> (*memory_users)(int device);
  int (*allocate)(void** data, std::size_t bytes);
  int (*free)(void* data);
  /// Pinned host memory that every device reads, at the same address.
  int (*allocate_host)(void** data, std::size_t bytes);
  int (*free_host)(void* data);

  // In the order of the stream; may return before the work is done.
  int (*copy)(void* to, const void* from, std::size_t bytes, StreamHandle stream);
  int (*copy_peer)(void* to, int to_device, const void* from, int from_device, std::size_t bytes, StreamHandle stream);
  int (*fill)(void* to, int byte, std::size_t bytes, StreamHandle stream);
  int (*can_access_peer)(int* yes, int device, int peer);
  /// Kernels of the current device may use memory of `peer` from now on.
  int (*enable_peer_access)(int peer);

  int (*stream_create)(StreamHandle* stream, int priority);  ///< never waits for the default stream
  int (*stream_destroy)(StreamHandle stream);
  int (*stream_synchronize)(StreamHandle stream);
  int (*stream_query)(StreamHandle stream);  ///< kNotReady while it works
  int (*stream_wait_event)(StreamHandle stream, EventHandle event);
  int (*event_create)(EventHandle* event, bool timed);
  int (*event_destroy)(EventHandle event);
  int (*event_record)(EventHandle event, StreamHandle stream);
  int (*event_query)(EventHandle event);  ///< kNotReady until what was before it is done
  int (*event_synchronize)(EventHandle event);
  int (*event_elapsed)(float* milliseconds, EventHandle start, EventHandle end);

  int (*begin_capture)(StreamHandle stream, CaptureMode mode);
  /// Which capture keeps what `stream` is given, by the driver's number; 0: none.
  int (*capture_id)(StreamHandle stream, std::uint64_t* id);
  int (*end_capture)(StreamHandle stream, GraphHandle* graph);
  int (*instantiate)(GraphExecHandle* exec, GraphHandle graph);
  int (*launch_graph)(GraphExecHandle exec, StreamHandle stream);
  int (*destroy_graph)(GraphHandle graph);
  int (*destroy_graph_exec)(GraphExecHandle exec);
  /// Which captures forbid this thread's calls from now on; gives what did before (capture_mode.h).
  int (*exchange_capture_mode)(CaptureMode* mode);

  /// What exchanges data between these GPUs (nccl.h); null: there is nothing.
  Nccl* (*collectives)();

  /// The error of the last call or launch on this thread; forgets it where it is not sticky.
  int (*last_error)();
  const char* (*error_text)(int error);  ///< "out of memory"
  const char* (*error_name)(int error);  ///< "cudaErrorMemoryAllocation"
};

/// The CUDA runtime. Only in builds with CUDA.
const CudaApi& cuda_runtime_api();

}  // namespace core::gpu
