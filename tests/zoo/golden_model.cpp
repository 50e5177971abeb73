#include "tests/zoo/golden_model.h"

#include <cmath>
#include <sstream>
#include <stdexcept>

#include "libcore/module/attention.h"
#include "libcore/module/dropout.h"
#include "libcore/ops/dropout.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/iterate.h"
#include "libcore/tensor/random.h"
#include "tests/zoo/formula.h"
#include "zoo/autoencoder.h"
#include "zoo/capsnet.h"
#include "zoo/decoder.h"
#include "zoo/family.h"
#include "zoo/word2vec.h"

namespace test {

using core::Tensor;

namespace {

constexpr std::uint32_t kDot = 131072;

/// The last word of a constructor: "resnet18" of "torchvision.models.resnet18", "GPT2LMHeadModel" of
/// "transformers.GPT2LMHeadModel(transformers.GPT2Config(...))".
std::string builder_of(Json golden) {
  const std::string constructor = text(golden["constructor"]);
  const std::string call = constructor.substr(0, constructor.find('('));
  return call.substr(call.rfind('.') + 1);
}

/// What the file says the model was built from: its configuration with the arguments over it.
zoo::Config config_of(Json golden) {
  zoo::Config config;
  for (const char* part : {"config", "arguments"}) {
    if (has(golden, part)) config = config.with(zoo::Config::parse(simdjson::minify(golden[part])));
  }
  return config;
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
  return zoo::make(builder_of(golden), config_of(golden));
}

bool has_golden_model(Json golden) {
  const std::string builder = builder_of(golden);
  return zoo::find(builder) != nullptr || zoo::find_family(builder) != nullptr;
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
  if (auto* pair = dynamic_cast<zoo::TwoInputs*>(&module)) return {pair->with_second(inputs[0], inputs[1])};
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
  if (!text(golden["constructor"]).starts_with("transformers.")) return 1e-9;
  // Of Hugging Face's models those with rotary positions or RMS norms, and its transformers of images, compute in part
  // in f32.
  const std::string builder = builder_of(golden);
  for (std::string_view wide : {"GPT2", "Bert", "Roberta", "DistilBert", "ConvNext", "Whisper", "MobileViT"}) {
    if (builder.starts_with(wide)) return 1e-9;
  }
  return 1e-5;
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
