// ckpt fix: does what `ckpt why` proposes.

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/why_target.h"
#include "tools/ckpt/edit/edit.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/address.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

struct Options : EditOptions {
  TargetOptions target;
  bool guess = false;
};

/// "missing keys (2), size mismatch for fc.weight: ...".
std::string problems_text(const ckpt::Diagnosis& d) {
  std::vector<std::string> parts;
  if (!d.missing.empty()) parts.push_back("missing keys (" + core::format_count(d.missing.size()) + ")");
  if (!d.unexpected.empty()) parts.push_back("unexpected keys (" + core::format_count(d.unexpected.size()) + ")");
  if (!d.mismatched.empty()) parts.push_back(d.mismatched.front());
  return core::join(parts, ", ");
}

/// Where no edit helps, the error says what does.
void require_curable(const ckpt::Diagnosis& d) {
  if (!d.readable) {
    const ckpt::Cause& cause = d.causes.front();
    std::string command = ckpt::command_line(d);
    bool foreign = cause.kind == ckpt::CauseKind::not_a_checkpoint || cause.kind == ckpt::CauseKind::unsafe_pickle;
    throw Error(foreign ? ErrorCode::unsupported : ErrorCode::corrupt,
                cause.text + "; " + (command.empty() ? cause.advice : command));
  }
  if (d.names_match() || d.fixable()) return;
  std::string left = problems_text(d);
  std::string reason = d.causes.empty() ? left : d.causes.front().text;
  if (!left.empty() && !d.causes.empty()) reason += "; after the fix: " + left;
  std::string advice = d.causes.empty() ? "" : d.causes.front().advice;
  throw Error(ErrorCode::unsupported,
              "no change to the file makes it load: " + reason + (advice.empty() ? "" : "; " + advice));
}

void write_steps(ckpt::JsonWriter& json, const ckpt::Diagnosis& d) {
  json.key("fixable").value(d.fixable());
  json.key("keys").value(d.after.keys);
  json.key("wanted").value(d.after.wanted);
  json.key("steps").begin_array();
  for (const ckpt::FixStep& step : d.plan.steps) json.value(step.text);
  json.end_array();
  json.key("missing").begin_array();
  for (const std::string& key : d.missing) json.value(key);
  json.end_array();
}

std::string summary(const ckpt::Diagnosis& d) {
  if (d.plan.empty()) return "nothing to fix";
  std::string text = std::to_string(d.plan.steps.size()) + (d.plan.steps.size() == 1 ? " step" : " steps");
  if (d.after.wanted > 0)
    text += ", " + core::format_count(d.after.keys) + " of " + core::format_count(d.after.wanted) + " keys match " +
            core::printable(d.target);
  return text;
}

Edit fix_one(const Options& options, const ckpt::Checkpoint& checkpoint, const ckpt::Diagnosis& d) {
  require_curable(d);
  if (options.in_place && d.plan.loses && !options.force) {
    throw Error(ErrorCode::usage, "the fix leaves out part of the file; use -o to write another file, or -f");
  }
  if (d.guesses() && !options.guess) {
    throw Error(ErrorCode::usage,
                "the fix pairs tensors of equal shape by their order, which is a guess; look at 'ckpt why', and say "
                "--guess to take it");
  }
  Edit edit;
  edit.checkpoint = ckpt::apply_fix(checkpoint, d.plan);
  edit.changed = !d.plan.empty();
  edit.summary = summary(d);
  for (const ckpt::FixStep& step : d.plan.steps) edit.steps.push_back(one_line(step.text));
  edit.json = [d](ckpt::JsonWriter& json) { write_steps(json, d); };
  if (!options.quiet && !d.missing.empty()) {
    print_error_line("ckpt: " + core::printable(checkpoint.path.string()) + ": warning: " +
                     core::format_count(d.missing.size()) + " keys of the model stay missing; load with strict=False");
  }
  return edit;
}

/// All files before the first is written: what cannot be opened gets its diagnosis as the error.
std::vector<ckpt::Diagnosis> diagnose_all(const Options& options) {
  std::vector<ckpt::Diagnosis> all;
  for (const std::string& file : options.files) {
    Address address = parse_address(file);
    all.push_back(ckpt::why(address.path, options.target.why(options, address.at)));
    if (!all.back().readable) core::with_context(address.path.string(), [&] { require_curable(all.back()); });
  }
  return all;
}

int run(Context& context, Options options) {
  options.target.read_message();
  const std::vector<ckpt::Diagnosis> all = diagnose_all(options);
  auto next = all.begin();  // files are edited in their order
  return run_edits(context, options, {"fix", "fixed"}, [&](const ckpt::Checkpoint& checkpoint, const std::string&) {
    return fix_one(options, checkpoint, *next++);
  });
}

}  // namespace

void add_fix(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "fix", "ckpt fix best.pth --for resnet50 -o resnet50.pth\n  ckpt fix best.pth --for resnet50 --dry-run",
      "Do what 'ckpt why' proposes with the same options: take the state dict, rename keys, "
      "drop unexpected keys, add missing ones, transpose, move device tags.");
  auto options = std::make_shared<Options>();
  add_target_options(command, options->target);
  command.add_flag("--guess", options->guess, "also take steps that 'ckpt why' calls a guess");
  add_edit_options(command, *options, "NAME.fixed.EXT beside the input");
  command.remove_options({"--foreign-objects"});
  command.callback([&chosen, options] {
    options->foreign_objects = true;  // the fix turns them into plain data
    chosen = [options](Context& context) { return run(context, *options); };
  });
}

}  // namespace cli
