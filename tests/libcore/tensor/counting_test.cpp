// Counts of owners, which one thread alone keeps without locked instructions, are whole once others count too.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "libcore/tensor/factory.h"
#include "libcore/tensor/intrusive_ptr.h"
#include "libcore/tensor/tensor.h"

namespace {

struct Counted : core::RefCounted {};

/// Both at once, one of them the thread that has counted until then.
template <class Work>
void by_two(const Work& work) {
  std::atomic<int> ready{0};
  const auto start = [&] {
    ++ready;
    while (ready < 2) std::this_thread::yield();
    work();
  };
  std::thread other(start);
  start();
  other.join();
}

TEST(Counting, LosesNothingBetweenThreads) {
  constexpr std::uint32_t kRounds = 300'000;
  const auto counted = core::make_intrusive<Counted>();
  for (std::uint32_t i = 0; i < kRounds; ++i) counted->retain();
  by_two([&] {
    for (std::uint32_t i = 0; i < kRounds; ++i) counted->retain();
  });
  EXPECT_EQ(counted->use_count(), 3 * kRounds + 1);
  by_two([&] {
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      EXPECT_TRUE(counted->try_retain());
      counted->release();
      counted->release_findable();
    }
  });
  EXPECT_EQ(counted->use_count(), kRounds + 1);
  while (counted->use_count() > 1) counted->release();
}

TEST(Counting, LosesNoWriteBetweenThreads) {
  constexpr std::uint32_t kRounds = 300'000;
  const core::Tensor x = core::ones({1});
  const std::uint32_t before = x.impl()->version();
  by_two([&] {
    for (std::uint32_t i = 0; i < kRounds; ++i) x.impl()->bump_version();
  });
  EXPECT_EQ(x.impl()->version(), before + 2 * kRounds);
}

}  // namespace
