#include "tools/ckpt/commands/lora_extract.h"

#include "libckpt/hub/lora_extract.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/hub_models.h"
#include "tools/ckpt/edit/edit.h"
#include "tools/ckpt/output/chart.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/progress.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

struct ExtractOptions : EditOptions {
  std::string base;
  std::string tuned;
  std::string base_name;
  std::int64_t rank = 16;
  double alpha = 0;
  bool whole = false;
  ckpt::Selection selection;
};

std::string few_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) shown.push_back(core::quote(names[i]));
  return core::join(shown, ", ") + (names.size() > kShown ? ", ..." : "");
}

std::string left_out_text(const ckpt::ExtractLoraReport& done, bool whole) {
  const bool one = done.left_out.size() == 1;
  return count_of(done.left_out.size(), "tensor") + (one ? " differs" : " differ") + " between the two and " +
         (one ? "is" : "are") + " not in the adapter: " + few_of(done.left_out) +
         (whole ? "" : "; --whole holds norms, biases and embeddings too");
}

std::string percent(double share) {
  return short_number(share * 100) + " %";
}

void print_layers(Context& context, const ckpt::ExtractLoraReport& done) {
  using Align = Table::Align;
  Table table(
      {{"module", Align::left}, {"weight", Align::left}, {"change", Align::right}, {"left over", Align::right}});
  for (const auto& layer : done.layers) {
    table.add_row(
        {core::printable(layer.module), core::to_list(layer.shape), short_number(layer.norm), percent(layer.error)});
  }
  table.print(context.out);
  for (const std::string& name : done.whole) context.out.print("  whole: " + core::printable(name) + "\n");
}

void write_names(ckpt::JsonWriter& json, const char* key, const std::vector<std::string>& names) {
  json.key(key).begin_array();
  for (const std::string& name : names) json.value(name);
  json.end_array();
}

void print_json(Context& context, const ExtractOptions& options, const fs::path& target,
                const ckpt::ExtractLoraReport& done, const ckpt::Report& report) {
  context.out.answer_is_one();
  ckpt::JsonWriter json(2);
  json.begin_object().key("command").value("lora extract");
  json.key("base").value(options.base).key("tuned").value(options.tuned).key("output").value(target.string());
  json.key("dry_run").value(options.dry_run).key("bytes_written").value(report.bytes_written);
  json.key("rank").value(options.rank).key("error").value(done.error).key("unchanged").value(done.unchanged);
  json.key("layers").begin_array();
  for (const auto& layer : done.layers) {
    json.begin_object().key("module").value(layer.module);
    json.key("norm").value(layer.norm).key("error").value(layer.error).end_object();
  }
  json.end_array();
  write_names(json, "whole", done.whole);
  write_names(json, "left_out", done.left_out);
  write_report(json, report);
  json.end_object();
  context.out.print(json.text() + "\n");
}

void print_text(Context& context, const ExtractOptions& options, const fs::path& target,
                const ckpt::ExtractLoraReport& done, const ckpt::Report& report) {
  if (options.quiet) return;
  print_layers(context, done);
  const std::string written =
      options.dry_run ? "nothing written (dry run)" : core::format_size(report.bytes_written) + " of weights written";
  context.out.print(core::printable(target.string()) + ": " + count_of(done.layers.size(), "weight") + " by rank " +
                    std::to_string(options.rank) + ", " + percent(done.error) + " of the change left over, " + written +
                    "\n");
}

fs::path target_of(const ExtractOptions& options) {
  if (options.output.empty() || options.output == "-" || options.output == "/") {
    throw core::Error(core::ErrorCode::usage, "an adapter is a folder: name one with -o");
  }
  return hub_folder_target(options);
}

int extract(Context& context, const ExtractOptions& options) {
  const fs::path target = target_of(options);
  const Address base = parse_address(options.base);
  const Address tuned = parse_address(options.tuned);
  ckpt::Report report;
  const ckpt::Checkpoint old = ckpt::open(base.path, options.look(report));
  const ckpt::Checkpoint now = ckpt::open(tuned.path, options.look(report));
  ckpt::ExtractLoraReport done;
  ckpt::HubModel model;
  {
    ProgressBar bar(core::printable(tuned.path.filename().string()), !options.quiet);
    model = ckpt::extract_lora(old, now,
                               {.rank = options.rank,
                                .alpha = options.alpha,
                                .tensors = options.selection,
                                .whole = options.whole,
                                .base_at = base.at,
                                .tuned_at = tuned.at,
                                .base_name = options.base_name.empty() ? options.base : options.base_name,
                                .threads = options.threads,
                                .progress = bar.hook()},
                               &done);
  }
  ckpt::SaveOptions save = save_options(options);
  save.report = &report;
  if (!options.dry_run) ckpt::save_hub_model(model, target, save);
  if (!done.left_out.empty()) report.warnings.push_back(left_out_text(done, options.whole));
  report.warnings.insert(report.warnings.end(), done.notes.begin(), done.notes.end());
  say_report(options, target, report);
  options.json ? print_json(context, options, target, done, report)
               : print_text(context, options, target, done, report);
  return 0;
}

void add_extract_options(CommandSpec command, ExtractOptions& options) {
  command.add_option("BASE", options.base, "the model that was trained on from; FILE::path names the state dict")
      .required()
      .type_name("");
  command.add_option("TUNED", options.tuned, "the model that came out of it").required().type_name("");
  command.add_option("-o,--output", options.output, "folder of the adapter").required().type_name("FOLDER");
  command.add_option("--rank", options.rank, "of every layer's change (default: 16)").type_name("R").range(1, 65536);
  command.add_option("--alpha", options.alpha, "lora_alpha of the adapter, which changes no result (default: the rank)")
      .type_name("X");
  command.add_flag("--whole", options.whole,
                   "also hold what differs and is no linear layer or convolution, as it is: norms, biases, embeddings");
  command
      .add_option("--base-name", options.base_name,
                  "base_model_name_or_path of the adapter (default: BASE as it is written here)")
      .type_name("NAME");
  add_selection_options(command, options.selection);
}

}  // namespace

void add_lora_extract(CommandSpec lora, Command& chosen) {
  CommandSpec command = add_command(
      lora, "extract",
      "ckpt lora extract --rank 2 base.safetensors tuned.safetensors -o learnt\n"
      "  ckpt lora extract --whole --exclude '*head*' base tuned.safetensors -o part",
      "Make a PEFT adapter of what a fine-tuned model has learnt beyond its base: of each linear layer and convolution "
      "the nearest change of the rank that is asked for. Says for each how much of its change is left over, and names "
      "what differs and is not in the adapter. One layer is in memory at a time, and the adapter.");
  auto options = std::make_shared<ExtractOptions>();
  add_extract_options(command, *options);
  add_write_options(command, *options);
  command.remove_options(
      {"--in-place", "--follow", "--drop", "--retype", "--codec", "--parity", "--slack", "--max-shard-size"});
  command.callback([&chosen, options] { chosen = [options](Context& context) { return extract(context, *options); }; });
}

}  // namespace cli
