#pragma once
// Which checkpoints of a run stay and which go. What stays was read to its last byte and is durable before anything is
// removed; a checkpoint that is damaged counts for nothing, and the last good one never goes. What is not provably a
// checkpoint of the run stays as well. Thread safety: one collection of a folder at a time. Use:
// ckpt::RetentionPlan plan = ckpt::plan_retention(ckpt::find_steps("runs/a"), {.keep_last = 3});
// std::uint64_t freed = ckpt::carry_out(plan);

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/run/step_check.h"

namespace ckpt {

/// Which value of a metric is the best.
enum class Best : std::uint8_t { lowest, highest };

struct Retention {
  std::size_t keep_last = 2;   ///< newest valid ones that stay; at least 1
  std::string keep_best = {};  ///< a metric (find_metric()): the best valid one stays as well; "" = none
  Best best = Best::highest;
};

struct PlannedStep {
  StepFile file;
  bool stays = false;
  bool is_valid = false;    ///< every byte was read and found good; false also for what was not looked at
  bool is_needed = false;   ///< a file that stays finds tensors in it
  std::string why = {};     ///< it stays: "one of the last 2", "best val_acc: 0.93", "damaged: ..."
  std::uint64_t bytes = 0;  ///< that its removal frees
};

struct RetentionPlan {
  std::filesystem::path folder;
  std::vector<PlannedStep> steps;  ///< newest first
  bool found_metric = false;       ///< of keep_best, in any of them
};

/// Reads the newest ones until keep_last of them are found valid, and the structure of all. Removes nothing. Errors:
/// Error(usage) for keep_last 0; Error(corrupt) when there are checkpoints and none is valid.
RetentionPlan plan_retention(const StepFiles& files, const Retention& keep, const OpenOptions& options = {});

/// Makes those that stay durable, removes the others, the oldest first, and what writers that died left in the folder.
/// Returns the bytes freed. Errors: Error(io) naming what could not be removed, after everything else was; before the
/// first removal when what stays was changed since it was read, or cannot be made durable.
std::uint64_t carry_out(const RetentionPlan& plan);

}  // namespace ckpt
