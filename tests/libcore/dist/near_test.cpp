// Sums through memory that ranks read from each other. The ranks here are threads of one process, whose memory it may
// read.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/dist/near_sum.h"
#include "libcore/dist/ring.h"
#include "libcore/dist/store.h"

namespace {

namespace dist = core::distributed;
using dist::NearRanks;
using testing::HasSubstr;

constexpr dist::Milliseconds kLong(20'000);
constexpr dist::Milliseconds kShort(150);

class Near : public testing::Test {
 protected:
  /// All ranks, which have met.
  void meet(int size) {
    std::vector<NearRanks::Handle> handles;
    for (int rank = 0; rank < size; ++rank) {
      ranks_.push_back(std::make_unique<NearRanks>(rank, size));
      handles.push_back(ranks_.back()->handle());
    }
    for (const auto& rank : ranks_) ASSERT_TRUE(rank->meet(handles));
    for (const auto& rank : ranks_) rank->end_meeting();
  }
  /// What each rank's call threw, "" for nothing.
  std::vector<std::string> run(const std::function<void(NearRanks&)>& call) {
    std::vector<std::string> said(ranks_.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          call(*ranks_[rank]);
        } catch (const core::Error& error) {
          said[rank] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return said;
  }
  std::vector<std::unique_ptr<NearRanks>> ranks_;
};

dist::Addends addends(std::vector<float>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size() * sizeof(float)), sizeof(float),
          dist::reduce_function(core::DType::f32, dist::ReduceOp::sum)};
}

/// Of so different sizes that another order of the sums shows.
std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 7919 + static_cast<std::size_t>(rank) * 104'729) % 1009) *
                (rank % 2 == 0 ? 1.0F : 1e-4F);
  }
  return values;
}

std::vector<float> expected_sum(int size, std::size_t count) {
  const dist::Ring ring(static_cast<std::int64_t>(count * sizeof(float)), sizeof(float), size);
  std::vector<std::vector<float>> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(values_of(rank, count));
  std::vector<float> sums(count);
  for (int chunk = 0; chunk < size; ++chunk) {
    const auto begin = static_cast<std::size_t>(ring.begin(chunk)) / sizeof(float);
    const auto length = static_cast<std::size_t>(ring.length(chunk)) / sizeof(float);
    for (std::size_t i = begin; i < begin + length; ++i) {
      const auto of = [&](int back) { return all[static_cast<std::size_t>((chunk - back + size) % size)][i]; };
      sums[i] = of(1);
      for (int back = 2; back <= size; ++back) sums[i] = of(back) + sums[i];
    }
  }
  return sums;
}

TEST_F(Near, SumsInGloosOrder) {
  for (const int size : {2, 3, 5}) {
    ranks_.clear();
    meet(size);
    std::uint32_t tag = 0;
    for (const std::size_t count : {1U, 7U, 1000U, 70'001U, 400'000U}) {
      std::vector<std::vector<float>> sums(static_cast<std::size_t>(size));
      ++tag;
      const std::vector<std::string> said = run([&](NearRanks& near) {
        std::vector<float>& own = sums[static_cast<std::size_t>(near.rank())] = values_of(near.rank(), count);
        dist::sum_nearby(near, addends(own), {.tag = tag, .timeout = kLong});
      });
      const std::vector<float> expected = expected_sum(size, count);
      for (std::size_t rank = 0; rank < sums.size(); ++rank) {
        EXPECT_EQ(said[rank], "");
        EXPECT_EQ(std::memcmp(sums[rank].data(), expected.data(), count * sizeof(float)), 0)
            << "rank " << rank << " of " << size << ", " << count << " values";
      }
    }
  }
}

TEST_F(Near, KeepsSumsAtOnceApart) {
  meet(3);
  const auto sum_often = [&](NearRanks& near, std::uint32_t first_tag, std::size_t count) {
    for (std::uint32_t i = 0; i < 50; ++i) {
      std::vector<float> own(count, static_cast<float>(near.rank() + 1) * static_cast<float>(first_tag + i));
      dist::sum_nearby(near, addends(own), {.tag = first_tag + i, .timeout = kLong});
      if (own.front() != 6.0F * static_cast<float>(first_tag + i)) throw core::Error(core::ErrorCode::runtime, "sum");
    }
  };
  const std::vector<std::string> said = run([&](NearRanks& near) {
    std::thread other([&] { sum_often(near, 1000, 5000); });
    sum_often(near, 2000, 3000);
    other.join();
  });
  EXPECT_EQ(said, std::vector<std::string>(3));
}

TEST_F(Near, DoesNotWaitForEver) {
  meet(2);
  std::vector<float> own(100);
  std::string said;
  try {
    dist::sum_nearby(*ranks_[0], addends(own), {.tag = 1, .timeout = kShort});
  } catch (const core::Error& error) {
    said = error.what();
  }
  EXPECT_EQ(said, "Timed out waiting 150ms for a rank");
  std::atomic<bool> has_ended = false;
  std::thread ends([&] { has_ended = true; });
  EXPECT_THAT([&] { ranks_[1]->receive(5, {.timeout = kLong, .has_ended = [&] { return has_ended.load(); }}); },
              testing::Throws<core::Error>(testing::Property(&core::Error::what, HasSubstr("the call was ended"))));
  ends.join();
}

TEST_F(Near, CallsThatDifferNeverMeet) {
  meet(2);
  const std::vector<std::string> said = run([&](NearRanks& near) {
    std::vector<float> own(100);
    dist::sum_nearby(near, addends(own), {.tag = 7U + static_cast<std::uint32_t>(near.rank()), .timeout = kShort});
  });
  EXPECT_THAT(said, testing::Each(HasSubstr("Timed out")));
}

TEST_F(Near, TrustsNoMemoryOfARankThatGaveUp) {
  meet(2);
  const std::vector<std::string> said = run([&](NearRanks& near) {
    if (near.rank() == 1) near.give_up();
    std::vector<float> own(100);
    dist::sum_nearby(near, addends(own), {.tag = 1, .timeout = kShort});
  });
  EXPECT_EQ(said[0], "rank 1 gave up while its memory was read");
  EXPECT_THAT(said[1], HasSubstr("gave up while its memory was read"));
  EXPECT_THAT([&] { ranks_[1]->check(0); }, testing::Throws<core::Error>());  // it gave up by that
}

TEST_F(Near, AChildDoesNotGiveUpForItsParent) {
  meet(2);
  const pid_t child = ::fork();
  if (child == 0) {
    ranks_.clear();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_NO_THROW(ranks_[0]->check(1));
  EXPECT_NO_THROW(ranks_[1]->check(0));
}

/// Its process is there, and the mark on the mailbox that both see; but the memory is another program's.
TEST_F(Near, TrustsNoProcessThatBecameAnotherProgram) {
  NearRanks own(0, 2);
  int up[2];
  int down[2];
  ASSERT_EQ(::pipe2(up, O_CLOEXEC) | ::pipe2(down, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  char go = 0;
  if (child == 0) {
    NearRanks peer(1, 2);
    const NearRanks::Handle handle = peer.handle();
    if (::write(up[1], &handle, sizeof handle) != sizeof handle || ::read(down[0], &go, 1) != 1) ::_exit(1);
    ::execl("/bin/sleep", "sleep", "60", nullptr);
    ::_exit(1);
  }
  ::close(up[1]);
  NearRanks::Handle handle;
  ASSERT_EQ(::read(up[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  ASSERT_TRUE(own.meet({own.handle(), handle}));
  EXPECT_NO_THROW(own.check(1));
  ASSERT_EQ(::write(down[1], &go, 1), 1);
  EXPECT_EQ(::read(up[0], &go, 1), 0);  // closed by the other program
  EXPECT_THAT([&] { own.check(1); },
              testing::Throws<core::Error>(testing::Property(&core::Error::what, HasSubstr("rank 1"))));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (const int file : {up[0], down[0], down[1]}) ::close(file);
}

/// By an engine whose call was ended from outside while others may still read.
TEST_F(Near, AFailureTakesBackTheMemory) {
  if (!dist::has_gloo()) GTEST_SKIP() << "without Gloo";
  const auto store = std::make_shared<dist::HashStore>();
  const auto told = [&](int rank) {
    const std::unique_ptr<dist::Engine> engine = dist::make_gloo_engine(
        {.rank = rank, .size = 2, .store = store, .address = "127.0.0.1", .interface = "", .timeout = kLong});
    std::vector<float> values(1000, 1.0F);
    const auto sum = [&](std::uint32_t tag) {
      engine->all_reduce(values.data(), 1000, core::DType::f32, dist::ReduceOp::sum, {.tag = tag, .timeout = kLong});
    };
    sum(1);
    if (rank == 1) engine->note_failure();
    try {
      sum(2);
    } catch (const core::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  std::string other;
  std::thread thread([&] { other = told(1); });
  EXPECT_THAT(told(0), HasSubstr("rank 1"));
  thread.join();
  EXPECT_THAT(other, HasSubstr("memory"));  // its own, or that of the other engine, which is gone by then
}

TEST_F(Near, MessagesWaitForRoomWhereARankIsFarAhead) {
  meet(2);
  constexpr std::uint64_t kMessages = 200;
  const std::vector<std::string> said = run([&](NearRanks& near) {
    for (std::uint64_t tag = 1; tag <= kMessages; ++tag) {
      if (near.rank() == 0) {
        near.send(1, tag, 3 * tag, {.timeout = kLong});
      } else if (const NearRanks::Message message = near.receive(tag, {.timeout = kLong}); message.value != 3 * tag) {
        throw core::Error(core::ErrorCode::runtime, "message");
      }
    }
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
  for (std::uint64_t tag = 1; tag <= 32; ++tag) ranks_[0]->send(1, tag, 0, {.timeout = kShort});
  EXPECT_THAT([&] { ranks_[0]->send(1, 33, 0, {.timeout = kShort}); }, testing::Throws<core::Error>());
}

TEST_F(Near, MeetsOnlyWhomItCanRead) {
  meet(2);
  std::vector<NearRanks::Handle> handles{ranks_[0]->handle(), NearRanks(1, 2).handle()};  // whose memory is gone
  EXPECT_FALSE(NearRanks(0, 2).meet(handles));
  NearRanks other(1, 2);
  NearRanks self(0, 2);
  handles = {self.handle(), other.handle()};
  ++handles[1].mark;  // another process at this address
  EXPECT_FALSE(self.meet(handles));
  handles[1] = other.handle();
  handles[1].file = NearRanks(1, 2).handle().file;  // closed
  EXPECT_FALSE(self.meet(handles));
  const NearRanks third(1, 2);
  handles[1].file = third.handle().file;  // another mailbox
  EXPECT_FALSE(self.meet(handles));
  handles[1] = other.handle();
  EXPECT_TRUE(self.meet(handles));
  EXPECT_NE(::ftruncate(static_cast<int>(other.handle().file), 0), 0) << "touching it would end the other process";
  ::setenv("CORE_DIST_NEAR", "0", 1);
  NearRanks unwilling(1, 2);
  ::unsetenv("CORE_DIST_NEAR");
  EXPECT_EQ(unwilling.handle().process, 0);
  EXPECT_FALSE(self.meet({self.handle(), unwilling.handle()}));
  EXPECT_FALSE(unwilling.meet({self.handle(), unwilling.handle()}));
}

}  // namespace
