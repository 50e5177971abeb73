#include "libckpt/run.h"

#include <cstdio>

#include "libckpt/format/format.h"
#include "libckpt/format/shared_tensors.h"
#include "libckpt/open_save.h"
#include "libckpt/run/step_needs.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

constexpr const char* kSteps = "step-*";

const Format& format_of(const RunOptions& options) {
  const Format* format =
      options.save.format.empty() ? find_format_for("step" + options.extension) : find_format(options.save.format);
  if (format != nullptr && format->write != nullptr && !format->several_files) return *format;
  if (format == nullptr)
    throw Error(ErrorCode::usage, core::quote(options.extension) + " is the extension of no format");
  throw Error(ErrorCode::usage, "a step is one file, and " + std::string(format->title) + " is not written as one");
}

void check_place(const Format& format) {
  if (format.holds_metadata) return;
  std::string values = format.torch_save
                           ? "put them among its values, as a dict 'metrics', where they are found as well"
                           : ".ckpt and .safetensors files have one";
  throw Error(ErrorCode::unsupported, "a " + std::string(format.title) + " has no place for metrics; " + values);
}

/// A step that is saved anew would take with it what others find in it.
void require_unneeded(const StepFiles& files, const fs::path& path) {
  for (const detail::StepNeed& need : detail::needs_of(files.folder)) {
    if (need.needed != path.filename().string() || need.file == need.needed) continue;
    throw Error(ErrorCode::refused, "it is not saved again: " + detail::text_of(need) +
                                        "; remove that one first, or save under another number")
        .add_context(path.string());
  }
}

/// The checkpoint as one that shares what the newest other step has.
Checkpoint shared_with(const StepFiles& files, const Checkpoint& checkpoint, const fs::path& path, bool durable) {
  for (const StepFile& step : files.steps) {
    if (step.path == path) continue;
    if (durable) detail::make_files_durable(files.folder, step.path.filename().string());
    return sharing(checkpoint, {step.path});
  }
  return checkpoint;
}

}  // namespace

Run::Run(fs::path folder, RunOptions options) : folder_(std::move(folder)), options_(std::move(options)) {
  const Format& format = format_of(options_);
  if (!options_.dedupe || format.name == "native") return;
  throw Error(ErrorCode::usage,
              "steps that share tensors are .ckpt files, and a " + std::string(format.title) + " holds all of its own");
}

fs::path Run::path_of(std::int64_t step) const {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%09lld", static_cast<long long>(step));
  return folder_ / ("step-" + std::string(digits) + options_.extension);
}

StepFile Run::save(std::int64_t step, const Checkpoint& checkpoint, const Metrics& metrics) {
  if (step < 0) throw Error(ErrorCode::usage, "a step is a count, not " + std::to_string(step));
  if (!metrics.empty()) check_place(format_of(options_));
  fs::path path = path_of(step);
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw Error(ErrorCode::io, "the folder cannot be made: " + error.message()).add_context(folder_.string());
  Checkpoint made = with_metrics(checkpoint, metrics);
  if (fs::exists(path, error)) require_unneeded(steps(), path);
  if (options_.dedupe) made = shared_with(steps(), made, path, options_.save.durable);
  ckpt::save(made, path, options_.save);
  if (!options_.retention) return {path, step, state_of(path)};
  try {
    RetentionPlan plan = plan_retention(steps(), *options_.retention);
    for (PlannedStep& planned : plan.steps) planned.stays |= planned.file.path == path;  // of a run that was set back
    carry_out(plan);
  } catch (const Error& failed) {
    throw Error(failed.code(), "the step is saved, but old ones were not removed: " + failed.message())
        .add_context(folder_.string());
  }
  return {path, step, state_of(path)};
}

StepFiles Run::steps() const {
  std::error_code error;
  if (!fs::exists(folder_, error) && !error) return {folder_, {}, {}, {}};
  return find_steps(folder_, kSteps);
}

std::optional<StepFile> Run::latest(CheckDepth depth, const OpenOptions& options) const {
  LatestStep latest = find_latest(steps(), depth, options);
  for (const SkippedStep& skipped : latest.skipped) {
    if (options.report != nullptr) {
      options.report->warnings.push_back(core::quote(skipped.file.path.filename().string()) +
                                         " is skipped: " + skipped.why);
    }
  }
  return latest.step;
}

}  // namespace ckpt
