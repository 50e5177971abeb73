// Events of CUDA devices on a simulated driver: they are made once and used again, asked for in the order of their
// streams, and none is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "libcore/backend/cuda/cuda_backend.h"
#include "libcore/backend/cuda/cuda_discovery.h"
#include "libcore/backend/cuda/event_pool.h"
#include "libcore/backend/cuda_graph.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/logical_backend.h"
#include "libcore/backend/transfer_ring.h"
#include "tests/libcore/backend/cuda_fake.h"

namespace {

using core::Device;
using core::cuda::Event;
using core::cuda::Stream;
using core::gpu::CudaAllocator;
using core::gpu::EventHandle;
using core::gpu::EventPool;
using core::gpu::PinnedCache;
using core::gpu::StreamHandle;

constexpr std::size_t kMiB = std::size_t{1} << 20;

// --- The pool

TEST(EventPools, GiveWhatWasGivenBack) {
  test::FakeDriver driver;
  EventPool pool(driver.api());
  EventHandle first = nullptr, second = nullptr, again = nullptr;
  EXPECT_EQ(pool.take({.gpu = 0}, first), 0);
  EXPECT_EQ(pool.take({.gpu = 0}, second), 0);
  EXPECT_NE(first, second);
  pool.give({.gpu = 0}, first);
  EXPECT_EQ(pool.take({.gpu = 0}, again), 0);
  EXPECT_EQ(again, first);
  EXPECT_EQ(driver.calls("event_create"), 2);
  EXPECT_EQ(driver.calls("event_destroy"), 0);
  EXPECT_EQ(pool.take({.gpu = 0}, first), 0);
  EXPECT_EQ(driver.calls("event_create"), 3);  // all others have owners
  for (EventHandle event : {first, second, again}) pool.give({.gpu = 0}, event);
}

TEST(EventPools, KeepDevicesAndKindsApart) {
  test::FakeDriver driver({.devices = 2});
  EventHandle of_first = nullptr, plain = nullptr, of_second = nullptr, timed = nullptr;
  {
    EventPool pool(driver.api());
    driver.api().set_device(0);
    pool.take({.gpu = 0, .timed = true}, timed);
    pool.take({.gpu = 0}, of_first);
    pool.give({.gpu = 0}, of_first);
    pool.give({.gpu = 0, .timed = true}, timed);
    pool.take({.gpu = 0}, plain);
    EXPECT_EQ(plain, of_first);
    pool.give({.gpu = 0}, plain);
    driver.api().set_device(1);
    pool.take({.gpu = 1}, of_second);
    EXPECT_EQ(driver.api().event_record(of_second, nullptr), 0);
    pool.give({.gpu = 1}, of_second);
    EXPECT_EQ(driver.live_events(), 3U);
  }
  EXPECT_EQ(driver.live_events(), 0U);
}

TEST(EventPools, SayWhenTheDriverMakesNone) {
  test::FakeDriver driver;
  EventPool pool(driver.api());
  EventHandle event = nullptr;
  driver.fail("event_create", core::gpu::kIllegalAddress);
  EXPECT_EQ(pool.take({.gpu = 0}, event), core::gpu::kIllegalAddress);
}

// --- Memory that other streams use

struct Allocations : testing::Test {
  Allocations() {
    driver.api().set_device(0);
    for (StreamHandle& side : sides) driver.api().stream_create(&side, 0);
  }
  ~Allocations() override {
    allocator.reset();
    EXPECT_EQ(driver.live_events(), 0U);
    EXPECT_EQ(driver.taken(0), 0U);
  }
  /// A block that `side` is given work with, freed.
  void* used_by(StreamHandle side) {
    void* data = allocator->allocate(4096, nullptr);
    driver.launch(side, [] {});
    allocator->record_stream(data, side, 0);
    allocator->free(data);
    return data;
  }
  int queries_of_an_allocation() {
    const int before = driver.calls("event_query");
    void* data = allocator->allocate(4096, nullptr);
    const int queries = driver.calls("event_query") - before;
    allocator->free(data);
    return queries;
  }
  test::FakeDriver driver;
  std::unique_ptr<CudaAllocator> allocator =
      std::make_unique<CudaAllocator>(driver.api(), CudaAllocator::Place{Device("cuda:0"), 0, std::uint64_t{1} << 30});
  StreamHandle sides[3] = {};
};

TEST_F(Allocations, OfManyStepsMakeAFewEvents) {
  for (int step = 0; step < 200; ++step) {
    for (StreamHandle side : sides) used_by(side);
    if (step % 4 != 3) continue;
    for (StreamHandle side : sides) driver.api().stream_synchronize(side);
  }
  EXPECT_EQ(driver.calls("event_record"), 600);
  EXPECT_LE(driver.calls("event_create"), 12);  // as many as were ever under way at once
  EXPECT_EQ(driver.calls("event_destroy"), 0);
}

TEST_F(Allocations, AskEachStreamOnceWhileNoneIsDone) {
  std::vector<void*> blocks;  // taken before any is freed
  for (int i = 0; i < 60; ++i) blocks.push_back(allocator->allocate(4096, nullptr));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    StreamHandle side = sides[i % 3];
    driver.launch(side, [] {});
    allocator->record_stream(blocks[i], side, 0);
    allocator->free(blocks[i]);
  }
  EXPECT_EQ(queries_of_an_allocation(), 3);
  driver.api().stream_synchronize(sides[1]);
  EXPECT_EQ(queries_of_an_allocation(), 22);  // the 20 that are done, and one of each other stream
  EXPECT_EQ(queries_of_an_allocation(), 2);
}

TEST_F(Allocations, ComeBackInTheOrderOfTheirStream) {
  void* first = used_by(sides[0]);
  void* second = used_by(sides[0]);
  ASSERT_NE(second, first);
  driver.run_first(sides[0], 2);  // the work and the event of the first
  EXPECT_EQ(allocator->allocate(4096, nullptr), first);
  void* other = allocator->allocate(4096, nullptr);
  EXPECT_NE(other, second);
  driver.run_first(sides[0], 2);
  EXPECT_EQ(allocator->allocate(4096, nullptr), second);
  for (void* data : {first, second, other}) allocator->free(data);
}

TEST_F(Allocations, WaitForAllStreamsOfABlock) {
  void* data = allocator->allocate(4096, nullptr);
  for (StreamHandle side : sides) {
    driver.launch(side, [] {});
    allocator->record_stream(data, side, 0);
  }
  allocator->free(data);
  for (StreamHandle side : sides) {
    void* other = allocator->allocate(4096, nullptr);
    EXPECT_NE(other, data);
    allocator->free(other);
    driver.api().stream_synchronize(side);
  }
  void* again = allocator->allocate(4096, nullptr);
  EXPECT_EQ(again, data);
  allocator->free(again);
}

TEST_F(Allocations, AreNotWaitedForWhereNoEventCanBeHad) {
  void* data = allocator->allocate(4096, nullptr);
  allocator->record_stream(data, sides[0], 0);
  driver.fail("event_record", core::gpu::kIllegalAddress);
  allocator->free(data);
  driver.fail("event_record", core::gpu::kSuccess);
  EXPECT_EQ(allocator->allocate(4096, nullptr), data);
  allocator->free(data);
}

TEST_F(Allocations, OfSeveralThreadsShareThePool) {
  std::vector<std::thread> threads;
  for (StreamHandle side : sides) {
    threads.emplace_back([this, side] {
      driver.api().set_device(0);
      for (int step = 0; step < 200; ++step) {
        used_by(side);
        driver.api().stream_synchronize(side);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(driver.calls("event_record"), 600);
  EXPECT_LE(driver.calls("event_create"), 16);
}

// --- Pinned memory

struct PinnedBlocks : testing::Test {
  PinnedBlocks() {
    driver.api().set_device(0);
    for (StreamHandle& side : sides) driver.api().stream_create(&side, 0);
  }
  ~PinnedBlocks() override {
    cache.reset();
    events.reset();
    EXPECT_EQ(driver.live_events(), 0U);
    EXPECT_EQ(driver.live_host_blocks(), 0U);
  }
  void* allocate(std::size_t bytes) {
    int error = 0;
    void* data = cache->allocate(bytes, error);
    EXPECT_EQ(error, 0);
    return data;
  }
  void use(void* data, StreamHandle side) {
    driver.launch(side, [] {});
    EXPECT_EQ(cache->record(data, 0, side), 0);
  }
  test::FakeDriver driver;
  std::shared_ptr<EventPool> events = std::make_shared<EventPool>(driver.api());
  std::unique_ptr<PinnedCache> cache = std::make_unique<PinnedCache>(driver.api(), events);
  StreamHandle sides[2] = {};
};

TEST_F(PinnedBlocks, HaveSizesOfPowersOfTwoWhereTheyAreSmall) {
  EXPECT_EQ(PinnedCache::block_size(0), 512U);
  EXPECT_EQ(PinnedCache::block_size(513), 1024U);
  EXPECT_EQ(PinnedCache::block_size(600'000), kMiB);
  EXPECT_EQ(PinnedCache::block_size(kMiB), kMiB);
}

TEST_F(PinnedBlocks, LoseAnEighthAtMostWhereTheyAreLarge) {
  EXPECT_EQ(PinnedCache::block_size(kMiB + 1), kMiB + kMiB / 8);
  EXPECT_EQ(PinnedCache::block_size(5 * kMiB), 5 * kMiB);
  EXPECT_EQ(PinnedCache::block_size(std::size_t{9} << 30), std::size_t{9} << 30);
  for (std::size_t bytes = kMiB + 1; bytes < std::size_t{1} << 40; bytes += bytes / 7 + 4097) {
    const std::size_t size = PinnedCache::block_size(bytes);
    EXPECT_GE(size, bytes);
    EXPECT_LE(size - bytes, bytes / 8) << bytes;
    EXPECT_EQ(size % (kMiB / 8), 0U);
  }
}

TEST_F(PinnedBlocks, ServeWhatTheyAreAQuarterTooLargeFor) {
  void* data = allocate(10 * kMiB);
  EXPECT_EQ(cache->allocated(), 10 * kMiB);
  cache->free(data);
  EXPECT_EQ(cache->allocated(), 0U);
  EXPECT_EQ(cache->cached(), 10 * kMiB);
  void* fitting = allocate(8 * kMiB);
  EXPECT_EQ(fitting, data);
  cache->free(fitting);
  void* smaller = allocate(8 * kMiB - 1);
  EXPECT_NE(smaller, data);
  void* small = allocate(7 * kMiB);
  EXPECT_NE(small, data);  // and no larger one is there
  cache->free(smaller);
  cache->free(small);
  EXPECT_EQ(cache->cached(), 10 * kMiB + 8 * kMiB + 7 * kMiB);
  EXPECT_EQ(allocate(7 * kMiB), small);  // the smallest that fits
  cache->free(small);
}

TEST_F(PinnedBlocks, AskEachStreamOnceWhileNoneIsDone) {
  std::vector<void*> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(allocate(4096));
  for (std::size_t i = 0; i < blocks.size(); ++i) use(blocks[i], sides[i % 2]);
  for (void* block : blocks) cache->free(block);
  void* other = allocate(4096);
  EXPECT_EQ(driver.calls("event_query"), 2);
  EXPECT_THAT(blocks, testing::Not(testing::Contains(other)));
  for (StreamHandle side : sides) driver.api().stream_synchronize(side);
  for (int i = 0; i < 40; ++i) EXPECT_THAT(blocks, testing::Contains(allocate(4096)));
  EXPECT_EQ(driver.calls("event_query"), 2 + 40);  // nobody is asked while a block is free
  for (void* block : blocks) cache->free(block);
  cache->free(other);
}

TEST_F(PinnedBlocks, HaveOneEventForEachStream) {
  void* data = allocate(4096);
  void* later = allocate(4096);
  for (int i = 0; i < 100; ++i) use(data, sides[0]);
  use(later, sides[0]);
  use(data, sides[0]);  // stands behind the other one now
  use(data, sides[1]);
  EXPECT_EQ(driver.calls("event_create"), 3);
  cache->free(data);
  cache->free(later);
  void* meanwhile = nullptr;
  driver.api().stream_synchronize(sides[1]);
  void* other = allocate(4096);
  EXPECT_TRUE(other != data && other != later);
  driver.api().stream_synchronize(sides[0]);
  meanwhile = allocate(4096);
  EXPECT_TRUE(meanwhile == data || meanwhile == later);
  cache->free(meanwhile);
  cache->free(other);
}

TEST_F(PinnedBlocks, AreUsedUntilTheLastWorkOfAStreamIsDone) {
  void* data = allocate(4096);
  void* other = allocate(4096);
  use(data, sides[0]);
  use(other, sides[0]);
  use(data, sides[0]);
  cache->free(data);
  cache->free(other);
  driver.run_first(sides[0], 4);  // of each the first work and its event
  EXPECT_EQ(allocate(4096), other);
  void* third = allocate(4096);
  EXPECT_NE(third, data);
  driver.run_first(sides[0], 2);
  EXPECT_EQ(allocate(4096), data);
  for (void* block : {data, other, third}) cache->free(block);
}

TEST_F(PinnedBlocks, StayTheirOwnersWhenTheWorkIsDone) {
  void* data = allocate(4096);
  use(data, sides[0]);
  driver.api().stream_synchronize(sides[0]);
  void* other = allocate(4096);
  EXPECT_NE(other, data);
  void* third = allocate(4096);
  EXPECT_NE(third, data);
  for (void* block : {data, other, third}) cache->free(block);
  EXPECT_EQ(cache->cached(), 3U * 4096);
}

TEST_F(PinnedBlocks, GoBackWhenTheMachineHasNoMore) {
  cache->free(allocate(4 * kMiB));
  int failures = 0;
  driver.watch("free_host", [&] { driver.fail("allocate_host", core::gpu::kSuccess); });
  driver.watch("allocate_host", [&] { ++failures; });
  driver.fail("allocate_host", core::gpu::kOutOfMemory);
  void* data = allocate(64 * kMiB);
  EXPECT_NE(data, nullptr);
  EXPECT_EQ(failures, 2);
  EXPECT_EQ(driver.live_host_blocks(), 1U);
  EXPECT_EQ(cache->cached(), 0U);
  EXPECT_EQ(driver.api().last_error(), core::gpu::kSuccess);
  cache->free(data);
}

TEST_F(PinnedBlocks, AreSharedByThreads) {
  std::vector<std::thread> threads;
  for (StreamHandle side : sides) {
    threads.emplace_back([this, side] {
      driver.api().set_device(0);
      for (int step = 0; step < 200; ++step) {
        void* data = allocate(4096 << step % 3);
        use(data, side);
        cache->free(data);
        if (step % 5 == 0) driver.api().stream_synchronize(side);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache->allocated(), 0U);
  EXPECT_LE(driver.calls("event_create"), 40);
}

// --- The runtime as a whole

struct Events : testing::Test {
  Events() : driver({.devices = 2}) {
    core::set_cuda_backends(core::gpu::discover(driver.api(), core::logical_op_tables(), {}));
  }
  ~Events() override {
    core::set_cuda_backends({});
    EXPECT_EQ(driver.live_events(), 0U);
  }
  core::CudaBackend& gpu(int i) {
    return dynamic_cast<core::CudaBackend&>(core::backend_for(Device(core::DeviceType::cuda, i)));
  }
  test::FakeDriver driver;
};

TEST_F(Events, OfStreamsThatWaitForEachOtherAreMadeOnce) {
  Stream first(Device("cuda:0")), second(Device("cuda:1"));
  for (int i = 0; i < 100; ++i) {
    second.wait_stream(first);
    first.wait_event(second.record_event());
  }
  EXPECT_EQ(driver.calls("event_create"), 2);
  EXPECT_EQ(driver.calls("event_record"), 200);
}

TEST_F(Events, OfCopiesBetweenDevicesAreMadeOnce) {
  void* from = gpu(0).allocate(64);
  void* to = gpu(1).allocate(64);
  for (int i = 0; i < 100; ++i) gpu(1).copy_from_peer(to, gpu(0), from, 64);
  EXPECT_EQ(driver.calls("event_create"), 2);
  gpu(0).free(from, 64);
  gpu(1).free(to, 64);
}

TEST_F(Events, OfTransfersAreMadeOnce) {
  void* data = gpu(0).allocate(64);
  for (int i = 0; i < 50; ++i) {
    core::TransferRing ring(gpu(0), {.slot_bytes = 64, .slots = 2});
    for (int k = 0; k < 4; ++k) {
      ring.slot(static_cast<std::size_t>(k % 2));
      const core::TransferRing::Part part[] = {{data, 0, 64}};
      ring.send(static_cast<std::size_t>(k % 2), part);
    }
    ring.finish();
    gpu(0).synchronize();
  }
  EXPECT_LE(driver.calls("event_create"), 6);
  EXPECT_GE(driver.calls("event_record"), 200);
  gpu(0).free(data, 64);
}

TEST_F(Events, ThatMeasureTimeAreNotTakenForOthers) {
  {
    Event plain;
    plain.record();
  }
  Event start({.enable_timing = true}), end({.enable_timing = true});
  start.record();
  end.record();
  end.synchronize();
  EXPECT_EQ(start.elapsed_time(end), 1.5);
}

// To ask for an event of a capture is an error; recorded anew it is an event like others.
TEST_F(Events, OfACaptureServeOthersAfterIt) {
  Stream side(Device("cuda:0"));
  core::cuda::Graph graph;
  graph.capture([&] {
    const Stream here = core::cuda::current_stream();
    side.wait_stream(here);
    here.wait_stream(side);
  });
  EXPECT_EQ(driver.calls("event_create"), 1);
  Event event;
  event.record();
  EXPECT_EQ(driver.calls("event_create"), 1);
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST_F(Events, GoBackWithTheCache) {
  { Stream(Device("cuda:0")).wait_stream(Stream(Device("cuda:1"))); }
  EXPECT_EQ(driver.live_events(), 1U);
  core::cuda::empty_cache();
  EXPECT_EQ(driver.live_events(), 0U);
}

TEST_F(Events, MayOutliveTheirDevices) {
  Event event;
  event.record();
  core::set_cuda_backends({});
  EXPECT_EQ(driver.live_events(), 1U);
  event = Event();
  EXPECT_EQ(driver.live_events(), 0U);
}

}  // namespace
