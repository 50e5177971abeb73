#include "tests/libcore/backend/cuda_fake.h"

#include <cstdlib>
#include <cstring>
#include <utility>

namespace test {

using namespace core::gpu;

namespace {

constexpr int kInvalidHandle = 400;
constexpr int kStreamCaptureUnsupported = 900;

FakeDriver* driver = nullptr;
thread_local int current_device = 0;  // stays what it was when the next driver comes, as a thread's does

}  // namespace

/// The functions of the table. Each takes the lock, counts itself and may be made to fail.
struct FakeCalls {
  using Stream = FakeDriver::Stream;

  template <class Body>
  static int call(const char* name, Body body) {
    std::lock_guard lock(driver->mutex_);
    int error = driver->enter(name);
    if (error == kSuccess) error = body(*driver);
    if (error != kSuccess) driver->last_error_ = error;  // kNotReady as well, as the runtime does
    return error;
  }

  static void add_device_calls(CudaApi& api);
  static void add_memory_calls(CudaApi& api);
  static void add_copy_calls(CudaApi& api);
  static void add_stream_calls(CudaApi& api);
  static void add_event_calls(CudaApi& api);
  static void add_graph_calls(CudaApi& api);
};

FakeDriver::FakeDriver(FakeOptions options) : options_(options) {
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
  if (stream->is_captured) {
    if (work.run) stream->captured.push_back(std::move(work.run));
    return kSuccess;
  }
  stream->queue.push_back(std::move(work));
  if (options_.runs_at_once) run(*stream);
  return kSuccess;
}

void FakeDriver::run(Stream& stream) {
  while (!stream.queue.empty()) {
    Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    if (work.waits_for && !work.waits_for->is_done) run(*work.waits_for->stream);
    const int outer = std::exchange(running_on_, stream.device);
    if (work.run) work.run();
    running_on_ = outer;
    if (work.reached) work.reached->is_done = true;
  }
  dead_ = dead_ != 0 ? dead_ : broken_;
}

void FakeDriver::run_device(int device) {
  run(*defaults_[static_cast<std::size_t>(device)]);
  for (auto& [handle, stream] : streams_) {
    if (stream->device == device) run(*stream);
  }
}

bool FakeDriver::is_capturing() const {
  for (const auto& [handle, stream] : streams_) {
    if (stream->is_captured) return true;
  }
  return false;
}

void FakeDriver::launch(StreamHandle stream, std::function<void()> work) {
  std::lock_guard lock(mutex_);
  if (push(stream, {.run = std::move(work), .reached = {}, .waits_for = {}}) != kSuccess) std::abort();
}

void FakeCalls::add_device_calls(CudaApi& api) {
  api.device_count = [](int* count) {
    return call("device_count", [&](FakeDriver& d) {
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
      *out = {.name = "Simulated GPU " + std::to_string(device),
              .total_memory = d.options_.memory,
              .multiprocessors = 4,
              .major = 9,
              .minor = 0,
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
      if (d.is_capturing()) return kStreamCaptureUnsupported;
      d.run_device(current_device);
      return d.dead_;
    });
  };
  api.collectives = [] { return driver->nccl_; };
  api.last_error = []() {
    std::lock_guard lock(driver->mutex_);
    return driver->dead_ != 0 ? driver->dead_ : std::exchange(driver->last_error_, kSuccess);
  };
  api.error_text = [](int error) {
    return error == kOutOfMemory                ? "out of memory"
           : error == kIllegalAddress           ? "an illegal memory access was encountered"
           : error == kAssert                   ? "device-side assert triggered"
           : error == kInvalidDevice            ? "invalid device ordinal"
           : error == kStreamCaptureUnsupported ? "operation not permitted when stream is capturing"
                                                : "invalid argument";
  };
  api.error_name = [](int error) {
    return error == kIllegalAddress ? "cudaErrorIllegalAddress"
           : error == kAssert       ? "cudaErrorAssert"
                                    : "cudaErrorInvalidValue";
  };
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
    return call("allocate", [&](FakeDriver& d) {
      if (d.taken(current_device) + bytes > d.options_.memory) return kOutOfMemory;
      *data = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
      std::memset(*data, 0xCD, bytes);
      d.blocks_[*data] = {current_device, bytes};
      return kSuccess;
    });
  };
  api.free = [](void* data) {
    return call("free", [&](FakeDriver& d) {
      const auto found = d.blocks_.find(data);
      if (found == d.blocks_.end()) return kInvalidValue;
      d.run_device(found->second.device);  // as the driver does
      std::free(data);
      d.blocks_.erase(found);
      return kSuccess;
    });
  };
  api.allocate_host = [](void** data, std::size_t bytes) {
    return call("allocate_host", [&](FakeDriver& d) {
      *data = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
      d.host_.insert(*data);
      return kSuccess;
    });
  };
  api.free_host = [](void* data) {
    return call("free_host", [&](FakeDriver& d) {
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
  api.enable_peer_access = [](int) { return call("enable_peer_access", [](FakeDriver&) { return kSuccess; }); };
}

void FakeCalls::add_stream_calls(CudaApi& api) {
  api.stream_create = [](StreamHandle* handle, int) {
    return call("stream_create", [&](FakeDriver& d) {
      auto stream = std::make_unique<Stream>();
      stream->device = current_device;
      *handle = stream.get();
      d.streams_[*handle] = std::move(stream);
      return kSuccess;
    });
  };
  api.stream_destroy = [](StreamHandle handle) {
    return call("stream_destroy",
                [&](FakeDriver& d) { return d.streams_.erase(handle) == 1 ? kSuccess : kInvalidHandle; });
  };
  api.stream_synchronize = [](StreamHandle handle) {
    return call("stream_synchronize", [&](FakeDriver& d) {
      Stream* stream = d.stream_of(handle);
      if (stream == nullptr) return kInvalidHandle;
      if (stream->is_captured) return kStreamCaptureUnsupported;
      d.run(*stream);
      return d.dead_;
    });
  };
  api.stream_query = [](StreamHandle handle) {
    return call("stream_query", [&](FakeDriver& d) {
      Stream* stream = d.stream_of(handle);
      if (stream == nullptr) return kInvalidHandle;
      return stream->queue.empty() ? kSuccess : kNotReady;
    });
  };
  api.stream_wait_event = [](StreamHandle handle, EventHandle event) {
    return call("stream_wait_event", [&](FakeDriver& d) {
      const auto found = d.events_.find(event);
      if (found == d.events_.end()) return kInvalidHandle;
      if (found->second->marker == nullptr) return kSuccess;
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
      found->second->marker = std::make_shared<FakeDriver::Marker>();
      found->second->marker->stream = stream;
      return d.push(stream_handle, {.run = {}, .reached = found->second->marker, .waits_for = {}});
    });
  };
  api.event_query = [](EventHandle handle) {
    return call("event_query", [&](FakeDriver& d) {
      if (d.is_capturing()) return kStreamCaptureUnsupported;
      const auto& marker = d.events_.at(handle)->marker;
      return marker == nullptr || marker->is_done ? kSuccess : kNotReady;
    });
  };
  api.event_synchronize = [](EventHandle handle) {
    return call("event_synchronize", [&](FakeDriver& d) {
      const auto marker = d.events_.at(handle)->marker;
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

void FakeCalls::add_graph_calls(CudaApi& api) {
  api.begin_capture = [](StreamHandle handle) {
    return call("begin_capture", [&](FakeDriver& d) {
      if (handle == nullptr) return kStreamCaptureUnsupported;
      d.stream_of(handle)->is_captured = true;
      return kSuccess;
    });
  };
  api.end_capture = [](StreamHandle handle, GraphHandle* graph) {
    return call("end_capture", [&](FakeDriver& d) {
      Stream* stream = d.stream_of(handle);
      auto made = std::make_unique<FakeDriver::Graph>();
      made->work = std::exchange(stream->captured, {});
      stream->is_captured = false;
      *graph = made.get();
      d.graphs_[*graph] = std::move(made);
      return kSuccess;
    });
  };
  api.instantiate = [](GraphExecHandle* exec, GraphHandle graph) {
    return call("instantiate", [&](FakeDriver& d) {
      auto made = std::make_unique<FakeDriver::Graph>(*d.graphs_.at(graph));
      *exec = made.get();
      d.graphs_[*exec] = std::move(made);
      return kSuccess;
    });
  };
  api.launch_graph = [](GraphExecHandle exec, StreamHandle stream) {
    return call("launch_graph", [&](FakeDriver& d) {
      for (const auto& work : d.graphs_.at(exec)->work) {
        if (int error = d.push(stream, {.run = work, .reached = {}, .waits_for = {}}); error != kSuccess) return error;
      }
      return kSuccess;
    });
  };
  api.destroy_graph = [](GraphHandle graph) {
    return call("destroy_graph", [&](FakeDriver& d) { return (d.graphs_.erase(graph), kSuccess); });
  };
  api.destroy_graph_exec = [](GraphExecHandle exec) {
    return call("destroy_graph_exec", [&](FakeDriver& d) { return (d.graphs_.erase(exec), kSuccess); });
  };
  api.exchange_capture_mode = [](int*) { return kSuccess; };
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
