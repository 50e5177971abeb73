#include "tests/zoo/golden_model.h"

#include <cmath>
#include <sstream>
#include <stdexcept>

#include "libcore/module/attention.h"
#include "libcore/ops/dropout.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/iterate.h"
#include "libcore/tensor/random.h"
#include "tests/zoo/formula.h"
#include "zoo/autoencoder.h"
#include "zoo/bert.h"
#include "zoo/capsnet.h"
#include "zoo/gpt2.h"
#include "zoo/hf_vit.h"
#include "zoo/llama.h"
#include "zoo/mobilenet.h"
#include "zoo/nanogpt.h"
#include "zoo/vit.h"
#include "zoo/word2vec.h"

namespace test {

using core::Tensor;

namespace {

constexpr std::uint32_t kDot = 131072;

std::int64_t argument(Json golden, const char* name, std::int64_t fallback) {
  return has(golden["arguments"], name) ? integer(golden["arguments"][name]) : fallback;
}

std::shared_ptr<core::Module> build_torchvision(Json golden, const std::string& builder) {
  const std::int64_t classes = argument(golden, "num_classes", 0);
  if (builder == "VisionTransformer") {
    return std::make_shared<zoo::VisionTransformer>(
        zoo::VisionTransformer::Options{.image_size = argument(golden, "image_size", 224),
                                        .patch_size = argument(golden, "patch_size", 16),
                                        .num_layers = argument(golden, "num_layers", 12),
                                        .num_heads = argument(golden, "num_heads", 12),
                                        .hidden_dim = argument(golden, "hidden_dim", 768),
                                        .mlp_dim = argument(golden, "mlp_dim", 3072),
                                        .num_classes = classes});
  }
  if (builder == "mobilenet_v2" && has(golden["arguments"], "width_mult")) {
    return std::make_shared<zoo::MobileNetV2>(
        zoo::MobileNetV2::Options{.width_mult = number(golden["arguments"]["width_mult"]),
                                  .num_classes = classes,
                                  .dropout = number(golden["arguments"]["dropout"])});
  }
  return zoo::find(builder) == nullptr ? nullptr : zoo::make(builder, {.num_classes = classes});
}

zoo::GPT2Model::Options gpt2_options(Json golden) {
  return {.vocab_size = argument(golden, "vocab_size", 50257),
          .n_positions = argument(golden, "n_positions", 1024),
          .n_embd = argument(golden, "n_embd", 768),
          .n_layer = argument(golden, "n_layer", 12),
          .n_head = argument(golden, "n_head", 12)};
}

std::shared_ptr<core::Module> build_nanogpt(Json golden) {
  const bool bias = !has(golden["arguments"], "bias") || boolean(golden["arguments"]["bias"]);
  return std::make_shared<zoo::NanoGPT>(zoo::NanoGPT::Options{.block_size = argument(golden, "block_size", 1024),
                                                              .vocab_size = argument(golden, "vocab_size", 50304),
                                                              .n_layer = argument(golden, "n_layer", 12),
                                                              .n_head = argument(golden, "n_head", 12),
                                                              .n_embd = argument(golden, "n_embd", 768),
                                                              .bias = bias});
}

zoo::BertOptions bert_options(Json golden) {
  return {.vocab_size = argument(golden, "vocab_size", 30522),
          .hidden_size = argument(golden, "hidden_size", 768),
          .num_hidden_layers = argument(golden, "num_hidden_layers", 12),
          .num_attention_heads = argument(golden, "num_attention_heads", 12),
          .intermediate_size = argument(golden, "intermediate_size", 3072),
          .max_position_embeddings = argument(golden, "max_position_embeddings", 512),
          .num_labels = argument(golden, "num_labels", 2)};
}

std::shared_ptr<core::Module> build_llama(Json golden) {
  Json arguments = golden["arguments"];
  zoo::LlamaOptions options{.vocab_size = argument(golden, "vocab_size", 32000),
                            .hidden_size = argument(golden, "hidden_size", 4096),
                            .intermediate_size = argument(golden, "intermediate_size", 11008),
                            .num_hidden_layers = argument(golden, "num_hidden_layers", 32),
                            .num_attention_heads = argument(golden, "num_attention_heads", 32),
                            .num_key_value_heads = argument(golden, "num_key_value_heads", 32)};
  if (has(arguments, "rms_norm_eps")) options.rms_norm_eps = number(arguments["rms_norm_eps"]);
  if (has(arguments, "rope_theta")) options.rope_theta = number(arguments["rope_theta"]);
  if (has(arguments, "tie_word_embeddings")) options.tie_word_embeddings = boolean(arguments["tie_word_embeddings"]);
  return std::make_shared<zoo::LlamaForCausalLM>(options);
}

std::shared_ptr<core::Module> build_hf_vit(Json golden) {
  return std::make_shared<zoo::HFViTForImageClassification>(
      zoo::HFViTOptions{.image_size = argument(golden, "image_size", 224),
                        .patch_size = argument(golden, "patch_size", 16),
                        .hidden_size = argument(golden, "hidden_size", 768),
                        .num_hidden_layers = argument(golden, "num_hidden_layers", 12),
                        .num_attention_heads = argument(golden, "num_attention_heads", 12),
                        .intermediate_size = argument(golden, "intermediate_size", 3072),
                        .num_labels = argument(golden, "num_labels", 2)});
}

std::shared_ptr<core::Module> build_transformers(Json golden, const std::string& model) {
  if (model == "GPT2LMHeadModel") return std::make_shared<zoo::GPT2LMHeadModel>(gpt2_options(golden));
  if (model == "GPT2Model") return std::make_shared<zoo::GPT2Model>(gpt2_options(golden));
  if (model == "BertModel") return std::make_shared<zoo::BertModel>(bert_options(golden));
  if (model == "BertForMaskedLM") return std::make_shared<zoo::BertForMaskedLM>(bert_options(golden));
  if (model == "BertForSequenceClassification") {
    return std::make_shared<zoo::BertForSequenceClassification>(bert_options(golden));
  }
  if (model == "LlamaForCausalLM") return build_llama(golden);
  if (model == "ViTForImageClassification") return build_hf_vit(golden);
  return nullptr;
}

/// Outputs of any number as a list.
template <class... T>
std::vector<Tensor> listed(const std::tuple<T...>& y) {
  return std::apply([](const auto&... each) { return std::vector<Tensor>{each...}; }, y);
}

/// Calls `model`, a VAE, CapsNet or Word2Vec or its wrapper.
template <class Model>
std::vector<Tensor> call_with_extra(Model& model, const Tensor& x, const Tensor& extra) {
  return extra.defined() ? listed(model(x, extra)) : listed(model(x));
}

}  // namespace

std::shared_ptr<core::Module> build_golden_model(Json golden) {
  const std::string name = text(golden["name"]);
  if (zoo::find(name) != nullptr) return zoo::make(name);
  const std::string constructor = text(golden["constructor"]);
  if (constructor.starts_with("torchvision.models.")) {
    return build_torchvision(golden, constructor.substr(constructor.rfind('.') + 1));
  }
  if (constructor.starts_with("transformers.")) {
    const std::size_t begin = constructor.find('.') + 1;
    return build_transformers(golden, constructor.substr(begin, constructor.find('(') - begin));
  }
  if (constructor == "language_models.GPT") return build_nanogpt(golden);
  return nullptr;
}

bool has_golden_model(Json golden) {
  const core::Device before = core::default_device();
  core::set_default_device(core::Device("meta"));
  const bool found = build_golden_model(golden) != nullptr;
  core::set_default_device(before);
  return found;
}

void silence_dropout(core::Module& module) {
  for (const auto& [name, below] : module.named_modules()) {
    if (auto* dropout = dynamic_cast<core::Dropout*>(below)) dropout->p = 0;
    if (auto* attention = dynamic_cast<core::MultiheadAttention*>(below)) attention->options.dropout = 0;
  }
}

void require(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error(what);
}

void require_close(double got, double want, double tolerance, const std::string& what) {
  std::ostringstream message;
  message << what << " is " << got << ", expected " << want << " within " << tolerance;
  require(std::abs(got - want) <= tolerance, message.str());
}

std::vector<Json> inputs_of(Json holder) {
  return has(holder, "inputs") ? items(holder["inputs"]) : std::vector<Json>{holder["input"]};
}

std::vector<Json> outputs_of(Json holder) {
  return has(holder, "outputs") ? items(holder["outputs"]) : std::vector<Json>{holder["output"]};
}

Tensor make_input(Json input, core::DType dtype) {
  core::Shape sizes = shape(input["shape"]);
  const std::string kind = text(input["kind"]);
  if (kind == "rand" || kind == "randint") {
    if (kind == "rand") return core::rand(sizes).to(dtype);
    return core::randint(0, integer(input["high"]), sizes);
  }
  Formula formula{.tensor = static_cast<std::uint32_t>(integer(input["tensor"]))};
  if (kind == "tokens") {
    Tensor tokens = core::empty(sizes, {.dtype = core::DType::i64});
    fill_tokens(tokens, formula, integer(input["vocabulary"]));
    return has(input, "as") ? tokens.to(dtype) : tokens;
  }
  formula.add = number(input["add"]);
  formula.mul = number(input["mul"]);
  Tensor values = core::empty(sizes, {.dtype = dtype});
  fill_by_formula(values, formula);
  return values;
}

std::vector<Tensor> make_inputs(Json holder, core::DType dtype, core::Device device) {
  std::vector<Json> described = inputs_of(holder);
  if (has(described[0], "seed")) core::manual_seed(static_cast<std::uint64_t>(integer(described[0]["seed"])));
  std::vector<Tensor> inputs;
  for (Json input : described) inputs.push_back(make_input(input, dtype).to(device));
  return inputs;
}

void fill_by_rules(core::Module& module, Json golden, core::DType dtype) {
  if (dtype == core::DType::f64) module.to(core::DType::f64);
  core::StateDict state = module.state_dict();
  for (Json entry : items(golden["state_dict"])) {
    if (has(entry, "tied_to") || has(entry, "keep")) continue;
    Tensor tensor = state.at(text(entry["key"]));
    if (has(entry, "int")) {
      tensor.fill_(integer(entry["int"]));
    } else {
      fill_by_formula(tensor, {.tensor = static_cast<std::uint32_t>(integer(entry["i"])),
                               .add = number(entry["add"]),
                               .mul = number(entry["mul"])});
    }
  }
}

std::vector<Tensor> run_model(core::Module& module, const std::vector<Tensor>& inputs, const Tensor& extra) {
  if (auto* vae = dynamic_cast<zoo::VAE*>(&module)) return call_with_extra(*vae, inputs[0], extra);
  if (auto* capsnet = dynamic_cast<zoo::CapsNet*>(&module)) return call_with_extra(*capsnet, inputs[0], extra);
  if (auto* words = dynamic_cast<zoo::Word2Vec*>(&module)) return {(*words)(inputs[0], inputs[1])};
  return {module.call(inputs[0])};
}

std::vector<Tensor> run_parallel_model(core::Module& module, const std::vector<Tensor>& inputs, const Tensor& extra,
                                       std::int64_t dim) {
  const core::DataParallelOptions options{.dim = dim};
  if (auto* vae = dynamic_cast<zoo::VAE*>(&module)) {
    core::DataParallel<zoo::VAE> wrapped(*vae, options);
    return call_with_extra(wrapped, inputs[0], extra);
  }
  if (auto* capsnet = dynamic_cast<zoo::CapsNet*>(&module)) {
    core::DataParallel<zoo::CapsNet> wrapped(*capsnet, options);
    return call_with_extra(wrapped, inputs[0], extra);
  }
  if (auto* words = dynamic_cast<zoo::Word2Vec*>(&module)) {
    core::DataParallel<zoo::Word2Vec> wrapped(*words, options);
    return {wrapped(inputs[0], inputs[1])};
  }
  core::DataParallel<core::Module> wrapped(module, options);
  return {wrapped(inputs[0])};
}

double wide_tolerance(Json golden) {
  const std::string constructor = text(golden["constructor"]);
  const bool narrow = constructor.starts_with("transformers.Llama") || constructor.starts_with("transformers.ViT");
  return narrow ? 1e-5 : 1e-9;
}

void check_output(const Tensor& output, Json block, double tolerance) {
  Tensor wide = output.detach().to(core::Device("cpu"), core::DType::f64).contiguous();
  require(wide.sizes() == shape(block["shape"]), "shape of the output differs");
  std::vector<double> values = wide.to_vector<double>();
  std::vector<double> first = numbers(block["first"]);
  for (std::size_t i = 0; i < first.size(); ++i) require_close(values[i], first[i], tolerance, "output value");
  Tensor coefficients = core::empty(wide.sizes(), {.dtype = core::DType::f64});
  fill_by_formula(coefficients, {.tensor = kDot});
  const double spread = tolerance * std::sqrt(static_cast<double>(values.size())) * 4;
  require_close((wide * coefficients).sum().item<double>(), number(block["dot"]), spread, "dot of the output");
  require_close(wide.sum().item<double>(), number(block["sum"]), spread, "sum of the output");
}

void check_sums(const Tensor& tensor, double sum, double magnitude, double tolerance, const std::string& name) {
  Tensor wide = tensor.detach().to(core::Device("cpu"), core::DType::f64);
  require_close(wide.sum().item<double>(), sum, tolerance, "sum of " + name);
  require_close(wide.abs().sum().item<double>(), magnitude, tolerance, "magnitudes of " + name);
}

std::vector<std::pair<std::string, Tensor>> state_in_order(core::Module& module) {
  core::StateDict state = module.state_dict("", true);
  std::vector<std::pair<std::string, Tensor>> listed_state;
  for (const std::string& key : state.keys()) listed_state.emplace_back(key, state.at(key));
  return listed_state;
}

}  // namespace test
