#include "libckpt/dist/save_async.h"

#include <future>
#include <mutex>
#include <thread>

#include "libckpt/bridge/detail/storage_source.h"
#include "libckpt/bridge/tensor_entry.h"
#include "libcore/base/error.h"
#include "libcore/dist/init.h"

namespace ckpt::dist {

struct PendingSave::State {
  std::shared_future<SaveFacts> facts;
  std::thread thread;

  ~State() {
    if (thread.joinable()) thread.join();
  }
};

SaveFacts PendingSave::wait() const {
  return state_ == nullptr ? SaveFacts() : state_->facts.get();
}

bool PendingSave::done() const {
  return state_ == nullptr || state_->facts.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

PendingSave start_save(const std::function<Value(Snapshot&)>& take, const std::filesystem::path& path,
                       const SaveOptions& options) {
  static std::mutex mutex;
  static std::shared_future<void> before;  // not of a PendingSave, which may be going away in another thread
  static std::shared_ptr<SnapshotMemory> kept;
  if (options.group == nullptr && core::distributed::is_initialized() && core::distributed::get_world_size() > 1) {
    throw core::Error(core::ErrorCode::value,
                      "a save in the background needs a group of its own: .group = core::distributed::new_group()");
  }
  const std::lock_guard lock(mutex);
  if (before.valid()) before.wait();
  if (!options.keep_copies) kept.reset();
  if (options.keep_copies && kept == nullptr) kept = std::make_shared<SnapshotMemory>();
  Snapshot snapshot(SnapshotPlace::automatic, kept);
  auto tree = std::make_shared<Value>(take(snapshot));
  snapshot.finish();
  std::shared_ptr<Ranks> ranks = ranks_of(options.group);
  std::packaged_task<SaveFacts()> work([tree, ranks, path, options]() mutable {
    SaveFacts facts = save_by(*ranks, *tree, path, options);
    tree.reset();  // the memory is free when the save is said to be done
    return facts;
  });
  PendingSave save;
  save.state_ = std::make_shared<PendingSave::State>();
  save.state_->facts = work.get_future().share();
  std::promise<void> ended;
  before = ended.get_future().share();
  save.state_->thread = std::thread([work = std::move(work), ended = std::move(ended)]() mutable {
    work();
    ended.set_value();
  });
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

}  // namespace ckpt::dist
