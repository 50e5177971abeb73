// Tensors on simulated GPUs: what the layers above do to a device, and that its counts are those of logical devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "libcore/backend/cuda/cuda_backend.h"
#include "libcore/backend/cuda/cuda_discovery.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/logical_backend.h"
#include "libcore/data/pin_memory.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/record_stream.h"
#include "tests/libcore/backend/cuda_fake.h"

namespace {

using core::Device;
using core::Tensor;
using testing::ElementsAre;

struct CudaTensors : testing::Test {
  void start(test::FakeOptions options) {
    driver = std::make_unique<test::FakeDriver>(options);
    core::set_cuda_backends(core::gpu::discover(driver->api(), core::logical_op_tables(), {}));
  }
  ~CudaTensors() override { core::set_cuda_backends({}); }
  std::unique_ptr<test::FakeDriver> driver;
};

TEST_F(CudaTensors, GoToADeviceAndBack) {
  start({});
  Tensor x = core::tensor({1.0, 2.0, 3.0}).to(Device("cuda:0"));
  EXPECT_EQ(x.device(), Device("cuda:0"));
  EXPECT_THAT(x.cpu().to_vector<float>(), ElementsAre(1, 2, 3));
}

TEST_F(CudaTensors, GoFromDeviceToDeviceWithoutTheHost) {
  start({.devices = 2});
  Tensor x = core::tensor({1.0, 2.0}).to(Device("cuda:0"));
  Tensor y = x.to(Device("cuda:1"));
  EXPECT_EQ(driver->calls("copy_peer"), 1);
  EXPECT_THAT(y.cpu().to_vector<float>(), ElementsAre(1, 2));
}

TEST_F(CudaTensors, PinnedOnesGoWithoutWaiting) {
  start({});
  Tensor pinned = core::pin_memory(core::tensor({1.0, 2.0}));
  const int before = driver->calls("stream_synchronize");
  Tensor x = pinned.to({.device = Device("cuda:0"), .non_blocking = true});
  EXPECT_EQ(driver->calls("stream_synchronize"), before);
  Tensor back = x.to({.device = Device("cpu"), .non_blocking = true});
  EXPECT_EQ(driver->calls("stream_synchronize"), before);
  EXPECT_TRUE(core::is_pinned(back));
  core::cuda::synchronize();
  EXPECT_THAT(back.to_vector<float>(), ElementsAre(1, 2));
}

TEST_F(CudaTensors, OrdinaryOnesAreWaitedForWhateverIsSaid) {
  start({});
  Tensor x = core::tensor({1.0, 2.0}).to({.device = Device("cuda:0"), .non_blocking = true});
  EXPECT_THAT(x.to({.device = Device("cpu"), .dtype = core::DType::f64, .non_blocking = true}).to_vector<double>(),
              ElementsAre(1, 2));
}

TEST_F(CudaTensors, OutOfMemoryIsRecoveredFrom) {
  start({.memory = 64 << 20});
  Tensor x = core::empty({10 << 20}, {.device = "cuda:0"});
  EXPECT_THROW(core::empty({10 << 20}, {.device = "cuda:0"}), core::OutOfMemoryError);
  x = Tensor();
  EXPECT_NO_THROW(core::empty({12 << 20}, {.device = "cuda:0"}));
}

TEST_F(CudaTensors, OneThatAnotherStreamUsesKeepsItsMemory) {
  start({});
  Tensor x = core::empty({1000}, {.device = "cuda:0"});
  const void* data = x.raw_data();
  const core::cuda::Stream side;
  core::record_stream(x, side);
  side.record_event();  // work that is not done yet
  x = Tensor();
  EXPECT_NE(core::empty({1000}, {.device = "cuda:0"}).raw_data(), data);
  side.synchronize();
  EXPECT_EQ(core::empty({1000}, {.device = "cuda:0"}).raw_data(), data);
}

std::map<std::string, std::int64_t> counts_of_a_program() {
  const core::TensorOptions there{.device = Device("cuda:0")};
  {
    Tensor a = core::empty({100}, there), b = core::empty({3 << 20}, there), c = core::empty({600000}, there);
    a = Tensor();
    Tensor d = core::empty({7}, there);
    b = Tensor();
    Tensor e = core::empty({2 << 20}, there);
  }
  Tensor left = core::empty({1000}, there);
  core::cuda::reset_peak_memory_stats();
  core::cuda::empty_cache();
  return core::cuda::memory_stats(Device("cuda:0"));
}

TEST_F(CudaTensors, AreCountedAsOnLogicalDevices) {
  core::set_logical_devices(1);
  const auto logical = counts_of_a_program();
  core::set_logical_devices(0);
  start({});
  EXPECT_EQ(counts_of_a_program(), logical);
}

}  // namespace
