// One bound for what all readers keep: who was not used for longest lets go first, nobody who is busy, never the last.

#include "libckpt/io/kept_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace {

using ckpt::detail::most_kept;

class Holder final : public ckpt::detail::Keeper {
 public:
  ~Holder() override { forget(); }
  void hold(std::uint64_t bytes) {
    held = bytes;
    used(bytes);
  }
  mutable std::uint64_t held = 0;
  bool busy = false;

 private:
  bool let_go() const override {
    if (busy) return false;
    held = 0;
    return true;
  }
};

/// What other tests rely on comes back.
class KeptMemory : public testing::Test {
 protected:
  KeptMemory() { ckpt::limit_read_memory(125); }
  ~KeptMemory() override { ckpt::limit_read_memory(128ULL << 20); }
};

TEST_F(KeptMemory, WhoWasNotUsedForLongestLetsGo) {
  ASSERT_EQ(most_kept(), 100U);
  Holder first, second, third;
  first.hold(40);
  second.hold(40);
  first.hold(45);  // used again
  third.hold(40);
  EXPECT_EQ(first.held, 45U);
  EXPECT_EQ(second.held, 0U);
  EXPECT_EQ(third.held, 40U);
}

TEST_F(KeptMemory, NobodyLetsGoWhileItReads) {
  Holder busy, idle, last;
  busy.hold(60);
  busy.busy = true;
  idle.hold(30);
  last.hold(20);
  EXPECT_EQ(busy.held, 60U);
  EXPECT_EQ(idle.held, 0U);
  EXPECT_EQ(last.held, 20U);
}

TEST_F(KeptMemory, TheOneThatIsUsedStaysHoweverLargeItIs) {
  Holder large, small;
  small.hold(1);
  large.hold(1000);
  EXPECT_EQ(large.held, 1000U);
  EXPECT_EQ(small.held, 0U);
}

TEST_F(KeptMemory, WhatIsGoneCountsNoMore) {
  Holder first, second;
  first.hold(70);
  {
    Holder gone;
    gone.hold(30);
  }
  second.hold(30);
  EXPECT_EQ(first.held, 70U);
}

}  // namespace
