// ckpt lora: adapters of PEFT: what one is, and its changes added to the model's weights. extract: lora_extract.cpp.

#include <map>

#include "libckpt/format/format.h"
#include "libckpt/hub/hub_model.h"
#include "libckpt/open_save.h"
#include "libckpt/transform/lora.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/hub_models.h"
#include "tools/ckpt/commands/lora_extract.h"
#include "tools/ckpt/edit/edit.h"
#include "tools/ckpt/edit/standard_output.h"
#include "tools/ckpt/output/listing.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

struct InfoOptions : ReadOptions {
  std::string adapter;
};

struct MergeOptions : EditOptions {
  std::string base;
  std::string adapter;
  double strength = 1;
};

/// Targets that have the last part of their names, their sizes, rank and scale in common.
struct TargetKind {
  std::string name;
  std::string in_out;
  std::int64_t rank = 0;
  double scale = 0;
  auto operator<=>(const TargetKind&) const = default;
};

struct KindTotals {
  std::uint64_t modules = 0;
  std::uint64_t values = 0;
};

std::uint64_t values_of(const ckpt::LoraTarget& target) {
  return target.a->numel() + target.b->numel() + (target.magnitude == nullptr ? 0 : target.magnitude->numel());
}

std::map<TargetKind, KindTotals> kinds_of(const ckpt::LoraAdapter& adapter) {
  std::map<TargetKind, KindTotals> kinds;
  for (const ckpt::LoraTarget& target : adapter.targets) {
    const std::uint64_t in = target.a->numel() / static_cast<std::uint64_t>(target.rank);
    TargetKind kind{target.module.substr(target.module.rfind('.') + 1),
                    std::to_string(in) + " -> " + std::to_string(target.b->shape[0]), target.rank, target.scale};
    KindTotals& totals = kinds[kind];
    ++totals.modules;
    totals.values += values_of(target);
  }
  return kinds;
}

std::string method_of(const ckpt::LoraConfig& config) {
  if (config.directions) return config.rank_stabilized ? "DoRA, rank-stabilized" : "DoRA";
  return config.rank_stabilized ? "LoRA, rank-stabilized" : "LoRA";
}

std::uint64_t values_of(const ckpt::LoraAdapter& adapter) {
  std::uint64_t values = 0;
  for (const ckpt::LoraTarget& target : adapter.targets) values += values_of(target);
  return values;
}

void print_adapter(Context& context, const ckpt::LoraAdapter& adapter) {
  context.out.print_heading(core::printable(adapter.path.string()) + ": " + method_of(adapter.config) + " of " +
                            (adapter.config.base.empty() ? "an unnamed model" : core::quote(adapter.config.base)) +
                            ", " + count_of(adapter.targets.size(), "weight") + ", " +
                            core::format_count(values_of(adapter)) + " values\n");
  using Align = Table::Align;
  Table table({{"module", Align::left},
               {"weights", Align::right},
               {"in -> out", Align::left},
               {"rank", Align::right},
               {"scale", Align::right},
               {"values", Align::right}});
  for (const auto& [kind, totals] : kinds_of(adapter)) {
    table.add_row({core::printable(kind.name), std::to_string(totals.modules), kind.in_out, std::to_string(kind.rank),
                   core::python_float(kind.scale), core::format_count(totals.values)});
  }
  table.print(context.out);
  for (const ckpt::NamedEntry& named : adapter.replaced) {
    context.out.print("  whole: " + core::printable(named.name) + " " + core::to_list(named.entry->shape) + "\n");
  }
}

void write_shape(ckpt::JsonWriter& json, const core::Shape& shape) {
  json.begin_array();
  for (std::int64_t size : shape) json.value(size);
  json.end_array();
}

void write_adapter(ckpt::JsonWriter& json, const ckpt::LoraAdapter& adapter) {
  json.begin_object();
  json.key("file").value(adapter.path.string());
  json.key("base").value(adapter.config.base);
  json.key("method").value(method_of(adapter.config));
  json.key("values").value(values_of(adapter));
  json.key("targets").begin_array();
  for (const ckpt::LoraTarget& target : adapter.targets) {
    json.begin_object().key("module").value(target.module);
    json.key("rank").value(target.rank).key("scale").value(target.scale);
    write_shape(json.key("a"), target.a->shape);
    write_shape(json.key("b"), target.b->shape);
    json.end_object();
  }
  json.end_array().key("whole").begin_array();
  for (const ckpt::NamedEntry& named : adapter.replaced) json.value(named.name);
  json.end_array().end_object();
}

int show(Context& context, const InfoOptions& options) {
  ckpt::Report report;
  const ckpt::LoraAdapter adapter = ckpt::open_lora(options.adapter, options.look(report));
  say_report(options, options.adapter, report);
  if (!options.json) {
    print_adapter(context, adapter);
    return 0;
  }
  context.out.answer_is_one();
  ckpt::JsonWriter json(2);
  write_adapter(json, adapter);
  context.out.print(json.text() + "\n");
  return 0;
}

Edit describe(ckpt::Checkpoint checkpoint, const ckpt::MergeLoraReport& done) {
  Edit edit;
  edit.checkpoint = std::move(checkpoint);
  edit.summary = count_of(done.merged, "weight") + " changed";
  if (done.replaced > 0) edit.summary += ", " + count_of(done.replaced, "tensor") + " of the adapter taken whole";
  if (!done.base_prefix.empty())
    edit.steps.push_back("the model has " + core::quote(done.base_prefix) + " before every name");
  if (!done.adapter_prefix.empty()) {
    edit.steps.push_back("the adapter has " + core::quote(done.adapter_prefix) + " before every name");
  }
  for (const std::string& name : done.added) edit.steps.push_back("new: " + core::printable(name));
  edit.json = [done](ckpt::JsonWriter& json) {
    json.key("merged").value(done.merged).key("replaced").value(done.replaced);
    json.key("added").begin_array();
    for (const std::string& name : done.added) json.value(name);
    json.end_array();
  };
  return edit;
}

/// Whether the result is a folder as the base is: its name says no format of a file.
bool makes_folder(const MergeOptions& options, const Address& base) {
  if (options.output.empty() || is_standard_output(options.output) || !is_hub_folder(base)) return false;
  return ckpt::find_format_for(without_end_slashes(options.output)) == nullptr;
}

void write_folder_json(Context& context, const MergeOptions& options, const fs::path& target, const Edit& edit,
                       const ckpt::HubModel& model, const ckpt::Report& report) {
  context.out.answer_is_one();
  ckpt::JsonWriter json(2);
  json.begin_object().key("command").value("lora merge").key("input").value(options.base);
  json.key("output").value(target.string()).key("dry_run").value(options.dry_run);
  json.key("bytes_written").value(report.bytes_written).key("files").begin_array();
  for (const auto& [name, bytes] : model.files) json.value(name);
  json.end_array();
  edit.json(json);
  write_report(json, report);
  json.end_object();
  context.out.print(json.text() + "\n");
}

int merge_folder(Context& context, const MergeOptions& options, const ckpt::LoraAdapter& adapter,
                 const fs::path& base) {
  const fs::path target = hub_folder_target(options);
  ckpt::Report report;
  const ckpt::Checkpoint weights = ckpt::open(base, options.look(report));
  ckpt::MergeLoraReport done;
  const Edit edit = core::with_context(base.string(), [&] {
    return describe(ckpt::merge_lora(weights, adapter, {.strength = options.strength}, &done), done);
  });
  const ckpt::HubModel model = ckpt::hub_model_like(base, edit.checkpoint, options.allow_symlinks);
  save_hub_folder(options, model, target, report);
  say_report(options, base, report);
  if (options.json) {
    write_folder_json(context, options, target, edit, model, report);
  } else if (!options.quiet) {
    for (const std::string& step : edit.steps) {
      if (options.dry_run) context.out.print("  " + step + "\n");
    }
    context.out.print(core::printable(target.string()) + ": " + edit.summary + ", " +
                      written_hub_text(options, model, report) + "\n");
  }
  return 0;
}

int merge(Context& context, const MergeOptions& options) {
  ckpt::Report report;
  const ckpt::LoraAdapter adapter = ckpt::open_lora(options.adapter, options.look(report));
  say_report(options, options.adapter, report);
  const Address base = parse_address(options.base);
  if (makes_folder(options, base)) return merge_folder(context, options, adapter, base.path);
  return run_edits(
      context, options, {"lora merge", "merged"}, [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
        ckpt::MergeLoraReport done;
        ckpt::Checkpoint out = ckpt::merge_lora(checkpoint, adapter, {.at = at, .strength = options.strength}, &done);
        return describe(std::move(out), done);
      });
}

void add_lora_info(CommandSpec lora, Command& chosen) {
  CommandSpec command = add_command(lora, "info", "ckpt lora info adapter\n  ckpt lora info --json adapter",
                                    "Show what an adapter changes: the base model, modules, ranks and scales.");
  auto options = std::make_shared<InfoOptions>();
  command.add_option("ADAPTER", options->adapter, "folder with adapter_config.json and its weights")
      .required()
      .type_name("");
  add_read_options(command, *options);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return show(context, *options); }; });
}

void add_lora_merge(CommandSpec lora, Command& chosen) {
  CommandSpec command = add_command(
      lora, "merge",
      "ckpt lora merge base adapter -o merged           # as transformers loads it\n"
      "  ckpt lora merge base adapter -o merged.safetensors\n"
      "  ckpt lora merge --strength 0.5 base.safetensors adapter -o half.safetensors",
      "Add an adapter's changes to the weights of its base model, as PEFT's merge_and_unload() does: computed in "
      "float32 (float64 for such weights) and rounded once to each weight's type. Of a base that is a folder with a "
      "config.json, an OUT that names no format becomes such a folder: its configurations and its tokenizer lie beside "
      "the merged weights. Otherwise the result is a plain state dict.");
  auto options = std::make_shared<MergeOptions>();
  command.add_option("BASE", options->base, "checkpoint of the base model; FILE::path names the state dict")
      .required()
      .type_name("");
  command.add_option("ADAPTER", options->adapter, "folder with adapter_config.json and its weights")
      .required()
      .type_name("");
  command.add_option("--strength", options->strength, "factor of every change (default 1)").type_name("X");
  command
      .add_option("-o,--output", options->output,
                  "output: a file, a folder for a base that is one, or - for standard output (default: "
                  "NAME.merged.EXT beside the base)")
      .type_name("OUT");
  add_write_options(command, *options);
  command.remove_options({"--in-place", "--follow"});
  command.callback([&chosen, options] {
    options->files = {options->base};
    chosen = [options](Context& context) { return merge(context, *options); };
  });
}

}  // namespace

void add_lora(CommandSpec app, Command& chosen) {
  CommandSpec lora =
      add_command(app, "lora", "ckpt lora info adapter\n  ckpt lora merge base adapter -o merged.safetensors",
                  "Work on LoRA adapters of PEFT: show what one changes, merge it into its base, or extract one from a "
                  "fine-tuned model.");
  lora.require_subcommand();
  add_lora_info(lora, chosen);
  add_lora_merge(lora, chosen);
  add_lora_extract(lora, chosen);
}

}  // namespace cli
