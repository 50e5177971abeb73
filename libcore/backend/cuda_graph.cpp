#include "libcore/backend/cuda_graph.h"

#include <atomic>
#include <utility>

#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/graph_capture.h"
#include "libcore/backend/opaque/opaque_backend.h"
#include "libcore/backend/opaque/opaque_graph.h"
#include "libcore/backend/stream_values.h"
#include "libcore/base/error.h"

namespace core::cuda {
namespace {

std::uint64_t next_pool() {
  static std::atomic<std::uint64_t> made{0};
  return ++made;
}

/// What a capture allocates from; it goes back to the device when the last owner is gone.
class GraphPool {
 public:
  explicit GraphPool(CudaBackend& gpu) : id(next_pool()), gpu_(gpu) {}
  GraphPool(const GraphPool&) = delete;
  GraphPool& operator=(const GraphPool&) = delete;
  ~GraphPool() {
    try {
      const CudaBackend::Current here(gpu_);
      gpu_.allocator().release_pool(id);
    } catch (const Error&) {
      // The device is dead, and has nothing to be given back to.
    }
  }
  const std::uint64_t id;

 private:
  CudaBackend& gpu_;
};

/// Recorded by the driver.
class GpuGraph final : public GraphCapture {
 public:
  GpuGraph(CudaBackend& gpu, const Stream& stream, const std::shared_ptr<GraphPool>& pool)
      : GraphCapture(gpu, stream.id(), pool), gpu_(gpu), native_(stream.native()), pool_(pool) {}
  ~GpuGraph() override {
    try {
      const CudaBackend::Current here(gpu_);
      if (exec_ != nullptr) gpu_.api().destroy_graph_exec(exec_);
    } catch (const Error&) {
      // As above.
    }
  }

  /// Of a graph on the same stream, whose blocks serve this stream alone.
  static std::shared_ptr<GraphPool> pool_for(CudaBackend& gpu, const Stream& stream, const GraphCapture* before) {
    const auto* graph = dynamic_cast<const GpuGraph*>(before);
    const bool fits = graph != nullptr && &graph->gpu_ == &gpu && graph->native_ == stream.native();
    return fits ? graph->pool_ : std::make_shared<GraphPool>(gpu);
  }

 private:
  void begin_recording() override {
    const CudaBackend::Current here(gpu_);
    gpu_.allocator().begin_pool(native_, pool_->id);
    const int error = gpu_.api().begin_capture(native_, gpu::CaptureMode::of_thread);
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

  bool has_joined(std::uint64_t stream) const override {
    std::uint64_t here = 0, there = 0;
    const gpu::CudaApi& api = gpu_.api();
    return api.capture_id(native_, &here) == gpu::kSuccess && here != 0 &&
           api.capture_id(reinterpret_cast<gpu::StreamHandle>(stream), &there) == gpu::kSuccess && here == there;
  }

  CudaBackend& gpu_;
  gpu::StreamHandle native_;
  std::shared_ptr<GraphPool> pool_;
  gpu::GraphExecHandle exec_ = nullptr;
};

/// A new recording, which takes the memory of the one before over.
std::unique_ptr<GraphCapture> recording_on(Backend& backend, const Stream& stream,
                                           const std::unique_ptr<GraphCapture>& before) {
  if (auto* gpu = dynamic_cast<CudaBackend*>(&backend)) {
    return std::make_unique<GpuGraph>(*gpu, stream, GpuGraph::pool_for(*gpu, stream, before.get()));
  }
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
  capture(recording_ != nullptr ? stream_of(device_, recording_->stream()) : Stream(device_), work);
}

void Graph::capture(const Stream& stream, const std::function<void()>& work) {
  if (stream.id() == 0) {
    throw Error(ErrorCode::runtime,
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.)");
  }
  Backend& backend = backend_for(device_);
  backend.synchronize();
  const StreamGuard guard(stream);
  std::unique_ptr<GraphCapture> recording = recording_on(backend, stream, recording_);
  reset();
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
