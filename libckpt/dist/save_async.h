#pragma once
// Saves of many ranks in the background: the call returns in milliseconds, and a thread copies the tensors as they were
// at the call, whatever changes them since (SaveOptions::copy_in_call), writes and agrees with those of the other
// ranks, on a group that nothing else uses meanwhile. One save at a time: the next one waits for it, so there is never
// more than one copy, whose memory stays for the next one (.keep_copies); prepare_save_async() gets it for the first.
// Thread safety: as save.h. Use: core::distributed::Group own = core::distributed::new_group(); ckpt::dist::PendingSave
// save = ckpt::dist::save_async(state, "run/step-100.dcp", {.group = own}); train(); save.wait();

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
  /// Returns when the tensors are copied, or cannot be, and changing them costs no more than ever: PyTorch's
  /// staging_completion.
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

/// Makes the memory for the copies of such saves ready, in a thread, and returns at once; the copy of the first save
/// then takes as little time as later ones, which find the memory of the save before. Of little use right before that
/// save, which waits for it: call it when training begins, behind the first step of an optimizer that keeps moments.
/// Without .keep_copies it does nothing. Nothing is exchanged with other ranks. Without enough memory the first save is
/// as slow as ever, or says so.
void prepare_save_async(const core::StateDict& state, const SaveOptions& options = {});
void prepare_save_training_async(const core::Module& model, const core::Optimizer& optimizer,
                                 const TrainingProgress& progress = {}, const SaveOptions& options = {});

}  // namespace ckpt::dist
