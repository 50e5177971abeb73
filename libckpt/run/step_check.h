#pragma once
// Whether a checkpoint of a run can be resumed from, which is the newest such one, and what metrics it was saved with.
// The files are trusted, never a pointer beside them. Thread safety: any number of calls at once. Use:
// ckpt::LatestStep last = ckpt::find_latest(ckpt::find_steps("runs/a"), ckpt::CheckDepth::every_byte);

#include <optional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/options.h"
#include "libckpt/run/step_files.h"

namespace ckpt {

enum class CheckDepth : std::uint8_t {
  structure,   ///< it opens: every tensor lies inside the file
  every_byte,  ///< and every byte was read and compared with the checksums that the file has, as verify() does
};

struct StepCheck {
  bool valid = false;
  std::string why;                                ///< it is not: one sentence
  ChecksumCover checksums = ChecksumCover::none;  ///< what every_byte had to compare with
  std::string format;                             ///< "" where that is not known
};

/// Objects of unknown classes make no checkpoint invalid: they are not damage. What keeps a file from being read is an
/// answer, not an error. Errors: those that are not of the file, Error(internal).
StepCheck check_step(const std::filesystem::path& path, CheckDepth depth, const OpenOptions& options = {});

struct SkippedStep {
  StepFile file;
  std::string why;
};

struct LatestStep {
  std::optional<StepFile> step;  ///< none where no checkpoint is there at all
  StepCheck check;
  std::vector<SkippedStep> skipped;  ///< newer ones that are not valid
};

/// The newest valid one. Errors: Error(corrupt) when checkpoints are there and none is valid, with the reason of the
/// newest: to take that for "none is there" would start a training anew.
LatestStep find_latest(const StepFiles& files, CheckDepth depth, const OpenOptions& options = {});

/// Named numbers of a step: {{"val_loss", 0.3}}. In a file they are metadata, "metric.val_loss": "0.3".
using Metrics = std::vector<std::pair<std::string, double>>;

/// The checkpoint with the metrics among its metadata. Error(usage) for an empty key.
Checkpoint with_metrics(const Checkpoint& checkpoint, const Metrics& metrics);

/// A metric of that name among the metadata, or else a plain number of the dict at the top or of its dict "metrics"
/// (where PyTorch's formats, which have no metadata, keep it). nullopt also for NaN.
std::optional<double> find_metric(const Checkpoint& checkpoint, const std::string& key);

namespace detail {

/// "none of the 3 checkpoints there is valid".
std::string none_valid_text(std::size_t count);

}  // namespace detail
}  // namespace ckpt
