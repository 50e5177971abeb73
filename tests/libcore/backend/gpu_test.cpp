// What must hold on a real GPU: the host side of the CUDA backend with the driver, the kernels and cuBLAS behind it.
// Without a device every test skips and says so; with CORE_LOGICAL_DEVICES=2 those that need no GPU run on host memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/cuda_graph.h"
#include "libcore/backend/device_registry.h"
#include "libcore/module/linear.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/index.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/iterate.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/record_stream.h"
#include "tests/support/message_of.h"

namespace {

using core::Device;
using core::DType;
using core::Tensor;
using test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const Device kGpu("cuda:0");

struct Gpu : testing::Test {
  void SetUp() override {
    if (core::cuda::device_count() > 0) return;
    GTEST_SKIP() << "no GPU: " << message_of([] { core::cuda::current_device(); });
  }
};

/// A device of the CUDA runtime, not one in host memory.
struct RealGpu : Gpu {
  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped() || dynamic_cast<core::CudaBackend*>(&core::backend_for(kGpu)) != nullptr) return;
    GTEST_SKIP() << "no GPU: cuda:0 is " << core::cuda::device_name(0);
  }
};

TEST_F(RealGpu, HasNamePlaceAndMemory) {
  const core::DeviceInfo info = core::cuda::device_info(0);
  EXPECT_FALSE(info.name.empty());
  EXPECT_GE(info.major, 7);
  EXPECT_GT(info.multiprocessors, 0);
  EXPECT_THAT(info.uuid, StartsWith("GPU-"));
  EXPECT_EQ(info.pci_bus_id.size(), 16U);
  const auto memory = core::cuda::mem_get_info(kGpu);
  EXPECT_GT(memory.free, 0U);
  EXPECT_LE(memory.free, memory.total);
}

TEST_F(Gpu, TensorsOfEverySizeComeBackAsTheyWent) {
  core::manual_seed(1);
  for (std::int64_t count : {0, 1, 3, 1023, (1 << 20) + 3, 5 << 20}) {
    Tensor x = core::rand({count});
    EXPECT_TRUE(x.to(kGpu).cpu().equal(x)) << count;
  }
}

TEST_F(Gpu, PinnedTensorsComeBackWithoutWaiting) {
  Tensor x = core::pin_memory(core::rand({100000}));
  Tensor there = x.to({.device = kGpu, .non_blocking = true});
  Tensor back = there.to({.device = Device("cpu"), .non_blocking = true});
  core::cuda::synchronize();
  EXPECT_TRUE(back.equal(x));
}

/// The largest difference between a and b, whatever their devices.
double distance(const Tensor& a, const Tensor& b) {
  return core::max(core::abs(a.cpu().to(DType::f64) - b.cpu().to(DType::f64))).item<double>();
}

TEST_F(Gpu, ProductsAreTheCpus) {
  core::manual_seed(2);
  for (auto [m, k, n] : {std::array{1, 1, 1}, {2, 3, 4}, {17, 33, 65}, {128, 256, 64}, {1, 500, 3}}) {
    Tensor a = core::randn({m, k}), b = core::randn({k, n}), bt = core::randn({n, k});
    EXPECT_LT(distance(core::matmul(a.to(kGpu), b.to(kGpu)), core::matmul(a, b)), 1e-3);
    EXPECT_LT(distance(core::matmul(a.to(kGpu), bt.to(kGpu).t()), core::matmul(a, bt.t())), 1e-3);
    Tensor ad = a.to(DType::f64), bd = b.to(DType::f64);
    EXPECT_LT(distance(core::matmul(ad.to(kGpu), bd.to(kGpu)), core::matmul(ad, bd)), 1e-11);
  }
}

TEST_F(Gpu, BatchedProductsAreTheCpus) {
  core::manual_seed(3);
  Tensor a = core::randn({5, 7, 11}), b = core::randn({5, 11, 13});
  EXPECT_LT(distance(core::bmm(a.to(kGpu), b.to(kGpu)), core::bmm(a, b)), 1e-3);
  EXPECT_LT(distance(core::matmul(a.to(kGpu), b.to(kGpu).select(0, 1)), core::matmul(a, b.select(0, 1))), 1e-3);
}

TEST_F(Gpu, NarrowProductsHaveTheirTypesPrecision) {
  core::manual_seed(4);
  Tensor a = core::randn({64, 64}), b = core::randn({64, 64});
  for (auto [dtype, bound] : {std::pair{DType::f16, 0.05}, {DType::bf16, 0.4}}) {
    Tensor product = core::matmul(a.to(kGpu, dtype), b.to(kGpu, dtype));
    EXPECT_EQ(product.dtype(), dtype);
    EXPECT_LT(distance(product, core::matmul(a, b)), bound);
  }
}

TEST_F(Gpu, LinearAddsItsBias) {
  core::manual_seed(5);
  core::Linear layer(33, 20);
  Tensor x = core::randn({9, 33});
  Tensor expected = layer(x);
  layer.to(kGpu);
  EXPECT_LT(distance(layer(x.to(kGpu)), expected), 1e-4);
}

TEST_F(Gpu, ATrainingStepIsTheCpus) {
  core::manual_seed(6);
  Tensor x = core::randn({16, 8}), y = core::randn({16, 1});
  auto step = [&](Device device) {
    core::manual_seed(7);
    core::Linear layer(8, 1);
    layer.to(device);
    core::SGD optimizer(layer.parameters(), {.lr = 0.1});
    Tensor error = layer(x.to(device)) - y.to(device);
    core::mean(error * error).backward();
    optimizer.step();
    return layer.weight.detach().cpu();
  };
  EXPECT_LT(distance(step(kGpu), step(Device("cpu"))), 1e-5);
}

TEST_F(Gpu, MemoryIsCountedAsPyTorchCounts) {
  core::cuda::empty_cache();
  const auto before = core::cuda::memory_allocated(kGpu);
  Tensor x = core::empty({2, 3}, {.device = kGpu});
  EXPECT_EQ(core::cuda::memory_allocated(kGpu) - before, 512U);
  EXPECT_GE(core::cuda::memory_reserved(kGpu), 2097152U);
}

TEST_F(RealGpu, OutOfMemoryIsSaidAndRecoveredFrom) {
  const auto total = static_cast<std::int64_t>(core::cuda::mem_get_info(kGpu).total);
  const core::TensorOptions bytes{.dtype = DType::u8, .device = kGpu};
  Tensor kept = core::ones({1000}, {.device = kGpu});
  EXPECT_THAT(message_of([&] { core::empty({2 * total}, bytes); }),
              StartsWith("CUDA out of memory. Tried to allocate "));
  EXPECT_NO_THROW(core::empty({1 << 20}, bytes));
  EXPECT_EQ(core::sum(kept).item<float>(), 1000);
}

TEST_F(Gpu, StreamsAndEventsOrderWork) {
  core::cuda::Stream first(kGpu), second(kGpu);
  Tensor x = core::zeros({1 << 20}, {.device = kGpu}), y;
  first.wait_stream(core::cuda::current_stream(kGpu));
  {
    core::cuda::StreamGuard guard(first);
    for (int i = 0; i < 50; ++i) x.add_(1);
  }
  second.wait_event(first.record_event());
  {
    core::cuda::StreamGuard guard(second);
    y = x * 2;
    core::record_stream(x, second);
  }
  second.synchronize();
  EXPECT_EQ(core::sum(y == 100).item<std::int64_t>(), 1 << 20);
}

TEST_F(RealGpu, EventsMeasureTheGpusTime) {
  core::cuda::Event start({.enable_timing = true}), end({.enable_timing = true});
  Tensor x = core::zeros({1 << 22}, {.device = kGpu});
  start.record();
  for (int i = 0; i < 20; ++i) x.add_(1);
  end.record();
  end.synchronize();
  EXPECT_GT(start.elapsed_time(end), 0);
}

TEST_F(RealGpu, AGraphComputesWhatWasCaptured) {
  Tensor x = core::ones({1000}, {.device = kGpu}), y;
  y = x * 2;  // everything is set up
  core::cuda::Graph graph;
  graph.capture([&] { y = x * 2 + 1; });
  x.fill_(5);
  graph.replay();
  core::cuda::synchronize();
  EXPECT_EQ(core::sum(y == 11).item<std::int64_t>(), 1000);
}

TEST_F(Gpu, TensorsGoFromDeviceToDevice) {
  if (core::cuda::device_count() < 2) GTEST_SKIP() << "one device only; CORE_LOGICAL_DEVICES=2 makes two of it";
  Tensor x = core::rand({3 << 20});
  Tensor moved = x.to(kGpu).to(Device("cuda:1"));
  EXPECT_EQ(moved.device(), Device("cuda:1"));
  EXPECT_TRUE(moved.cpu().equal(x));
}

// The device is lost by it, so it happens in a process of its own.
TEST_F(RealGpu, AnIndexOutOfRangeIsADeviceSideAssert) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto read_beyond = [] {
    Tensor x = core::zeros({3}, {.device = kGpu});
    Tensor index = core::tensor({std::int64_t{7}}).to(kGpu);
    const std::string text = message_of([&] { (void)core::index_select(x, 0, index).cpu(); });
    const std::string after = message_of([&] { (void)(x + 1); });
    fprintf(stderr, "%s|%s", text.c_str(), after.c_str());
    _exit(0);
  };
  EXPECT_EXIT(read_beyond(), testing::ExitedWithCode(0),
              "CUDA error: device-side assert triggered(.|\n)*[|]CUDA error: device-side assert triggered");
}

}  // namespace
