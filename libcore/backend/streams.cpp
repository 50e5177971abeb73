#include "libcore/backend/streams.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <utility>

#include "libcore/backend/cuda/capture_mode.h"
#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/cuda/cuda_error.h"
#include "libcore/backend/cuda/cuda_event.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/opaque/opaque_graph.h"
#include "libcore/backend/shared_block.h"
#include "libcore/backend/stream_values.h"
#include "libcore/backend/thread_streams.h"
#include "libcore/base/error.h"

namespace core::cuda {
namespace {

constexpr std::uint64_t kPoolStreams = 32;

/// Null on host memory.
CudaBackend* gpu_of(Device device) {
  return dynamic_cast<CudaBackend*>(&backend_for(device));
}

Device checked(Device device) {
  if (!device.is_cuda()) {
    throw Error(ErrorCode::value, "Expected a cuda device, but got: " + device.str());
  }
  return resolve(device);
}

gpu::StreamHandle as_handle(std::uint64_t id) {
  return reinterpret_cast<gpu::StreamHandle>(id);
}

/// The id of a GPU's stream is its address, and 0 that of the default stream.
std::uint64_t id_of(const CudaBackend& backend, gpu::StreamHandle handle) {
  return handle == backend.default_stream() ? 0 : reinterpret_cast<std::uint64_t>(handle);
}

std::uint64_t next_host_stream() {
  static std::atomic<std::uint64_t> made{0};
  return 1 + made.fetch_add(1) % kPoolStreams;
}

}  // namespace

// --- Stream

Stream::Stream(Device device, int priority) : device_(checked(device)), id_(0) {
  CudaBackend* backend = gpu_of(device_);
  id_ = backend != nullptr ? id_of(*backend, backend->pool_stream(priority)) : next_host_stream();
}

Stream Stream::default_of(Device device) {
  return Stream(checked(device), std::uint64_t{0});
}

void* Stream::native() const {
  CudaBackend* backend = gpu_of(device_);
  if (backend == nullptr) return nullptr;
  return id_ == 0 ? backend->default_stream() : as_handle(id_);
}

void Stream::synchronize() const {
  if (CudaBackend* backend = gpu_of(device_)) return backend->synchronize_stream(native());
  OpaqueGraph::check_question(device_, id_);
  OpaqueGraph::check_wait();
  if (!GraphCapture::on(device_)) backend_for(device_).synchronize();
}

bool Stream::query() const {
  CudaBackend* backend = gpu_of(device_);
  if (backend == nullptr) {
    OpaqueGraph::check_question(device_, id_);
    return true;
  }
  backend->check_alive();
  const CudaBackend::Current here(*backend);
  const gpu::RelaxedCapture relaxed(backend->api());
  const int state = backend->api().stream_query(native());
  if (gpu::is_pending(backend->api(), state)) return false;
  backend->check(state);
  return true;
}

void Stream::wait_event(const Event& event) const {
  event.wait(*this);
}

void Stream::wait_stream(const Stream& other) const {
  CudaBackend* here = gpu_of(device_);
  CudaBackend* there = gpu_of(other.device_);
  if (here != nullptr && there != nullptr) return gpu::make_wait(*here, native(), *there, other.native());
  OpaqueGraph::wait(device_, id_, OpaqueGraph::place_on(other.device_, other.id_));
}

Event Stream::record_event() const {
  Event event;
  event.record(*this);
  return event;
}

std::string Stream::repr() const {
  char address[24];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(id_));
  return "<torch.cuda.Stream device=" + device_.str() + " cuda_stream=" + address + ">";
}

// --- Event

struct Event::State {
  Device device;
  std::optional<gpu::ScopedEvent> event;       // on a GPU
  std::chrono::steady_clock::time_point when;  // on host memory
  CapturedPlace place;
};

Event::Event(EventOptions options) : options_(options) {}

void Event::record(std::optional<Stream> given) {
  const Stream stream = given ? *given : current_stream();
  if (state_ == nullptr) {
    auto state = std::make_shared<State>();
    state->device = stream.device();
    if (CudaBackend* backend = gpu_of(stream.device())) {
      const CudaBackend::Current here(*backend);
      state->event.emplace(*backend, options_.enable_timing);
    }
    state_ = std::move(state);
  }
  if (state_->device != stream.device()) {
    throw Error(ErrorCode::runtime, "Event device " + std::to_string(state_->device.index()) +
                                        " does not match recording stream's device " +
                                        std::to_string(stream.device().index()) + ".");
  }
  state_->when = std::chrono::steady_clock::now();
  if (!state_->event) {
    state_->place = OpaqueGraph::place_on(stream.device(), stream.id());
    return;
  }
  const CudaBackend::Current here(*gpu_of(state_->device));
  state_->event->record(stream.native());
}

void Event::wait(std::optional<Stream> given) const {
  if (state_ == nullptr) return;
  const Stream stream = given ? *given : current_stream();
  CudaBackend* backend = gpu_of(stream.device());
  if (backend == nullptr || !state_->event) return OpaqueGraph::wait(stream.device(), stream.id(), state_->place);
  const CudaBackend::Current here(*backend);
  backend->check(backend->api().stream_wait_event(stream.native(), state_->event->handle()));
}

bool Event::query() const {
  if (state_ == nullptr) return true;
  OpaqueGraph::check_question(state_->place);
  if (!state_->event) return true;
  CudaBackend& backend = *gpu_of(state_->device);
  const CudaBackend::Current here(backend);
  const gpu::RelaxedCapture relaxed(backend.api());
  const int status = backend.api().event_query(state_->event->handle());
  if (gpu::is_pending(backend.api(), status)) return false;
  backend.check(status);
  return true;
}

void Event::synchronize() const {
  if (state_ == nullptr) return;
  if (!state_->event) {
    OpaqueGraph::check_question(state_->place);
    return OpaqueGraph::check_wait();
  }
  CudaBackend& backend = *gpu_of(state_->device);
  const CudaBackend::Current here(backend);
  backend.check(backend.api().event_synchronize(state_->event->handle()));
  backend.check_assert_flag();
}

double Event::elapsed_time(const Event& end) const {
  if (!options_.enable_timing || !end.options_.enable_timing) {
    throw Error(ErrorCode::value, "Both events must be created with argument 'enable_timing=True'.");
  }
  if (state_ == nullptr || end.state_ == nullptr) {
    throw Error(ErrorCode::value, "Both events must be recorded before calculating elapsed time.");
  }
  if (!query() || !end.query()) {
    throw Error(ErrorCode::value, "Both events must be completed before calculating elapsed time.");
  }
  if (!state_->event || !end.state_->event) {
    return std::chrono::duration<double, std::milli>(end.state_->when - state_->when).count();
  }
  CudaBackend& backend = *gpu_of(state_->device);
  const CudaBackend::Current here(backend);
  float milliseconds = 0;
  backend.check(backend.api().event_elapsed(&milliseconds, state_->event->handle(), end.state_->event->handle()));
  return milliseconds;
}

// --- The current stream

Stream default_stream(Device device) {
  return Stream::default_of(device);
}

Stream current_stream(Device device) {
  device = checked(device);
  return Stream(device, thread_streams()[static_cast<std::size_t>(device.index())]);
}

void set_stream(const Stream& stream) {
  set_device(stream.device().index());
  thread_streams()[static_cast<std::size_t>(stream.device().index())] = stream.id();
}

void record_stream(Device device, void* data, const Stream& stream) {
  CudaBackend* backend = gpu_of(device);
  CudaBackend* user = gpu_of(stream.device());
  if (backend != nullptr && user != nullptr) backend->record_stream(allocation_of(data), stream.native(), user->gpu());
}

StreamGuard::StreamGuard(const Stream& stream)
    : previous_(current_stream(stream.device())), previous_device_(current_device()) {
  set_stream(stream);
}

StreamGuard::~StreamGuard() {
  set_stream(previous_);
  set_device(previous_device_);
}

}  // namespace core::cuda

namespace core {

cuda::Stream stream_of(Device device, std::uint64_t id) {
  device = resolve(device);
  std::uint64_t& current = thread_streams()[static_cast<std::size_t>(device.index())];
  const std::uint64_t before = std::exchange(current, id);
  const cuda::Stream stream = cuda::current_stream(device);
  current = before;
  return stream;
}

namespace {

void make_current(const cuda::Stream& stream) {
  thread_streams()[static_cast<std::size_t>(stream.device().index())] = stream.id();
}

}  // namespace

CurrentStreams::CurrentStreams(const std::vector<cuda::Stream>& streams) {
  for (const cuda::Stream& stream : streams) before_.push_back(cuda::current_stream(stream.device()));
  for (const cuda::Stream& stream : streams) make_current(stream);
}

CurrentStreams::~CurrentStreams() {
  for (const cuda::Stream& stream : before_) make_current(stream);
}

cuda::Stream copy_stream(Device device) {
  constexpr std::uint64_t kOnHost = cuda::kPoolStreams + 1;  // behind those of the pool
  auto* gpu = dynamic_cast<CudaBackend*>(&backend_for(device));
  return stream_of(device, gpu != nullptr ? reinterpret_cast<std::uint64_t>(gpu->copy_stream()) : kOnHost);
}

}  // namespace core
