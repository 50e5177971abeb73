// core::cuda's streams, events and graphs on a simulated driver, and on devices in host memory.
#include "libcore/backend/streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "libcore/backend/cuda/cuda_backend.h"
#include "libcore/backend/cuda/cuda_discovery.h"
#include "libcore/backend/cuda_graph.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/device_workers.h"
#include "libcore/backend/logical_backend.h"
#include "libcore/base/error.h"
#include "tests/libcore/backend/cuda_fake.h"
#include "tests/support/message_of.h"

namespace {

using core::Device;
using core::cuda::Event;
using core::cuda::Stream;
using core::cuda::StreamGuard;
using test::message_of;
using testing::StartsWith;

/// Two simulated GPUs are the process's devices.
struct Gpus : testing::Test {
  Gpus() : driver({.devices = 2}) {
    core::set_cuda_backends(core::gpu::discover(driver.api(), core::logical_op_tables(), {}));
  }
  ~Gpus() override { core::set_cuda_backends({}); }
  core::CudaBackend& gpu(int i) {
    return dynamic_cast<core::CudaBackend&>(core::backend_for(Device(core::DeviceType::cuda, i)));
  }
  void launch(const Stream& stream, std::function<void()> work) {
    core::CudaBackend::Current here(gpu(stream.device().index()));
    driver.launch(stream.native(), std::move(work));
  }
  test::FakeDriver driver;
};

TEST_F(Gpus, TheDefaultStreamIsCurrent) {
  EXPECT_EQ(core::cuda::current_stream(), core::cuda::default_stream());
  EXPECT_EQ(core::cuda::current_stream(Device("cuda:1")).device(), Device("cuda:1"));
  EXPECT_EQ(core::cuda::default_stream().id(), 0U);
  EXPECT_EQ(core::cuda::default_stream().repr(), "<torch.cuda.Stream device=cuda:0 cuda_stream=0x0>");
}

TEST_F(Gpus, AGuardMakesAStreamAndItsDeviceCurrent) {
  Stream side(Device("cuda:1"));
  {
    StreamGuard guard(side);
    EXPECT_EQ(core::cuda::current_device(), 1);
    EXPECT_EQ(core::cuda::current_stream(), side);
    EXPECT_EQ(gpu(1).current_stream(), side.native());
    EXPECT_EQ(gpu(0).current_stream(), nullptr);
  }
  EXPECT_EQ(core::cuda::current_device(), 0);
  EXPECT_EQ(core::cuda::current_stream(Device("cuda:1")).id(), 0U);
}

TEST_F(Gpus, TheCurrentStreamIsAThreadsOwn) {
  Stream side(Device("cuda:0"));
  StreamGuard guard(side);
  std::uint64_t other = 1;
  std::thread([&] { other = core::cuda::current_stream().id(); }).join();
  EXPECT_EQ(other, 0U);
}

TEST_F(Gpus, WorkersTakeTheCallersStreamsOver) {
  Stream side(Device("cuda:1"));
  StreamGuard guard(side);
  std::vector<std::uint64_t> seen(3);
  core::run_on_workers(
      3, [&](int slot) { seen[static_cast<std::size_t>(slot)] = core::cuda::current_stream(Device("cuda:1")).id(); });
  EXPECT_THAT(seen, testing::Each(side.id()));
}

TEST_F(Gpus, StreamsComeFromAPoolOf32) {
  Stream first;
  for (int i = 0; i < 31; ++i) Stream(Device("cuda:0"));
  EXPECT_EQ(Stream(), first);
  EXPECT_EQ(driver.calls("stream_create"), 32);
}

TEST_F(Gpus, WorkGoesToTheCurrentStream) {
  void* data = gpu(0).allocate(64);
  Stream side;
  {
    StreamGuard guard(side);
    gpu(0).fill_zero(data, 64);
  }
  EXPECT_TRUE(core::cuda::default_stream().query());
  EXPECT_FALSE(side.query());
  EXPECT_EQ(driver.api().last_error(), core::gpu::kSuccess);  // which a launch would be taken to have
  side.synchronize();
  EXPECT_TRUE(side.query());
  gpu(0).free(data, 64);
}

TEST_F(Gpus, AStreamWaitsForAnEventOfAnother) {
  Stream first, second;
  std::string order;
  launch(first, [&] { order += "first "; });
  Event event = first.record_event();
  second.wait_event(event);
  launch(second, [&] { order += "second "; });
  second.synchronize();
  EXPECT_EQ(order, "first second ");
}

TEST_F(Gpus, AStreamWaitsForAStreamOfAnotherDevice) {
  Stream first(Device("cuda:0")), second(Device("cuda:1"));
  std::string order;
  launch(first, [&] { order += "first "; });
  second.wait_stream(first);
  launch(second, [&] { order += "second "; });
  second.synchronize();
  EXPECT_EQ(order, "first second ");
}

TEST_F(Gpus, AnEventIsDoneWhenWhatWasBeforeItIs) {
  Event event;
  EXPECT_TRUE(event.query());  // never recorded
  launch(core::cuda::default_stream(), [] {});
  event.record();
  EXPECT_FALSE(event.query());
  EXPECT_EQ(driver.api().last_error(), core::gpu::kSuccess);
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST_F(Gpus, EventsMeasureTime) {
  Event start({.enable_timing = true}), end({.enable_timing = true}), plain;
  EXPECT_EQ(message_of([&] { start.elapsed_time(plain); }),
            "Both events must be created with argument 'enable_timing=True'.");
  EXPECT_EQ(message_of([&] { start.elapsed_time(end); }),
            "Both events must be recorded before calculating elapsed time.");
  start.record();
  end.record();
  EXPECT_EQ(message_of([&] { start.elapsed_time(end); }),
            "Both events must be completed before calculating elapsed time.");
  end.synchronize();
  EXPECT_EQ(start.elapsed_time(end), 1.5);
}

TEST_F(Gpus, AnEventStaysOnItsDevice) {
  Event event;
  event.record(core::cuda::default_stream(Device("cuda:0")));
  EXPECT_EQ(message_of([&] { event.record(core::cuda::default_stream(Device("cuda:1"))); }),
            "Event device 0 does not match recording stream's device 1.");
}

TEST_F(Gpus, AKernelsErrorComesFromItsStream) {
  Stream side;
  launch(side, [] {});
  driver.break_device(core::gpu::kIllegalAddress);
  EXPECT_THAT(message_of([&] { side.synchronize(); }), StartsWith("CUDA error: an illegal memory access"));
}

TEST_F(Gpus, AStreamOfTheCpuIsRefused) {
  EXPECT_EQ(message_of([] { core::cuda::current_stream(Device("cpu")); }), "Expected a cuda device, but got: cpu");
}

TEST_F(Gpus, PlainQuestionsGoToTheDriver) {
  EXPECT_EQ(core::cuda::device_count(), 2);
  EXPECT_EQ(core::cuda::device_name(1), "Simulated GPU 1");
  EXPECT_TRUE(core::cuda::can_device_access_peer(0, 1));
  void* data = gpu(0).allocate(64);
  const auto memory = core::cuda::mem_get_info(Device("cuda:0"));
  EXPECT_EQ(memory.total, 1U << 30);
  EXPECT_EQ(memory.total - memory.free, 2U << 20);
  gpu(0).free(data, 64);
  core::cuda::empty_cache();
  EXPECT_EQ(driver.taken(0), 0U);
}

// --- Graphs

TEST_F(Gpus, AGraphComputesWhenItIsReplayed) {
  void* data = gpu(0).allocate(sizeof(int));
  auto* value = static_cast<int*>(data);
  *value = 1;
  core::cuda::Graph graph;
  graph.capture([&] { launch(core::cuda::current_stream(), [=] { *value *= 2; }); });
  core::cuda::synchronize();
  EXPECT_EQ(*value, 1);
  graph.replay();
  graph.replay();
  core::cuda::synchronize();
  EXPECT_EQ(*value, 4);
  gpu(0).free(data, sizeof(int));
}

TEST_F(Gpus, AGraphsMemoryIsItsOwnUntilItGoes) {
  {
    core::cuda::Graph graph;
    void* data = nullptr;
    graph.capture([&] {
      data = gpu(0).allocate(64);
      gpu(0).free(data, 64);
    });
    void* other = gpu(0).allocate(64);
    EXPECT_NE(other, data);
    gpu(0).free(other, 64);
    core::cuda::empty_cache();
    EXPECT_EQ(driver.taken(0), 2U << 20);
  }
  core::cuda::empty_cache();
  EXPECT_EQ(driver.taken(0), 0U);
}

TEST_F(Gpus, AnErrorWhileCapturingLeavesTheGraphEmpty) {
  core::cuda::Graph graph;
  EXPECT_THAT(message_of([&] { graph.capture([] { core::cuda::synchronize(); }); }),
              StartsWith("CUDA error: operation not permitted when stream is capturing"));
  EXPECT_FALSE(graph.is_captured());
  EXPECT_EQ(message_of([&] { graph.replay(); }), "Called CUDAGraph::replay without a preceding successful capture.");
  EXPECT_NO_THROW(core::cuda::synchronize());
}

TEST_F(Gpus, ACaptureRefusesPageableMemory) {
  void* data = gpu(0).allocate(sizeof(int));
  const int value = 1;
  core::cuda::Graph graph;
  EXPECT_THAT(message_of([&] { graph.capture([&] { gpu(0).copy_from_host_async(data, &value, sizeof value); }); }),
              StartsWith("Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is "
                         "pinned."));
  gpu(0).free(data, sizeof(int));
}

TEST_F(Gpus, ACaptureTakesCopiesOfPinnedMemory) {
  void* data = gpu(0).allocate(sizeof(int));
  auto* pinned = static_cast<int*>(gpu(0).allocate_pinned(sizeof(int)));
  core::cuda::Graph graph;
  graph.capture([&] { gpu(0).copy_from_host_async(data, pinned, sizeof(int)); });
  *pinned = 7;
  graph.replay();
  int back = 0;
  gpu(0).copy_to_host(&back, data, sizeof back);
  EXPECT_EQ(back, 7);
  gpu(0).free_pinned(pinned, sizeof(int));
  gpu(0).free(data, sizeof(int));
}

TEST_F(Gpus, ACaptureIsKnownOnItsStreamAlone) {
  core::cuda::Graph graph;
  EXPECT_FALSE(core::cuda::is_current_stream_capturing());
  graph.capture([] {
    EXPECT_TRUE(core::cuda::is_current_stream_capturing());
    EXPECT_FALSE(core::cuda::is_current_stream_capturing(Device("cuda:1")));
    const StreamGuard guard(core::cuda::default_stream());
    EXPECT_FALSE(core::cuda::is_current_stream_capturing());
  });
  EXPECT_FALSE(core::cuda::is_current_stream_capturing());
}

TEST_F(Gpus, OneGraphIsCapturedAtATime) {
  core::cuda::Graph first, second;
  EXPECT_THAT(message_of([&] { first.capture([&] { second.capture([] {}); }); }),
              testing::AnyOf(StartsWith("CUDA error: operation not permitted when stream is capturing"),
                             StartsWith("cuda:0: a graph is being captured already")));
  EXPECT_FALSE(first.is_captured());
  EXPECT_NO_THROW(first.capture([] {}));
}

// --- Devices in host memory

struct HostDevices : testing::Test {
  HostDevices() { core::set_logical_devices(2); }
  ~HostDevices() override { core::set_logical_devices(0); }
};

TEST_F(HostDevices, StreamsAreCurrentAndAlwaysDone) {
  Stream side(Device("cuda:1"));
  EXPECT_NE(side.id(), 0U);
  EXPECT_EQ(side.native(), nullptr);
  {
    StreamGuard guard(side);
    EXPECT_EQ(core::cuda::current_stream(), side);
  }
  EXPECT_EQ(core::cuda::current_stream(Device("cuda:1")).id(), 0U);
  side.wait_stream(core::cuda::default_stream());
  side.synchronize();
  EXPECT_TRUE(side.query());
}

TEST_F(HostDevices, EventsMeasureTheHostsTime) {
  Event start({.enable_timing = true}), end({.enable_timing = true});
  start.record();
  end.record();
  end.wait();
  end.synchronize();
  EXPECT_TRUE(end.query());
  EXPECT_GE(start.elapsed_time(end), 0.0);
}

TEST_F(HostDevices, HaveNoGraphs) {
  EXPECT_EQ(message_of([] { core::cuda::Graph graph; }),
            "cuda:0: graphs are captured on GPUs, and this device is host memory");
}

}  // namespace
