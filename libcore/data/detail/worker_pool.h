#pragma once
// Threads that make the batches of an epoch ahead of their use; results come in order, whatever thread is faster. A
// pool serves one epoch, or one after the other (persistent workers). Thread safety: start() and next() belong to one
// thread at a time. Use: core::detail::WorkerPool<core::Tensor> pool({}, make_fetch); pool.start(batches); while (auto
// b = pool.next()) ...

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
#include <system_error>
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
  /// Makes one batch, or says that this worker has no more (a stream that ended).
  using Fetch = std::function<std::optional<Batch>(const Indices&)>;
  /// Called in each worker at the beginning of each of its epochs.
  using MakeFetch = std::function<Fetch()>;

  WorkerPool(WorkerSettings settings, MakeFetch make_fetch)
      : settings_(std::move(settings)), make_fetch_(std::move(make_fetch)), queues_(settings_.count) {
    threads_.reserve(static_cast<std::size_t>(settings_.count));
    try {
      for (int worker = 0; worker < settings_.count; ++worker) {
        threads_.emplace_back([this, worker] { run(worker); });
      }
    } catch (const std::system_error& error) {
      stop();
      throw Error(ErrorCode::runtime, "cannot start " + std::to_string(settings_.count) + " workers: " + error.what() +
                                          "; ask for fewer (see ulimit -u)");
    }
  }

  ~WorkerPool() { stop(); }

  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Begins an epoch; what is left of one before is dropped. `batches` is asked in the calling thread.
  void start(BatchStream batches) {
    {
      std::scoped_lock lock(mutex_);
      ++epoch_;
      for (auto& queue : queues_) queue.clear();
      results_.clear();
    }
    batches_ = std::move(batches);
    worker_of_.clear();
    taken_ = 0;
    turn_ = 0;
    is_over_.assign(static_cast<std::size_t>(settings_.count), false);
    for (int i = 0; i < settings_.count * settings_.prefetch; ++i) submit();
  }

  /// The next batch in order, none at the end. Rethrows what a worker threw, with the worker's number.
  std::optional<Batch> next() {
    while (!worker_of_.empty()) {
      Result result = wait_for(taken_++);
      const int worker = worker_of_.front();
      worker_of_.pop_front();
      const bool ended = !result.batch && !result.error;
      if (ended) is_over_[static_cast<std::size_t>(worker)] = true;
      submit();
      if (result.error) rethrow(result.error, worker);
      if (!ended) return std::move(result.batch);
    }
    return std::nullopt;
  }

 private:
  void stop() {
    {
      std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  /// Neither: the worker's stream has ended.
  struct Result {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };
  struct Task {
    std::int64_t number;
    Indices indices;
  };

  [[noreturn]] static void rethrow(const std::exception_ptr& error, int worker) {
    try {
      std::rethrow_exception(error);
    } catch (...) {
      rethrow_from_worker(worker);
    }
  }

  /// The next worker in turn whose stream goes on.
  std::optional<int> next_worker() {
    for (int i = 0; i < settings_.count; ++i) {
      const int worker = turn_;
      turn_ = (turn_ + 1) % settings_.count;
      if (!is_over_[static_cast<std::size_t>(worker)]) return worker;
    }
    return std::nullopt;
  }

  /// Hands the next batch of indices to the worker in turn, if there is one.
  void submit() {
    const auto worker = next_worker();
    if (!worker) return;
    auto indices = batches_();
    if (!indices) return;
    const std::int64_t number = taken_ + static_cast<std::int64_t>(worker_of_.size());
    worker_of_.push_back(*worker);
    {
      std::scoped_lock lock(mutex_);
      queues_[static_cast<std::size_t>(*worker)].push_back({number, std::move(*indices)});
    }
    work_.notify_all();
  }

  Result wait_for(std::int64_t batch) {
    std::unique_lock lock(mutex_);
    auto is_there = [&] { return results_.contains(batch); };
    if (settings_.timeout <= 0) {
      done_.wait(lock, is_there);
    } else if (!done_.wait_for(lock, std::chrono::duration<double>(settings_.timeout), is_there)) {
      throw_timed_out(settings_.timeout);
    }
    return std::move(results_.extract(batch).mapped());
  }

  void run(int worker) {
    WorkerScope scope({.id = worker, .num_workers = settings_.count, .seed = settings_.base_seed + worker});
    const std::exception_ptr init_error = initialise(worker);
    auto& queue = queues_[static_cast<std::size_t>(worker)];
    std::int64_t epoch = 0;
    Fetch fetch;
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [&] { return stopping_ || !queue.empty(); });
      if (stopping_) return;
      Task task = std::move(queue.front());
      queue.pop_front();
      if (std::exchange(epoch, epoch_) != epoch_) fetch = nullptr;
      lock.unlock();
      Result result = init_error ? Result{{}, init_error} : make(fetch, task.indices);
      lock.lock();
      if (epoch != epoch_) continue;
      results_.emplace(task.number, std::move(result));
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

  Result make(Fetch& fetch, const Indices& indices) {
    try {
      if (!fetch) fetch = make_fetch_();
      return {fetch(indices), nullptr};
    } catch (...) {
      return {std::nullopt, std::current_exception()};
    }
  }

  WorkerSettings settings_;
  MakeFetch make_fetch_;
  BatchStream batches_;
  // Of the thread that iterates: who makes the batches that were asked for and not taken, how many were taken.
  std::deque<int> worker_of_;
  std::int64_t taken_ = 0;
  int turn_ = 0;
  std::vector<bool> is_over_;

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  bool stopping_ = false;
  std::int64_t epoch_ = 0;
  std::vector<std::deque<Task>> queues_;
  std::map<std::int64_t, Result> results_;
  std::vector<std::thread> threads_;
};

}  // namespace core::detail
