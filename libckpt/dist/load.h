#pragma once
// Loads by many ranks: any number of them read what any number has written. Every rank opens the checkpoint and reads
// what it asks for and nothing else; a rank that cannot is the same error on every rank. Folders of
// torch.distributed.checkpoint and every other checkpoint are read alike. Thread safety: as save.h.
// Use: ckpt::dist::load_into(model, "run/step-100.dcp"); ckpt::Value mine = ckpt::dist::load("run/step-100.dcp",
// pieces);

#include <filesystem>

#include "libckpt/bridge/module_state.h"
#include "libckpt/bridge/training_state.h"
#include "libckpt/checkpoint.h"
#include "libckpt/dist/pieces.h"
#include "libckpt/dist/ranks.h"
#include "libcore/module/state_dict.h"

namespace ckpt::dist {

struct LoadOptions {
  core::distributed::Group group = {};  ///< the default group, or this process alone
  OpenOptions open = {};
};

/// The whole checkpoint, lazy, on every rank. Errors: Error(io) naming the ranks that cannot read it, and why.
Checkpoint load(const std::filesystem::path& path, const LoadOptions& options = {});

/// The tree with those tensors cut to their boxes, lazy: what lies in a box is read when it is. `sizes` of a piece say
/// how much. Errors: as above, on every rank: also for a piece whose tensor is not there or has another shape.
Value load(const std::filesystem::path& path, const Pieces& pieces, const LoadOptions& options = {});

/// The same, straight into the tensors of this rank, which keep their memory: tensors with a piece, which need no
/// `sizes`, take what lies in its box, others the whole of theirs. Errors: as above, on every rank: also for a tensor
/// that is not there or has another shape or dtype; then an unknown part of the tensors was written.
void load_into(core::StateDict& state, const std::filesystem::path& path, const Pieces& pieces,
               const LoadOptions& options = {});

/// ckpt::load_into() on every rank.
LoadReport load_into(core::Module& module, const std::filesystem::path& path, const LoadIntoOptions& into = {},
                     const LoadOptions& options = {});

/// Puts model, optimizer and this rank's generator into the state that save_training() wrote with any number of ranks.
/// A rank that the save did not have keeps its generator. Files of ckpt::save_training() work as well.
TrainingProgress load_training(const std::filesystem::path& path, core::Module& model, core::Optimizer& optimizer,
                               const LoadOptions& options = {});

/// The tree cut to the boxes, of a checkpoint that is open. Errors: Error(key) and Error(value) naming the tensor.
Value cut_to_pieces(const Value& root, const Pieces& pieces);

}  // namespace ckpt::dist
