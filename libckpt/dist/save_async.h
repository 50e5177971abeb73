#pragma once
// Saves of many ranks in the background: the call returns when the tensors are copied, or at once with
// .copy_in_background, and a thread writes and agrees with those of the other ranks, on a group that nothing else uses
// meanwhile. One save at a time: the next one waits for it, so there is never more than one copy, whose memory stays
// for the next one (.keep_copies). Thread safety: as save.h. Use: core::distributed::Group own =
// core::distributed::new_group();
// ckpt::dist::PendingSave save = ckpt::dist::save_async(state, "run/step-100.dcp", {.group = own}); train();
// save.wait();

#include <filesystem>
#include <memory>

#include "libckpt/dist/save.h"

namespace ckpt::dist {

/// Copies stand for the same save; the last of them waits for it.
class PendingSave {
 public:
  PendingSave() = default;
  /// Errors: those of save(), each time; also a rank's that had no memory for the copy.
  SaveFacts wait() const;
  /// Returns when the tensors are copied, or cannot be, and may be changed: PyTorch's staging_completion.
  void wait_copied() const;
  bool done() const;

 private:
  struct State;
  friend PendingSave start_save(const std::function<Value(Snapshot&)>& take, const std::filesystem::path& path,
                                const SaveOptions& options);
  std::shared_ptr<State> state_;
};

/// Writes what save() would. Error(value) in a training of several processes without a group of its own: its exchanges
/// would meet the collectives of the training.
PendingSave save_async(const core::StateDict& state, const std::filesystem::path& path,
                       const SaveOptions& options = {});
/// Writes what save_training() would.
PendingSave save_training_async(const std::filesystem::path& path, const core::Module& model,
                                const core::Optimizer& optimizer, const TrainingProgress& progress = {},
                                const SaveOptions& options = {});

}  // namespace ckpt::dist
