#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/device_workers.h"

namespace {

TEST(ParallelFor, CoversEveryIndexOnce) {
  core::set_num_threads(3);
  std::vector<int> hits(100000);
  core::parallel_for(100000, 1000, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
  });
  EXPECT_EQ(std::accumulate(hits.begin(), hits.end(), 0), 100000);
  EXPECT_EQ(*std::max_element(hits.begin(), hits.end()), 1);
}

TEST(ParallelFor, SmallWorkStaysInOnePiece) {
  int pieces = 0;
  core::parallel_for(999, 1000, [&](std::int64_t begin, std::int64_t end) {
    ++pieces;
    EXPECT_EQ(end - begin, 999);
  });
  EXPECT_EQ(pieces, 1);
}

TEST(ThreadLimit, HoldsForItsScopeAndThread) {
  core::set_num_threads(4);
  {
    core::ThreadLimitGuard guard(1);
    EXPECT_EQ(core::num_threads(), 1);
  }
  EXPECT_EQ(core::num_threads(), 4);
}

TEST(DeviceWorkers, RunEachSlotOnceOnItsOwnThread) {
  std::atomic<int> sum{0};
  std::vector<std::thread::id> first(4), second(4);
  core::run_on_workers(4, [&](int slot) { first[static_cast<std::size_t>(slot)] = std::this_thread::get_id(); });
  core::run_on_workers(4, [&](int slot) {
    sum += slot;
    second[static_cast<std::size_t>(slot)] = std::this_thread::get_id();
  });
  EXPECT_EQ(sum, 6);
  EXPECT_EQ(first, second);
}

TEST(DeviceWorkers, ThrowTheLowestSlotsError) {
  auto run = [](int slot) {
    if (slot >= 1) throw std::runtime_error("slot " + std::to_string(slot));
  };
  try {
    core::run_on_workers(3, run);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "slot 1");
  }
}

TEST(DeviceWorkers, NestedCallsRunInPlace) {
  std::atomic<int> runs{0};
  core::run_on_workers(2, [&](int) { core::run_on_workers(3, [&](int) { ++runs; }); });
  EXPECT_EQ(runs, 6);
}

}  // namespace
