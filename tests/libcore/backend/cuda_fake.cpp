#include "tests/libcore/backend/cuda_fake.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/libcore/backend/cuda_fake_calls.h"

namespace test {

using namespace core::gpu;

namespace {

constexpr int kInvalidHandle = 400;

constexpr int kEccUncorrectable = 214;

struct KnownError {
  int number;
  const char *name, *text;
};
constexpr KnownError kKnownErrors[] = {
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {kOutOfMemory, "cudaErrorMemoryAllocation", "out of memory"},
    {kNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {kInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {kEccUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {kIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {kAssert, "cudaErrorAssert", "device-side assert triggered"},
    {802, "cudaErrorSystemNotReady", "system not yet initialized"},
    {900, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {901, "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
    {902, "cudaErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences"},
    {903, "cudaErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began"},
    {904, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {905, "cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"},
    {907, "cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"},
    {908, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

const KnownError& known_error(int number) {
  for (const KnownError& error : kKnownErrors) {
    if (error.number == number) return error;
  }
  return kKnownErrors[0];
}

FakeDriver*& driver = FakeCalls::driver;
thread_local int current_device = 0;  // stays what it was when the next driver comes, as a thread's does

}  // namespace

FakeDriver* FakeCalls::driver = nullptr;

FakeDriver::FakeDriver(FakeOptions options) : options_(std::move(options)) {
  if (driver != nullptr) std::abort();
  driver = this;
  for (int i = 0; i < options_.devices; ++i) {
    defaults_.push_back(std::make_unique<Stream>());
    defaults_.back()->device = i;
  }
}

FakeDriver::~FakeDriver() {
  for (const auto& [data, block] : blocks_) std::free(data);
  for (void* data : host_) std::free(data);
  driver = nullptr;
}

void FakeDriver::fail(const std::string& call, int error) {
  std::lock_guard lock(mutex_);
  failures_[call] = error;
}

void FakeDriver::watch(const std::string& call, std::function<void()> look) {
  std::lock_guard lock(mutex_);
  watchers_[call] = std::move(look);
}

void FakeDriver::show(const char* call) {
  std::function<void()> look;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = watchers_.find(call); found != watchers_.end()) look = found->second;
  }
  if (look) look();
}

int FakeDriver::current_gpu() {
  return current_device;
}

int FakeDriver::calls(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto found = calls_.find(name);
  return found == calls_.end() ? 0 : found->second;
}

std::uint64_t FakeDriver::taken(int device) const {
  std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [data, block] : blocks_) bytes += block.device == device ? block.bytes : 0;
  return bytes;
}

int FakeDriver::enter(const char* call) {
  ++calls_[call];
  if (dead_ != 0) return dead_;
  if (options_.count_error != kSuccess && std::string(call) != "driver_version") return options_.count_error;
  const auto found = failures_.find(call);
  return found == failures_.end() ? kSuccess : found->second;
}

FakeDriver::Stream* FakeDriver::stream_of(StreamHandle handle) {
  if (handle == nullptr) return defaults_[static_cast<std::size_t>(current_device)].get();
  const auto found = streams_.find(handle);
  return found == streams_.end() || found->second->device != current_device ? nullptr : found->second.get();
}

int FakeDriver::push(StreamHandle handle, Work work) {
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->capture != nullptr) return keep(*stream, std::move(work));
  stream->queue.push_back(std::move(work));
  if (options_.runs_at_once) advance(*stream);
  return kSuccess;
}

bool FakeDriver::step(Stream& stream) {
  const Work& next = stream.queue.front();
  if (next.waits_for && !reach(*next.waits_for)) return false;
  if (next.is_over && !next.is_over()) return false;
  Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  const int outer = std::exchange(running_on_, stream.device);
  if (work.run) work.run();
  running_on_ = outer;
  if (work.reached) work.reached->is_done = true;
  return true;
}

bool FakeDriver::reach(const Marker& marker) {
  while (!marker.is_done) {
    if (!step(*marker.stream)) return false;
  }
  return true;
}

bool FakeDriver::advance(Stream& stream, std::size_t most) {
  bool goes_on = true;
  for (; goes_on && !stream.queue.empty() && most > 0; --most) goes_on = step(stream);
  dead_ = dead_ != 0 ? dead_ : broken_;
  return goes_on;
}

void FakeDriver::run(Stream& stream) {
  while (!advance(stream)) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void FakeDriver::run_device(int device) {
  run(*defaults_[static_cast<std::size_t>(device)]);
  for (auto& [handle, stream] : streams_) {
    if (stream->device == device) run(*stream);
  }
}

void FakeDriver::launch(StreamHandle stream, std::function<void()> work) {
  std::lock_guard lock(mutex_);
  if (push(stream, {.run = std::move(work), .reached = {}, .waits_for = {}}) != kSuccess) std::abort();
}

void FakeDriver::launch_until(StreamHandle handle, std::function<bool()> is_over) {
  std::lock_guard lock(mutex_);
  Stream& stream = *streams_.at(handle);
  stream.queue.push_back({.run = {}, .reached = {}, .waits_for = {}, .is_over = std::move(is_over)});
  if (options_.runs_at_once) advance(stream);
}

void FakeDriver::run_first(StreamHandle stream, std::size_t count) {
  std::lock_guard lock(mutex_);
  advance(*stream_of(stream), count);
}

void FakeCalls::add_device_calls(CudaApi& api) {
  api.device_count = [](int* count) {
    return call("device_count", [&](FakeDriver& d) {
      if (d.options_.count_error != kSuccess) return d.options_.count_error;
      *count = d.options_.devices;
      if (d.options_.driver_version == 0) return kInsufficientDriver;
      return *count == 0 ? kNoDevice : kSuccess;
    });
  };
  api.driver_version = [](int* version) {
    return call("driver_version", [&](FakeDriver& d) { return (*version = d.options_.driver_version, kSuccess); });
  };
  api.properties = [](int device, DeviceProperties* out) {
    return call("properties", [&](FakeDriver& d) {
      if (d.options_.unreadable.contains(device)) return kEccUncorrectable;
      *out = {.name = "Simulated GPU " + std::to_string(device),
              .total_memory = d.options_.memory,
              .multiprocessors = 4,
              .major = d.options_.major,
              .minor = d.options_.minor,
              .pci_domain = 0,
              .pci_bus = 0x1A + device,
              .pci_device = 0,
              .uuid = {0x5a, 0x10}};
      return kSuccess;
    });
  };
  api.set_device = [](int device) {
    return call("set_device", [&](FakeDriver& d) {
      if (device < 0 || device >= d.options_.devices) return kInvalidDevice;
      current_device = device;
      return kSuccess;
    });
  };
  api.device_synchronize = []() {
    return call("device_synchronize", [](FakeDriver& d) {
      if (int error = d.check_device(current_device); error != kSuccess) return error;
      d.run_device(current_device);
      return d.dead_;
    });
  };
  api.collectives = [] { return driver->nccl_; };
  api.last_error = []() {
    std::lock_guard lock(driver->mutex_);
    return driver->dead_ != 0 ? driver->dead_ : std::exchange(driver->last_error_, kSuccess);
  };
  api.error_text = [](int error) { return known_error(error).text; };
  api.error_name = [](int error) { return known_error(error).name; };
}

void FakeCalls::add_memory_calls(CudaApi& api) {
  api.memory_info = [](std::size_t* free, std::size_t* total) {
    return call("memory_info", [&](FakeDriver& d) {
      *total = d.options_.memory;
      *free = d.options_.memory - d.taken(current_device);
      return kSuccess;
    });
  };
  api.memory_users = [](int device) {
    return std::vector<core::detail::MemoryOfProcess>{{.process = 4711, .bytes = std::uint64_t{3} << 29},
                                                      {.bytes = driver->taken(device)}};
  };
  api.allocate = [](void** data, std::size_t bytes) {
    return unsafe_call("allocate", [&](FakeDriver& d) {
      if (d.taken(current_device) + bytes > d.options_.memory) return kOutOfMemory;
      *data = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
      std::memset(*data, 0xCD, bytes);
      d.blocks_[*data] = {current_device, bytes};
      return kSuccess;
    });
  };
  api.free = [](void* data) {
    return unsafe_call("free", [&](FakeDriver& d) {
      const auto found = d.blocks_.find(data);
      if (found == d.blocks_.end()) return kInvalidValue;
      d.run_device(found->second.device);  // as the driver does
      std::free(data);
      d.blocks_.erase(found);
      return kSuccess;
    });
  };
  api.allocate_host = [](void** data, std::size_t bytes) {
    return unsafe_call("allocate_host", [&](FakeDriver& d) {
      *data = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
      d.host_.insert(*data);
      return kSuccess;
    });
  };
  api.free_host = [](void* data) {
    return unsafe_call("free_host", [&](FakeDriver& d) {
      if (d.host_.erase(data) == 0) return kInvalidValue;
      std::free(data);
      return kSuccess;
    });
  };
}

void FakeCalls::add_copy_calls(CudaApi& api) {
  api.copy = [](void* to, const void* from, std::size_t bytes, StreamHandle stream) {
    return call("copy", [&](FakeDriver& d) {
      return d.push(stream, {.run = [=] { std::memcpy(to, from, bytes); }, .reached = {}, .waits_for = {}});
    });
  };
  api.copy_peer = [](void* to, int, const void* from, int, std::size_t bytes, StreamHandle stream) {
    return call("copy_peer", [&](FakeDriver& d) {
      return d.push(stream, {.run = [=] { std::memcpy(to, from, bytes); }, .reached = {}, .waits_for = {}});
    });
  };
  api.fill = [](void* to, int byte, std::size_t bytes, StreamHandle stream) {
    return call("fill", [&](FakeDriver& d) {
      return d.push(stream, {.run = [=] { std::memset(to, byte, bytes); }, .reached = {}, .waits_for = {}});
    });
  };
  api.can_access_peer = [](int* yes, int, int) {
    return call("can_access_peer", [&](FakeDriver& d) { return (*yes = d.options_.peers ? 1 : 0, kSuccess); });
  };
  api.enable_peer_access = [](int) { return unsafe_call("enable_peer_access", [](FakeDriver&) { return kSuccess; }); };
}

void FakeCalls::add_stream_calls(CudaApi& api) {
  api.stream_create = [](StreamHandle* handle, int) {
    return unsafe_call("stream_create", [&](FakeDriver& d) {
      auto stream = std::make_unique<Stream>();
      stream->device = current_device;
      *handle = stream.get();
      d.streams_[*handle] = std::move(stream);
      return kSuccess;
    });
  };
  api.stream_destroy = [](StreamHandle handle) {
    return unsafe_call("stream_destroy",
                       [&](FakeDriver& d) { return d.streams_.erase(handle) == 1 ? kSuccess : kInvalidHandle; });
  };
  api.stream_synchronize = [](StreamHandle handle) {
    return unsafe_call("stream_synchronize", [&](FakeDriver& d) {
      Stream* stream = d.stream_of(handle);
      if (stream == nullptr) return kInvalidHandle;
      if (int error = d.check_stream(*stream); error != kSuccess) return error;
      d.run(*stream);
      return d.dead_;
    });
  };
  api.stream_query = [](StreamHandle handle) {
    return unsafe_call("stream_query", [&](FakeDriver& d) {
      Stream* stream = d.stream_of(handle);
      if (stream == nullptr) return kInvalidHandle;
      if (int error = d.check_stream(*stream); error != kSuccess) return error;
      return stream->queue.empty() ? kSuccess : kNotReady;
    });
  };
  api.stream_wait_event = [](StreamHandle handle, EventHandle event) {
    return call("stream_wait_event", [&](FakeDriver& d) {
      const auto found = d.events_.find(event);
      if (found == d.events_.end()) return kInvalidHandle;
      Stream* stream = d.stream_of(handle);
      if (stream == nullptr) return kInvalidHandle;
      const FakeDriver::Event& waited = *found->second;
      if (handle == nullptr && waited.capture != 0) {  // the legacy stream cannot be captured
        d.check_event(waited);
        return kStreamCaptureUnsupported;
      }
      if (stream->capture != nullptr || waited.capture != 0) return d.join(*stream, waited);
      if (waited.marker == nullptr) return kSuccess;
      return d.push(handle, {.run = {}, .reached = {}, .waits_for = found->second->marker});
    });
  };
}

void FakeCalls::add_event_calls(CudaApi& api) {
  api.event_create = [](EventHandle* handle, bool timed) {
    return call("event_create", [&](FakeDriver& d) {
      auto event = std::make_unique<FakeDriver::Event>();
      event->device = current_device;
      event->timed = timed;
      *handle = event.get();
      d.events_[*handle] = std::move(event);
      return kSuccess;
    });
  };
  api.event_destroy = [](EventHandle handle) {
    return call("event_destroy",
                [&](FakeDriver& d) { return d.events_.erase(handle) == 1 ? kSuccess : kInvalidHandle; });
  };
  api.event_record = [](EventHandle handle, StreamHandle stream_handle) {
    return call("event_record", [&](FakeDriver& d) {
      Stream* stream = d.stream_of(stream_handle);
      const auto found = d.events_.find(handle);
      if (stream == nullptr || found == d.events_.end() || found->second->device != current_device) {
        return kInvalidHandle;
      }
      return d.record(*found->second, *stream);
    });
  };
  api.event_query = [](EventHandle handle) {
    return unsafe_call("event_query", [&](FakeDriver& d) {
      const FakeDriver::Event& event = *d.events_.at(handle);
      if (int error = d.check_event(event); error != kSuccess) return error;
      const auto marker = event.marker;
      const bool goes_on = d.options_.runs_at_once || d.options_.runs_when_asked;
      if (goes_on && marker != nullptr) d.reach(*marker);
      return marker == nullptr || marker->is_done ? kSuccess : kNotReady;
    });
  };
  api.event_synchronize = [](EventHandle handle) {
    return unsafe_call("event_synchronize", [&](FakeDriver& d) {
      const FakeDriver::Event& event = *d.events_.at(handle);
      if (int error = d.check_event(event); error != kSuccess) return error;
      const auto marker = event.marker;
      if (marker != nullptr && !marker->is_done) d.run(*marker->stream);
      return d.dead_;
    });
  };
  api.event_elapsed = [](float* milliseconds, EventHandle start, EventHandle end) {
    return call("event_elapsed", [&](FakeDriver& d) {
      if (!d.events_.at(start)->timed || !d.events_.at(end)->timed) return kInvalidHandle;
      *milliseconds = 1.5F;
      return kSuccess;
    });
  };
}

const CudaApi& FakeDriver::api() const {
  static const CudaApi api = [] {
    CudaApi made{};
    FakeCalls::add_device_calls(made);
    FakeCalls::add_memory_calls(made);
    FakeCalls::add_copy_calls(made);
    FakeCalls::add_stream_calls(made);
    FakeCalls::add_event_calls(made);
    FakeCalls::add_graph_calls(made);
    return made;
  }();
  return api;
}

}  // namespace test
