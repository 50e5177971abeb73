// Graphs on a real GPU: whole training steps, and what other threads do while one is captured. Simulated:
// optim/graphed_step_test.cpp and cuda_capture_test.cpp.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/device_registry.h"
#include "libcore/data/pin_memory.h"
#include "libcore/ops/loss.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/graphed_step.h"
#include "libcore/tensor/pinned.h"
#include "tests/libcore/optim/image_net.h"

namespace {

using core::Device;
using core::Tensor;

const Device kGpu("cuda:0");

struct GpuGraph : testing::Test {
  void SetUp() override {
    const bool is_there = core::cuda::device_count() > 0;
    if (is_there && dynamic_cast<core::CudaBackend*>(&core::backend_for(kGpu)) != nullptr) return;
    GTEST_SKIP() << "no GPU";
  }
};

/// The losses of ten steps whose learning rate changes each time; `runs`: how often the host ran a step.
std::vector<double> losses(bool graphed, int& runs) {
  core::manual_seed(0);
  test::ImageNet net;
  net.to(kGpu);
  core::AdamW optimizer(net.parameters(), {.lr = 0.01, .capturable = true});
  const core::GraphedStep::Work work = [&](const std::vector<Tensor>& in) {
    ++runs;
    optimizer.zero_grad();
    Tensor loss = core::cross_entropy(net(in[0]), in[1]);
    loss.backward();
    optimizer.step();
    return loss;
  };
  core::GraphedStep step(work, {.device = kGpu, .optimizers = {&optimizer}});
  std::vector<double> all;
  for (int i = 0; i < 10; ++i) {
    optimizer.param_groups()[0].set_lr(0.02 / (i + 1));
    const Tensor x = core::randn({4, 1, 8, 8}).to(kGpu), y = core::randint(3, {4}).to(kGpu);
    all.push_back((graphed ? step({x, y}) : work({x, y})).item<double>());
  }
  return all;
}

TEST_F(GpuGraph, AGraphedStepTrainsAsPlainStepsDo) {
  int graphed_runs = 0, plain_runs = 0;
  const std::vector<double> graphed = losses(true, graphed_runs), plain = losses(false, plain_runs);
  ASSERT_EQ(graphed.size(), plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(graphed[i], plain[i], 1e-5) << i;
  EXPECT_EQ(graphed_runs, 4);  // three to warm up, and the one that is recorded
  EXPECT_EQ(plain_runs, 10);
}

TEST_F(GpuGraph, ACaptureStandsWhatOtherThreadsDo) {
  Tensor x = core::ones({1000}, {.device = kGpu}), y;
  core::cuda::Graph graph(kGpu);
  graph.capture([&] {
    y = x * 2;
    std::thread([&] {
      const core::cuda::StreamGuard guard{core::cuda::Stream(kGpu)};
      for (int i = 0; i < 20; ++i) {
        const Tensor pinned = core::pin_memory(core::ones({1 << 20}));
        const Tensor there = pinned.to({.device = kGpu, .non_blocking = true});
        EXPECT_EQ(there.cpu().sum().item<float>(), 1 << 20);
      }
    }).join();
    y = y + 1;
  });
  x.fill_(5);
  graph.replay();
  EXPECT_EQ(core::sum(y == 11).item<std::int64_t>(), 1000);
}

TEST_F(GpuGraph, ACaptureSpreadsToStreamsAndComesBack) {
  core::cuda::Stream side(kGpu);
  Tensor x = core::ones({1000}, {.device = kGpu}), y;
  core::cuda::Graph graph(kGpu);
  graph.capture([&] {
    const core::cuda::Stream first = core::cuda::current_stream(kGpu);
    side.wait_stream(first);
    {
      const core::cuda::StreamGuard guard(side);
      y = x * 3 + 1;
    }
    first.wait_stream(side);
    y = y * 2;
  });
  {
    const core::cuda::StreamGuard guard(side);
    for (int i = 0; i < 20; ++i) core::zeros({1000}, {.device = kGpu});  // nothing of the graph's memory
  }
  core::cuda::synchronize();
  x.fill_(5);
  graph.replay();
  EXPECT_EQ(core::sum(y == 32).item<std::int64_t>(), 1000);
}

TEST_F(GpuGraph, AForgottenGraphGivesItsMemoryBack) {
  core::cuda::empty_cache();
  const auto before = core::cuda::memory_reserved(kGpu);
  {
    core::cuda::Graph graph(kGpu);
    for (int i = 0; i < 5; ++i) graph.capture([] { core::ones({30 << 20}, {.device = kGpu}) * 2; });
    EXPECT_LE(core::cuda::memory_reserved(kGpu), before + (std::uint64_t{256} << 20));
  }
  EXPECT_LE(core::cuda::memory_reserved(kGpu), before);
}

}  // namespace
