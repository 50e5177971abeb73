#include "libckpt/dist/save_async.h"

#include <functional>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>

#include "libckpt/bridge/detail/storage_source.h"
#include "libckpt/bridge/tensor_entry.h"
#include "libckpt/dist/agreement.h"
#include "libcore/base/error.h"
#include "libcore/dist/init.h"

namespace ckpt::dist {

struct PendingSave::State {
  std::shared_future<SaveFacts> facts;
  std::shared_future<void> copied;
  std::thread thread;

  ~State() {
    if (thread.joinable()) thread.join();
  }
};

SaveFacts PendingSave::wait() const {
  return state_ == nullptr ? SaveFacts() : state_->facts.get();
}

void PendingSave::wait_copied() const {
  if (state_ != nullptr) state_->copied.wait();
}

bool PendingSave::done() const {
  return state_ == nullptr || state_->facts.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

namespace {

/// What the thread of one save does, and keeps until it has.
class Work {
 public:
  Work(std::unique_ptr<Snapshot> snapshot, std::shared_ptr<SnapshotMemory> memory, Value tree,
       const std::filesystem::path& path, const SaveOptions& options)
      : snapshot_(std::move(snapshot)),
        memory_(std::move(memory)),
        tree_(std::move(tree)),
        ranks_(ranks_of(options.group)),
        path_(path),
        options_(options) {}

  std::future<void> copied() { return copied_.get_future(); }

  /// By the thread that copies, as the end of it would end what holds the memory. Tensors may be changed when it has
  /// returned. The outcome is for the other ranks to hear of.
  void freeze() {
    take([&] { options_.copy_in_call ? snapshot_->finish_on_host() : snapshot_->freeze_on_host(); });
    if (!went_well(outcome_) || options_.copy_in_call) end_copy();
  }

  SaveFacts save() {
    if (snapshot_ != nullptr) {
      take([&] { snapshot_->finish_on_host(); });
      end_copy();
    }
    core::with_context(path_.string(), [&] { agree(*ranks_, outcome_); });
    return save_by(*ranks_, tree_, path_, options_);
  }

  /// The memory is free when the save is said to be done.
  void let_go() {
    tree_ = Value();
    if (memory_ != nullptr) memory_->rest();
  }

 private:
  void take(const std::function<void()>& copy) {
    outcome_ = outcome_of([&]() -> std::string {
      copy();
      return "";
    });
  }
  void end_copy() {
    snapshot_ = nullptr;
    copied_.set_value();
  }

  std::unique_ptr<Snapshot> snapshot_;
  std::shared_ptr<SnapshotMemory> memory_;
  Value tree_;
  std::unique_ptr<Ranks> ranks_;
  std::filesystem::path path_;
  SaveOptions options_;
  std::string outcome_;
  std::promise<void> copied_;
};

/// What saves in the background have in common: each begins when the one before has ended.
struct Turns {
  std::mutex mutex;
  std::shared_future<void> before;  ///< not of a PendingSave, which may be going away in another thread
  std::shared_ptr<SnapshotMemory> kept;

  static Turns& all() {
    static Turns turns;
    return turns;
  }
  // REQUIRES: the mutex is held.
  bool is_busy() const {
    return before.valid() && before.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  }
  /// Waits for what is under way.
  std::shared_ptr<SnapshotMemory> begin(bool keep_copies) {
    if (before.valid()) before.wait();
    if (!keep_copies) kept.reset();
    if (keep_copies && kept == nullptr) kept = std::make_shared<SnapshotMemory>();
    return kept;
  }
};

/// A thread that is joined at the end of the process, at the latest.
struct Preparing {
  std::thread thread;
  ~Preparing() {
    if (thread.joinable()) thread.join();
  }
};

void prepare_memory(std::size_t bytes, const SaveOptions& options) {
  if (!options.keep_copies || bytes == 0) return;
  Turns& turns = Turns::all();
  static Preparing preparing;
  const std::lock_guard lock(turns.mutex);
  if (turns.is_busy()) return;  // with a save, whose memory stays
  std::shared_ptr<SnapshotMemory> kept = turns.begin(true);
  if (preparing.thread.joinable()) preparing.thread.join();
  std::promise<void> ended;
  turns.before = ended.get_future().share();
  preparing.thread = std::thread([kept = std::move(kept), bytes, ended = std::move(ended)]() mutable {
    try {
      kept->prepare(bytes);
    } catch (const core::Error&) {  // the save will say so, if there is none then either
    }
    ended.set_value();
  });
}

}  // namespace

PendingSave start_save(const std::function<Value(Snapshot&)>& take, const std::filesystem::path& path,
                       const SaveOptions& options) {
  Turns& turns = Turns::all();
  if (options.group == nullptr && core::distributed::is_initialized() && core::distributed::get_world_size() > 1) {
    throw core::Error(core::ErrorCode::value,
                      "a save in the background needs a group of its own: .group = core::distributed::new_group()");
  }
  const std::lock_guard lock(turns.mutex);
  const std::shared_ptr<SnapshotMemory> kept = turns.begin(options.keep_copies);
  auto snapshot = std::make_unique<Snapshot>(SnapshotPlace::automatic, kept);
  Value tree = take(*snapshot);
  snapshot->finish_on_devices();
  auto work = std::make_shared<Work>(std::move(snapshot), kept, std::move(tree), path, options);
  PendingSave save;
  save.state_ = std::make_shared<PendingSave::State>();
  save.state_->copied = work->copied().share();
  std::packaged_task<SaveFacts()> task([work] {
    struct LetGo {
      Work& work;
      ~LetGo() { work.let_go(); }
    } at_end{*work};
    return work->save();
  });
  save.state_->facts = task.get_future().share();
  std::promise<void> frozen, ended;
  std::future<void> is_frozen = frozen.get_future();
  turns.before = ended.get_future().share();
  auto run = [work, task = std::move(task), frozen = std::move(frozen), ended = std::move(ended)]() mutable {
    work->freeze();
    work = nullptr;
    frozen.set_value();
    task();
    ended.set_value();
  };
  const auto whole = std::make_shared<decltype(run)>(std::move(run));
  try {
    save.state_->thread = std::thread([whole] { (*whole)(); });
  } catch (const std::system_error&) {
    (*whole)();  // the system gives no thread (ulimit -u): then the caller waits
  }
  is_frozen.wait();
  return save;
}

PendingSave save_async(const core::StateDict& state, const std::filesystem::path& path, const SaveOptions& options) {
  return start_save(
      [&](Snapshot& snapshot) {
        EntryMaker maker(&snapshot);
        return to_value(state, maker);
      },
      path, options);
}

PendingSave save_training_async(const std::filesystem::path& path, const core::Module& model,
                                const core::Optimizer& optimizer, const TrainingProgress& progress,
                                const SaveOptions& options) {
  int rank = ranks_of(options.group)->rank();
  return start_save([&](Snapshot& snapshot) { return training_tree(model, optimizer, progress, rank, &snapshot); },
                    path, options);
}

void prepare_save_async(const core::StateDict& state, const SaveOptions& options) {
  Snapshot counted(SnapshotPlace::nowhere);
  EntryMaker maker(&counted);
  to_value(state, maker);
  prepare_memory(counted.host_bytes(), options);
}

void prepare_save_training_async(const core::Module& model, const core::Optimizer& optimizer,
                                 const TrainingProgress& progress, const SaveOptions& options) {
  Snapshot counted(SnapshotPlace::nowhere);
  training_tree(model, optimizer, progress, ranks_of(options.group)->rank(), &counted);
  prepare_memory(counted.host_bytes(), options);
}

}  // namespace ckpt::dist
