// ckpt gc: removes the checkpoints of a training run that nobody needs any more.

#include <algorithm>
#include <array>

#include "libckpt/run/retention.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/output/listing.h"
#include "tools/support/interrupt.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

struct Options : ReadOptions {
  std::string folder;
  std::string pattern;
  unsigned keep_last = 0;  ///< 0: not given
  std::string keep_best;
  bool dry_run = false;
};

bool has_part(const std::string& key, const std::vector<std::string_view>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return key.find(part) != std::string::npos; });
}

/// Which end of a metric of that name everybody calls the best. Where that is not plain, it has to be said.
ckpt::Best best_of(const std::string& key) {
  bool is_cost = has_part(key, {"loss", "err", "perplexity", "ppl", "mse", "mae"});
  bool is_score = has_part(key, {"acc", "f1", "auc", "bleu", "iou", "top1", "top5", "precision", "recall", "score"});
  if (is_cost != is_score) return is_cost ? ckpt::Best::lowest : ckpt::Best::highest;
  throw Error(ErrorCode::usage, "--keep-best " + core::quote(key) + ": say which end is the best, " +
                                    core::quote(key + ":min") + " or " + core::quote(key + ":max"));
}

ckpt::Retention retention_of(const Options& options) {
  if (options.keep_last == 0 && options.keep_best.empty()) {
    throw Error(ErrorCode::usage, "say what stays: --keep-last N, --keep-best KEY or both");
  }
  ckpt::Retention keep{.keep_last = std::max(options.keep_last, 1U), .keep_best = options.keep_best};
  if (keep.keep_best.empty()) return keep;
  std::size_t colon = keep.keep_best.rfind(':');
  std::string end = colon == std::string::npos ? "" : keep.keep_best.substr(colon + 1);
  if (end == "min" || end == "max") {
    keep.keep_best.resize(colon);
    keep.best = end == "min" ? ckpt::Best::lowest : ckpt::Best::highest;
  } else {
    keep.best = best_of(keep.keep_best);
  }
  if (keep.keep_best.empty()) throw Error(ErrorCode::usage, "--keep-best names no metric");
  return keep;
}

ckpt::RetentionPlan make_plan(const Options& options, const ckpt::StepFiles& files, ckpt::Report& report) {
  ckpt::Retention keep = retention_of(options);
  ckpt::RetentionPlan plan = ckpt::plan_retention(files, keep, options.open(report));
  if (keep.keep_best.empty() || plan.found_metric || plan.steps.empty()) return plan;
  throw Error(ErrorCode::key, "no checkpoint has a metric " + core::quote(keep.keep_best) +
                                  ", so nothing is removed; 'ckpt meta FILE' shows what a file has")
      .add_context(options.folder);
}

std::size_t count_kept(const ckpt::RetentionPlan& plan) {
  auto stays = [](const ckpt::PlannedStep& step) { return step.stays; };
  return static_cast<std::size_t>(std::count_if(plan.steps.begin(), plan.steps.end(), stays));
}

std::uint64_t planned_bytes(const ckpt::RetentionPlan& plan) {
  std::uint64_t bytes = 0;
  for (const ckpt::PlannedStep& step : plan.steps) bytes += step.stays ? 0 : step.bytes;
  return bytes;
}

void print_plan(Output& out, const Options& options, const ckpt::StepFiles& files, const ckpt::RetentionPlan& plan) {
  for (const ckpt::PlannedStep& step : plan.steps) {
    std::string start = core::printable(step.file.path.string()) + ": ";
    std::string removed = options.dry_run ? "would be removed" : "removed";
    out.print(start + (step.stays ? "kept: " + step.why : removed + ", " + core::format_size(step.bytes)) + "\n");
  }
  for (const ckpt::IgnoredFile& ignored : files.ignored) {
    std::string path = (files.folder / ignored.name).string();
    out.print(core::printable(path) + ": ignored: " + ignored.why + "\n");
  }
}

void print_sum(Output& out, const Options& options, const ckpt::RetentionPlan& plan, std::uint64_t freed) {
  std::size_t kept = count_kept(plan);
  out.print(core::printable(options.folder) + ": " + core::format_count(kept) + " kept, " +
            core::format_count(plan.steps.size() - kept) + (options.dry_run ? " would be removed, " : " removed, ") +
            core::format_size(freed) + (options.dry_run ? "; nothing was touched (dry run)" : " freed") + "\n");
}

std::string json_of(const Options& options, const ckpt::StepFiles& files, const ckpt::RetentionPlan& plan,
                    std::uint64_t freed, const ckpt::Report& report) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("folder").value(options.folder);
  json.key("dry_run").value(options.dry_run);
  json.key("bytes_freed").value(freed);
  for (bool kept : {true, false}) {
    json.key(kept ? "kept" : "removed").begin_array();
    for (const ckpt::PlannedStep& step : plan.steps) {
      if (step.stays != kept) continue;
      json.begin_object();
      json.key("path").value(step.file.path.string());
      json.key("step").value(step.file.step);
      kept ? json.key("why").value(step.why) : json.key("bytes").value(step.bytes);
      json.end_object();
    }
    json.end_array();
  }
  json.key("ignored").begin_array();
  for (const ckpt::IgnoredFile& ignored : files.ignored) {
    json.begin_object();
    json.key("name").value(ignored.name);
    json.key("why").value(ignored.why);
    json.end_object();
  }
  json.end_array();
  write_report(json, report);
  json.end_object();
  return json.text() + "\n";
}

int run(Context& context, const Options& options) {
  ckpt::Report report;
  ckpt::StepFiles files = ckpt::find_steps(options.folder, options.pattern);
  ckpt::RetentionPlan plan = make_plan(options, files, report);
  std::uint64_t freed = planned_bytes(plan);
  if (!options.dry_run) {
    InterruptGuard guard;
    freed = ckpt::carry_out(plan);
  }
  say_report(options, options.folder, report);
  if (options.json) {
    context.out.print(json_of(options, files, plan, freed, report));
  } else if (!options.quiet) {
    print_plan(context.out, options, files, plan);
    print_sum(context.out, options, plan, freed);
  }
  return kDone;
}

}  // namespace

void add_gc(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "gc", "ckpt gc runs --keep-last 3 --dry-run\n  ckpt gc runs --keep-last 2 --keep-best val_acc:max",
      "Remove old checkpoints from the folder of a training run. The newest valid ones stay, which are read to the "
      "last byte and made durable before anything goes; damaged ones do not count, and the last valid one stays in "
      "any case. A checkpoint is a file or folder whose name counts on (step-000001200.ckpt, epoch_12.pth, "
      "checkpoint-500/); whatever is not surely one stays, and so does what a symbolic link of the folder leads to, or "
      "what "
      "holds tensors that another file there needs.");
  auto options = std::make_shared<Options>();
  command.add_option("DIR", options->folder, "folder of a run").required().type_name("");
  command.add_option("--keep-last", options->keep_last, "keep the newest N valid checkpoints (default: 1)")
      .type_name("N")
      .from(1);
  command
      .add_option("--keep-best", options->keep_best,
                  "keep the best one by this metric as well: metadata 'metric.KEY' or 'KEY', or a number of that name "
                  "among the values; :min or :max says which end is the best, which is plain for a loss or an accuracy")
      .type_name("KEY[:min|max]");
  command.add_option("--pattern", options->pattern, "only names that match this glob, such as 'epoch_*.pth'")
      .type_name("GLOB");
  command.add_flag("-n,--dry-run", options->dry_run, "say what would be removed and why the others stay");
  add_read_options(command, *options);
  command.remove_options({"--foreign-objects"});  // objects of unknown classes are no damage
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
