#include "libckpt/run/retention.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "libckpt/io/file_ops.h"
#include "libckpt/io/leftovers.h"
#include "libckpt/open_save.h"
#include "libckpt/run/step_needs.h"
#include "libckpt/run/step_removal.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

class Planner {
 public:
  Planner(const StepFiles& files, const Retention& keep, const OpenOptions& options)
      : files_(files), keep_(keep), options_(options) {
    plan_.folder = files.folder;
    for (const StepFile& file : files.steps) plan_.steps.push_back({.file = file});
    known_.resize(plan_.steps.size());
  }

  RetentionPlan run() {
    keep_last();
    if (!keep_.keep_best.empty()) keep_best();
    for (PlannedStep& step : plan_.steps) {
      if (!step.stays) judge_rest(step);
    }
    keep_needed();
    return std::move(plan_);
  }

 private:
  const StepCheck& check(std::size_t i) {
    if (!known_[i]) known_[i] = check_step(plan_.steps[i].file.path, CheckDepth::every_byte, options_);
    plan_.steps[i].is_valid = known_[i]->valid;
    return *known_[i];
  }

  static void keep(PlannedStep& step, const std::string& why) {
    step.stays = true;
    step.why += (step.why.empty() ? "" : "; ") + why;
  }

  /// Damaged ones among the newest stay too: much of them may be rescued, and nothing replaces them yet.
  void keep_last() {
    std::size_t valid = 0;
    for (std::size_t i = 0; i < plan_.steps.size() && valid < keep_.keep_last; ++i) {
      const StepCheck& found = check(i);
      if (found.valid) ++valid;
      std::string last =
          keep_.keep_last == 1 ? "the last valid one" : "one of the last " + std::to_string(keep_.keep_last);
      keep(plan_.steps[i], found.valid ? last : "not valid, and not counted: " + found.why);
    }
    if (valid > 0 || plan_.steps.empty()) return;
    throw Error(ErrorCode::corrupt, detail::none_valid_text(plan_.steps.size()) + ", so none is removed; the newest, " +
                                        core::quote(plan_.steps[0].file.path.filename().string()) + ": " +
                                        known_[0]->why)
        .add_context(plan_.folder.string());
  }

  /// What cannot be opened stays: it may be the best.
  std::optional<double> metric_of(PlannedStep& step) const {
    try {
      OpenOptions options = options_;
      options.look_past_foreign = true;
      Report unheard;
      options.report = &unheard;
      return find_metric(open(step.file.path, options), keep_.keep_best);
    } catch (const Error& error) {
      if (!step.stays) keep(step, "its " + keep_.keep_best + " is not known: " + core::printable(error.message()));
      return {};
    }
  }

  /// The best of those that are valid, and damaged ones that were better; of equal ones the newest.
  void keep_best() {
    std::vector<std::pair<double, std::size_t>> ranked;
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      if (std::optional<double> metric = metric_of(plan_.steps[i])) ranked.emplace_back(*metric, i);
    }
    plan_.found_metric = !ranked.empty();
    std::stable_sort(ranked.begin(), ranked.end(), [&](const auto& a, const auto& b) {
      return keep_.best == Best::highest ? a.first > b.first : a.first < b.first;
    });
    for (const auto& [metric, i] : ranked) {
      const StepCheck& found = check(i);
      std::string why = "best " + keep_.keep_best + ": " + core::python_float(metric);
      keep(plan_.steps[i], found.valid ? why : why + ", but not valid: " + found.why);
      if (found.valid) return;
    }
  }

  void judge_rest(PlannedStep& step) const {
    std::string name = step.file.path.filename().string();
    for (const auto& [link, target] : files_.links) {
      if (target == name) return keep(step, "the link " + core::quote(link) + " leads to it");
    }
    std::string why = detail::why_it_stays(step.file);
    if (!why.empty()) return keep(step, why);
    step.bytes = detail::removable_bytes(step.file);
  }

  /// What the files that stay, steps of the run or others of the folder, find in one that would go; and what that one
  /// needs in turn.
  void keep_needed() {
    const std::vector<detail::StepNeed> needs = detail::needs_of(files_.folder);
    auto find = [&](const std::string& name) -> PlannedStep* {
      auto at = std::ranges::find_if(
          plan_.steps, [&](const PlannedStep& step) { return step.file.path.filename().string() == name; });
      return at == plan_.steps.end() ? nullptr : &*at;
    };
    for (bool found = true; found;) {
      found = false;
      for (const detail::StepNeed& need : needs) {
        const PlannedStep* user = find(need.file);
        PlannedStep* step = find(need.needed);
        if (step == nullptr || step == user || (user != nullptr && !user->stays)) continue;
        step->is_needed = true;
        if (step->stays) continue;
        keep(*step, detail::text_of(need));
        step->bytes = 0;
        found = true;
      }
    }
  }

  const StepFiles& files_;
  const Retention& keep_;
  const OpenOptions& options_;
  RetentionPlan plan_;
  std::vector<std::optional<StepCheck>> known_;
};

void make_names_durable(int folder, const char* doing) {
  int error = detail::sync_folder(folder);
  if (error != 0) detail::throw_errno(error, doing);
}

/// Whatever saved them may have left them to the page cache; then a power cut would take them and leave nothing.
void secure(int folder, const RetentionPlan& plan) {
  for (const PlannedStep& step : plan.steps) {
    if (!(step.is_valid || step.is_needed) || !step.stays) continue;
    if (state_of(step.file.path) != step.file.seen) {
      throw Error(ErrorCode::io, "it was changed while it was read, so nothing was removed")
          .add_context(step.file.path.string());
    }
    detail::make_durable(folder, step.file);
  }
  make_names_durable(folder,
                     "cannot make the checkpoints that stay durable (fsync of the folder), so nothing was removed");
}

/// What writers that died left; bytes freed.
std::uint64_t sweep(const std::filesystem::path& folder) {
  std::uint64_t freed = 0;
  for (const Leftover& left : sweep_leftovers(folder)) freed += left.size;
  sweep_hidden_folders(folder);
  return freed;
}

}  // namespace

RetentionPlan plan_retention(const StepFiles& files, const Retention& keep, const OpenOptions& options) {
  if (keep.keep_last == 0) throw Error(ErrorCode::usage, "the last valid checkpoint always stays: keep 1 at least");
  return Planner(files, keep, options).run();
}

std::uint64_t carry_out(const RetentionPlan& plan) {
  auto goes = [](const PlannedStep& step) { return !step.stays; };
  if (std::none_of(plan.steps.begin(), plan.steps.end(), goes)) return sweep(plan.folder);
  detail::Fd folder(::open(plan.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) detail::throw_errno(errno, "cannot open the folder " + core::quote(plan.folder.string()));
  secure(folder.get(), plan);
  std::uint64_t freed = 0;
  std::vector<std::string> failures;
  for (auto step = plan.steps.rbegin(); step != plan.steps.rend(); ++step) {
    if (step->stays) continue;
    try {
      detail::remove_step(folder.get(), step->file);
      freed += step->bytes;
    } catch (const Error& error) {
      failures.push_back(core::quote(step->file.path.filename().string()) + " (" + error.message() + ")");
    }
  }
  make_names_durable(folder.get(),
                     "old checkpoints were removed, but may be back after a power cut: fsync of the folder");
  freed += sweep(plan.folder);
  if (failures.empty()) return freed;
  throw Error(ErrorCode::io, "old checkpoints could not be removed: " + core::join(failures, ", "))
      .add_context(plan.folder.string());
}

}  // namespace ckpt
