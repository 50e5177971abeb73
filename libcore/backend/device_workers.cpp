#include "libcore/backend/device_workers.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "libcore/backend/thread_streams.h"

namespace core {
namespace detail {
namespace {

thread_local bool on_worker = false;

struct Job {
  SlotFunction function = nullptr;
  void* context = nullptr;
  const ThreadStreams* streams = nullptr;  // of the caller
};

class Worker {
 public:
  explicit Worker(int slot) : thread_([this, slot] { loop(slot); }) { thread_.detach(); }

  void start(Job job) {
    std::lock_guard lock(mutex_);
    job_ = job;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return job_.function == nullptr; });
  }

 private:
  void loop(int slot) {
    on_worker = true;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return job_.function != nullptr; });
      lock.unlock();
      thread_streams() = *job_.streams;
      job_.function(job_.context, slot);
      lock.lock();
      job_ = {};
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Job job_;
  std::thread thread_;
};

/// Never destroyed: its threads live as long as the process.
struct Workers {
  std::mutex one_call;
  std::vector<std::unique_ptr<Worker>> workers;
};

Workers& workers() {
  static auto* made = new Workers;
  return *made;
}

}  // namespace

void run_on_workers(int count, SlotFunction function, void* context) {
  if (on_worker || count <= 1) {
    for (int slot = 0; slot < count; ++slot) function(context, slot);
    return;
  }
  Workers& all = workers();
  std::lock_guard turn(all.one_call);
  while (static_cast<int>(all.workers.size()) < count - 1) {
    all.workers.push_back(std::make_unique<Worker>(static_cast<int>(all.workers.size()) + 1));
  }
  const ThreadStreams streams = thread_streams();
  for (int slot = 1; slot < count; ++slot) {
    all.workers[static_cast<std::size_t>(slot - 1)]->start({function, context, &streams});
  }
  on_worker = true;  // what slot 0 starts itself must not wait for this call
  function(context, 0);
  on_worker = false;
  for (int slot = 1; slot < count; ++slot) all.workers[static_cast<std::size_t>(slot - 1)]->wait();
}

}  // namespace detail

ThreadStreams& thread_streams() {
  thread_local constinit ThreadStreams streams{};
  return streams;
}

bool on_device_worker() {
  return detail::on_worker;
}

}  // namespace core
