#include "libcore/backend/cuda/cuda_device.h"

#include <utility>

#include "libcore/backend/cuda/capture_mode.h"
#include "libcore/backend/cuda/cuda_error.h"
#include "libcore/backend/graph_capture.h"
#include "libcore/backend/thread_streams.h"
#include "libcore/base/error.h"

namespace core {
namespace {

using gpu::StreamHandle;

constexpr std::size_t kPoolStreams = 32;

/// What this thread has made current.
struct ThreadState {
  const CudaBackend* active = nullptr;
  const gpu::CudaApi* api = nullptr;  // the GPU is current for
  int gpu = -1;
};
thread_local constinit ThreadState thread_state{};

std::uint64_t& current_stream_on(const DeviceInfo& info) {
  return thread_streams()[static_cast<std::size_t>(info.device.index())];
}

}  // namespace

CudaBackend::CudaBackend(const Options& options)
    : Backend(options.info.device, options.ops),
      api_(options.api),
      gpu_(options.gpu),
      shares_gpu_(options.shares_gpu),
      info_(options.info),
      events_(options.events),
      allocator_(options.api, {options.info.device, options.gpu, options.info.total_memory}, options.events),
      pinned_(options.pinned) {
  host_memory_ = false;
  counts_launches_ = true;
}

void CudaBackend::prepare() const {
  if (is_ready_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(prepare_mutex_);
  if (is_ready_.load(std::memory_order_relaxed)) return;
  const gpu::RelaxedCapture relaxed(api_);  // of another device's graph
  check(api_.set_device(gpu_));
  thread_state.gpu = gpu_;
  thread_state.api = &api_;
  if (shares_gpu_ && default_stream_ == nullptr) check(api_.stream_create(&default_stream_, 0));
  void* flag = nullptr;
  check(api_.allocate_host(&flag, sizeof *assert_flag_));
  assert_flag_ = static_cast<int*>(flag);
  *assert_flag_ = 0;
  is_ready_.store(true, std::memory_order_release);
}

/// Of a dead device every call fails, which is as good as done.
CudaBackend::~CudaBackend() {
  if (!is_ready_) return;
  const CudaBackend* other = thread_state.active == this ? nullptr : thread_state.active;
  api_.set_device(gpu_);
  api_.device_synchronize();
  allocator_.release_cached();
  for (auto& pool : pool_) {
    for (StreamHandle stream : pool) api_.stream_destroy(stream);
  }
  if (copy_stream_ != nullptr) api_.stream_destroy(copy_stream_);
  if (default_stream_ != nullptr) api_.stream_destroy(default_stream_);
  api_.free_host(assert_flag_);
  thread_state.active = other;
  thread_state.gpu = -1;  // asked for again
  current_stream_on(info_) = 0;
}

// --- The current device

void CudaBackend::make_current() const {
  prepare();
  if (thread_state.gpu == gpu_ && thread_state.api == &api_) return;
  check(api_.set_device(gpu_));
  thread_state.gpu = gpu_;
  thread_state.api = &api_;
}

CudaBackend::Current::Current(const CudaBackend& backend) : previous_(thread_state.active) {
  backend.make_current();
  thread_state.active = &backend;
}

CudaBackend::Current::~Current() {
  thread_state.active = previous_;
  if (previous_ == nullptr || thread_state.gpu == previous_->gpu_) return;
  if (previous_->api_.set_device(previous_->gpu_) == gpu::kSuccess) thread_state.gpu = previous_->gpu_;
}

CudaBackend& CudaBackend::active() {
  if (thread_state.active == nullptr) throw Error(ErrorCode::internal, "a CUDA kernel was started outside of a device");
  return const_cast<CudaBackend&>(*thread_state.active);
}

void CudaBackend::on_launch() {
  check_alive();
  make_current();
  thread_state.active = this;
}

// --- Errors

void CudaBackend::check(int error) const {
  if (error != gpu::kSuccess) fail(error);
}

void CudaBackend::fail(int error) const {
  if (gpu::is_sticky(error)) dead_.store(error, std::memory_order_relaxed);
  gpu::throw_cuda_error(api_, error);
}

void CudaBackend::check_alive() const {
  if (const int error = dead_.load(std::memory_order_relaxed); error != gpu::kSuccess) fail(error);
}

int* CudaBackend::assert_flag() const {
  prepare();
  return assert_flag_;
}

void CudaBackend::check_assert_flag() const {
  if (*static_cast<volatile int*>(assert_flag()) != 0) fail(gpu::kAssert);
}

// --- Memory

void* CudaBackend::allocate(std::size_t bytes) {
  check_alive();
  const Current here(*this);
  return allocator_.allocate(bytes, current_stream());
}

/// Events for what other streams still do with the memory belong to this device, which need not be the thread's.
void CudaBackend::free(void* data, std::size_t /*bytes*/) noexcept {
  const int previous = thread_state.gpu;
  if (previous != gpu_) api_.set_device(gpu_);
  allocator_.free(data);
  if (previous != gpu_ && previous >= 0) api_.set_device(previous);
}

std::uint64_t CudaBackend::free_memory() {
  check_alive();
  const Current here(*this);
  std::size_t free = 0, total = 0;
  check(api_.memory_info(&free, &total));
  return allocator_.free_of(free);
}

DeviceInfo CudaBackend::info() const {
  DeviceInfo info = info_;
  info.total_memory = allocator_.capacity();
  return info;
}

void CudaBackend::empty_cache() {
  check_alive();
  const Current here(*this);
  allocator_.release_cached();
  pinned_->release_cached();
  events_->release_cached();
}

void* CudaBackend::allocate_pinned(std::size_t bytes) {
  check_alive();
  const Current here(*this);
  int error = gpu::kSuccess;
  void* data = pinned_->allocate(bytes, error);
  check(error);
  return data;
}

void CudaBackend::free_pinned(void* data, std::size_t /*bytes*/) noexcept {
  pinned_->free(data);
}

// --- Copies

/// In the order of the current stream.
void CudaBackend::copy(void* to, const void* from, std::size_t bytes) {
  check_alive();
  const Current here(*this);
  if (bytes != 0) check(api_.copy(to, from, bytes, current_stream()));
}

void CudaBackend::copy_from_host(void* to, const void* from, std::size_t bytes) {
  check_copy_in_capture(device());
  copy(to, from, bytes);
  synchronize_stream(current_stream());
}

void CudaBackend::copy_to_host(void* to, const void* from, std::size_t bytes) {
  copy_from_host(to, from, bytes);
}

void CudaBackend::copy_within(void* to, const void* from, std::size_t bytes) {
  copy(to, from, bytes);
}

void CudaBackend::copy_from_host_async(void* to, const void* from, std::size_t bytes) {
  if (!pinned_->contains(from, bytes)) return copy_from_host(to, from, bytes);
  copy(to, from, bytes);
  record_pinned(from);
}

void CudaBackend::copy_to_host_async(void* to, const void* from, std::size_t bytes) {
  if (!pinned_->contains(to, bytes)) return copy_to_host(to, from, bytes);
  copy(to, from, bytes);
  record_pinned(to);
}

/// What a graph copies from or to is the caller's to keep: an event of a capture says nothing of replays.
void CudaBackend::record_pinned(const void* data) {
  if (GraphCapture::of(device()) != nullptr) return;
  const Current here(*this);
  check(pinned_->record(data, gpu_, current_stream()));
}

void CudaBackend::fill_zero(void* to, std::size_t bytes) {
  check_alive();
  const Current here(*this);
  if (bytes != 0) check(api_.fill(to, 0, bytes, current_stream()));
}

/// The driver would refuse it too, but the capture that it comes across, whoever's, would be lost.
void CudaBackend::synchronize() {
  check_alive();
  const bool meets_capture = shares_gpu_ ? GraphCapture::any() : GraphCapture::on(device());
  if (meets_capture) check(gpu::kStreamCaptureUnsupported);
  const Current here(*this);
  check(api_.device_synchronize());
  check_assert_flag();
}

// --- Streams

StreamHandle CudaBackend::default_stream() const {
  if (shares_gpu_) prepare();
  return default_stream_;
}

StreamHandle CudaBackend::current_stream() const {
  const std::uint64_t id = current_stream_on(info_);
  return id != 0 ? reinterpret_cast<StreamHandle>(id) : default_stream();
}

StreamHandle CudaBackend::pool_stream(int priority) {
  check_alive();
  const Current here(*this);
  std::lock_guard lock(mutex_);
  const std::size_t which = priority < 0 ? 1 : 0;
  std::vector<StreamHandle>& pool = pool_[which];
  if (pool.size() < kPoolStreams) {
    StreamHandle stream = nullptr;
    const gpu::RelaxedCapture relaxed(api_);
    check(api_.stream_create(&stream, priority < 0 ? -1 : 0));
    pool.push_back(stream);
    return stream;
  }
  return pool[next_of_pool_[which]++ % kPoolStreams];
}

StreamHandle CudaBackend::copy_stream() {
  check_alive();
  const Current here(*this);
  std::lock_guard lock(mutex_);
  if (copy_stream_ != nullptr) return copy_stream_;
  const gpu::RelaxedCapture relaxed(api_);
  check(api_.stream_create(&copy_stream_, 0));
  return copy_stream_;
}

void CudaBackend::synchronize_stream(StreamHandle stream) {
  check_alive();
  const Current here(*this);
  check(api_.stream_synchronize(stream));
  check_assert_flag();
}

}  // namespace core
