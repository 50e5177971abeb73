#include "tools/ckpt/commands/hub_models.h"

#include <algorithm>

#include "libckpt/format/format.h"
#include "libckpt/hub/gguf_model.h"
#include "libckpt/open_save.h"
#include "libckpt/transform/quantize.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/progress.h"
#include "tools/support/suggest.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

constexpr std::string_view kFloats[] = {"f32", "f16", "bf16"};

bool is_blocks(const std::string& dtype) {
  const std::vector<std::string> known = ckpt::quantized_types();
  return std::ranges::find(known, dtype) != known.end();
}

std::vector<std::string> gguf_types() {
  std::vector<std::string> names(std::begin(kFloats), std::end(kFloats));
  for (const std::string& name : ckpt::quantized_types()) names.push_back(name);
  return names;
}

void check_type(const std::string& dtype) {
  const std::vector<std::string> known = gguf_types();
  if (dtype.empty() || std::ranges::find(known, dtype) != known.end()) return;
  throw Error(ErrorCode::usage, "--dtype " + core::quote(dtype) + " is no type of matrices in a GGUF file" +
                                    did_you_mean(dtype, known) + "; use one of " + gguf_type_names());
}

/// Blocks for all matrices but those that llama.cpp wants as float32. Notes those that blocks do not fit.
ckpt::Checkpoint packed(const ckpt::Checkpoint& model, const std::string& dtype, unsigned threads,
                        std::vector<std::string>& notes) {
  ckpt::QuantizeOptions quantize{.to = dtype, .threads = threads};
  std::size_t matrices = 0;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(model.root)) {
    if (!ckpt::is_gguf_float(named.name, *named.entry)) {
      ++matrices;
    } else if (named.entry->shape.size() > 1) {
      quantize.keep.include.push_back(named.name);
    }
  }
  ckpt::QuantizeReport done;
  ckpt::Checkpoint out = ckpt::quantize(model, quantize, &done);
  if (done.changed < matrices) {
    notes.push_back("rows that are no whole number of blocks of " + dtype + " keep their type: " +
                    core::format_count(done.changed) + " of " + core::format_count(matrices) + " matrices are packed");
  }
  return out;
}

std::string few_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) shown.push_back(core::quote(names[i]));
  return core::join(shown, ", ") + (names.size() > kShown ? ", ..." : "");
}

Edit describe(ckpt::Checkpoint model, const ckpt::GgufModelReport& report, std::size_t before) {
  Edit edit;
  const std::size_t tensors = ckpt::list_entries(model.root).size();
  edit.checkpoint = std::move(model);
  edit.summary = count_of(tensors, "tensor") + " of a " + report.architecture + " model as llama.cpp names them";
  edit.steps.push_back(count_of(before, "tensor") + " of the folder, " + count_of(tensors, "tensor") + " written");
  if (!report.left_out.empty()) {
    edit.warnings.push_back("llama.cpp has no place for " + count_of(report.left_out.size(), "tensor") +
                            ", left out: " + few_of(report.left_out));
  }
  for (const std::string& note : report.notes) edit.warnings.push_back(note);
  edit.json = [tensors, report](ckpt::JsonWriter& json) {
    json.key("tensors").value(static_cast<std::uint64_t>(tensors));
    json.key("architecture").value(report.architecture).key("left_out").begin_array();
    for (const std::string& name : report.left_out) json.value(name);
    json.end_array();
  };
  return edit;
}

/// "config.json names 'MT5ForConditionalGeneration', which has no names of llama.cpp here".
std::string unknown_text(const std::string& hub_class) {
  if (hub_class.empty()) return "config.json names no one model under 'architectures'";
  return "config.json names " + core::quote(hub_class) + ", which has no names of llama.cpp here";
}

/// Tensors under the names they have. Errors: Error(unsupported) for names that GGUF has no room for.
Edit take_unknown(const ckpt::Checkpoint& checkpoint, const std::string& hub_class) {
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) {
    if (named.name.size() <= ckpt::longest_gguf_name()) continue;
    throw Error(ErrorCode::unsupported, unknown_text(hub_class) +
                                            ", and its own are too long for GGUF: " + core::quote(named.name) +
                                            " has " + std::to_string(named.name.size()) + " bytes where at most " +
                                            std::to_string(ckpt::longest_gguf_name()) + " are allowed");
  }
  Edit edit;
  edit.checkpoint = checkpoint;
  const std::size_t tensors = ckpt::list_entries(checkpoint.root).size();
  edit.summary = count_of(tensors, "tensor") + " from " + checkpoint.format;
  edit.warnings.push_back(unknown_text(hub_class) +
                          ", so the tensors keep their names: llama.cpp will not load the file");
  edit.json = [tensors](ckpt::JsonWriter& json) { json.key("tensors").value(static_cast<std::uint64_t>(tensors)); };
  return edit;
}

void write_hub_json(Context& context, const EditOptions& options, const Address& source, const std::string& target,
                    const ckpt::GgufModelReport& model, std::size_t tensors, const ckpt::Report& report) {
  ckpt::JsonWriter json(2);
  json.begin_object().key("command").value("convert").key("input").value(source.shown());
  json.key("output").value(target).key("dry_run").value(options.dry_run).key("changed").value(true);
  json.key("bytes_written").value(report.bytes_written).key("rung").value(report.rung).key("part").value(report.part);
  json.key("tensors").value(static_cast<std::uint64_t>(tensors)).key("architecture").value(model.architecture);
  write_report(json, report);
  json.end_object();
  context.out.print(json.text() + "\n");
}

}  // namespace

std::string gguf_type_names() {
  return core::join(gguf_types(), ", ");
}

bool is_hub_folder(const Address& source) {
  std::error_code ignored;
  return source.at.empty() && fs::is_directory(source.path, ignored) &&
         fs::exists(source.path / "config.json", ignored);
}

Edit take_hub_model(const ckpt::Checkpoint& checkpoint, const fs::path& folder, const HubModelTypes& types,
                    const EditOptions& options) {
  check_type(types.dtype);
  ckpt::Checkpoint weights = checkpoint;
  if (types.dequantize) {
    const ckpt::QuantizationConfig config = ckpt::quantization_config(folder, options.allow_symlinks);
    weights = ckpt::dequantize(checkpoint, config, nullptr, options.threads);
  }
  if (ckpt::gguf_architecture(folder, options.allow_symlinks).empty()) {
    return take_unknown(weights, ckpt::hub_class(folder, options.allow_symlinks));
  }
  ckpt::GgufModelOptions to{.allow_symlinks = options.allow_symlinks, .dequantized = types.dequantize};
  if (!types.dtype.empty() && !is_blocks(types.dtype)) to.dtype = core::try_parse_dtype(types.dtype);
  ckpt::GgufModelReport report;
  ckpt::Checkpoint model = ckpt::to_gguf_model(weights, folder, to, &report);
  if (is_blocks(types.dtype)) model = packed(model, types.dtype, options.threads, report.notes);
  return describe(std::move(model), report, ckpt::list_entries(checkpoint.root).size());
}

bool makes_hub_folder(const Address& source, const std::string& target, const std::string& format) {
  std::error_code ignored;
  const ckpt::Format* by_name = ckpt::find_format_for(without_end_slashes(target));
  const bool whole = by_name != nullptr && by_name->is_folder;
  const bool folder = (target.ends_with('/') || fs::is_directory(target, ignored)) && !whole;
  return folder && format.empty() && source.at.empty() && source.path.extension() == ".gguf";
}

fs::path hub_folder_target(const EditOptions& options) {
  fs::path target = options.output;
  if (!target.has_filename()) target = target.parent_path();
  std::error_code ignored;
  if (fs::exists(target, ignored) && !options.force) {
    throw Error(ErrorCode::io, "exists already; use -f to overwrite it").add_context(target.string());
  }
  return target;
}

void save_hub_folder(const EditOptions& options, const ckpt::HubModel& model, const fs::path& target,
                     ckpt::Report& report) {
  if (options.dry_run) return;
  ckpt::SaveOptions save = save_options(options);
  save.report = &report;
  ProgressBar bar(core::printable(target.filename().string()), !options.quiet);
  save.progress = bar.hook();
  ckpt::save_hub_model(model, target, save);
}

std::string written_hub_text(const EditOptions& options, const ckpt::HubModel& model, const ckpt::Report& report) {
  if (options.dry_run) return "nothing written (dry run)";
  return core::format_size(report.bytes_written) + " of weights written, and " + count_of(model.files.size(), "file") +
         " beside them";
}

int write_hub_folder(Context& context, const EditOptions& options, const Address& source, bool dequantize) {
  const fs::path target = hub_folder_target(options);
  ckpt::Report report;
  ckpt::Checkpoint checkpoint = ckpt::open(source.path, options.look(report));
  ckpt::GgufModelReport noted;
  const ckpt::HubModel model = core::with_context(source.path.string(), [&] {
    if (dequantize) checkpoint = ckpt::dequantize(checkpoint, {.threads = options.threads});
    return ckpt::from_gguf_model(checkpoint, &noted);
  });
  report.warnings.insert(report.warnings.end(), noted.notes.begin(), noted.notes.end());
  save_hub_folder(options, model, target, report);
  say_report(options, source.path, report);
  const std::size_t tensors = ckpt::list_entries(model.weights.root).size();
  if (options.json) {
    write_hub_json(context, options, source, target.string(), noted, tensors, report);
  } else if (!options.quiet) {
    context.out.print(core::printable(target.string()) + ": " + count_of(tensors, "tensor") + " of a " +
                      noted.architecture + " model as transformers names them, " +
                      written_hub_text(options, model, report) + "\n");
  }
  return 0;
}

}  // namespace cli
