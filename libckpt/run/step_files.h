#pragma once
// The checkpoints of a training run in a folder, by their names alone: files and folders that count on in one family of
// names (step-000001200.ckpt, epoch_12.pth, checkpoint-500/), the newest first. Nothing is opened but what has no
// extension to tell it by. Thread safety: any number of calls at once. Use:
// ckpt::StepFiles found = ckpt::find_steps("runs/a"); for (const ckpt::StepFile& step : found.steps) ...

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ckpt {

/// Who a file is and which state it is in: another file of its name, or a change of it, differs.
struct FileState {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t changed = 0;  ///< ns
  bool operator==(const FileState&) const = default;
};

/// One checkpoint: a file, an index whose shards lie beside it, or a folder.
struct StepFile {
  std::filesystem::path path;
  std::int64_t step = 0;  ///< the last number that counts in its name: steps, or epochs
  FileState seen = {};    ///< when it was found
};

/// A checkpoint by its name, or a link, that is no step of the run.
struct IgnoredFile {
  std::string name;
  std::string why;
};

struct StepFiles {
  std::filesystem::path folder;
  std::vector<StepFile> steps;  ///< newest first
  std::vector<IgnoredFile> ignored;
  std::vector<std::pair<std::string, std::string>>
      links;  ///< symbolic links of the folder, and the entry each leads to
};

/// `pattern`: a family ("epoch_*"), or a glob (transform/glob.h) that chooses among names; "" for all. Where names are
/// of several families, the one whose numbers stand behind "epoch", "step" and the like is taken. Errors: Error(usage)
/// when several families remain, or one step is there twice: the order would be a guess; Error(io) for a folder that
/// cannot be read.
StepFiles find_steps(const std::filesystem::path& folder, const std::string& pattern = "");

/// The state of what lies at `path` now; {} for nothing.
FileState state_of(const std::filesystem::path& path);

}  // namespace ckpt
