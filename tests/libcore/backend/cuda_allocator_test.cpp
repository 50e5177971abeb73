// The caching allocator of CUDA devices on a simulated driver: reuse in the order of streams, out of memory, counts.
#include "libcore/backend/cuda/cuda_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "libcore/base/error.h"
#include "tests/libcore/backend/cuda_fake.h"

namespace {

using core::gpu::CudaAllocator;
using core::gpu::StreamHandle;
using testing::HasSubstr;

constexpr std::uint64_t kMiB = 1 << 20;

struct Allocator : testing::Test {
  explicit Allocator(test::FakeOptions options = {.memory = 64 * kMiB})
      : driver(options), allocator(driver.api(), {core::Device("cuda:0"), 0, options.memory}) {
    driver.api().set_device(0);
    driver.api().stream_create(&side, 0);
  }
  std::int64_t current(core::MemoryStatOfPools core::MemoryStats::*quantity) const {
    return (allocator.stats().*quantity).all.current;
  }

  test::FakeDriver driver;
  CudaAllocator allocator;
  StreamHandle side = nullptr;
};

TEST_F(Allocator, CutsBlocksFromSegmentsOfTheDevice) {
  void* a = allocator.allocate(100, nullptr);
  void* b = allocator.allocate(100, nullptr);
  EXPECT_EQ(static_cast<char*>(b) - static_cast<char*>(a), 512);
  EXPECT_EQ(driver.taken(0), 2 * kMiB);
  EXPECT_EQ(current(&core::MemoryStats::allocated_bytes), 1024);
  EXPECT_EQ(current(&core::MemoryStats::requested_bytes), 200);
  EXPECT_EQ(current(&core::MemoryStats::reserved_bytes), 2097152);
  allocator.free(a);
  allocator.free(b);
}

TEST_F(Allocator, AFreedBlockServesItsStreamAtOnce) {
  void* a = allocator.allocate(4096, nullptr);
  allocator.free(a);
  EXPECT_EQ(allocator.allocate(4096, nullptr), a);
  EXPECT_EQ(driver.calls("allocate"), 1);
  allocator.free(a);
}

TEST_F(Allocator, AFreedBlockServesNoOtherStream) {
  void* a = allocator.allocate(4096, nullptr);
  allocator.free(a);
  void* b = allocator.allocate(4096, side);
  EXPECT_NE(b, a);
  EXPECT_EQ(driver.calls("allocate"), 2);
  allocator.free(b);
  allocator.release_cached();
  void* c = allocator.allocate(4096, side);
  allocator.free(c);
  void* d = allocator.allocate(4096, nullptr);
  EXPECT_NE(d, c);
  allocator.free(d);
}

TEST_F(Allocator, ABlockThatAnotherStreamUsesWaitsForIt) {
  void* a = allocator.allocate(4096, nullptr);
  driver.launch(side, [] {});
  allocator.record_stream(a, side, 0);
  allocator.free(a);
  EXPECT_EQ(current(&core::MemoryStats::allocation), 0);
  EXPECT_EQ(current(&core::MemoryStats::active), 1);  // as PyTorch counts it
  void* b = allocator.allocate(4096, nullptr);
  EXPECT_NE(b, a);
  driver.api().stream_synchronize(side);
  void* c = allocator.allocate(4096, nullptr);
  EXPECT_EQ(c, a);
  allocator.free(b);
  allocator.free(c);
}

TEST_F(Allocator, ABlocksOwnStreamIsNoOtherUser) {
  void* a = allocator.allocate(4096, side);
  allocator.record_stream(a, side, 0);
  allocator.free(a);
  EXPECT_EQ(allocator.allocate(4096, side), a);
  EXPECT_EQ(driver.calls("event_create"), 0);
  allocator.free(a);
}

TEST_F(Allocator, OutOfMemoryHasPyTorchsText) {
  void* a = allocator.allocate(40 * kMiB, nullptr);
  try {
    allocator.allocate(30 * kMiB, nullptr);
    FAIL();
  } catch (const core::OutOfMemoryError& error) {
    EXPECT_STREQ(
        error.what(),
        "CUDA out of memory. Tried to allocate 30.00 MiB. GPU 0 has a total capacity of 64.00 MiB of which 24.00 MiB "
        "is free. Process 4711 has 1.50 GiB memory in use. Including non-PyTorch memory, this process has 40.00 MiB "
        "memory in use. Of the allocated memory 40.00 MiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch "
        "but "
        "unallocated. If reserved but unallocated memory is large try setting "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
        "Management  (https://docs.pytorch.org/docs/stable/notes/"
        "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)");
    EXPECT_EQ(error.shortage().free, 24 * kMiB);
  }
  EXPECT_EQ(allocator.stats().num_ooms, 1);
  allocator.free(a);
  EXPECT_NO_THROW(allocator.free(allocator.allocate(30 * kMiB, nullptr)));  // as if nothing had happened
}

TEST_F(Allocator, CachedSegmentsAreGivenBackBeforeItGivesUp) {
  allocator.free(allocator.allocate(40 * kMiB, nullptr));
  EXPECT_EQ(driver.taken(0), 40 * kMiB);
  void* a = allocator.allocate(50 * kMiB, nullptr);
  EXPECT_EQ(driver.taken(0), 50 * kMiB);
  EXPECT_EQ(allocator.stats().num_alloc_retries, 1);
  EXPECT_EQ(allocator.stats().num_ooms, 0);
  allocator.free(a);
}

TEST_F(Allocator, BlocksStillInUseAreWaitedForBeforeItGivesUp) {
  void* a = allocator.allocate(40 * kMiB, nullptr);
  bool was_run = false;
  driver.launch(side, [&] { was_run = true; });
  allocator.record_stream(a, side, 0);
  allocator.free(a);
  void* b = allocator.allocate(50 * kMiB, nullptr);
  EXPECT_TRUE(was_run);
  allocator.free(b);
}

TEST_F(Allocator, AFractionLimitsTheProcess) {
  allocator.set_fraction(0.5);
  try {
    allocator.allocate(40 * kMiB, nullptr);
    FAIL();
  } catch (const core::OutOfMemoryError& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("of which 64.00 MiB is free. Process 4711 has 1.50 GiB memory in use. Including non-PyTorch memory, "
                  "this process has 0 bytes memory in use. 32.00 MiB allowed; Of the allocated memory"));
  }
  allocator.set_fraction(1);
  EXPECT_NO_THROW(allocator.free(allocator.allocate(40 * kMiB, nullptr)));
}

TEST_F(Allocator, EmptyingTheCacheKeepsWhatIsInUse) {
  void* kept = allocator.allocate(100, nullptr);
  allocator.free(allocator.allocate(20 * kMiB, nullptr));
  allocator.release_cached();
  EXPECT_EQ(driver.taken(0), 2 * kMiB);
  allocator.free(kept);
}

TEST_F(Allocator, OtherErrorsOfTheDriverAreThrownAsTheyAre) {
  driver.fail("allocate", core::gpu::kIllegalAddress);
  try {
    allocator.allocate(8, nullptr);
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("CUDA error: an illegal memory access was encountered"));
  }
  driver.fail("allocate", core::gpu::kSuccess);
}

TEST_F(Allocator, ACaptureHasAPoolOfItsOwn) {
  allocator.free(allocator.allocate(4096, side));
  allocator.begin_pool(side, 1);
  void* a = allocator.allocate(4096, side);
  EXPECT_EQ(driver.calls("allocate"), 2);  // nothing of the ordinary pool
  allocator.free(a);
  EXPECT_EQ(allocator.allocate(4096, side), a);  // within the capture blocks are reused
  allocator.free(a);
  allocator.end_pool(side);
  allocator.release_cached();
  EXPECT_EQ(driver.taken(0), 2 * kMiB);  // kept for replays
  allocator.release_pool(1);
  allocator.release_cached();
  EXPECT_EQ(driver.taken(0), 0U);
}

TEST_F(Allocator, DuringACaptureEventsWait) {
  void* a = allocator.allocate(4096, nullptr);
  allocator.record_stream(a, side, 0);
  allocator.begin_pool(side, 1);
  allocator.free(a);
  EXPECT_EQ(driver.calls("event_create"), 0);
  allocator.end_pool(side);
  EXPECT_EQ(driver.calls("event_create"), 1);
  driver.api().stream_synchronize(side);
  EXPECT_EQ(allocator.allocate(4096, nullptr), a);
  allocator.free(a);
  allocator.release_pool(1);
}

}  // namespace
