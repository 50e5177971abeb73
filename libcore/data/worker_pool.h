#pragma once
// Threads that make the batches of one epoch ahead of their use; results come in order, whatever thread is faster.
// Thread safety: next() belongs to one thread. Use: WorkerPool<Tensor> pool(settings, batches, fetch); while (auto b =
// pool.next())

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/data/loader_options.h"

namespace core::detail {

struct WorkerSettings {
  int count = 1;
  int prefetch = 2;  ///< batches ahead per worker
  std::int64_t base_seed = 0;
  double timeout = 0;
  std::function<void(int)> init = {};
};

template <class Batch>
class WorkerPool {
 public:
  using Indices = std::vector<std::int64_t>;
  using Fetch = std::function<Batch(const Indices&)>;

  /// Batch k is made by worker k % count. `fetch` runs in the workers, `batches` in the calling thread.
  WorkerPool(WorkerSettings settings, BatchStream batches, Fetch fetch)
      : settings_(std::move(settings)),
        batches_(std::move(batches)),
        fetch_(std::move(fetch)),
        queues_(settings_.count) {
    for (int i = 0; i < settings_.count * settings_.prefetch; ++i) submit();
    for (int worker = 0; worker < settings_.count; ++worker) {
      threads_.emplace_back([this, worker] { run(worker); });
    }
  }

  ~WorkerPool() {
    {
      std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// The next batch in order, none at the end. Rethrows what a worker threw, with the worker's number.
  std::optional<Batch> next() {
    if (taken_ == submitted_) return std::nullopt;
    Result result = wait_for(taken_);
    int worker = worker_of(taken_++);
    submit();
    if (!result.error) return std::move(result.batch);
    try {
      std::rethrow_exception(result.error);
    } catch (...) {
      rethrow_from_worker(worker);
    }
  }

 private:
  struct Result {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };

  int worker_of(std::int64_t batch) const { return static_cast<int>(batch % settings_.count); }

  /// Hands the next batch of indices to its worker, if there is one.
  void submit() {
    auto indices = batches_();
    if (!indices) return;
    {
      std::scoped_lock lock(mutex_);
      queues_[static_cast<std::size_t>(worker_of(submitted_))].emplace_back(submitted_, std::move(*indices));
      ++submitted_;
    }
    work_.notify_all();
  }

  Result wait_for(std::int64_t batch) {
    std::unique_lock lock(mutex_);
    auto is_there = [&] { return results_.contains(batch); };
    if (settings_.timeout <= 0) {
      done_.wait(lock, is_there);
    } else if (!done_.wait_for(lock, std::chrono::duration<double>(settings_.timeout), is_there)) {
      throw Error(ErrorCode::runtime, "DataLoader timed out after " + std::to_string(settings_.timeout) + " seconds");
    }
    return std::move(results_.extract(batch).mapped());
  }

  void run(int worker) {
    WorkerScope scope({.id = worker, .num_workers = settings_.count, .seed = settings_.base_seed + worker});
    std::exception_ptr init_error = initialise(worker);
    auto& queue = queues_[static_cast<std::size_t>(worker)];
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [&] { return stopping_ || !queue.empty(); });
      if (stopping_) return;
      auto [number, indices] = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      Result result = init_error ? Result{{}, init_error} : make(indices);
      lock.lock();
      results_.emplace(number, std::move(result));
      done_.notify_all();
    }
  }

  std::exception_ptr initialise(int worker) {
    try {
      if (settings_.init) settings_.init(worker);
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  Result make(const Indices& indices) {
    try {
      return {fetch_(indices), nullptr};
    } catch (...) {
      return {std::nullopt, std::current_exception()};
    }
  }

  WorkerSettings settings_;
  BatchStream batches_;
  Fetch fetch_;
  std::int64_t submitted_ = 0;
  std::int64_t taken_ = 0;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  bool stopping_ = false;
  std::vector<std::deque<std::pair<std::int64_t, Indices>>> queues_;
  std::map<std::int64_t, Result> results_;
  std::vector<std::thread> threads_;
};

}  // namespace core::detail
