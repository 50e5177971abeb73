#include "libcore/backend/cuda_graph.h"

#include <atomic>
#include <utility>

#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/graph_capture.h"
#include "libcore/backend/opaque/opaque_backend.h"
#include "libcore/backend/opaque/opaque_graph.h"
#include "libcore/base/error.h"

namespace core::cuda {
namespace {

std::uint64_t next_pool() {
  static std::atomic<std::uint64_t> made{0};
  return ++made;
}

/// Recorded by the driver.
class GpuGraph final : public GraphCapture {
 public:
  GpuGraph(CudaBackend& gpu, const Stream& stream)
      : GraphCapture(gpu, stream.id()), gpu_(gpu), native_(stream.native()), pool_(next_pool()) {}
  ~GpuGraph() override {
    try {
      const CudaBackend::Current here(gpu_);
      if (exec_ != nullptr) gpu_.api().destroy_graph_exec(exec_);
      gpu_.allocator().release_pool(pool_);
    } catch (const Error&) {
      // The device is dead, and has nothing to be given back to.
    }
  }

 private:
  void begin_recording() override {
    const CudaBackend::Current here(gpu_);
    gpu_.allocator().begin_pool(native_, pool_);
    const int error = gpu_.api().begin_capture(native_);
    if (error == gpu::kSuccess) return;
    gpu_.allocator().end_pool(native_);
    gpu_.check(error);
  }

  void end_recording(bool keeps) override {
    const CudaBackend::Current here(gpu_);
    const gpu::CudaApi& api = gpu_.api();
    gpu::GraphHandle graph = nullptr;
    int error = api.end_capture(native_, &graph);
    gpu_.allocator().end_pool(native_);
    if (error == gpu::kSuccess && keeps) error = api.instantiate(&exec_, graph);
    if (graph != nullptr) api.destroy_graph(graph);
    if (keeps) return gpu_.check(error);
    if (error != gpu::kSuccess) api.last_error();
  }

  void launch() override {
    gpu_.check_alive();
    const CudaBackend::Current here(gpu_);
    gpu_.check(gpu_.api().launch_graph(exec_, gpu_.current_stream()));
  }

  CudaBackend& gpu_;
  gpu::StreamHandle native_;
  std::uint64_t pool_;
  gpu::GraphExecHandle exec_ = nullptr;
};

std::unique_ptr<GraphCapture> recording_on(Backend& backend, const Stream& stream) {
  if (auto* gpu = dynamic_cast<CudaBackend*>(&backend)) return std::make_unique<GpuGraph>(*gpu, stream);
  return std::make_unique<OpaqueGraph>(dynamic_cast<OpaqueBackend&>(backend), stream.id());
}

}  // namespace

bool has_graphs(Device device) {
  if (!device.is_cuda() || !is_available()) return false;
  Backend& backend = backend_for(device);
  return dynamic_cast<CudaBackend*>(&backend) != nullptr || dynamic_cast<OpaqueBackend*>(&backend) != nullptr;
}

bool is_current_stream_capturing(Device device) {
  return device.is_cuda() && GraphCapture::of(device.has_index() ? device : resolve(device)) != nullptr;
}

bool is_current_stream_capturing() {
  return GraphCapture::any() && is_current_stream_capturing(DeviceType::cuda);
}

Graph::Graph(Device device) : device_(resolve(device)) {
  if (has_graphs(device_)) return;
  throw Error(ErrorCode::unsupported, device_.str() + ": graphs are captured on GPUs, and this device is host memory");
}

Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

void Graph::reset() {
  recording_.reset();
}

void Graph::capture(const std::function<void()>& work) {
  capture(Stream(device_), work);
}

void Graph::capture(const Stream& stream, const std::function<void()>& work) {
  if (stream.id() == 0) {
    throw Error(ErrorCode::runtime,
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.)");
  }
  reset();
  Backend& backend = backend_for(device_);
  backend.synchronize();
  const StreamGuard guard(stream);
  std::unique_ptr<GraphCapture> recording = recording_on(backend, stream);
  recording->begin();
  try {
    work();
  } catch (...) {
    recording->end(false);
    throw;
  }
  recording->end(true);
  recording_ = std::move(recording);
}

void Graph::replay() {
  if (recording_ == nullptr) {
    throw Error(ErrorCode::runtime, "Called CUDAGraph::replay without a preceding successful capture.");
  }
  recording_->replay();
}

}  // namespace core::cuda
