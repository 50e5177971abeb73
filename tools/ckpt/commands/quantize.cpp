// ckpt quantize: float tensors in quantised blocks, as GGUF holds them.

#include "libckpt/transform/quantize.h"

#include "libckpt/analyze/pasteable.h"
#include "libckpt/hub/gguf_model.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/edit.h"

namespace cli {
namespace {

struct Options : EditOptions {
  ckpt::QuantizeOptions quantize;
};

void write_counts(ckpt::JsonWriter& json, const ckpt::QuantizeReport& report) {
  json.key("tensors").value(report.tensors);
  json.key("tensors_quantized").value(report.changed);
  json.key("tensors_kept").value(report.kept);
  json.key("bytes_before").value(report.bytes_before);
  json.key("bytes_after").value(report.bytes_after);
  json.key("types").begin_array();
  for (const ckpt::QuantizeReport::Count& count : report.counts) {
    json.begin_object();
    json.key("from").value(count.from);
    json.key("to").value(count.to);
    json.key("tensors").value(count.tensors);
    json.end_object();
  }
  json.end_array();
}

Edit describe(ckpt::Checkpoint checkpoint, const ckpt::QuantizeReport& report, const std::string& to) {
  Edit edit;
  edit.checkpoint = std::move(checkpoint);
  edit.changed = report.changed > 0;
  if (report.changed == 0) {
    edit.nothing = "nothing to quantize: none of " + count_of(report.tensors, "tensor") +
                   " is a float matrix whose rows are whole blocks of " + to;
  }
  edit.summary = core::format_count(report.changed) + " of " + count_of(report.tensors, "tensor") + " quantized, " +
                 core::format_size(report.bytes_before) + " -> " + core::format_size(report.bytes_after);
  if (report.kept > 0) edit.summary += ", " + core::format_count(report.kept) + " kept";
  for (const ckpt::QuantizeReport::Count& count : report.counts) {
    edit.steps.push_back(count.from + " -> " + count.to + ": " + count_of(count.tensors, "tensor"));
  }
  edit.json = [report](ckpt::JsonWriter& json) { write_counts(json, report); };
  return edit;
}

/// What config.json beside the weights is the model of, as llama.cpp calls it; "" where nothing says it.
std::string architecture_beside(const std::filesystem::path& folder, bool allow_symlinks) {
  try {
    return ckpt::gguf_architecture(folder, allow_symlinks);
  } catch (const core::Error&) {
    return "";  // a damaged config.json stands in nobody's way here
  }
}

/// Names of transformers in a GGUF file are a surprise to those who want to run it.
void warn_of_names(Edit& edit, const ckpt::Checkpoint& checkpoint, const Options& options) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(checkpoint.path, ignored);
  std::filesystem::path folder = is_folder ? checkpoint.path : checkpoint.path.parent_path();
  if (folder.empty()) folder = ".";
  const std::string architecture = architecture_beside(folder, options.allow_symlinks);
  if (checkpoint.format == "gguf" || architecture.empty()) return;
  edit.warnings.push_back(
      "the tensors of this " + architecture +
      " model keep their names, by which llama.cpp does not know them; what it loads: ckpt convert " +
      ckpt::shell_file(folder.string()) + " OUT.gguf --dtype " + options.quantize.to);
}

int run(Context& context, const Options& options) {
  ckpt::QuantizeOptions quantize = options.quantize;
  // Found out here, a mistake in the command line costs no reading.
  ckpt::quantize(ckpt::Checkpoint{}, quantize);
  return run_edits(context, options, {"quantize", quantize.to, ".gguf"},
                   [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
                     quantize.at = at;
                     quantize.threads = options.threads;
                     ckpt::QuantizeReport report;
                     ckpt::Checkpoint out = ckpt::quantize(checkpoint, quantize, &report);
                     Edit edit = describe(std::move(out), report, quantize.to);
                     if (edit.nothing.empty()) warn_of_names(edit, checkpoint, options);
                     return edit;
                   });
}

}  // namespace

void add_quantize(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "quantize",
      "ckpt quantize --to Q8_0 llm.safetensors    # writes llm.Q8_0.gguf\n"
      "  ckpt quantize --to Q4_K --keep 'output.weight' model.gguf -o small.gguf",
      "Pack float matrices into quantized blocks, which GGUF files hold, rounded as gguf-py and ggml round them. "
      "Tensors "
      "of one dimension, and rows that are no whole number of blocks (32 values, 256 for the types that end in K), "
      "stay "
      "as they are. Exit 1, with no output, when nothing would change. The way back: ckpt convert --dequantize.");
  auto options = std::make_shared<Options>();
  command.add_option("--to", options->quantize.to, "the type: " + core::join(ckpt::quantized_types(), ", "))
      .required()
      .type_name("TYPE");
  command.add_option("--keep", options->quantize.keep.include, "tensors that stay as they are; may be repeated")
      .type_name("SELECTOR")
      .one_value_each();
  add_edit_options(command, *options, "NAME.TYPE.gguf beside the input");
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
