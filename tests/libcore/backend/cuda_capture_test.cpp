// Captures of graphs on a simulated driver that enforces the driver's rules: what other threads do meanwhile, streams
// that a capture spreads to, and the memory of graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "libcore/backend/cuda/cuda_backend.h"
#include "libcore/backend/cuda/cuda_discovery.h"
#include "libcore/backend/cuda/free_mutex.h"
#include "libcore/backend/cuda/nccl.h"
#include "libcore/backend/cuda_graph.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/graph_capture.h"
#include "libcore/backend/logical_backend.h"
#include "libcore/backend/op_tables.h"
#include "libcore/base/error.h"
#include "tests/libcore/backend/cuda_fake.h"
#include "tests/support/message_of.h"

namespace {

using core::Device;
using core::cuda::Event;
using core::cuda::Graph;
using core::cuda::Stream;
using core::cuda::StreamGuard;
using core::gpu::CaptureMode;
using test::message_of;
using testing::StartsWith;

constexpr std::uint64_t kMiB = 1 << 20;

struct Captures : testing::Test {
  Captures() : driver({.devices = 2}) {
    core::set_cuda_backends(core::gpu::discover(driver.api(), core::logical_op_tables(), {}));
    gpu(0).synchronize();  // what a device has for itself is there
    gpu(1).synchronize();
  }
  ~Captures() override { core::set_cuda_backends({}); }
  core::CudaBackend& gpu(int i) {
    return dynamic_cast<core::CudaBackend&>(core::backend_for(Device(core::DeviceType::cuda, i)));
  }
  void launch(const Stream& stream, std::function<void()> work) {
    core::CudaBackend::Current here(gpu(stream.device().index()));
    driver.launch(stream.native(), std::move(work));
  }
  /// A free block that the default stream of a device still copies from.
  void* busy_pinned(std::size_t bytes) {
    void* target = gpu(0).allocate(bytes);
    void* data = gpu(0).allocate_pinned(bytes);
    gpu(0).copy_from_host_async(target, data, bytes);
    gpu(0).free_pinned(data, bytes);
    gpu(0).free(target, bytes);
    return data;
  }
  test::FakeDriver driver;
};

/// Runs `work` on a thread of its own, to its end.
void elsewhere(const std::function<void()>& work) {
  std::thread(work).join();
}

// --- Other threads

TEST_F(Captures, AThreadThatPinsMeanwhileNeitherFailsNorBreaksThem) {
  Graph graph;
  graph.capture([&] {
    elsewhere([&] {
      void* busy = busy_pinned(4096);
      void* data = gpu(0).allocate_pinned(4096);  // asks whether the busy block is done
      EXPECT_NE(data, busy);
      gpu(0).free_pinned(data, 4096);
      gpu(1).free_pinned(gpu(1).allocate_pinned(1 << 20), 1 << 20);
    });
  });
  EXPECT_TRUE(graph.is_captured());
}

TEST_F(Captures, AThreadThatCopiesAndAsksForItsEventNeitherFailsNorBreaksThem) {
  Stream side;
  void* data = gpu(0).allocate(64);
  Graph graph;
  graph.capture([&] {
    elsewhere([&] {
      const StreamGuard guard(side);
      int back = 0;
      gpu(0).copy_to_host(&back, data, sizeof back);
      launch(side, [] {});
      Event event;
      event.record();
      EXPECT_FALSE(event.query());
      event.synchronize();
      EXPECT_TRUE(event.query());
      gpu(0).free(gpu(0).allocate(8 * kMiB), 8 * kMiB);
      core::cuda::Stream(Device("cuda:0"));
    });
  });
  EXPECT_TRUE(graph.is_captured());
  gpu(0).free(data, 64);
}

// The driver loses a capture to anybody's wait for the whole device, so it is not asked.
TEST_F(Captures, AThreadThatWaitsForTheDeviceIsRefusedAndTheyStand) {
  const int before = driver.calls("device_synchronize");
  Graph graph;
  std::string refused;
  graph.capture([&] {
    elsewhere([&] {
      refused = message_of([&] { gpu(0).synchronize(); });
      gpu(1).synchronize();  // nothing is captured there
    });
  });
  EXPECT_THAT(refused, StartsWith("CUDA error: operation not permitted when stream is capturing"));
  EXPECT_EQ(driver.calls("device_synchronize"), before + 2);  // cuda:1, and before the capture
  EXPECT_TRUE(graph.is_captured());
}

TEST_F(Captures, TheThreadItselfMayPinAskAndTakeStreams) {
  busy_pinned(4096);
  Event earlier;
  launch(core::cuda::default_stream(), [] {});
  earlier.record();
  Graph graph;
  graph.capture([&] {
    gpu(0).free_pinned(gpu(0).allocate_pinned(4096), 4096);
    EXPECT_TRUE(earlier.query());
    EXPECT_TRUE(core::cuda::default_stream().query());
    core::cuda::Stream(Device("cuda:0"));
    core::cuda::Stream(Device("cuda:1"));
    gpu(0).free(gpu(0).allocate(64 * kMiB), 64 * kMiB);
    EXPECT_TRUE(gpu(1).can_access(gpu(0)));
  });
  EXPECT_TRUE(graph.is_captured());
}

TEST_F(Captures, AreKnownBeforeTheyBeginAndAfterTheyEnd) {
  bool at_begin = false, at_end = false;
  driver.watch("begin_capture", [&] { at_begin = core::GraphCapture::any(); });
  driver.watch("end_capture", [&] { at_end = core::GraphCapture::any(); });
  Graph graph;
  graph.capture([] {});
  EXPECT_TRUE(at_begin);
  EXPECT_TRUE(at_end);
  EXPECT_FALSE(core::GraphCapture::any());
  driver.fail("begin_capture", core::gpu::kInvalidValue);
  EXPECT_THROW(graph.capture([] {}), core::Error);
  driver.fail("begin_capture", core::gpu::kSuccess);
  EXPECT_FALSE(core::GraphCapture::any());
  driver.fail("end_capture", core::gpu::kInvalidValue);
  EXPECT_THROW(graph.capture([] {}), core::Error);
  EXPECT_FALSE(core::GraphCapture::any());
}

// An event that is recorded on the captured stream would be part of the graph, and to ask for it an error.
TEST_F(Captures, MemoryFreedMeanwhileOnAnotherDeviceAsksNothingOfTheirStreams) {
  void* data = gpu(1).allocate(64);
  Stream side(Device("cuda:0"));
  gpu(1).record_stream(data, side.native(), 0);
  Graph graph;
  graph.capture(side, [&] {
    elsewhere([&] { gpu(1).free(data, 64); });
    EXPECT_EQ(driver.calls("event_record"), 0);
  });
  void* next = gpu(1).allocate(64);
  EXPECT_EQ(driver.calls("event_record"), 1);
  EXPECT_NE(next, data);
  side.synchronize();
  void* again = gpu(1).allocate(64);
  EXPECT_EQ(again, data);
  gpu(1).free(next, 64);
  gpu(1).free(again, 64);
}

// --- Streams that a capture spreads to

TEST_F(Captures, SpreadToStreamsThatWaitForThem) {
  int value = 1;
  Stream side;
  Graph graph;
  graph.capture([&] {
    const Stream first = core::cuda::current_stream();
    launch(first, [&] { value += 2; });
    side.wait_stream(first);
    {
      const StreamGuard guard(side);
      EXPECT_TRUE(core::cuda::is_current_stream_capturing());  // so random numbers go on from replay to replay
      launch(side, [&] { value *= 10; });
    }
    first.wait_stream(side);
  });
  EXPECT_EQ(value, 1);
  graph.replay();
  core::cuda::synchronize();
  EXPECT_EQ(value, 30);
}

// Else the next tensor of that stream lies where replays write.
TEST_F(Captures, KeepTheMemoryOfStreamsThatTheySpreadTo) {
  Stream side;
  void* data = nullptr;
  Graph graph;
  graph.capture([&] {
    const Stream first = core::cuda::current_stream();
    side.wait_stream(first);
    {
      const StreamGuard guard(side);
      data = gpu(0).allocate(64);
      gpu(0).free(data, 64);
    }
    first.wait_stream(side);
  });
  const StreamGuard guard(side);
  void* other = gpu(0).allocate(64);
  EXPECT_NE(other, data);
  gpu(0).free(other, 64);
}

TEST_F(Captures, WorkThatDoesNotComeBackIsSaid) {
  Stream side;
  Graph graph;
  EXPECT_THAT(message_of([&] {
                graph.capture([&] {
                  side.wait_stream(core::cuda::current_stream());
                  launch(side, [] {});
                });
              }),
              StartsWith("CUDA error: capturing stream has unjoined work"));
  EXPECT_FALSE(graph.is_captured());
  EXPECT_NO_THROW(core::cuda::synchronize());
  EXPECT_NO_THROW(graph.capture([] {}));
}

TEST_F(Captures, DoNotSpreadToTheDefaultStream) {
  Graph graph;
  EXPECT_THAT(message_of([&] {
                graph.capture([] { core::cuda::default_stream().wait_stream(core::cuda::current_stream()); });
              }),
              StartsWith("CUDA error: operation not permitted when stream is capturing"));
  EXPECT_FALSE(graph.is_captured());
}

TEST_F(Captures, AWaitForWorkFromBeforeIsSaid) {
  Stream side;
  launch(side, [] {});
  Event earlier;
  earlier.record(side);
  Graph graph;
  EXPECT_THAT(message_of([&] { graph.capture([&] { earlier.wait(); }); }),
              StartsWith("CUDA error: dependency created on uncaptured work in another stream"));
  EXPECT_FALSE(graph.is_captured());
  EXPECT_NO_THROW(core::cuda::synchronize());
}

// --- The memory of graphs

TEST_F(Captures, APoolOfADeadGraphIsGivenBack) {
  {
    Graph graph;
    graph.capture([&] {
      gpu(0).free(gpu(0).allocate(64), 64);
      gpu(0).free(gpu(0).allocate(30 * kMiB), 30 * kMiB);
    });
    EXPECT_EQ(driver.taken(0), 32 * kMiB);
  }
  EXPECT_EQ(driver.taken(0), 0U);
}

TEST_F(Captures, WhatOutlivesItsGraphIsGivenBackWithTheCache) {
  void* kept = nullptr;
  {
    Graph graph;
    graph.capture([&] { kept = gpu(0).allocate(30 * kMiB); });
  }
  EXPECT_EQ(driver.taken(0), 30 * kMiB);
  gpu(0).free(kept, 30 * kMiB);
  core::cuda::empty_cache();
  EXPECT_EQ(driver.taken(0), 0U);
}

TEST_F(Captures, ARecordingAnewTakesTheOldPoolOver) {
  Graph graph;
  const auto record = [&] { graph.capture([&] { gpu(0).free(gpu(0).allocate(30 * kMiB), 30 * kMiB); }); };
  record();
  for (int i = 0; i < 5; ++i) record();
  EXPECT_EQ(driver.calls("allocate"), 1);
  EXPECT_EQ(driver.taken(0), 30 * kMiB);
  graph.reset();
  EXPECT_EQ(driver.taken(0), 0U);
}

TEST_F(Captures, AFailedRecordingGivesThePoolBack) {
  Graph graph;
  graph.capture([&] { gpu(0).free(gpu(0).allocate(64), 64); });
  EXPECT_THROW(graph.capture([&] {
    gpu(0).free(gpu(0).allocate(64), 64);
    core::cuda::synchronize();
  }),
               core::Error);
  EXPECT_EQ(driver.taken(0), 0U);
}

// --- Frees and collectives

/// Whether somebody holds the lock of frees and collectives.
bool is_held() {
  bool held = false;
  elsewhere([&] {
    held = !core::gpu::free_mutex().try_lock();
    if (!held) core::gpu::free_mutex().unlock();
  });
  return held;
}

TEST_F(Captures, FreesTakeTurnsWithCollectives) {
  bool at_free = false, at_free_host = false;
  driver.watch("free", [&] { at_free = is_held(); });
  driver.watch("free_host", [&] { at_free_host = is_held(); });
  gpu(0).free(gpu(0).allocate(64), 64);
  gpu(0).free_pinned(gpu(0).allocate_pinned(64), 64);
  core::cuda::empty_cache();
  EXPECT_TRUE(at_free);
  EXPECT_TRUE(at_free_host);
}

bool at_connect, at_start, at_end;

TEST(Collectives, TakeTurnsWithFrees) {
  core::gpu::NcclApi api{};
  api.init_all = [](void** made, int, const int*) { return (*made = nullptr, at_connect = is_held(), 0); };
  api.destroy = [](void*) { return 0; };
  api.group_start = [] { return (at_start = is_held(), 0); };
  api.group_end = [] { return (at_end = is_held(), 0); };
  api.broadcast = [](const void*, void*, std::size_t, int, int, void*, void*) { return 0; };
  core::gpu::Nccl nccl(api);
  const int gpus[] = {0};
  EXPECT_TRUE(nccl.connect(gpus));
  const core::gpu::Nccl::Rank ranks[] = {{0, nullptr, nullptr, nullptr}};
  nccl.broadcast(ranks, 1);
  EXPECT_TRUE(at_connect && at_start && at_end);
  EXPECT_FALSE(is_held());
}

// --- The simulation itself

TEST_F(Captures, OfAllThreadsAreLostToACallThatTheyForbid) {
  const core::gpu::CudaApi& api = driver.api();
  Stream side;
  gpu(0).ops();
  core::gpu::GraphHandle graph = nullptr;
  void* data = nullptr;
  ASSERT_EQ(api.begin_capture(side.native(), CaptureMode::global), 0);
  elsewhere([&] { EXPECT_EQ(api.allocate_host(&data, 8), 900); });
  EXPECT_EQ(api.end_capture(side.native(), &graph), 901);
  EXPECT_EQ(graph, nullptr);
  ASSERT_EQ(api.begin_capture(side.native(), CaptureMode::of_thread), 0);
  elsewhere([&] { EXPECT_EQ(api.end_capture(side.native(), &graph), 908); });
  EXPECT_EQ(api.allocate(&data, 8), 900);
  EXPECT_EQ(api.end_capture(side.native(), &graph), 901);
  EXPECT_EQ(api.allocate(&data, 8), 0);
  EXPECT_EQ(api.free(data), 0);
}

TEST_F(Captures, DoNotMerge) {
  const core::gpu::CudaApi& api = driver.api();
  Stream first, second;
  gpu(0).ops();
  core::gpu::EventHandle event = nullptr;
  core::gpu::GraphHandle graph = nullptr;
  ASSERT_EQ(api.event_create(&event, false), 0);
  ASSERT_EQ(api.begin_capture(first.native(), CaptureMode::relaxed), 0);
  ASSERT_EQ(api.begin_capture(second.native(), CaptureMode::relaxed), 0);
  EXPECT_EQ(api.event_record(event, first.native()), 0);
  EXPECT_EQ(api.event_query(event), 907);  // loses the first
  EXPECT_EQ(api.event_record(event, second.native()), 0);
  EXPECT_EQ(api.end_capture(first.native(), &graph), 901);
  EXPECT_EQ(api.end_capture(second.native(), &graph), 0);
  EXPECT_EQ(api.event_destroy(event), 0);
  EXPECT_EQ(api.destroy_graph(graph), 0);
}

}  // namespace
