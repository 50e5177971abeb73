#pragma once
// Saves of many ranks: every rank writes its own files at the same time, and one rename puts all of them in place. What
// several ranks have alike is written once. A failure on any rank is the same error on every rank, and what was there
// before stays. Layouts: "dcp", the folder that torch.distributed.checkpoint loads as it is; "native", an ordinary
// .ckpt a rank behind an index; "safetensors", whole tensors in shards with Hugging Face's names. One process alone is
// one rank. Thread safety: one save of a group at a time; all its ranks make the same saves in the same order. Use:
// ckpt::dist::save(model.state_dict(), "run/step-100.dcp"); ckpt::dist::save_training("run/step-100.dcp", model,
// optimizer, {.epoch = 3});

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "libckpt/bridge/training_state.h"
#include "libckpt/dist/pieces.h"
#include "libckpt/dist/ranks.h"
#include "libckpt/value.h"
#include "libcore/module/state_dict.h"

namespace ckpt::dist {

struct SaveOptions {
  std::string layout = "dcp";           ///< "dcp", "native" or "safetensors"
  core::distributed::Group group = {};  ///< the default group, or this process alone
  bool overwrite = false;               ///< false: Error(io) when the folder exists
  bool durable = true;                  ///< fsync of every file and folder
  Pieces pieces = {};                   ///< where the tensors lie of which this rank has a part
  unsigned threads = 0;                 ///< of this rank, for writing
  Io io = Io::automatic;
  /// Of saves in the background: the host memory of the copies, one block, stays for the next save, whose call then
  /// takes as long as a copy, a fraction of what the system needs to give out new memory. Between two saves the system
  /// may have it back whenever it runs short (MADV_FREE), so it is never memory that others lack. False gives it back
  /// with every save.
  bool keep_copies = true;
  /// Of saves in the background: the call returns when the tensors of the host are copied. False: in milliseconds, and
  /// what is saved is what was there at the call all the same, by whatever it is changed behind it. For as long as the
  /// copy takes a child process then shares the memory, so that each page of this process that anything writes is
  /// copied by the kernel first: steps take longer meanwhile, in all by more than a copy, and memory as much more as
  /// they write. What the kernel does not do that for (shared memory, bytes of files), up to 8 MiB in all or an eighth
  /// of the memory of this process, and everything where the system gives no child or does not let its memory be read
  /// are copied in the call.
  bool copy_in_call = false;
};

/// What a save did, the same on every rank.
struct SaveFacts {
  std::uint64_t bytes = 0;  ///< of all files
  std::uint64_t exchanged =
      0;  ///< bytes that this rank sent to plan it: 32 where the plan of the save before still holds
};

/// Every rank gives its tree. Errors, the same on every rank: Error(value) for ranks whose tensors do not fit together
/// (plan.h); Error(unsupported) for what the layout cannot hold; Error(io) naming every rank that could not write, a
/// rank that does not see the folder of rank 0, or that is gone; the folder of that name is then as it was, unless the
/// message says that its "durability is unknown".
SaveFacts save(const Value& state, const std::filesystem::path& path, const SaveOptions& options = {});
SaveFacts save(const core::StateDict& state, const std::filesystem::path& path, const SaveOptions& options = {});
/// A run as ckpt::save_training() saves it, but for two things: the state of the optimizer is keyed by the names of the
/// parameters, as PyTorch's get_state_dict() has it, and the generators of each rank are kept: "ranks.0.rng_state".
SaveFacts save_training(const std::filesystem::path& path, const core::Module& model, const core::Optimizer& optimizer,
                        const TrainingProgress& progress = {}, const SaveOptions& options = {});

/// The same for ranks of any kind, as tests make them.
SaveFacts save_by(Ranks& ranks, const Value& state, const std::filesystem::path& path, const SaveOptions& options);
/// The tree that save_training() saves.
Value training_tree(const core::Module& model, const core::Optimizer& optimizer, const TrainingProgress& progress,
                    int rank, Snapshot* snapshot);

}  // namespace ckpt::dist
