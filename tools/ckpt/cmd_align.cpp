// ckpt align: learns the rules that make one checkpoint of another.

#include "libckpt/analyze/align.h"
#include "libckpt/io/atomic_file.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/input.h"
#include "tools/ckpt/listing.h"
#include "tools/ckpt/progress.h"

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
  try {
    return ckpt::align(a.checkpoint, b.checkpoint, how);
  } catch (core::Error& error) {
    name_input_at_fault(error, {&a, &b});
    throw;
  }
}

std::string line_of(const ckpt::AlignedTensors& pair) {
  auto list = [](const std::vector<std::string>& names) {
    std::vector<std::string> shown;
    for (const std::string& name : names) shown.push_back(core::printable(name));
    return core::join(shown, ", ");
  };
  std::string line = list(pair.from) + " -> " + list(pair.to);
  if (!pair.how.empty()) line += "  (" + pair.how + ")";
  if (pair.by != ckpt::AlignedTensors::By::content) line += "  (by " + std::string(ckpt::name(pair.by)) + ")";
  return line + "\n";
}

/// What cannot be written to standard output goes to standard error there: the rules may be what is piped on.
void say_result(Context& context, const Options& options, const ckpt::AlignResult& result) {
  std::string text;
  if (options.pairs) {
    for (const ckpt::AlignedTensors& pair : result.pairs) text += line_of(pair);
  }
  for (const std::string& name : result.only_in_a) {
    text += (options.align.drop_unused ? "dropped: " : "only in A: ") + core::printable(name) + "\n";
  }
  for (const std::string& name : result.only_in_b) text += "only in B: " + core::printable(name) + "\n";
  for (const std::string& name : result.wrong) text += "not reproduced: " + core::printable(name) + "\n";
  text += count_of(result.rules.size(), "rule") + "; " + count_of(result.verified, "tensor") +
          " of B reproduced bit for bit";
  if (result.other_values > 0) {
    text += ", " + core::format_count(result.other_values) + " with other values by name and shape";
  }
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
  json.key("rules").value(ckpt::to_toml(result.rules));
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
  write_names(json, "wrong", result.wrong);
  json.end_object();
  return json.take() + "\n";
}

int run(Context& context, const Options& options) {
  Input a = open_input(options, options.a);
  Input b = open_input(options, options.b);
  ckpt::AlignResult result = examine(options, a, b);
  std::string rules = ckpt::to_toml(result.rules);
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
      "Learn the rules that make B of A: renamed, transposed, reshaped, split, fused, cast and tied tensors, "
      "found by their contents, then by names, shapes and order, and checked. 'ckpt rename --map rules.toml' "
      "applies them. Exit 1 when something stays unexplained.");
  auto options = std::make_shared<Options>();
  command.add_option("A", options->a, "checkpoint, or FILE::path").required().type_name("");
  command.add_option("B", options->b, "checkpoint, or FILE::path").required().type_name("");
  command.add_option("-o,--output", options->output, "file for the rules (default: standard output)")
      .type_name("RULES");
  command.add_flag("-f,--force", options->force, "overwrite an existing file");
  command.add_flag("-n,--dry-run", options->dry_run, "write no file");
  command.add_flag("--drop-unused", options->align.drop_unused, "drop what B does not have by a rule");
  command.add_flag("--by-content", options->by_content, "pair no tensors with different values");
  command.add_flag("--exact", options->exact, "one pair a key, no patterns");
  command.add_flag("--pairs", options->pairs, "list which tensor became which");
  add_read_options(command, *options);
  command.callback([&chosen, options] {
    if (options->output == "-") options->output.clear();
    chosen = [options](Context& context) { return run(context, *options); };
  });
}

}  // namespace cli
