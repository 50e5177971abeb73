#pragma once
// Run: the folder of a training run, one checkpoint a step: runs/a/step-000001200.ckpt. Each is saved whole and
// durable, its metrics are metadata of the file, and the list of files is all there is: no second file can disagree
// with it. The newest checkpoint is the newest that is valid, whatever a killed job or a full disk left. Thread safety:
// one thread. Use: ckpt::Run run("runs/a", {.retention = ckpt::Retention{.keep_last = 3}}); run.save(1200, checkpoint,
// {{"val_acc", 0.93}}); std::optional<ckpt::StepFile> last = run.latest();

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "libckpt/checkpoint.h"
#include "libckpt/options.h"
#include "libckpt/run/retention.h"
#include "libckpt/run/step_check.h"
#include "libckpt/run/step_files.h"

namespace ckpt {

struct RunOptions {
  std::string extension = ".ckpt";  ///< of new checkpoints, which says their format
  SaveOptions save = {};            ///< how they are written
  /// Steps of .ckpt do not hold again the tensors (from 4 KiB on) that the newest step before them has bit for bit: a
  /// step names the step that holds them, which stays as long as one needs it. Steps that share belong in one folder.
  bool dedupe = false;
  /// What stays after each save; without it, everything. A metric that no checkpoint has keeps none.
  std::optional<Retention> retention = {};
};

class Run {
 public:
  /// Makes nothing: the folder is made by the first save. Errors: Error(usage) for an extension of no format, or of one
  /// that takes several files, or with dedupe for one other than .ckpt.
  explicit Run(std::filesystem::path folder, RunOptions options = {});

  const std::filesystem::path& folder() const { return folder_; }
  /// Where save() puts a step.
  std::filesystem::path path_of(std::int64_t step) const;

  /// Saves a step, in place of one of the same number, then removes what options.retention lets go, never
  /// the one just saved. Errors: those of ckpt::save(); Error(usage) for a negative step; Error(unsupported) for
  /// metrics in a format without metadata; Error(refused) when another step needs tensors of the file in whose place
  /// this one would come. Error(io) from the removal begins with "the step is saved".
  StepFile save(std::int64_t step, const Checkpoint& checkpoint, const Metrics& metrics = {});

  /// The checkpoints there, newest first, unread. Empty without the folder. Errors: those of find_steps().
  StepFiles steps() const;

  /// The newest valid one; nullopt where there is no checkpoint at all. Each one that is skipped is a warning in
  /// options.report. Errors: Error(corrupt) when checkpoints are there and none is valid.
  std::optional<StepFile> latest(CheckDepth depth = CheckDepth::every_byte, const OpenOptions& options = {}) const;

 private:
  std::filesystem::path folder_;
  RunOptions options_;
};

}  // namespace ckpt
