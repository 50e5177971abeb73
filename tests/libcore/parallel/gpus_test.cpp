// DataParallel, core::comm and backward on several simulated GPUs: with NCCL, without it, without access between the
// devices, and where several logical devices share a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/collectives.h"
#include "libcore/backend/cuda/cuda_backend.h"
#include "libcore/backend/cuda/cuda_discovery.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/logical_backend.h"
#include "libcore/backend/streams.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/module/linear.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/parallel/comm.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "tests/libcore/backend/nccl_fake.h"
#include "tests/support/message_of.h"

namespace {

using core::Device;
using core::Tensor;
using test::message_of;
using testing::StartsWith;

struct MachineOptions {
  int gpus = 3;
  int logical = 0;
  bool peers = true;
  bool runs_at_once = true;  // the CPU's kernels do not wait for copies
};

/// A machine whose devices are those of the process; the CPU's kernels compute on them.
struct Machine {
  explicit Machine(const MachineOptions& o = {})
      : driver({.devices = o.gpus, .peers = o.peers, .runs_at_once = o.runs_at_once}), nccl(driver) {
    core::set_cuda_backends(
        core::gpu::discover(driver.api(), core::logical_op_tables(), {.logical_devices = o.logical}));
    core::nccl::set_enabled(true);
  }
  ~Machine() { core::set_cuda_backends({}); }
  void use_nccl() { driver.set_nccl(&nccl.nccl()); }
  test::FakeDriver driver;
  test::FakeNccl nccl;
};

Tensor on(const char* device, std::vector<float> values) {
  return core::from_values(values).to(Device(device));
}

std::vector<float> values(const Tensor& tensor) {
  return tensor.cpu().to_vector<float>();
}

// --- NCCL

TEST(Nccl, BroadcastsToDevices) {
  Machine machine;
  machine.use_nccl();
  const auto copies = core::comm::broadcast(on("cuda:0", {1, 2, 3}), {0, 1, 2});
  for (const Tensor& copy : copies) EXPECT_EQ(values(copy), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(copies[2].device(), Device("cuda:2"));
  EXPECT_EQ(machine.nccl.broadcasts, 1);
  EXPECT_EQ(machine.driver.calls("copy_peer"), 0);
}

TEST(Nccl, PacksSmallTensors) {
  Machine machine;
  machine.use_nccl();
  const auto copies = core::comm::broadcast_coalesced({on("cuda:0", {1, 2}), on("cuda:0", {3})}, {0, 1, 2});
  EXPECT_EQ(values(copies[1][0]), (std::vector<float>{1, 2}));
  EXPECT_EQ(values(copies[2][1]), (std::vector<float>{3}));
  EXPECT_EQ(machine.nccl.broadcasts, 1);
}

TEST(Nccl, SumsOnOneDevice) {
  Machine machine;
  machine.use_nccl();
  const std::vector<Tensor> addends{on("cuda:0", {1, 2}), on("cuda:1", {10, 20}), on("cuda:2", {100, 200})};
  const Tensor sum = core::comm::reduce_add(addends, 1);
  EXPECT_EQ(sum.device(), Device("cuda:1"));
  EXPECT_EQ(values(sum), (std::vector<float>{111, 222}));
  EXPECT_EQ(values(addends[1]), (std::vector<float>{10, 20}));
  EXPECT_EQ(machine.nccl.sums, 1);
}

TEST(Nccl, KeepsItsCommunicators) {
  Machine machine;
  machine.use_nccl();
  for (int i = 0; i < 3; ++i) core::comm::broadcast(on("cuda:0", {1}), {0, 1});
  core::comm::broadcast(on("cuda:0", {1}), {0, 2});
  EXPECT_EQ(machine.nccl.made, 2);
  EXPECT_EQ(machine.nccl.communicators, 4);
}

TEST(Nccl, CanBeSwitchedOff) {
  Machine machine;
  machine.use_nccl();
  core::nccl::set_enabled(false);
  const auto copies = core::comm::broadcast(on("cuda:0", {1, 2}), {0, 1});
  EXPECT_EQ(values(copies[1]), (std::vector<float>{1, 2}));
  EXPECT_EQ(machine.nccl.broadcasts, 0);
}

TEST(Nccl, IsForDifferentGpusAlone) {
  Machine machine({.gpus = 2, .logical = 4});
  machine.use_nccl();
  EXPECT_TRUE(core::nccl::is_available({Device("cuda:0"), Device("cuda:1")}));
  EXPECT_FALSE(core::nccl::is_available({Device("cuda:0"), Device("cuda:2")}));
  EXPECT_FALSE(core::nccl::is_available({Device("cuda:0")}));
  const auto copies = core::comm::broadcast(on("cuda:0", {5}), {0, 1, 2, 3});
  EXPECT_EQ(values(copies[3]), (std::vector<float>{5}));
  EXPECT_EQ(machine.nccl.broadcasts, 0);
}

TEST(Nccl, SaysItsVersion) {
  EXPECT_EQ(core::nccl::version(), "");
  Machine machine;
  EXPECT_EQ(core::nccl::version(), "");
  machine.use_nccl();
  EXPECT_EQ(core::nccl::version(), "2.28.9");
}

TEST(Nccl, IsDoneWithoutWhereItCannotConnect) {
  Machine machine;
  machine.use_nccl();
  machine.nccl.failure = 1;
  std::vector<std::string> warnings;
  const auto previous = core::set_warning_handler([&](const std::string& text) { warnings.push_back(text); });
  const auto copies = core::comm::broadcast(on("cuda:0", {1, 2}), {0, 1});
  core::comm::broadcast(on("cuda:0", {1, 2}), {0, 1});
  core::set_warning_handler(previous);
  EXPECT_EQ(values(copies[1]), (std::vector<float>{1, 2}));
  EXPECT_THAT(warnings, testing::ElementsAre("NCCL cannot connect the devices, which exchange data by plain copies "
                                             "instead: unhandled cuda error"));
}

TEST(Nccl, SaysWhatItFailedWith) {
  Machine machine;
  machine.use_nccl();
  core::comm::broadcast(on("cuda:0", {1}), {0, 1});
  machine.nccl.failure = 1;
  EXPECT_EQ(message_of([] { core::comm::broadcast(on("cuda:0", {1}), {0, 1}); }), "NCCL Error 1: unhandled cuda error");
}

TEST(Nccl, RunsInTheOrderOfStreams) {
  Machine machine({.runs_at_once = false});
  machine.use_nccl();
  const Tensor x = core::from_values(std::vector<float>{1, 2, 3}).to(Device("cuda:0"));
  const auto copies = core::comm::broadcast(x, {0, 1});
  core::cuda::default_stream("cuda:1").synchronize();
  EXPECT_EQ(values(copies[1]), (std::vector<float>{1, 2, 3}));
}

// --- Replicas

struct TwoLayers : core::ModuleOf<TwoLayers> {
  core::Linear first{3, 4};
  core::Linear second{4, 2};
  std::function<void()> between = [] {};
  void members(core::Members& m) override {
    m.child("first", first);
    m.child("second", second);
  }
  Tensor forward(const Tensor& x) {
    const Tensor hidden = core::relu(first(x));
    between();
    return second(hidden);
  }
};

struct Result {
  Tensor output, gradient;
};

Result train_step(bool parallel) {
  core::manual_seed(0);
  TwoLayers net;
  const Tensor x = core::randn({6, 3});
  Tensor output;
  if (parallel) {
    net.to(Device("cuda:0"));
    core::DataParallel wrapped(net);
    output = wrapped(x);
  } else {
    output = net(x);
  }
  (output * output).sum().backward();
  return {output.detach().cpu(), net.first.weight.grad().cpu()};
}

void expect_same_step() {
  const Result found = train_step(true), wanted = train_step(false);
  EXPECT_TRUE(core::allclose(found.output, wanted.output));
  EXPECT_TRUE(core::allclose(found.gradient, wanted.gradient));
}

TEST(DataParallelOnGpus, ComputesAsTheModule) {
  Machine machine;
  expect_same_step();
}

TEST(DataParallelOnGpus, ComputesByNccl) {
  Machine machine;
  machine.use_nccl();
  expect_same_step();
  EXPECT_EQ(machine.nccl.broadcasts, 1);
}

TEST(DataParallelOnGpus, ComputesWithoutAccessBetweenThem) {
  Machine machine({.peers = false});
  machine.driver.fail("copy_peer", core::gpu::kInvalidValue);
  expect_same_step();
}

TEST(DataParallelOnGpus, ComputesOnLogicalDevicesOfOneGpu) {
  Machine machine({.gpus = 1, .logical = 3});
  expect_same_step();
}

TEST(DataParallelOnGpus, ComputesOnLogicalDevicesOfSeveralGpus) {
  Machine machine({.gpus = 2, .logical = 4});
  machine.use_nccl();
  expect_same_step();
}

TEST(DataParallelOnGpus, WaitsForAParameterWhenItIsUsed) {
  Machine machine({.gpus = 2, .runs_at_once = false});
  const std::vector<Tensor> tensors{on("cuda:0", {1, 2}), on("cuda:0", {3})};
  const auto copies = core::detail::broadcast_aside(tensors, {Device("cuda:0"), Device("cuda:1")});
  const int before = machine.driver.calls("stream_wait_event");
  const Tensor second = copies[1][1];
  EXPECT_EQ(machine.driver.calls("stream_wait_event"), before);
  second.raw_data();
  EXPECT_EQ(machine.driver.calls("stream_wait_event"), before + 1);
  copies[1][0].raw_data();  // packed with the other
  EXPECT_EQ(machine.driver.calls("stream_wait_event"), before + 1);
  core::cuda::default_stream("cuda:1").synchronize();
  EXPECT_EQ(values(second), (std::vector<float>{3}));
}

TEST(DataParallelOnGpus, FreesAnUnusedCopyAfterItArrived) {
  Machine machine({.gpus = 2, .runs_at_once = false});
  const int before = [&] {
    const auto copies = core::detail::broadcast_aside({on("cuda:0", {1, 2})}, {Device("cuda:0"), Device("cuda:1")});
    return machine.driver.calls("stream_wait_event");
  }();
  EXPECT_EQ(machine.driver.calls("stream_wait_event"), before + 1);
}

TEST(DataParallelOnGpus, SourcesMayBeWrittenToAtOnce) {
  Machine machine({.gpus = 2, .runs_at_once = false});
  const Tensor x = on("cuda:0", {1, 2});
  core::cuda::synchronize(Device("cuda:0"));
  const auto copies = core::detail::broadcast_aside({x}, {Device("cuda:0"), Device("cuda:1")});
  core::cuda::default_stream("cuda:0").synchronize();  // the packing, not the copy
  x.zero_();
  core::cuda::default_stream("cuda:0").synchronize();
  copies[1][0].raw_data();
  core::cuda::default_stream("cuda:1").synchronize();
  EXPECT_EQ(values(copies[1][0]), (std::vector<float>{1, 2}));
}

// --- Streams of backward

/// Notes the stream that backward runs on.
struct NoteStream : core::Node {
  std::vector<core::cuda::Stream>* seen = nullptr;
  std::string_view name() const override { return "NoteStream"; }
  core::TensorList apply(core::TensorList grads) override {
    seen->push_back(core::cuda::current_stream(grads[0].device()));
    return grads;
  }
};

Tensor noted(const Tensor& x, std::vector<core::cuda::Stream>& seen) {
  Tensor out = x.detach().clone();
  auto node = core::make_node<NoteStream>(x);
  node->seen = &seen;
  core::record(out, node);
  return out;
}

TEST(BackwardOnStreams, RunsWhereForwardRan) {
  Machine machine;
  std::vector<core::cuda::Stream> seen;
  const Tensor x = on("cuda:0", {1, 2}).requires_grad_();
  const core::cuda::Stream side(Device("cuda:0"));
  Tensor y;
  {
    const core::cuda::StreamGuard guard(side);
    y = noted(x, seen);
  }
  noted(y, seen).sum().backward();
  EXPECT_THAT(seen, testing::ElementsAre(core::cuda::default_stream("cuda:0"), side));
  EXPECT_EQ(values(x.grad()), (std::vector<float>{1, 1}));
}

TEST(BackwardOnStreams, WaitsBetweenStreamsAndAtTheEnd) {
  Machine machine;
  std::vector<core::cuda::Stream> seen;
  const Tensor x = on("cuda:0", {1, 2}).requires_grad_();
  const core::cuda::Stream side(Device("cuda:0"));
  Tensor y;
  {
    const core::cuda::StreamGuard guard(side);
    y = noted(x, seen);
  }
  const Tensor z = noted(y, seen).sum();
  const int before = machine.driver.calls("stream_wait_event");
  z.backward();
  EXPECT_EQ(machine.driver.calls("stream_wait_event"), before + 3);  // into the side stream, to the leaf, at the end
  EXPECT_EQ(core::cuda::current_stream("cuda:0"), core::cuda::default_stream("cuda:0"));
}

TEST(BackwardOnStreams, WaitsForNothingOnOneStream) {
  Machine machine;
  const Tensor x = on("cuda:0", {1, 2}).requires_grad_();
  const core::cuda::Stream side(Device("cuda:0"));
  const core::cuda::StreamGuard guard(side);
  const Tensor z = (x * 2).sum();
  const int before = machine.driver.calls("stream_wait_event");
  z.backward();
  EXPECT_EQ(machine.driver.calls("stream_wait_event"), before);
}

}  // namespace
