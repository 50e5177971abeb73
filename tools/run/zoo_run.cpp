#include "tools/run/zoo_run.h"

#include "libckpt/bridge/module_state.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"
#include "tools/ckpt/exit_code.h"
#include "tools/run/answers.h"
#include "tools/run/folder_model.h"
#include "tools/run/folder_run.h"
#include "tools/run/next_tokens.h"
#include "tools/run/run_model.h"
#include "tools/run/sound_run.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;
using zoo::Answer;

/// Images of one shape that go through the model at once: enough to fill the cores, few enough for memory.
constexpr std::int64_t kBatch = 8;

struct Rows {
  std::vector<std::string> names;
  std::vector<std::string> whats;
  std::vector<core::Tensor> outputs;
};

std::string row_name(const ModelInput& input, std::int64_t row) {
  return input.tensor.size(0) == 1 ? input.name : input.name + "[" + std::to_string(row) + "]";
}

/// Pieces of at most kBatch rows, neighbours of one shape together; outputs in the order of the inputs.
Rows run_rows(RunModel& model, const std::vector<ModelInput>& inputs) {
  Rows rows;
  std::vector<core::Tensor> pending;
  auto flush = [&] {
    if (pending.empty()) return;
    for (const core::Tensor& row : call_model(model, core::stack(pending)).unbind(0)) rows.outputs.push_back(row);
    pending.clear();
  };
  for (const ModelInput& input : inputs) {
    for (std::int64_t i = 0; i < input.tensor.size(0); ++i) {
      core::Tensor row = input.tensor.select(0, i);
      if (!pending.empty() && pending[0].sizes() != row.sizes()) flush();
      pending.push_back(std::move(row));
      rows.names.push_back(row_name(input, i));
      rows.whats.push_back(input.what);
      if (static_cast<std::int64_t>(pending.size()) == kBatch) flush();
    }
  }
  flush();
  return rows;
}

/// Tensors whose batch dimension only the model knows: each file is one call.
Rows run_whole(RunModel& model, const std::vector<ModelInput>& inputs) {
  Rows rows;
  for (const ModelInput& input : inputs) {
    rows.names.push_back(input.name);
    rows.whats.push_back(input.what);
    rows.outputs.push_back(core::with_context(input.name, [&] { return call_model(model, input.tensor); }));
  }
  return rows;
}

/// The part of an output that answers_of() takes.
core::Tensor answer_part(const RunModel& model, const ModelInput* input, const core::Tensor& output) {
  if (!names_tokens(model.answer)) return output;
  const bool hides = input != nullptr && model.answer == Answer::hidden_tokens;
  return next_token_logits(output, hides ? input->tensor : core::Tensor());
}

void save_outputs(const RunOptions& options, const std::vector<core::Tensor>& outputs) {
  if (options.output.empty()) return;
  core::StateDict state;
  bool alike = true;
  for (const core::Tensor& output : outputs) alike = alike && output.sizes() == outputs[0].sizes();
  if (alike) {
    state.set("output", core::stack(outputs));
  } else {
    for (std::size_t i = 0; i < outputs.size(); ++i) state.set("output." + std::to_string(i), outputs[i]);
  }
  ckpt::save(state, options.output, {.overwrite = options.force});
}

NameOf labels_of(const RunOptions& options, const RunModel& model, const std::vector<core::Tensor>& outputs) {
  if (names_tokens(model.answer)) {
    return [&model](std::int64_t id) {
      const auto at = static_cast<std::size_t>(id);
      return at < model.vocabulary.size() ? model.vocabulary.token(id) : std::string();
    };
  }
  if (options.labels.empty()) {
    return [labels = model.labels](std::int64_t id) {
      const auto at = static_cast<std::size_t>(id);
      return at < labels.size() ? labels[at] : std::string();
    };
  }
  std::vector<std::string> labels = read_labels(options.labels);
  const auto classes = outputs.empty() || model.answer == Answer::values ? 0 : outputs[0].size(0);
  if (static_cast<std::int64_t>(labels.size()) != classes) {
    throw Error(ErrorCode::usage,
                "has " + count_of(labels.size(), "label") + " where the model has " + std::to_string(classes))
        .add_context(options.labels);
  }
  return [labels = std::move(labels)](std::int64_t id) { return labels[static_cast<std::size_t>(id)]; };
}

void say_steps(const RunOptions& options, const RunModel& model) {
  if (options.quiet || options.json) return;
  for (const std::string& step : model.steps) {
    print_error_line("ckpt: " + core::printable(model.source) + ": " + core::printable(step));
  }
  if (options.random) print_error_line("ckpt: " + model.source + ": what the model says means nothing");
}

/// How images are brought to what the model takes; "" for other models.
std::string about_images(const RunModel& model) {
  if (model.expected.processor) return zoo::describe(*model.expected.processor);
  return model.expected.steps ? zoo::describe(*model.expected.steps) : "";
}

void print_head(Output& out, const RunModel& model) {
  std::string line =
      std::string(model.model->name) + " (" + core::printable(model.source) + ") on " + model.device.str();
  if (const std::string images = about_images(model); !images.empty()) line += "; images: " + images;
  out.print(line + "\n");
}

void write_head(ckpt::JsonWriter& json, const RunModel& model, const RunOptions& options) {
  json.key("model").value(model.model->name);
  json.key("weights").value(options.random ? "" : model.own ? options.model : options.weights);
  json.key("device").value(model.device.str());
  if (const std::string images = about_images(model); !images.empty()) json.key("preprocessing").value(images);
  json.key("steps").begin_array();
  for (const std::string& step : model.steps) json.value(step);
  json.end_array();
}

void report(Context& context, const RunOptions& options, const RunModel& model, const std::vector<InputAnswers>& all,
            const NameOf& name_of) {
  if (!options.json) {
    if (!options.quiet) print_head(context.out, model);
    for (const InputAnswers& one : all) print_answers(context.out, one, model.answer, name_of, options.quiet);
    return;
  }
  ckpt::JsonWriter json(2);
  json.begin_object();
  write_head(json, model, options);
  json.key("inputs").begin_array();
  for (const InputAnswers& one : all) {
    json.begin_object();
    write_answers(json, one, model.answer, name_of);
    json.end_object();
  }
  json.end_array().end_object();
  context.out.print(json.text() + "\n");
}

int run_inputs(Context& context, const RunOptions& options, RunModel& model, const std::vector<ModelInput>& inputs) {
  const bool rows_alone = model.expected.kind == zoo::Input::images;
  const Rows rows = rows_alone ? run_rows(model, inputs) : run_whole(model, inputs);
  const NameOf name_of = labels_of(options, model, rows.outputs);
  std::vector<InputAnswers> all;
  for (std::size_t i = 0; i < rows.outputs.size(); ++i) {
    const ModelInput* input = rows_alone ? nullptr : &inputs[i];
    core::Tensor part = answer_part(model, input, rows.outputs[i]);
    if (model.answer == Answer::classes && part.dim() == 2 && part.size(0) == 1) part = part.select(0, 0);
    const bool fits = model.answer == Answer::pixels ? part.dim() == 3 : part.dim() == 1;
    all.push_back(answers_of(part, fits ? model.answer : Answer::values, options.top));
    all.back().name = rows.names[i];
    all.back().what = rows.whats[i];
  }
  save_outputs(options, rows.outputs);
  report(context, options, model, all, name_of);
  return kDone;
}

void refuse_drawing_options(const RunOptions& o) {
  if (o.top_k >= 0 || o.top_p >= 0 || o.repetition_penalty > 0 || o.beams > 0 || !o.stop.empty()) {
    throw Error(ErrorCode::usage, "--top-k, --top-p, --repetition-penalty, --beams and --stop are for --generate");
  }
}

/// A head line, what was said, and what the model goes on with.
int run_generate(Context& context, const RunOptions& options, RunModel& model, const ModelInput& prompt) {
  const Generated generated = generate(model, prompt.tensor, options);
  if (options.json) {
    ckpt::JsonWriter json(2);
    json.begin_object();
    write_head(json, model, options);
    json.key("seed").value(options.seed);
    json.key("prompt").begin_array();
    for (std::int64_t id : prompt.tensor.to_vector<std::int64_t>()) json.value(id);
    json.end_array();
    json.key("tokens").begin_array();
    for (std::int64_t id : generated.tokens) json.value(id);
    json.end_array();
    if (!generated.text.empty()) json.key("text").value(generated.text);
    json.end_object();
    context.out.print(json.text() + "\n");
    return kDone;
  }
  if (!options.quiet) print_head(context.out, model);
  context.out.print(generated.shown() + "\n");
  return kDone;
}

}  // namespace

int run_zoo(Context& context, const RunOptions& options) {
  const bool is_folder = zoo::find(options.model) == nullptr && std::filesystem::is_directory(options.model);
  if (is_folder && takes_images(options)) {
    RunModel model = prepare_folder_model(options);
    std::vector<ModelInput> inputs;
    if (!options.weights.empty()) inputs.push_back(read_input(options.weights, model.expected));
    for (const std::string& name : options.inputs) inputs.push_back(read_input(name, model.expected));
    say_steps(options, model);
    refuse_drawing_options(options);
    return run_inputs(context, options, model, inputs);
  }
  if (is_folder && takes_sounds(options)) return run_sounds(context, options);
  refuse_texts(options);
  if (!options.language.empty() || !options.task.empty()) {
    throw Error(ErrorCode::usage, "--language and --task are for a folder of Whisper, which listens to a sound");
  }
  if (is_folder) return run_folder(context, options);
  if (names_gguf(options)) return run_gguf(context, options);
  RunModel model = prepare_model(options);
  if (!options.vocabulary.empty()) model.vocabulary = characters_of(options.vocabulary);
  std::vector<ModelInput> inputs;
  if (!options.prompt.empty()) inputs.push_back(read_prompt(options.prompt, model));
  for (const std::string& name : options.inputs) inputs.push_back(read_input(name, model.expected));
  say_steps(options, model);
  if (options.generate == 0) refuse_drawing_options(options);
  if (options.generate == 0) return run_inputs(context, options, model, inputs);
  if (inputs.size() != 1) throw Error(ErrorCode::usage, "--generate goes on from one prompt");
  if (!options.output.empty()) throw Error(ErrorCode::usage, "--generate prints tokens and writes no --output");
  return run_generate(context, options, model, inputs[0]);
}

}  // namespace cli
