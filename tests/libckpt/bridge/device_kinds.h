#pragma once
// Devices whose memory the host cannot touch, for tests of what moves data to them: opaque ones, which do everything at
// once, and ones of a simulated driver, whose streams do nothing before somebody waits for it.
// Use: for_each_device_kind([&](const core::Device& device) { ... });

#include <memory>

#include "libcore/backend/cuda/cuda_backend.h"
#include "libcore/backend/cuda/cuda_discovery.h"
#include "libcore/backend/logical_backend.h"
#include "libcore/backend/opaque/opaque_devices.h"
#include "tests/libcore/backend/cuda_fake.h"

namespace test {

/// cuda:0 and cuda:1 of a simulated driver, while it lives.
struct FakeDevices {
  explicit FakeDevices(FakeOptions options = {.devices = 2}) : driver(options) {
    core::set_cuda_backends(core::gpu::discover(driver.api(), core::logical_op_tables(), {}));
  }
  ~FakeDevices() { core::set_cuda_backends({}); }
  FakeDriver driver;
};

/// cuda:0 and cuda:1 that the host cannot touch, while it lives.
struct OpaqueDevices {
  OpaqueDevices() { core::set_opaque_devices(2); }
  ~OpaqueDevices() { core::set_logical_devices(0); }
};

template <class Body>
void for_each_device_kind(Body body) {
  {
    SCOPED_TRACE("opaque devices");
    const OpaqueDevices devices;
    body(core::Device("cuda:0"));
  }
  SCOPED_TRACE("simulated driver");
  const FakeDevices devices;
  body(core::Device("cuda:0"));
}

}  // namespace test
