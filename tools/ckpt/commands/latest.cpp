// ckpt latest: the newest checkpoint of a training run that is fit to resume from.

#include "libckpt/run/step_check.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/output/listing.h"

namespace cli {
namespace {

struct Options : ReadOptions {
  std::string folder;
  std::string pattern;
  bool valid = false;
};

std::string json_of(const Options& options, const ckpt::StepFiles& files, const ckpt::LatestStep& latest,
                    const ckpt::Report& report) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("folder").value(options.folder);
  if (latest.step) {
    json.key("path").value(latest.step->path.string());
    json.key("step").value(latest.step->step);
    json.key("format").value(latest.check.format);
    json.key("checked").value(options.valid ? "every byte" : "structure");
    if (options.valid) json.key("checksums").value(ckpt::name(latest.check.checksums));
  } else {
    json.key("path").null();
  }
  json.key("skipped").begin_array();
  for (const ckpt::SkippedStep& skipped : latest.skipped) {
    json.begin_object();
    json.key("path").value(skipped.file.path.string());
    json.key("step").value(skipped.file.step);
    json.key("why").value(skipped.why);
    json.end_object();
  }
  json.end_array();
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

/// On standard error, so that the path stands alone on standard output.
void say_skipped(const Options& options, const ckpt::StepFiles& files, const ckpt::LatestStep& latest) {
  if (options.quiet) return;
  for (const ckpt::SkippedStep& skipped : latest.skipped) {
    print_error_line("ckpt: " + core::printable(skipped.file.path.string()) + ": skipped: " + skipped.why);
  }
  for (const ckpt::IgnoredFile& ignored : files.ignored) {
    std::string path = (files.folder / ignored.name).string();
    print_error_line("ckpt: " + core::printable(path) + ": ignored: " + ignored.why);
  }
}

int run(Context& context, const Options& options) {
  ckpt::Report report;
  ckpt::StepFiles files = ckpt::find_steps(options.folder, options.pattern);
  ckpt::CheckDepth depth = options.valid ? ckpt::CheckDepth::every_byte : ckpt::CheckDepth::structure;
  ckpt::LatestStep latest = ckpt::find_latest(files, depth, options.open(report));
  if (options.json) {
    context.out.print(json_of(options, files, latest, report));
    return latest.step ? kDone : kNo;
  }
  say_skipped(options, files, latest);
  if (!latest.step) {
    print_error_line("ckpt: " + core::printable(options.folder) + ": no checkpoint of a run is there");
    return kNo;
  }
  context.out.print(latest.step->path.string() + "\n");
  return kDone;
}

}  // namespace

void add_latest(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "latest", "ckpt latest runs\n  last=$(ckpt latest --valid runs) && ckpt ls \"$last\"",
      "Print the path of the newest checkpoint in the folder of a training run: the highest number in names such as "
      "step-000001200.ckpt, epoch_12.pth or checkpoint-500/, of those that can be opened. What is skipped is named on "
      "standard error. Exit 1 when no checkpoint is there, 3 when none of those that are there is valid.");
  auto options = std::make_shared<Options>();
  command.add_option("DIR", options->folder, "folder of a run").required().type_name("");
  command.add_flag("--valid", options->valid,
                   "read every byte and compare it with the checksums that the file has, as 'ckpt verify' does");
  command.add_option("--pattern", options->pattern, "only names that match this glob, such as 'epoch_*.pth'")
      .type_name("GLOB");
  add_read_options(command, *options);
  command.remove_options({"--foreign-objects"});  // objects of unknown classes are no damage
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
