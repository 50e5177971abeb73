// ckpt convert: the same checkpoint in another format.

#include "libckpt/format/format.h"
#include "libckpt/hub/quantization_config.h"
#include "libckpt/keras/family_rules.h"
#include "libckpt/keras/keras_rules.h"
#include "libckpt/open_save.h"
#include "libckpt/origin.h"
#include "libckpt/transform/quantize.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/hub_models.h"
#include "tools/ckpt/commands/virtual_datasets.h"
#include "tools/ckpt/edit/edit.h"
#include "tools/ckpt/edit/key_report.h"
#include "tools/ckpt/edit/standard_output.h"
#include "tools/ckpt/line/rule_options.h"
#include "tools/support/suggest.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

struct Options : EditOptions {
  std::string input;
  std::string target;
  std::string format;
  std::string dtype;
  bool dequantize = false;
  bool virtual_datasets = false;
  std::string rules;
  std::string like;
  bool reverse = false;
};

/// How many ranks write is said of folders that ranks write.
void check_ranks(const Options& options, const Job& job) {
  const ckpt::Format* format = job.format.empty() ? ckpt::find_format_for(job.target) : ckpt::find_format(job.format);
  bool asked = options.shards > 0 || options.shard_dim > 0;
  if (!asked || (format != nullptr && format->is_folder)) return;
  throw Error(ErrorCode::usage,
              "--ranks and --shard-dim are for the folder of a distributed checkpoint; name OUT.dcp or OUT.parts")
      .add_context(job.target.string());
}

std::vector<std::string> writable_formats() {
  std::vector<std::string> names;
  for (const ckpt::Format* format : ckpt::formats()) {
    if (format->write != nullptr) names.emplace_back(format->name);
  }
  return names;
}

std::vector<std::string> written_extensions() {
  std::vector<std::string> names;
  for (const ckpt::Format* format : ckpt::formats()) {
    if (format->write == nullptr) continue;
    for (std::string_view extension : format->extensions) names.emplace_back(extension);
  }
  return names;
}

const ckpt::Format* named_format(const Options& options) {
  const ckpt::Format* format = options.format.empty() ? nullptr : ckpt::find_format(options.format);
  if (!options.format.empty() && (format == nullptr || format->write == nullptr)) {
    std::vector<std::string> names = writable_formats();
    throw Error(ErrorCode::usage, "--format " + core::quote(options.format) + " cannot be written" +
                                      did_you_mean(options.format, names) + "; use one of " + core::join(names, ", "));
  }
  return format;
}

/// Unlike an edit, a conversion to a name that says no format is a mistake, not a copy in the old format.
void check_format(const Options& options, const Job& job) {
  if (options.in_place || !options.format.empty()) return;
  if (is_standard_output(job.target)) {
    throw Error(ErrorCode::usage, "say which format to write, such as --format safetensors")
        .add_context("standard output");
  }
  if (ckpt::find_format_for(job.target) != nullptr) return;
  throw Error(ErrorCode::usage, "its name does not say a format" +
                                    did_you_mean(job.target.extension().string(), written_extensions()) +
                                    "; use an extension such as .ckpt, .pth or .safetensors, or --format")
      .add_context(job.target.string());
}

/// "net.pth" in the folder "out" as safetensors: "out/net.safetensors".
std::filesystem::path name_in_folder(const std::string& folder, const Address& source, const ckpt::Format* format) {
  if (format == nullptr) {
    throw Error(ErrorCode::io, "is a folder; name a file in it, or say which format to write: --format safetensors")
        .add_context(folder);
  }
  if (source.is_standard_input()) {
    throw Error(ErrorCode::usage, "is a folder; name a file for what comes from standard input").add_context(folder);
  }
  std::string name = single_name(source.path).stem().string() + std::string(format->extensions.front());
  return std::filesystem::path(folder) / name;
}

/// OUT, which is empty for --in-place alone.
const std::string& named_output(const Options& options) {
  if (!options.target.empty() && !options.output.empty()) {
    throw Error(ErrorCode::usage, "the output is named twice, as OUT and with -o");
  }
  const std::string& named = options.target.empty() ? options.output : options.target;
  if (named.empty() != options.in_place) {
    throw Error(ErrorCode::usage, options.in_place ? "OUT and --in-place contradict each other" : "OUT is missing");
  }
  return named;
}

/// "run.dcp/" is the folder itself, as "run.dcp" is; "out/" is one to write into.
std::filesystem::path target_of(const Options& options, const Address& source, const ckpt::Format* format) {
  const std::string& named = named_output(options);
  if (options.in_place) return source.path;
  const std::string bare = without_end_slashes(named);
  const ckpt::Format* by_name = ckpt::find_format_for(bare);
  const ckpt::Format* written = format == nullptr ? by_name : format;
  bool is_whole = bare.size() == named.size() || by_name == written;
  if (written != nullptr && written->is_folder && is_whole) return bare;
  std::error_code ignored;
  bool folder = bare.size() < named.size() || std::filesystem::is_directory(named, ignored);
  return folder ? name_in_folder(named, source, format) : std::filesystem::path(named);
}

Job make_job(const Options& options) {
  Address source = parse_address(options.input);
  const ckpt::Format* format = named_format(options);
  std::filesystem::path target = target_of(options, source, format);
  if (format == nullptr && !options.in_place) format = ckpt::find_format_for(target);
  return {std::move(source), std::move(target), format == nullptr ? "" : std::string(format->name)};
}

/// What a checkpoint's own folder says of quantised layers that none of its tensors show.
void warn_of_method(Edit& edit, const ckpt::QuantizationConfig& config, std::uint64_t changed) {
  if (changed > 0 || config.method.empty()) return;
  edit.warnings.push_back("config.json says that the weights are quantized as " + core::quote(config.method) +
                          (config.format.empty() ? "" : " (" + core::printable(config.format) + ")") +
                          ", of which nothing is dequantized here");
}

/// All of the file, or the one dict that was named.
Edit take(const ckpt::Checkpoint& checkpoint, const std::string& at, bool dequantize, const EditOptions& options) {
  Edit edit;
  edit.checkpoint = checkpoint;
  edit.checkpoint.root = ckpt::value_at(checkpoint.root, at);
  std::size_t tensors = ckpt::list_entries(edit.checkpoint.root).size();
  edit.summary = count_of(tensors, "tensor") + " from " + checkpoint.format;
  ckpt::QuantizeReport report;
  if (dequantize) {
    const ckpt::QuantizationConfig config = ckpt::quantization_config(checkpoint.path, options.allow_symlinks);
    edit.checkpoint = ckpt::dequantize(edit.checkpoint, config, &report, options.threads);
    warn_of_method(edit, config, report.changed);
    edit.summary += ", " + core::format_count(report.changed) + " of them dequantized";
    for (const ckpt::QuantizeReport::Count& count : report.counts) {
      edit.steps.push_back(count.from + " -> " + count.to + ": " + count_of(count.tensors, "tensor"));
    }
  }
  edit.json = [tensors, from = checkpoint.format, dequantize, changed = report.changed](ckpt::JsonWriter& json) {
    json.key("tensors").value(static_cast<std::uint64_t>(tensors));
    json.key("from").value(from);
    if (dequantize) json.key("tensors_dequantized").value(changed);
  };
  return edit;
}

/// Tensors by other names and in other layouts.
void apply_named_rules(Edit& edit, const std::string& name, bool reverse) {
  const GivenRules given = read_rules(name, reverse);
  ckpt::Rules rules = given.rules;
  ckpt::RuleReport report;
  if (given.pack) {
    const std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(edit.checkpoint.root);
    std::vector<ckpt::NamedShape> keys;
    for (const ckpt::NamedEntry& named : entries) keys.push_back({named.name, named.entry->shape});
    rules = ckpt::keras_family_rules(*given.pack, edit.checkpoint, keys);
  }
  edit.checkpoint = ckpt::apply_rules(edit.checkpoint, rules, {"", !given.pack.has_value()}, &report);
  if (given.pack && !given.pack->note.empty()) {  // without one, what the file remembers of others stays true
    edit.checkpoint = ckpt::with_origin(edit.checkpoint, ckpt::origin_text(*given.pack));
  }
  edit.summary += ", by the rules " + name + (reverse ? " backwards" : "");
  note_rules(edit, rules, report);
  if (given.pack) warn_of_pack(edit, *given.pack, report);
}

/// By the kinds of the layers of a Keras model, for which no rules have to be there.
void apply_keras_rules(Edit& edit) {
  const ckpt::KerasRules way = ckpt::keras_rules(edit.checkpoint);
  edit.checkpoint = ckpt::from_keras(edit.checkpoint, way);
  edit.summary += ", " + count_of(way.layers, "layer") + " of Keras as torch has them";
  for (const std::string& note : way.notes) edit.warnings.push_back(core::printable(note));
  if (!way.left.empty()) {
    edit.warnings.push_back(count_of(way.left.size(), "tensor") + ", such as " + core::quote(way.left.front()) +
                            ", belong to layers that torch has no module for here, and stay as they are");
  }
  if (!way.states.empty()) {
    edit.warnings.push_back(count_of(way.states.size(), "tensor") + ", such as " + core::quote(way.states.front()) +
                            ", are states of an optimizer or of random numbers, and are left out");
  }
}

void apply_keras_rules_backwards(Edit& edit, const Options& options) {
  ckpt::Report report;
  const ckpt::Checkpoint like = ckpt::open(options.like, options.open(report));
  edit.checkpoint = core::with_context(options.like, [&] { return ckpt::to_keras(edit.checkpoint, like); });
  edit.summary += ", as the layers of " + options.like + " have them";
}

bool writes_gguf_model(const Options& options, const Job& job) {
  return job.format == "gguf" && !options.in_place && is_hub_folder(job.source);
}

void check_dtype(const Options& options, bool model) {
  if (options.dtype.empty() || model) return;
  throw Error(ErrorCode::usage,
              "--dtype is for a GGUF file of a folder with a config.json; 'ckpt cast' and 'ckpt quantize' change other "
              "checkpoints");
}

int run_virtual(Context& context, const Options& options) {
  if (options.dequantize || options.reverse || !options.dtype.empty() || !options.rules.empty() ||
      !options.format.empty()) {
    throw Error(ErrorCode::usage,
                "--virtual writes no values and always HDF5: leave --dequantize, --dtype, --rules and --format");
  }
  return write_virtual_datasets(context, options, parse_address(options.input), named_output(options));
}

/// The rules that follow from the layers of a Keras file, unless a file has that name.
bool are_by_layers(const std::string& rules) {
  std::error_code ignored;
  return rules == kRulesByLayers && !std::filesystem::exists(rules, ignored);
}

void check_rules(const Options& options, bool model) {
  const bool back_to_keras = options.reverse && are_by_layers(options.rules);
  if (!options.like.empty() && !back_to_keras) {
    throw Error(ErrorCode::usage, "--like is for --rules keras --reverse");
  }
  if (back_to_keras && options.like.empty()) {
    throw Error(ErrorCode::usage,
                "--rules keras --reverse needs --like FILE: a file that Keras saved of the model which is to load the "
                "result");
  }
  if (options.reverse && options.rules.empty()) throw Error(ErrorCode::usage, "--reverse is for --rules");
  if (!model || options.rules.empty()) return;
  throw Error(ErrorCode::usage, "--rules is for files; between folders and GGUF files llama.cpp's names are known");
}

int run(Context& context, Options& options) {
  if (options.virtual_datasets) return run_virtual(context, options);
  Address source = parse_address(options.input);
  const std::string named = named_output(options);
  if (makes_hub_folder(source, named, options.format)) {
    check_dtype(options, false);
    check_rules(options, true);
    options.output = named;
    return write_hub_folder(context, options, source, options.dequantize);
  }
  Job job = make_job(options);
  if (options.output.empty()) options.output = options.target;  // whose final '/' asks for a folder
  check_format(options, job);
  check_ranks(options, job);
  check_target(options, job);
  ckpt::JsonWriter json(2);
  options.take_modules = !job.source.at.empty();
  const bool model = writes_gguf_model(options, job);
  check_dtype(options, model);
  check_rules(options, model);
  auto take_from = [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
    if (model) return take_hub_model(checkpoint, job.source.path, {options.dtype, options.dequantize}, options);
    Edit edit = take(checkpoint, at, options.dequantize, options);
    if (are_by_layers(options.rules)) {
      options.reverse ? apply_keras_rules_backwards(edit, options) : apply_keras_rules(edit);
    } else if (!options.rules.empty()) {
      apply_named_rules(edit, options.rules, options.reverse);
    }
    return edit;
  };
  int code = run_job(context, options, {"convert", ""}, job, take_from, json);
  if (options.json) context.out.print(json.text() + "\n");
  return code;
}

}  // namespace

void add_convert(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "convert",
      "ckpt convert net.pth net.safetensors\n  ckpt convert best.pth::model net.ckpt         # .ckpt: "
      "native (HDF5)\n  ckpt convert net.pth - --format safetensors | ssh host 'cat > net.safetensors'\n  ckpt convert "
      "model.gguf plain.safetensors --dequantize\n  ckpt convert gpt2 small.gguf --dtype Q8_0  # as llama.cpp loads it"
      "\n  ckpt convert gpt2.gguf gpt2-back/           # as transformers does\n  ckpt "
      "convert net.pth net.dcp --ranks 4    # one part a rank, as "
      "PyTorch writes it\n  ckpt convert net.pth net.parts --ranks 4  # native, a .ckpt a rank\n  ckpt convert "
      "run/step-100 whole.h5 --virtual  # a view of native parts, for h5py\n  ckpt "
      "convert vgg16.weights.h5 "
      "vgg16.pth --rules keras:vgg16  # as torchvision names it\n  ckpt convert mine.weights.h5 mine.pth --rules "
      "keras  # any model, by its layers",
      "Write a checkpoint in another format, named by the extension of OUT or --format. A folder of Hugging Face whose "
      "config.json names a model that llama.cpp knows (Llama, Mistral, Qwen 2 and 3, Phi-3, Gemma 2, GPT-2, "
      "GPT-NeoX, T5, BERT, RoBERTa, DistilBERT) becomes the GGUF file that llama.cpp's converter writes; a GGUF file "
      "of "
      "such a model and OUT/ a folder that "
      "transformers loads.");
  auto options = std::make_shared<Options>();
  command.add_option("IN", options->input, "checkpoint; FILE::path takes only what is there").required().type_name("");
  command
      .add_option("OUT", options->target,
                  "output, or - for standard output, which needs --format; a folder is made if its name ends in /")
      .type_name("");
  command.add_option("-o,--output", options->output, "the same as OUT").type_name("OUT");
  command.add_option("--format", options->format, "format of the output, whatever its name").type_name("NAME");
  command.add_flag(
      "--dequantize", options->dequantize,
      "write quantized blocks of a GGUF file, and layers of GPTQ, AWQ and compressed-tensors, as the float32 values "
      "that they stand for");
  command
      .add_option("--dtype", options->dtype,
                  "type of the matrices of a model for llama.cpp: " + gguf_type_names() + " (default: theirs)")
      .type_name("TYPE");
  command.add_flag("--virtual", options->virtual_datasets,
                   "of a folder of native parts: an HDF5 file of virtual datasets, which h5py reads as whole tensors "
                   "while the values stay in the parts");
  command
      .add_option("--rules", options->rules,
                  std::string(kRulesHelp) + "; keras: by the kinds of the layers of a model of Keras")
      .type_name("RULES");
  command.add_flag("--reverse", options->reverse, "apply the rules backwards");
  command
      .add_option("--like", options->like,
                  "with --rules keras --reverse: a .keras or .weights.h5 file of the model that is to load the result")
      .type_name("FILE");
  add_rank_options(command, *options);
  add_write_options(command, *options);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
