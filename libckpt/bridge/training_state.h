#pragma once
// A whole training run in one file: model, optimizer, random generators, and how far it got. Resuming continues the
// very same run, bit for bit. The tree is what PyTorch programs save by convention:
//   {'epoch': 3, 'step': 2814, 'model': OrderedDict, 'optimizer': {'state': ..., 'param_groups': ...},
//    'rng_state': uint8 tensor, 'cuda_rng_state': [uint8 tensor, ...], 'extra': {...}}
// Thread safety: any number of calls at once on different models and files.
// Use: ckpt::save_training("run.ckpt", model, optimizer, {.epoch = 3}); ckpt::TrainingProgress done =
// ckpt::resume_training("run.ckpt", model, optimizer);

#include <cstdint>
#include <filesystem>
#include <optional>

#include "libckpt/bridge/module_state.h"
#include "libckpt/bridge/training_parts.h"
#include "libckpt/run.h"
#include "libcore/optim/optimizer.h"

namespace ckpt {

class Snapshot;

struct TrainingProgress {
  std::int64_t epoch = 0;  ///< epochs finished
  std::int64_t step = 0;   ///< optimizer steps done
  Value extra = {};        ///< whatever else the program keeps: a dict of plain values, or null
};

/// Writes everything, with the state of the default generators of the CPU and of all CUDA devices.
void save_training(const std::filesystem::path& path, const core::Module& model, const core::Optimizer& optimizer,
                   const TrainingProgress& progress = {}, const SaveOptions& options = {});
/// A run of any parts, each under its name.
void save_training(const std::filesystem::path& path, const TrainingParts& parts, const TrainingProgress& progress = {},
                   const SaveOptions& options = {});

struct ResumeOptions {
  MapLocation map_location = {};
  bool reconcile = true;     ///< as LoadIntoOptions::reconcile
  bool check_hashes = true;  ///< a training run is worth reading every byte twice
  OpenOptions open = {};
  DeviceRing ring = {};  ///< what lives on a GPU goes there as load() does it
};

/// Puts model, optimizer and generators into the state that was saved. Files that PyTorch programs saved under the same
/// names work as well; generators are left alone when the file has none. State of the optimizer goes to its parameters
/// by name where a group of the file has param_names (PyTorch 2.6 and later write them) and these are, in any order,
/// the names that the model has for the parameters of the optimizer's group; else, and in to_optimizer_state(), by
/// order, as PyTorch's load_state_dict always does. Errors: those of load_into(); Error(key) naming what the file
/// lacks; Error(value) with PyTorch's text when the optimizer's groups do not fit.
TrainingProgress resume_training(const std::filesystem::path& path, core::Module& model, core::Optimizer& optimizer,
                                 const ResumeOptions& options = {});
/// Modules first, in their order, then optimizers, then the rest. Nothing is changed where the file lacks a part, a
/// device is not there or the first module does not fit.
TrainingProgress resume_training(const std::filesystem::path& path, const TrainingParts& parts,
                                 const ResumeOptions& options = {});

/// The same in the folder of a run, as its step `progress.step`. Errors: those of Run::save().
StepFile save_training(Run& run, const core::Module& model, const core::Optimizer& optimizer,
                       const TrainingProgress& progress, const Metrics& metrics = {});
StepFile save_training(Run& run, const TrainingParts& parts, const TrainingProgress& progress,
                       const Metrics& metrics = {});

/// resume_training() from the newest valid checkpoint of the run; nullopt, with nothing changed, where none is there
/// yet. What was skipped is in options.open.report. Errors: those of Run::latest(), which tells a run that has no
/// checkpoint from one whose checkpoints are all damaged, and of resume_training().
std::optional<TrainingProgress> resume_latest(const Run& run, core::Module& model, core::Optimizer& optimizer,
                                              const ResumeOptions& options = {});
std::optional<TrainingProgress> resume_latest(const Run& run, const TrainingParts& parts,
                                              const ResumeOptions& options = {});

/// What save_training() writes; with a snapshot, over its copies.
Checkpoint training_checkpoint(const core::Module& model, const core::Optimizer& optimizer,
                               const TrainingProgress& progress, Snapshot* snapshot = nullptr);

/// {'state': {0: {...}}, 'param_groups': [{..., 'params': [0]}]}, as torch's optimizer.state_dict(), and back.
Value to_value(const core::OptimizerState& state);
core::OptimizerState to_optimizer_state(const Value& value, const MapLocation& map_location = {});

/// The state of a learning-rate schedule as torch's scheduler.state_dict(), and back. Keys keep their order.
/// Error(type) naming an entry of a kind that no schedule has.
Value to_value(const core::OptionMap& state);
core::OptionMap to_option_map(const Value& value);

}  // namespace ckpt
