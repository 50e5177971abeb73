#include "tools/train/lora.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "libckpt/bridge/module_state.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "tools/train/hub_model.h"
#include "tools/train/run_folder.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;
using core::Tensor;

constexpr const char* kPrefix = "base_model.model.";

/// What PEFT takes where nothing is said, the first that a model has.
const std::vector<std::vector<std::string>> kUsualTargets = {
    {"q_proj", "v_proj"}, {"query", "value"}, {"q_lin", "v_lin"}, {"c_attn"}, {"query_key_value"}, {"qkv_proj"}};

std::string_view last_part(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

bool is_target(const std::string& path, const std::vector<std::string>& targets) {
  return std::any_of(targets.begin(), targets.end(),
                     [&](const std::string& target) { return path == target || path.ends_with("." + target); });
}

bool is_linear(const core::Module& module) {
  return module.class_name() == "Linear" || module.class_name() == "Conv1D";
}

/// What may have factors: linear layers outside of what learns as it is.
std::vector<std::pair<std::string, core::Module*>> linear_layers(core::Module& model, const LoraOptions& o) {
  std::vector<std::pair<std::string, core::Module*>> found;
  for (const auto& [path, module] : model.named_modules()) {
    if (is_linear(*module) && !is_in_parts(path, o.learn_too)) found.emplace_back(path, module);
  }
  return found;
}

/// What --lora-targets says, or PEFT would take. Errors: Error(usage) for what is not there.
std::vector<std::string> targets_of(core::Module& model, const LoraOptions& o) {
  const auto layers = linear_layers(model, o);
  std::set<std::string, std::less<>> there;
  for (const auto& [path, module] : layers) there.emplace(last_part(path));
  const std::string all = core::join(std::vector<std::string>(there.begin(), there.end()), ", ");
  for (const std::string& target : o.targets) {
    const auto fits = [&](const auto& layer) { return is_target(layer.first, {target}); };
    if (std::any_of(layers.begin(), layers.end(), fits)) continue;
    throw Error(ErrorCode::usage,
                "--lora-targets: " + core::quote(target) + " is no linear layer of this model; there are " + all);
  }
  if (!o.targets.empty()) return o.targets;
  for (const std::vector<std::string>& usual : kUsualTargets) {
    if (std::all_of(usual.begin(), usual.end(), [&](const auto& name) { return there.contains(name); })) return usual;
  }
  throw Error(ErrorCode::usage, "--lora: nothing says which layers of this model; --lora-targets names some of " + all);
}

Tensor weight_of(const core::Module& module) {
  for (const auto& [name, parameter] : module.named_parameters()) {
    if (name == "weight") return parameter;
  }
  throw Error(ErrorCode::type, module.class_name() + " has no weight");
}

/// The factors of the copy of a model that this thread calls; null where it calls the model itself.
thread_local const std::vector<Lora::Layer>* of_this_copy = nullptr;

class OfThisCopy {
 public:
  explicit OfThisCopy(const std::vector<Lora::Layer>& layers) : before_(of_this_copy) { of_this_copy = &layers; }
  ~OfThisCopy() { of_this_copy = before_; }
  OfThisCopy(const OfThisCopy&) = delete;
  OfThisCopy& operator=(const OfThisCopy&) = delete;

 private:
  const std::vector<Lora::Layer>* before_;
};

/// The layer gives what it gave and the part of the factors at `place`.
void add_factors(core::Module& layer, const Lora::Layer& own, std::size_t place, double scale) {
  layer.register_forward_hook([a = own.a, b = own.b, place, scale](core::Module&, const std::vector<Tensor>& inputs,
                                                                   const Tensor& output) -> Tensor {
    const Tensor& down = of_this_copy != nullptr ? of_this_copy->at(place).a : a;
    const Tensor& up = of_this_copy != nullptr ? of_this_copy->at(place).b : b;
    return output + core::linear(core::linear(inputs.at(0), down), up) * scale;
  });
}

}  // namespace

LoraOptions lora_options(const RunOptions& o) {
  LoraOptions options{.rank = o.lora.value_or(8), .alpha = o.lora_alpha.value_or(8), .targets = {}, .learn_too = {}};
  for (std::string_view target : core::split(o.lora_targets, ',')) {
    if (!target.empty()) options.targets.emplace_back(target);
  }
  return options;
}

Lora::Lora(core::Module& model, LoraOptions options) : base_(&model), options_(std::move(options)) {
  if (options_.rank < 1) throw Error(ErrorCode::usage, "--lora is at least 1, not " + std::to_string(options_.rank));
  options_.targets = targets_of(model, options_);
  for (const auto& [name, parameter] : model.named_parameters()) {
    const bool learns = is_in_parts(name, options_.learn_too);
    if (learns) besides_.emplace_back(name, parameter);
    if (learns) continue;
    parameter.requires_grad_(false);
    kept_ += static_cast<std::uint64_t>(parameter.numel());
  }
  for (const auto& [path, module] : linear_layers(model, options_)) {
    if (!is_target(path, options_.targets)) continue;
    is_transposed_ = module->class_name() == "Conv1D";
    const Tensor weight = weight_of(*module);
    const std::int64_t in = weight.size(is_transposed_ ? 0 : 1), out = weight.size(is_transposed_ ? 1 : 0);
    const core::Linear drawn(in, options_.rank, {.bias = false});  // PEFT makes its layers, then draws again
    core::Linear b(options_.rank, out, {.bias = false}), a(in, options_.rank, {.bias = false});
    b.weight.detach().zero_();
    layers_.push_back({.path = path,
                       .a = core::Parameter(a.weight.detach().to(weight.device())),
                       .b = core::Parameter(b.weight.detach().to(weight.device()))});
    add_factors(*module, layers_.back(), layers_.size() - 1, options_.alpha / static_cast<double>(options_.rank));
  }
}

void Lora::members(core::Members& m) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    m.parameter("a" + std::to_string(i), layers_[i].a).parameter("b" + std::to_string(i), layers_[i].b);
  }
  for (std::size_t i = 0; i < besides_.size(); ++i) m.parameter("besides" + std::to_string(i), besides_[i].second);
}

/// Those of the members and those of PEFT.
std::vector<std::pair<std::string, std::string>> Lora::names() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    names.emplace_back("a" + std::to_string(i), kPrefix + layers_[i].path + ".lora_A.weight");
    names.emplace_back("b" + std::to_string(i), kPrefix + layers_[i].path + ".lora_B.weight");
  }
  for (std::size_t i = 0; i < besides_.size(); ++i) {
    names.emplace_back("besides" + std::to_string(i), kPrefix + besides_[i].first);
  }
  return names;
}

core::StateDict Lora::named_as_peft(const core::StateDict& state) const {
  core::StateDict renamed;
  for (const auto& [own, peft] : names()) renamed.set(peft, state.at(own));
  return renamed;
}

void Lora::load_peft(const core::StateDict& state) {
  core::StateDict renamed;
  for (const auto& [own, peft] : names()) {
    if (state.contains(peft)) renamed.set(own, state.at(peft));
  }
  load_state_dict(renamed);
}

void WithFactors::members(core::Members& m) {
  m.child("base", base_);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    m.parameter("a" + std::to_string(i), layers_[i].a).parameter("b" + std::to_string(i), layers_[i].b);
  }
}

Tensor WithFactors::forward(const Tensor& x) {
  const OfThisCopy scope(layers_);
  return base_->call(x);
}

void keep_statistics(core::Module& model) {
  for (const auto& [path, module] : model.named_modules()) {
    if (dynamic_cast<const core::BatchNormState*>(module) != nullptr) module->eval();
  }
}

void write_adapter_folder(const Lora& lora, const std::string& base, const char* task, const core::StateDict& state,
                          const std::filesystem::path& target) {
  std::error_code error;
  std::filesystem::create_directories(target, error);
  if (error) throw Error(ErrorCode::io, target.string() + ": " + error.message());
  const LoraOptions& o = lora.options();
  ckpt::JsonWriter json(2);
  json.begin_object().key("peft_type").value("LORA").key("task_type");
  task == nullptr ? json.null() : json.value(task);
  json.key("base_model_name_or_path").value(base).key("inference_mode").value(true);
  json.key("r").value(o.rank).key("lora_alpha").value(o.alpha).key("lora_dropout").value(0.0);
  json.key("bias").value("none").key("fan_in_fan_out").value(lora.is_transposed());
  json.key("use_rslora").value(false).key("use_dora").value(false);
  for (const auto& [name, list] : {std::pair("target_modules", o.targets), std::pair("modules_to_save", o.learn_too)}) {
    json.key(name).begin_array();
    for (const std::string& one : list) json.value(one);
    json.end_array();
  }
  write_text(target / "adapter_config.json", json.end_object().take() + "\n");
  ckpt::save(lora.named_as_peft(state), target / "adapter_model.safetensors");
}

std::string about_lora(const Lora& lora) {
  const LoraOptions& o = lora.options();
  std::string text = "LoRA of rank " + std::to_string(o.rank) + " beside " + std::to_string(lora.layers().size()) +
                     (lora.layers().size() == 1 ? " layer (" : " layers (") + core::join(o.targets, ", ") + ")";
  if (!o.learn_too.empty()) text += ", and " + core::join(o.learn_too, ", ") + " as a whole";
  return text + "; all else stays as it is";
}

}  // namespace train
