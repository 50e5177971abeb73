#pragma once
// What the functions of the simulated driver's table (cuda_fake.h) have in common. Thread safety: as FakeDriver.
// Use: api.free = [](void* data) { return FakeCalls::unsafe_call("free", [&](FakeDriver& d) { ... }); };

#include <mutex>

#include "tests/libcore/backend/cuda_fake.h"

namespace test {

/// The functions of the table. Each takes the lock, counts itself and may be made to fail.
struct FakeCalls {
  using Stream = FakeDriver::Stream;
  static FakeDriver* driver;

  /// A call that captures forbid.
  template <class Body>
  static int unsafe_call(const char* name, Body body) {
    return call(name, [&](FakeDriver& d) {
      const int error = d.check_unsafe();
      return error != core::gpu::kSuccess ? error : body(d);
    });
  }
  template <class Body>
  static int call(const char* name, Body body) {
    driver->show(name);
    std::lock_guard lock(driver->mutex_);
    int error = driver->enter(name);
    if (error == core::gpu::kSuccess) error = body(*driver);
    if (error != core::gpu::kSuccess) driver->last_error_ = error;  // kNotReady as well, as the runtime does
    return error;
  }

  static void add_device_calls(core::gpu::CudaApi& api);
  static void add_memory_calls(core::gpu::CudaApi& api);
  static void add_copy_calls(core::gpu::CudaApi& api);
  static void add_stream_calls(core::gpu::CudaApi& api);
  static void add_event_calls(core::gpu::CudaApi& api);
  static void add_graph_calls(core::gpu::CudaApi& api);
};

}  // namespace test
