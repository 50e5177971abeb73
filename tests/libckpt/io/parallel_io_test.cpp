#include "libckpt/io/parallel_io.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

TEST(ParallelFor, EveryIndexOnce) {
  std::vector<std::atomic<int>> seen(1000);
  ckpt::parallel_for(seen.size(), 4, [&](std::size_t i) { ++seen[i]; });
  for (const auto& count : seen) EXPECT_EQ(count, 1);
}

TEST(ParallelFor, BeginsOnTheCallingThread) {
  for (int round = 0; round < 200; ++round) {
    std::thread::id first;
    ckpt::parallel_for(2, 2, [&](std::size_t i) {
      if (i == 0) first = std::this_thread::get_id();
    });
    ASSERT_EQ(first, std::this_thread::get_id());
  }
}

TEST(ParallelFor, FailureIsRethrown) {
  auto body = [](std::size_t i) {
    if (i == 5) throw std::runtime_error("five");
  };
  EXPECT_THROW(ckpt::parallel_for(100, 4, body), std::runtime_error);
  EXPECT_THROW(ckpt::parallel_for(100, 1, body), std::runtime_error);
}

TEST(ParallelFor, LowestFailureIsReportedHoweverLateItComes) {
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    try {
      ckpt::parallel_for(2, 2, [&](std::size_t i) { throw std::runtime_error(i == 0 ? "first" : "second"); });
    } catch (const std::runtime_error& error) {
      text = error.what();
    }
    ASSERT_EQ(text, "first");
  }
}

TEST(RunInOrder, UsesInOrderWithBoundedMemory) {
  std::atomic<int> held = 0;
  std::atomic<int> most = 0;
  std::vector<std::size_t> order;
  ckpt::run_in_order<std::size_t>(
      200, {.threads = 4, .max_memory = 30}, [](std::size_t) { return 10; },
      [&](std::size_t i) {
        int now = ++held;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        return i * i;
      },
      [&](std::size_t i, std::size_t result) {
        EXPECT_EQ(result, i * i);
        order.push_back(i);
        --held;
      });
  EXPECT_EQ(order.size(), 200U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_LE(most, 3);
}

TEST(RunInOrder, PieceHeavierThanTheBoundRunsAlone) {
  std::size_t sum = 0;
  ckpt::run_in_order<std::size_t>(
      10, {.threads = 3, .max_memory = 1}, [](std::size_t) { return 100; }, [](std::size_t i) { return i; },
      [&](std::size_t, std::size_t result) { sum += result; });
  EXPECT_EQ(sum, 45U);
}

TEST(RunInOrder, FailuresOfBothSidesEndTheRun) {
  auto run = [](std::size_t bad_make, std::size_t bad_use) {
    ckpt::run_in_order<int>(
        50, {.threads = 3, .max_memory = 3}, [](std::size_t) { return 1; },
        [&](std::size_t i) { return i == bad_make ? throw std::runtime_error("make") : 1; },
        [&](std::size_t i, int) {
          if (i == bad_use) throw std::logic_error("use");
        });
  };
  EXPECT_THROW(run(20, SIZE_MAX), std::runtime_error);
  EXPECT_THROW(run(SIZE_MAX, 20), std::logic_error);
}

}  // namespace
