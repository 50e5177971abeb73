#include "libcore/backend/cuda_graph.h"

#include <atomic>

#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"

namespace core::cuda {
namespace {

CudaBackend& gpu_of(Device device) {
  Backend& backend = backend_for(device);
  if (auto* gpu = dynamic_cast<CudaBackend*>(&backend)) return *gpu;
  throw Error(ErrorCode::unsupported,
              backend.device().str() + ": graphs are captured on GPUs, and this device is host memory");
}

std::uint64_t next_pool() {
  static std::atomic<std::uint64_t> made{0};
  return ++made;
}

}  // namespace

Graph::Graph(Device device) : device_(gpu_of(device).device()) {}

Graph::~Graph() {
  try {
    reset();
  } catch (const Error&) {
    // The device is dead, and has nothing to be given back to.
  }
}

void Graph::reset() {
  if (pool_ == 0) return;
  CudaBackend& backend = gpu_of(device_);
  const CudaBackend::Current here(backend);
  if (exec_ != nullptr) backend.api().destroy_graph_exec(exec_);
  exec_ = nullptr;
  backend.allocator().release_pool(pool_);
  pool_ = 0;
}

void Graph::capture(const std::function<void()>& work) {
  reset();
  CudaBackend& backend = gpu_of(device_);
  backend.synchronize();
  const CudaBackend::Current here(backend);
  const Stream side(device_);
  const StreamGuard guard(side);
  void* stream = side.native();
  pool_ = next_pool();
  backend.allocator().begin_pool(stream, pool_);
  const int error = backend.api().begin_capture(stream);
  if (error != gpu::kSuccess) {
    backend.allocator().end_pool(stream);
    backend.check(error);
  }
  try {
    work();
  } catch (...) {
    finish_capture(stream, false);
    throw;
  }
  finish_capture(stream, true);
}

/// Ends the recording; what came of it is kept or dropped.
void Graph::finish_capture(void* stream, bool keeps) {
  CudaBackend& backend = gpu_of(device_);
  const gpu::CudaApi& api = backend.api();
  gpu::GraphHandle graph = nullptr;
  int error = api.end_capture(stream, &graph);
  backend.allocator().end_pool(stream);
  if (error == gpu::kSuccess && keeps) error = api.instantiate(&exec_, graph);
  if (graph != nullptr) api.destroy_graph(graph);
  if (keeps) return backend.check(error);
  if (error != gpu::kSuccess) api.last_error();
}

void Graph::replay() {
  if (exec_ == nullptr) {
    throw Error(ErrorCode::runtime, "Called CUDAGraph::replay without a preceding successful capture.");
  }
  CudaBackend& backend = gpu_of(device_);
  backend.check_alive();
  const CudaBackend::Current here(backend);
  backend.check(backend.api().launch_graph(exec_, backend.current_stream()));
}

}  // namespace core::cuda
