// ckpt diff: what differs between two checkpoints of any formats.

#include <algorithm>

#include "libckpt/analyze/diff.h"
#include "libcore/base/error.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/input.h"
#include "tools/ckpt/line/rule_options.h"
#include "tools/ckpt/output/diff_output.h"
#include "tools/ckpt/output/progress.h"

namespace cli {
namespace {

struct Options : ReadOptions {
  bool dequantize = false;
  std::string a;
  std::string b;
  std::string rules;
  std::string html;
  std::vector<std::string> fail_on;
  bool summary = false;
  bool all = false;
  ckpt::DiffOptions diff;
};

ckpt::DiffOptions diff_options(const Options& options) {
  ckpt::DiffOptions diff = options.diff;
  diff.threads = options.threads;
  if (!options.rules.empty()) diff.rules = read_rules(options.rules).rules;
  if (options.fail_on.empty()) return diff;
  auto fails = [&](std::string_view what) {
    return std::any_of(options.fail_on.begin(), options.fail_on.end(),
                       [&](const std::string& name) { return name == what || name == "any"; });
  };
  diff.structure = fails("structure");
  diff.values = fails("values");
  diff.plain = fails("plain");
  diff.metadata |= fails("metadata");
  diff.locations |= fails("locations");
  diff.order |= fails("order");
  return diff;
}

int run(Context& context, const Options& options) {
  ckpt::DiffOptions how = diff_options(options);
  Input a = open_input(options, options.a, options.dequantize);
  Input b = open_input(options, options.b, options.dequantize);
  ckpt::DiffResult result;
  {
    ProgressBar bar("comparing", !options.quiet);
    how.progress = bar.hook();
    result = ckpt::diff(a.checkpoint, b.checkpoint, how);
  }
  say_damage(options, a);
  say_damage(options, b);
  if (!options.html.empty()) write_page(diff_page(a, b, result), options.html, context.out);
  if (options.json) {
    context.out.print(diff_json(a, b, result));
  } else if (!options.quiet && options.html != "-") {
    print_diff(context.out, result,
               options.summary ? DiffDetail::summary
               : options.all   ? DiffDetail::all
                               : DiffDetail::folded);
  }
  return result.equal() ? kDone : kNo;
}

void add_scope_options(CommandSpec command, Options& options) {
  command
      .add_option("--ignore-prefix", options.diff.ignore_prefixes,
                  "remove this prefix from the names of both sides first, such as 'module.'; may be repeated")
      .type_name("PREFIX")
      .one_value_each();
  command
      .add_option("--rules", options.rules,
                  "apply these rules to A first, a file or a name of 'ckpt zoo rules', as ckpt rename does")
      .type_name("RULES");
  add_selection_options(command, options.diff.selection);
}

void add_verdict_options(CommandSpec command, Options& options) {
  command
      .add_option("--rtol", options.diff.rtol,
                  "relative tolerance: values may differ by X times the value of B (default: 0)")
      .type_name("X")
      .from(0);
  command.add_option("--atol", options.diff.atol, "absolute tolerance, added to the relative one (default: 0)")
      .type_name("X")
      .from(0);
  command
      .add_option("--fail-on", options.fail_on,
                  "what counts as a difference: structure, values, plain, metadata, locations, order, or any "
                  "(default: structure,values,plain)")
      .type_name("LIST")
      .separated_by(',')
      .one_value_each()
      .one_of({"structure", "values", "plain", "metadata", "locations", "order", "any"});
  command.add_flag("--order", options.diff.order, "the order of tensors counts too");
  command.add_flag("--metadata", options.diff.metadata, "file metadata and module versions count too");
  command.add_flag("--locations", options.diff.locations, "device tags count too");
  OptionSpec all = command.add_flag("--all", options.all, "list what a verdict explains too, and every note");
  command.add_flag("--summary", options.summary, "only the verdict and the totals").excludes(all);
  command.add_option("--html", options.html, "write a page with all differences; - is standard output")
      .type_name("PAGE");
}

}  // namespace

void add_diff(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "diff", "ckpt diff old.pth new.safetensors\n  ckpt diff --rtol 1e-5 best.pth::model last.pth::model",
      "Compare two checkpoints of any formats, bit for bit or within a tolerance, and say in words what "
      "happened; exit 1 when they differ.");
  auto options = std::make_shared<Options>();
  command.add_option("A", options->a, "checkpoint, or FILE::path").required().type_name("");
  command.add_option("B", options->b, "checkpoint, or FILE::path").required().type_name("");
  add_scope_options(command, *options);
  add_verdict_options(command, *options);
  add_dequantize_option(command, options->dequantize);
  add_read_options(command, *options);
  add_io_option(command, *options);
  add_remote_options(command);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
