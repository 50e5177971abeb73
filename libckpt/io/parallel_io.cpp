#include "libckpt/io/parallel_io.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace ckpt {
namespace {

/// As many threads as are asked for, or fewer where the system gives no more (ulimit -u, memory), perhaps none. Joins
/// them when it goes, also while an exception passes.
class Threads {
 public:
  template <class Body>
  Threads(std::size_t count, const Body& body) {
    threads_.reserve(count);
    try {
      while (threads_.size() < count) threads_.emplace_back(body);
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {
    }
  }
  ~Threads() {
    for (std::thread& thread : threads_) thread.join();
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  bool empty() const { return threads_.empty(); }

 private:
  std::vector<std::thread> threads_;
};

/// Keeps the failure with the lowest index, so that what is reported does not depend on the number of threads.
class FirstFailure {
 public:
  void keep(std::size_t index) {
    std::lock_guard lock(mutex_);
    if (index < index_) {
      index_ = index;
      error_ = std::current_exception();
    }
    failed_ = true;
  }
  bool failed() const { return failed_; }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> failed_ = false;
  std::size_t index_ = SIZE_MAX;
  std::exception_ptr error_;
};

/// State that workers and the consumer of run_in_order share.
class InOrder {
 public:
  InOrder(std::size_t count, std::uint64_t max_memory, const std::function<std::uint64_t(std::size_t)>& weight)
      : weights_(count), max_memory_(max_memory), ready_(count), errors_(count) {
    // Asked here, since what a thread throws in between its pieces would end the process.
    for (std::size_t i = 0; i < count; ++i) weights_[i] = weight(i);
  }

  /// The next piece to make, once it fits; SIZE_MAX when there is none left.
  std::size_t claim() {
    std::unique_lock lock(mutex_);
    while (true) {
      if (stopped_ || next_ == ready_.size()) return SIZE_MAX;
      std::uint64_t weight = weights_[next_];
      if (held_ == 0 || held_ + weight <= max_memory_) {
        held_ += weight;
        return next_++;
      }
      space_.wait(lock);
    }
  }

  void finish(std::size_t piece, std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    errors_[piece] = std::move(error);
    ready_[piece] = true;
    done_.notify_all();
  }

  void wait_for(std::size_t piece) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return ready_[piece]; });
    if (errors_[piece]) std::rethrow_exception(errors_[piece]);
  }

  void release(std::size_t piece) {
    std::lock_guard lock(mutex_);
    held_ -= weights_[piece];
    space_.notify_all();
  }

  void stop() {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    space_.notify_all();
  }

 private:
  std::vector<std::uint64_t> weights_;
  std::uint64_t max_memory_;
  std::mutex mutex_;
  std::condition_variable space_;
  std::condition_variable done_;
  std::vector<bool> ready_;
  std::vector<std::exception_ptr> errors_;
  std::size_t next_ = 0;
  std::uint64_t held_ = 0;
  bool stopped_ = false;
};

/// Lets the workers go when the consumer leaves, for whatever reason. Stands behind Threads, so it goes first.
struct StopAtEnd {
  InOrder& state;
  ~StopAtEnd() { state.stop(); }
};

}  // namespace

unsigned thread_count(unsigned asked) {
  return asked != 0 ? asked : std::max(1U, std::thread::hardware_concurrency());
}

void parallel_for(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  FirstFailure failure;
  // What was taken is done, also after a failure: all before that were taken, so the one with the lowest index is met.
  auto take = [&]() -> std::size_t { return failure.failed() ? count : next++; };
  auto work_from = [&](std::size_t first) {
    for (std::size_t i = first; i < count; i = take()) {
      try {
        body(i);
      } catch (...) {
        failure.keep(i);
      }
    }
  };
  std::size_t workers = std::min<std::size_t>(thread_count(threads), count);
  {
    const std::size_t first = take();  // before any helper can
    Threads helpers(workers > 1 ? workers - 1 : 0, [&] { work_from(take()); });
    work_from(first);
  }
  failure.rethrow();
}

void detail::run_in_order(std::size_t count, const InOrderOptions& options,
                          const std::function<std::uint64_t(std::size_t)>& weight,
                          const std::function<void(std::size_t)>& make, const std::function<void(std::size_t)>& use) {
  auto work_alone = [&] {
    for (std::size_t i = 0; i < count; ++i) {
      make(i);
      use(i);
    }
  };
  std::size_t workers = std::min<std::size_t>(thread_count(options.threads), count);
  if (workers <= 1) return work_alone();
  InOrder state(count, options.max_memory, weight);
  Threads makers(workers, [&] {
    for (std::size_t i = state.claim(); i != SIZE_MAX; i = state.claim()) {
      std::exception_ptr error;
      try {
        make(i);
      } catch (...) {
        error = std::current_exception();
      }
      state.finish(i, std::move(error));
    }
  });
  StopAtEnd stop{state};
  if (makers.empty()) return work_alone();
  for (std::size_t i = 0; i < count; ++i) {
    state.wait_for(i);
    use(i);
    state.release(i);
  }
}

}  // namespace ckpt
