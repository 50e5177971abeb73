#include "tools/run/zoo_export.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "libckpt/io/json.h"
#include "libckpt/onnx.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tools/ckpt/exit_code.h"
#include "tools/run/run_model.h"
#include "zoo/from_folder.h"

namespace cli {
namespace {

namespace fs = std::filesystem;
using core::Error;
using core::ErrorCode;
using core::Tensor;

/// A model with its weights, and what it takes.
struct Chosen {
  std::shared_ptr<core::Module> module;
  const zoo::Family* family = nullptr;
  std::int64_t size = 224, channels = 3;
  std::vector<std::string> steps;  ///< what was done to the file's tensors
};

std::int64_t number_of(const zoo::Config& config, const char* field, std::int64_t otherwise) {
  const std::string* json = config.json_of(field);
  std::int64_t number = 0;
  if (json == nullptr) return otherwise;
  const auto [end, error] = std::from_chars(json->data(), json->data() + json->size(), number);
  return error == std::errc() && end == json->data() + json->size() ? number : otherwise;
}

/// A runtime that computes in 16 bits is rare: all weights become f32.
Chosen of_folder(const ZooExportOptions& options) {
  if (!options.weights.empty() || options.random) {
    throw Error(ErrorCode::usage, "a folder has its weights: --weights and --random are for a model by name");
  }
  zoo::FolderOptions how{.dtype = core::DType::f32};
  how.load.guess = options.guess;
  how.load.open.lenient = options.lenient;
  how.load.open.foreign_objects = options.foreign_objects;
  zoo::FolderModel folder = zoo::from_folder(options.name, how);
  Chosen chosen{.module = folder.model, .family = folder.family, .steps = folder.notes.steps};
  chosen.size = number_of(folder.config, "image_size", 224);
  chosen.channels = number_of(folder.config, "num_channels", 3);
  return chosen;
}

Chosen of_name(const ZooExportOptions& options) {
  RunOptions run;
  static_cast<ReadOptions&>(run) = options;
  run.model = options.name;
  run.weights = options.weights;
  run.random = options.random;
  run.seed = options.seed;
  run.guess = options.guess;
  run.num_classes = options.num_classes;
  run.heads = options.heads;
  const RunModel model = prepare_model_alone(run);
  Chosen chosen{.module = model.module, .family = model.model->family, .steps = model.steps};
  if (!model.expected.steps) return chosen;
  const zoo::Preprocessing& steps = *model.expected.steps;
  chosen.size = steps.crop > 0 ? steps.crop : steps.resize;
  chosen.channels = steps.channels;
  return chosen;
}

Tensor example_of(const Chosen& chosen, const ZooExportOptions& options) {
  const bool text = chosen.family->input == zoo::Input::tokens;
  if (text && options.size != 0) throw Error(ErrorCode::usage, "--size is for models of images");
  if (text) return core::zeros({1, options.length}, {.dtype = core::DType::i64});
  if (chosen.family->input != zoo::Input::images) {
    throw Error(ErrorCode::unsupported, core::quote(options.name) +
                                            " takes something else than one image or text; ckpt::onnx::export_model() "
                                            "in C++ takes what it is given");
  }
  const std::int64_t size = options.size != 0 ? options.size : chosen.size;
  return core::rand({1, chosen.channels, size, size});
}

ckpt::onnx::ExportOptions export_options(const Chosen& chosen, const ZooExportOptions& options) {
  ckpt::onnx::ExportOptions how{.opset = options.opset, .external_data = options.external_data};
  how.overwrite = options.force;
  const bool text = chosen.family->input == zoo::Input::tokens;
  how.input_names = {text ? "tokens" : "images"};
  if (options.dynamic_batch) {
    how.dynamic_axes[how.input_names[0]][0] = "batch";
    if (text) how.dynamic_axes[how.input_names[0]][1] = "length";
  }
  how.forward = [family = chosen.family](core::Module& module, const std::vector<Tensor>& inputs) {
    const Tensor& x = inputs[0];
    return std::vector<Tensor>{family->main_output != nullptr ? family->main_output(module, x) : module.call(x)};
  };
  return how;
}

void write_json(Output& out, const ZooExportOptions& options, const Chosen& chosen,
                const ckpt::onnx::Exported& written) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("model").value(options.name);
  json.key("family").value(chosen.family->name);
  json.key("output").value(options.output);
  json.key("opset").value(options.opset);
  json.key("nodes").value(written.nodes);
  json.key("initializers").value(written.initializers);
  json.key("bytes").value(written.bytes);
  json.key("inputs").begin_array();
  for (const std::string& input : written.inputs) json.value(input);
  json.end_array().key("outputs").begin_array();
  for (const std::string& output : written.outputs) json.value(output);
  json.end_array().key("steps").begin_array();
  for (const std::string& step : chosen.steps) json.value(step);
  json.end_array().end_object();
  out.print(json.text() + "\n");
}

void print_written(Output& out, const ZooExportOptions& options, const Chosen& chosen,
                   const ckpt::onnx::Exported& written) {
  for (const std::string& step : chosen.steps) out.print(core::printable(step) + "\n");
  out.print(core::printable(options.output) + ": " + std::string(chosen.family->name) + ", " +
            core::format_count(static_cast<std::uint64_t>(written.nodes)) + " operators of opset " +
            std::to_string(options.opset) + ", " + core::format_size(written.bytes) + " written; " +
            core::join(written.inputs, ", ") + " to " + core::join(written.outputs, ", ") + "\n");
}

}  // namespace

int run_zoo_export(Context& context, const ZooExportOptions& options) {
  if (!options.force && fs::exists(options.output)) {
    throw Error(ErrorCode::io, core::quote(options.output) + " already exists; -f overwrites it");
  }
  const Chosen chosen = fs::is_directory(options.name) ? of_folder(options) : of_name(options);
  const Tensor example = example_of(chosen, options);
  const ckpt::onnx::Exported written =
      ckpt::onnx::export_model(*chosen.module, {example}, options.output, export_options(chosen, options));
  if (options.json) {
    write_json(context.out, options, chosen, written);
  } else if (!options.quiet) {
    print_written(context.out, options, chosen, written);
  }
  return kDone;
}

}  // namespace cli
