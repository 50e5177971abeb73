#include "tools/run/run_model.h"

#include <algorithm>

#include "libckpt/hint.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/random.h"
#include "tools/ckpt/line/address.h"
#include "tools/ckpt/output/output.h"
#include "tools/support/suggest.h"
#include "zoo/fit.h"
#include "zoo/manifest/manifest.h"
#include "zoo/manifest/runnable.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;
using zoo::Answer;
using zoo::Input;

/// Errors: Error(unsupported) for models that give no answer to one input, Error(usage) for unknown names.
const zoo::Model& find_model(const std::string& name) {
  if (name == "word2vec") {
    throw Error(ErrorCode::unsupported, "'word2vec' compares two words and gives no answer to one input");
  }
  const zoo::Model* known = zoo::find(name);
  if (known != nullptr && !zoo::is_runnable(name)) {
    throw Error(ErrorCode::unsupported, core::quote(name) +
                                            " takes two inputs and gives no answer to one; a folder with "
                                            "its config.json runs with --prompt where it reads texts");
  }
  if (known != nullptr) return *known;
  if (zoo::find_manifest(name)) {
    throw Error(ErrorCode::unsupported, "the zoo knows the keys of " + core::quote(name) + " and cannot run it");
  }
  std::vector<std::string> names;
  for (const zoo::Model& model : zoo::list()) names.emplace_back(model.name);
  throw Error(ErrorCode::usage,
              "no model is named " + core::quote(name) + did_you_mean(name, names) + "; see 'ckpt zoo ls'");
}

void check_weights(const RunOptions& o) {
  if (o.weights.empty() && !o.random) {
    throw Error(ErrorCode::usage, "no file with weights is named; --random runs the model with freshly drawn ones");
  }
  if (!o.weights.empty() && o.random) throw Error(ErrorCode::usage, "--random is for a model without a file");
}

void check_options(const RunOptions& o, const zoo::Model& model) {
  check_weights(o);
  const bool text = model.input == Input::tokens;
  if (!text && (!o.prompt.empty() || !o.vocabulary.empty() || o.generate != 0)) {
    throw Error(ErrorCode::usage, "--prompt, --vocabulary and --generate are for models of text, which " +
                                      core::quote(o.model) + " is not");
  }
  if (o.generate != 0 && model.answer != Answer::next_token) {
    throw Error(ErrorCode::usage, core::quote(o.model) + " gives no next token");
  }
  if (o.inputs.empty() && o.prompt.empty()) {
    throw Error(ErrorCode::usage, text ? "nothing to run on; --prompt gives the first tokens"
                                       : "nothing to run on; --input names an image or a tensor");
  }
}

Expected expected_of(const RunOptions& options, const zoo::Model& model) {
  Expected expected{.kind = model.input};
  expected.steps = zoo::preprocessing(model.name, std::filesystem::path(options.weights).filename().string());
  if (!expected.steps && (options.resize >= 0 || options.crop >= 0)) {
    throw Error(ErrorCode::usage, "--resize and --crop are for models of images");
  }
  if (options.resize >= 0) expected.steps->resize = options.resize;
  if (options.crop >= 0) expected.steps->crop = options.crop;
  return expected;
}

/// What the library says of its options, in those of the command.
std::string in_words_of_the_command(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"set LoadOptions::guess to take it", "--guess takes it"},
      {"how many attention heads the model has", "how many attention heads the model has; --heads says it"},
      {"FitOptions::heads says it", "--heads says it"},
      {"set it in FitOptions::config", "a folder with its config.json in place of the file says it"},
  };
  for (const auto& [from, to] : kWords) {
    if (const std::size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
  }
  return text;
}

void load_weights(RunModel& model, const RunOptions& options) {
  const Address address = parse_address(options.weights);
  model.source = address.text();
  zoo::FitOptions how;
  how.load.model.num_classes = options.num_classes;
  how.load.at = address.at;
  how.load.guess = options.guess;
  how.load.open.lenient = options.lenient;
  how.load.open.foreign_objects = options.foreign_objects;
  how.heads = options.heads;
  zoo::LoadNotes notes;
  try {
    zoo::Fit fit = zoo::fit(model.model->name, address.path, how);
    if (!fit.text.empty()) model.steps.push_back("made for " + fit.text);
    model.module = fit.model;
    zoo::load_into(*model.module, model.model->name, address.path, how.load, &notes);
  } catch (const Error& error) {
    ckpt::HintedError said(error.code(), in_words_of_the_command(error.message()), ckpt::hint_of(error));
    const std::vector<std::string>& context = error.context();
    for (auto subject = context.rbegin(); subject != context.rend(); ++subject) said.add_context(*subject);
    throw said;
  }
  model.steps.insert(model.steps.end(), notes.steps.begin(), notes.steps.end());
  model.steps.insert(model.steps.end(), notes.warnings.begin(), notes.warnings.end());
  if (model.expected.kind != Input::tokens) return;
  ckpt::OpenOptions open = how.load.open;
  open.foreign_objects = true;
  model.vocabulary = vocabulary_in(ckpt::open(address.path, open).root);
}

void draw_weights(RunModel& model, const RunOptions& options) {
  core::manual_seed(options.seed);
  model.module = zoo::make(model.model->name, {.num_classes = options.num_classes});
  model.source = "weights drawn with seed " + std::to_string(options.seed);
}

/// Files of tensors come with the channels of the model, images with those of its first layer.
void follow_channels(RunModel& model) {
  if (!model.expected.steps) return;
  for (const core::Tensor& parameter : model.module->parameters()) {
    if (parameter.dim() != 4) continue;
    const std::int64_t channels = parameter.size(1);
    if (channels == 1 || channels == 3) model.expected.steps->channels = channels;
    return;
  }
}

}  // namespace

core::Device device_of(const std::string& name) {
  core::Device device;
  try {
    device = core::Device(name);
  } catch (const Error& error) {
    throw Error(ErrorCode::usage, error.message()).add_context("--device");
  }
  if (device.is_cpu()) return device;
  if (!device.is_cuda()) throw Error(ErrorCode::device, "models run on cpu and cuda, not on " + core::quote(name));
  const int count = core::cuda::device_count();
  if (device.index() < count && count > 0) return device;
  throw Error(ErrorCode::device,
              "there is no " + name + "; " +
                  (count == 0 ? "no device is visible (CORE_LOGICAL_DEVICES=1 gives one on host memory)"
                              : "the last one is cuda:" + std::to_string(count - 1)));
}

RunModel prepare_model(const RunOptions& options) {
  check_options(options, find_model(options.model));
  return prepare_model_alone(options);
}

RunModel prepare_model_alone(const RunOptions& options) {
  const zoo::Model& row = find_model(options.model);
  check_weights(options);
  if (options.threads != 0) core::set_num_threads(static_cast<int>(options.threads));
  RunModel model;
  model.model = &row;
  model.device = device_of(options.device);
  model.expected = expected_of(options, row);
  if (options.random) {
    draw_weights(model, options);
  } else {
    load_weights(model, options);
  }
  model.answer = zoo::answer_of(row, *model.module);
  follow_channels(model);
  model.module->to(model.device);
  model.module->eval();
  return model;
}

core::Tensor call_model(RunModel& model, const core::Tensor& x) {
  core::NoGradGuard no_grad;
  try {
    if (model.dtype == core::DType::f32) return zoo::main_output(*model.model, *model.module, x.to(model.device)).cpu();
    const core::Tensor given = x.is_floating_point() ? x.to(model.dtype) : x;  // in 16 bits
    return zoo::main_output(*model.model, *model.module, given.to(model.device)).to(core::DType::f32).cpu();
  } catch (const Error& error) {
    const bool by_shape = error.code() == ErrorCode::runtime || error.code() == ErrorCode::value ||
                          error.code() == ErrorCode::type || error.code() == ErrorCode::index;
    if (!by_shape) throw;
    throw Error(ErrorCode::unsupported, core::quote(model.model->name) + " cannot take a tensor of " +
                                            core::to_list(x.sizes()) + ": " + error.message());
  }
}

}  // namespace cli
