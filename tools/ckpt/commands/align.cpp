// ckpt align: learns the rules that make one checkpoint of another.

#include <algorithm>

#include "libckpt/analyze/align.h"
#include "libckpt/io/atomic_file.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/input.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/progress.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

struct Options : ReadOptions {
  std::string a;
  std::string b;
  std::string output;
  bool force = false;
  bool dry_run = false;
  bool pairs = false;
  bool exact = false;
  bool by_content = false;
  ckpt::AlignOptions align;
};

ckpt::AlignResult examine(const Options& options, const Input& a, const Input& b) {
  ckpt::AlignOptions how = options.align;
  how.generalize = !options.exact;
  how.by_shape = !options.by_content;
  how.threads = options.threads;
  ProgressBar bar("reading", !options.quiet);
  how.progress = bar.hook();
  return ckpt::align(a.checkpoint, b.checkpoint, how);
}

/// "60 pairs by name alone, 3 by structure alone"; empty when values prove all of them.
std::string unproved_text(const ckpt::AlignResult& result) {
  using By = ckpt::AlignedTensors::By;
  std::vector<std::string> parts;
  for (By by : {By::name, By::structure}) {
    auto count =
        std::count_if(result.pairs.begin(), result.pairs.end(), [by](const auto& pair) { return pair.by == by; });
    if (count == 0) continue;
    std::string text = parts.empty() ? count_of(static_cast<std::uint64_t>(count), "pair")
                                     : core::format_count(static_cast<std::uint64_t>(count));
    parts.push_back(text + " by " + std::string(ckpt::name(by)) + " alone");
  }
  return core::join(parts, ", ");
}

/// What cannot be written to standard output goes to standard error there: the rules may be what is piped on.
void say_result(Context& context, const Options& options, const ckpt::AlignResult& result) {
  std::string text;
  if (options.pairs) {
    for (const ckpt::AlignedTensors& pair : result.pairs) text += describe(pair) + "\n";
  }
  for (const std::string& name : result.only_in_a) {
    text += (options.align.drop_unused ? "dropped: " : "only in A: ") + core::printable(name) + "\n";
  }
  for (const std::string& name : result.only_in_b) text += "only in B: " + core::printable(name) + "\n";
  for (const ckpt::UndecidedTensors& tensors : result.undecided) text += "not decided: " + describe(tensors) + "\n";
  for (const std::string& name : result.wrong) text += "not reproduced: " + core::printable(name) + "\n";
  text += count_of(result.rules.size(), "rule") + "; " + count_of(result.verified, "tensor") +
          " of B reproduced bit for bit";
  if (result.other_values > 0) {
    text += ", " + core::format_count(result.other_values) + " with other values";
  }
  if (std::string unproved = unproved_text(result); !unproved.empty()) text += " (" + unproved + ")";
  text += result.complete ? ": everything is explained" : ": not everything is explained";
  if (options.output.empty()) {
    print_error_line(text);
  } else {
    context.out.print(text + "\n");
  }
}

void write_names(ckpt::JsonWriter& json, std::string_view key, const std::vector<std::string>& names) {
  json.key(key).begin_array();
  for (const std::string& name : names) json.value(name);
  json.end_array();
}

std::string json_text(const Input& a, const Input& b, const ckpt::AlignResult& result) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("a").value(a.address.text());
  json.key("b").value(b.address.text());
  json.key("complete").value(result.complete);
  json.key("verified").value(result.verified);
  json.key("other_values").value(result.other_values);
  json.key("rules").value(ckpt::to_toml(result));
  json.key("pairs").begin_array();
  for (const ckpt::AlignedTensors& pair : result.pairs) {
    json.begin_object();
    write_names(json, "from", pair.from);
    write_names(json, "to", pair.to);
    json.key("how").value(pair.how);
    json.key("by").value(ckpt::name(pair.by));
    json.end_object();
  }
  json.end_array();
  write_names(json, "only_in_a", result.only_in_a);
  write_names(json, "only_in_b", result.only_in_b);
  json.key("undecided").begin_array();
  for (const ckpt::UndecidedTensors& tensors : result.undecided) {
    json.begin_object();
    write_names(json, "a", tensors.a);
    write_names(json, "b", tensors.b);
    json.end_object();
  }
  json.end_array();
  write_names(json, "wrong", result.wrong);
  json.end_object();
  return json.take() + "\n";
}

int run(Context& context, const Options& options) {
  Input a = open_input(options, options.a);
  Input b = open_input(options, options.b);
  ckpt::AlignResult result = examine(options, a, b);
  say_damage(options, a);
  say_damage(options, b);
  std::string rules = ckpt::to_toml(result);
  bool to_file = !options.output.empty();
  if (to_file && !options.dry_run) {
    ckpt::AtomicFile file(options.output, {.overwrite = options.force});
    file.write(core::as_bytes(rules));
    file.commit();
  }
  if (options.json) {
    context.out.print(json_text(a, b, result));
  } else {
    if (!to_file || options.dry_run) context.out.print(rules);
    if (!options.quiet) say_result(context, options, result);
  }
  return result.complete ? kDone : kNo;
}

}  // namespace

void add_align(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "align", "ckpt align torchvision.pth timm.safetensors -o rules.toml\n  ckpt align --pairs old.pth new.pth",
      "Learn the rules that turn A into B: renamed, transposed, reshaped, split, fused, cast and tied tensors, "
      "found by equal names, then by values, then by their place in the model, and checked. What rests on names or "
      "places alone is said; what nothing decides is left out. 'ckpt rename --map rules.toml' applies the rules. "
      "Exit 1 when something stays unexplained.");
  auto options = std::make_shared<Options>();
  command.add_option("A", options->a, "checkpoint, or FILE::path").required().type_name("");
  command.add_option("B", options->b, "checkpoint, or FILE::path").required().type_name("");
  command.add_option("-o,--output", options->output, "file for the rules (default: standard output)")
      .type_name("RULES");
  command.add_flag("-f,--force", options->force, "overwrite an existing file");
  command.add_flag("-n,--dry-run", options->dry_run, "write no file");
  command.add_flag("--drop-unused", options->align.drop_unused, "add rules that drop what B does not have");
  command.add_flag("--by-content", options->by_content, "do not pair tensors with different values");
  command.add_flag("--exact", options->exact, "one pair per key, no patterns");
  command.add_flag("--pairs", options->pairs, "list which tensor became which");
  add_read_options(command, *options);
  add_remote_options(command);
  command.callback([&chosen, options] {
    if (options->output == "-") options->output.clear();
    chosen = [options](Context& context) { return run(context, *options); };
  });
}

}  // namespace cli
