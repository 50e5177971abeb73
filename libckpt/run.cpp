#include "libckpt/run.h"

#include <cstdio>

#include "libckpt/format/format.h"
#include "libckpt/open_save.h"
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

}  // namespace

Run::Run(fs::path folder, RunOptions options) : folder_(std::move(folder)), options_(std::move(options)) {
  format_of(options_);
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
  ckpt::save(with_metrics(checkpoint, metrics), path, options_.save);
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
