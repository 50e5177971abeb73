#pragma once
// Saving while training goes on: the tensors are copied as they are (on a GPU by the GPU, so that training stands still
// for microseconds), and the copy is written to the file by a thread of its own, of lower priority than those that
// train. The file is what a plain save at the time of the call would have written, whatever happens to the tensors
// afterwards, and it appears as with a plain save: whole or not at all. At most one save is under way in a process: the
// next one waits for it before it copies anything, so there is never more than one copy, and saves to one path follow
// each other in the order of the calls. A handle may be dropped: the save goes on, and its failure becomes a warning
// (core::set_warning_handler). A process that returns from main or calls exit() first finishes what is under way; one
// that is killed leaves the file as it was. Thread safety: all functions. Tensors may be changed as soon as a call
// returns; on a GPU by work on the stream that was current, or that waits for it. Use: ckpt::PendingSave save =
// ckpt::save_async(model.state_dict(), "net.ckpt"); train(); save.wait();

#include <filesystem>
#include <functional>
#include <memory>

#include "libckpt/bridge/detail/storage_source.h"
#include "libckpt/bridge/module_state.h"
#include "libckpt/bridge/training_state.h"

namespace ckpt {

struct AsyncSaveOptions {
  /// `report` has to live until the save is done, and `progress` is called by the thread that writes.
  SaveOptions save = {};
  SnapshotPlace snapshot = SnapshotPlace::automatic;
  /// The host memory of the copy stays for the next save, whose call then takes a fraction of the time. Between two
  /// saves the system may have it back whenever it runs short (MADV_FREE). False gives it back with every save.
  bool keep_copies = true;
};

/// A save that may still be under way. Copies stand for the same save; a default one for one that is done.
class PendingSave {
 public:
  PendingSave() = default;
  /// Returns when the file is there. Errors: those of save(), each time.
  void wait() const;
  /// True when wait() would not have to.
  bool done() const;

 private:
  friend class Saver;
  struct State;
  explicit PendingSave(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Writes what save() would. Errors: out of memory for the copy; Error(value) for lazy modules. Those of writing come
/// from PendingSave::wait().
PendingSave save_async(const core::StateDict& state, const std::filesystem::path& path,
                       const AsyncSaveOptions& options = {});
/// Writes what save_training() would. Tensors in progress.extra are not copied.
PendingSave save_training_async(const std::filesystem::path& path, const core::Module& model,
                                const core::Optimizer& optimizer, const TrainingProgress& progress = {},
                                const AsyncSaveOptions& options = {});
PendingSave save_training_async(const std::filesystem::path& path, const TrainingParts& parts,
                                const TrainingProgress& progress = {}, const AsyncSaveOptions& options = {});

/// Takes optimizer.step() and then does what save_training_async() does, in less time than one after the other: on the
/// host the step itself copies parameters and state while they lie in the processor's cache. The file is what
/// save_training() after the step would have written; `progress` is that of after it. What the step does not write
/// (buffers, parameters without a gradient), tensors on a GPU, and all tensors where a hook runs after steps, are
/// copied behind it. Errors: those of the step, before anything is saved; those of save_training_async(), with the step
/// taken.
PendingSave step_and_save_async(const std::filesystem::path& path, const core::Module& model,
                                core::Optimizer& optimizer, const TrainingProgress& progress = {},
                                const AsyncSaveOptions& options = {});

namespace detail {
/// Waits for the save under way, lets `take` make the checkpoint over a snapshot, and starts writing it.
PendingSave start_save(const std::function<Checkpoint(Snapshot&)>& take, const std::filesystem::path& path,
                       const AsyncSaveOptions& options);
}  // namespace detail

}  // namespace ckpt
