#include "tools/run/run_model.h"

#include <algorithm>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/random.h"
#include "tools/ckpt/line/address.h"
#include "tools/ckpt/output/output.h"
#include "tools/support/suggest.h"
#include "zoo/autoencoder.h"
#include "zoo/capsnet.h"
#include "zoo/fit.h"
#include "zoo/manifest/manifest.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;
using Answer = RunModel::Answer;

bool begins(std::string_view name, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view start) { return name.starts_with(start); });
}

bool takes_tokens(std::string_view name) {
  return begins(name, {"gpt2", "distilgpt2", "nanogpt", "llama", "bert", "char_"});
}

Answer answer_of(std::string_view name, bool has_classes) {
  if (begins(name, {"fcn_", "deeplabv3_"})) return Answer::pixels;
  if (begins(name, {"capsnet"})) return Answer::lengths;
  if (name == "bert_base_classifier") return Answer::classes;
  if (begins(name, {"bert_base_masked_lm", "bert_base_pretraining"})) return Answer::next_token;
  if (name.starts_with("hf_vit")) return has_classes ? Answer::classes : Answer::values;
  if (begins(name, {"bert", "autoencoder", "vae", "simple_rnn", "step_rnn"})) return Answer::values;
  return takes_tokens(name) ? Answer::next_token : Answer::classes;
}

void check_name(const std::string& name) {
  if (name == "word2vec") {
    throw Error(ErrorCode::unsupported, "'word2vec' compares two words and gives no answer to one input");
  }
  if (zoo::find(name) != nullptr) return;
  if (zoo::find_manifest(name)) {
    throw Error(ErrorCode::unsupported, "the zoo knows the keys of " + core::quote(name) + " and cannot run it");
  }
  std::vector<std::string> names;
  for (const zoo::Model& model : zoo::list()) names.emplace_back(model.name);
  throw Error(ErrorCode::usage,
              "no model is named " + core::quote(name) + did_you_mean(name, names) + "; see 'ckpt zoo ls'");
}

void check_options(const RunOptions& o) {
  if (o.weights.empty() && !o.random) {
    throw Error(ErrorCode::usage, "no file with weights is named; --random runs the model with freshly drawn ones");
  }
  if (!o.weights.empty() && o.random) throw Error(ErrorCode::usage, "--random is for a model without a file");
  const bool text = takes_tokens(o.model);
  if (!text && (!o.prompt.empty() || !o.vocabulary.empty() || o.generate != 0)) {
    throw Error(ErrorCode::usage, "--prompt, --vocabulary and --generate are for models of text, which " +
                                      core::quote(o.model) + " is not");
  }
  if (o.generate != 0 && (answer_of(o.model, false) != Answer::next_token || o.model.starts_with("bert"))) {
    throw Error(ErrorCode::usage, core::quote(o.model) + " gives no next token");
  }
  if (o.inputs.empty() && o.prompt.empty()) {
    throw Error(ErrorCode::usage, text ? "nothing to run on; --prompt gives the first tokens"
                                       : "nothing to run on; --input names an image or a tensor");
  }
}

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

Expected expected_of(const RunOptions& options, const std::string& file) {
  Expected expected;
  expected.steps = zoo::preprocessing(options.model, std::filesystem::path(file).filename().string());
  if (takes_tokens(options.model)) expected.kind = Expected::Kind::tokens;
  if (expected.steps) expected.kind = Expected::Kind::images;
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
    zoo::Fit fit = zoo::fit(model.name, address.path, how);
    if (!fit.text.empty()) model.steps.push_back("made for " + fit.text);
    model.module = fit.model;
    zoo::load_into(*model.module, model.name, address.path, how.load, &notes);
  } catch (const Error& error) {
    Error said(error.code(), in_words_of_the_command(error.message()));
    const std::vector<std::string>& context = error.context();
    for (auto subject = context.rbegin(); subject != context.rend(); ++subject) said.add_context(*subject);
    throw said;
  }
  model.steps.insert(model.steps.end(), notes.steps.begin(), notes.steps.end());
  model.steps.insert(model.steps.end(), notes.warnings.begin(), notes.warnings.end());
  if (model.expected.kind != Expected::Kind::tokens) return;
  ckpt::OpenOptions open = how.load.open;
  open.foreign_objects = true;
  model.vocabulary = vocabulary_in(ckpt::open(address.path, open).root);
}

void draw_weights(RunModel& model, const RunOptions& options) {
  core::manual_seed(options.seed);
  model.module = zoo::make(model.name, {.num_classes = options.num_classes});
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

core::Tensor forward(RunModel& model, const core::Tensor& x) {
  if (auto* capsules = dynamic_cast<zoo::CapsNet*>(model.module.get())) return std::get<0>((*capsules)(x));
  if (auto* vae = dynamic_cast<zoo::VAE*>(model.module.get())) return std::get<0>((*vae)(x.flatten(1)));
  if (dynamic_cast<zoo::Autoencoder*>(model.module.get()) != nullptr) return model.module->call(x.flatten(1));
  return model.module->call(x);
}

}  // namespace

RunModel prepare_model(const RunOptions& options) {
  check_name(options.model);
  check_options(options);
  if (options.threads != 0) core::set_num_threads(static_cast<int>(options.threads));
  RunModel model;
  model.name = options.model;
  model.device = device_of(options.device);
  model.expected = expected_of(options, options.weights);
  if (options.random) {
    draw_weights(model, options);
  } else {
    load_weights(model, options);
  }
  model.answer = answer_of(model.name, model.module->class_name().find("Classification") != std::string::npos);
  follow_channels(model);
  model.module->to(model.device);
  model.module->eval();
  return model;
}

core::Tensor call_model(RunModel& model, const core::Tensor& x) {
  core::NoGradGuard no_grad;
  try {
    return forward(model, x.to(model.device)).cpu();
  } catch (const Error& error) {
    const bool by_shape = error.code() == ErrorCode::runtime || error.code() == ErrorCode::value ||
                          error.code() == ErrorCode::type || error.code() == ErrorCode::index;
    if (!by_shape) throw;
    throw Error(ErrorCode::unsupported, core::quote(model.name) + " cannot take a tensor of " +
                                            core::to_list(x.sizes()) + ": " + error.message());
  }
}

}  // namespace cli
