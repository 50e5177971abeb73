#include "libckpt/bridge/save_async.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "libckpt/bridge/tensor_entry.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"

namespace ckpt {

struct PendingSave::State {
  std::filesystem::path path;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  bool asked = false;  // somebody saw the error
  std::exception_ptr error;

  ~State() {
    if (!error || asked) return;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& failure) {
      core::warn("a save in the background failed: " + std::string(failure.what()));
    }
  }

  void finish(std::exception_ptr failure) {
    const std::lock_guard lock(mutex);
    error = std::move(failure);
    done = true;
    changed.notify_all();
  }
};

void PendingSave::wait() const {
  if (state_ == nullptr) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
  if (!state_->error) return;
  state_->asked = true;
  std::rethrow_exception(state_->error);
}

bool PendingSave::done() const {
  if (state_ == nullptr) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

/// Training comes first: this thread, and those that it starts, take what of the processors is left. A wish.
void give_way() {
  constexpr int kNice = 10;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
}

/// While a save takes its copy, hooks of state_dict() or of a step may run, which must not wait for it.
class Taking {
 public:
  Taking() {
    if (taking_)
      throw core::Error(
          core::ErrorCode::usage,
          "a hook that runs while a save takes its copy asks for another save: save when that call has returned");
    taking_ = true;
  }
  ~Taking() { taking_ = false; }
  Taking(const Taking&) = delete;
  Taking& operator=(const Taking&) = delete;

 private:
  static thread_local bool taking_;
};

thread_local bool Taking::taking_ = false;

/// The thread that writes; one at a time.
class Saver {
 public:
  /// Never destroyed: it is finished before the process ends.
  static Saver& instance() {
    static auto* made = [] {
      auto* saver = new Saver;
      std::atexit([] { instance().finish(); });
      return saver;
    }();
    return *made;
  }

  /// What the main thread keeps for itself goes first when a process ends, before anything static that the thread here
  /// may have made for its work meanwhile.
  static void finish_with_main_thread() {
    struct AtEnd {
      ~AtEnd() { instance().finish(); }
    };
    if (::gettid() != ::getpid()) return;
    thread_local AtEnd at_end;
  }

  PendingSave start(const std::function<Checkpoint(Snapshot&)>& take, const std::filesystem::path& path,
                    const AsyncSaveOptions& options) {
    finish_with_main_thread();
    const Taking taking;
    const std::lock_guard turn(mutex_);
    join();
    if (!options.keep_copies) kept_.reset();
    if (options.keep_copies && kept_ == nullptr) kept_ = std::make_shared<SnapshotMemory>();
    Snapshot snapshot(options.snapshot, kept_);
    auto checkpoint = std::make_unique<Checkpoint>(take(snapshot));
    snapshot.finish();
    auto state = std::make_shared<PendingSave::State>();
    state->path = path;
    // The thread refers to the state, which stays here until the thread is joined.
    hurry_ = false;
    auto work = [this, state = state.get(), checkpoint = std::move(checkpoint), save = options.save,
                 kept = kept_]() mutable {
      std::exception_ptr error;
      try {
        ckpt::save(*checkpoint, state->path, save);
      } catch (...) {
        error = std::current_exception();
      }
      checkpoint.reset();
      state->finish(std::move(error));
      if (kept == nullptr) return;
      kept->join_pages(hurry_);
      kept->rest();
    };
    auto shared = std::make_shared<decltype(work)>(std::move(work));
    try {
      thread_ = std::thread([shared] {
        give_way();
        (*shared)();
      });
    } catch (const std::system_error&) {
      hurry_ = true;  // the system gives no thread (ulimit -u): then the caller waits
      (*shared)();
    }
    running_ = state;
    return PendingSave(std::move(state));
  }

 private:
  void finish() {
    if (std::this_thread::get_id() == thread_.get_id()) return;  // exit() called by what reports progress
    const std::lock_guard turn(mutex_);
    join();
  }
  void join() {
    hurry_ = true;
    if (thread_.joinable()) thread_.join();
    running_.reset();
  }

  std::mutex mutex_;
  std::thread thread_;
  std::atomic<bool> hurry_ = false;  // somebody waits for the thread
  std::shared_ptr<PendingSave::State> running_;
  std::shared_ptr<SnapshotMemory> kept_;
};

PendingSave detail::start_save(const std::function<Checkpoint(Snapshot&)>& take, const std::filesystem::path& path,
                               const AsyncSaveOptions& options) {
  return Saver::instance().start(take, path, options);
}

PendingSave save_async(const core::StateDict& state, const std::filesystem::path& path,
                       const AsyncSaveOptions& options) {
  const auto take = [&](Snapshot& snapshot) {
    EntryMaker maker(&snapshot);
    Checkpoint checkpoint;
    checkpoint.root = to_value(state, maker);
    return checkpoint;
  };
  return detail::start_save(take, path, options);
}

}  // namespace ckpt
