#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "libcore/backend/collectives.h"
#include "libcore/backend/device_registry.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "tests/support/message_of.h"

namespace {

using core::Device;
using core::Tensor;
using test::message_of;

struct LogicalDevices : testing::Test {
  LogicalDevices() { core::set_logical_devices(2); }
  ~LogicalDevices() override { core::set_logical_devices(0); }
};

TEST(Devices, NoneWithoutGpuOrRequest) {
  core::set_logical_devices(0);
  EXPECT_FALSE(core::cuda::is_available());
  const std::string text = message_of([] { core::ones({2}, {.device = "cuda"}); });
  if (!core::cuda::is_built()) {
    EXPECT_EQ(text, "Torch not compiled with CUDA enabled");
  } else {  // as PyTorch of a build with CUDA: without a driver, and with one
    EXPECT_THAT(text, testing::AnyOf("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU "
                                     "and installed a driver from http://www.nvidia.com/Download/index.aspx",
                                     "No CUDA GPUs are available"));
  }
}

TEST_F(LogicalDevices, AreCudaWithAnIndex) {
  EXPECT_EQ(core::cuda::device_count(), 2);
  EXPECT_EQ(core::ones({2}, {.device = "cuda"}).device().str(), "cuda:0");
  core::cuda::DeviceGuard guard(Device("cuda:1"));
  EXPECT_EQ(core::ones({2}, {.device = "cuda"}).device().str(), "cuda:1");
  EXPECT_TRUE(core::cuda::device_info(1).is_logical);
}

TEST_F(LogicalDevices, OrdinalOutOfRange) {
  EXPECT_EQ(message_of([] { core::ones({2}, {.device = "cuda:2"}); }), "CUDA error: invalid device ordinal");
}

TEST_F(LogicalDevices, MovesKeepValuesAndIdentity) {
  Tensor x = core::tensor({1.0, 2.0, 3.0});
  Tensor moved = x.to(Device("cuda:1"));
  EXPECT_TRUE(moved.to(Device("cuda:1")).is_same(moved));
  EXPECT_NE(moved.raw_data(), x.raw_data());
  EXPECT_EQ(moved.cpu().to_vector<float>(), (std::vector<float>{1, 2, 3}));
}

TEST_F(LogicalDevices, MixedDevicesAreRefused) {
  Tensor a = core::ones({2}, {.device = "cuda:0"});
  EXPECT_EQ(message_of([&] { a + core::ones({2}); }),
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!");
}

TEST_F(LogicalDevices, ZeroDimensionalCpuTensorsMix) {
  Tensor sum = core::tensor(1.5) + core::ones({2}, {.device = "cuda:1"});
  EXPECT_EQ(sum.device().str(), "cuda:1");
  EXPECT_EQ(sum.to_vector<float>(), (std::vector<float>{2.5, 2.5}));
}

TEST_F(LogicalDevices, InjectedFaultsHitTheirCall) {
  core::inject_faults(Device("cuda:0"), {.fail_allocation = 1});
  Tensor first = core::empty({4}, {.device = "cuda:0"});
  EXPECT_THROW(core::empty({4}, {.device = "cuda:0"}), core::Error);
  core::inject_faults(Device("cuda:0"), {.fail_launch = 0});
  EXPECT_EQ(message_of([&] { first + 1; }), "CUDA error: unspecified launch failure");
  core::inject_faults(Device("cuda:0"), {});
  EXPECT_NO_THROW(first + 1);
}

TEST(MetaDevice, HasShapesButNoData) {
  Tensor x = core::ones({2, 3}, {.device = "meta"});
  EXPECT_EQ(x.sizes(), (core::Shape{2, 3}));
  EXPECT_EQ(message_of([&] { x.cpu(); }), "Cannot copy out of meta tensor; no data!");
  EXPECT_EQ(message_of([&] { x + core::ones({2, 3}); }), "Tensor on device cpu is not on the expected device meta!");
}

TEST(Slots, NullSlotNamesOperationDeviceAndDtype) {
  EXPECT_EQ(message_of([] { core::exp(core::ones({2}, {.device = "meta"})); }),
            "exp: not supported on meta for float32");
  EXPECT_EQ(message_of([] { core::abs(core::ones({2}, {.dtype = core::DType::boolean})); }),
            "\"abs_cpu\" not implemented for 'Bool'");
}

}  // namespace
