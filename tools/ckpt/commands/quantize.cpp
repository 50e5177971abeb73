// ckpt quantize: float tensors in quantised blocks, as GGUF holds them.

#include "libckpt/transform/quantize.h"

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
                     return describe(std::move(out), report, quantize.to);
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
