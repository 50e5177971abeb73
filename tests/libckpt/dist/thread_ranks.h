#pragma once
// Ranks as threads of the test, which meet in memory. Use: test::run_ranks_as_threads(3, [&](ckpt::dist::Ranks& ranks)
// { ... });

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "libckpt/dist/ranks.h"

namespace test {

class Meeting {
 public:
  explicit Meeting(int size) : texts_(static_cast<std::size_t>(size)) {}
  std::vector<std::string> exchange(int rank, const std::string& text) {
    std::unique_lock lock(mutex_);
    texts_[static_cast<std::size_t>(rank)] = text;
    std::uint64_t round = round_;
    if (++arrived_ == texts_.size()) {
      result_ = texts_;
      arrived_ = 0;
      ++round_;
      met_.notify_all();
    } else {
      met_.wait(lock, [&] { return round_ != round; });
    }
    return result_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable met_;
  std::vector<std::string> texts_;
  std::vector<std::string> result_;
  std::size_t arrived_ = 0;
  std::uint64_t round_ = 0;
};

class ThreadRanks final : public ckpt::dist::Ranks {
 public:
  ThreadRanks(Meeting& meeting, int rank, int size) : meeting_(meeting), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::vector<std::string> exchange(const std::string& mine) override { return meeting_.exchange(rank_, mine); }

 private:
  Meeting& meeting_;
  int rank_;
  int size_;
};

/// What each rank threw, "" where it threw nothing.
inline std::vector<std::string> run_ranks_as_threads(int size, const std::function<void(ckpt::dist::Ranks&)>& body) {
  Meeting meeting(size);
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadRanks ranks(meeting, rank, size);
      try {
        body(ranks);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace test
