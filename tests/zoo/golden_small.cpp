// The zoo's models against PyTorch: keys, printed text, initial bits, outputs and training steps, also on 2 to 4
// logical devices. Walks over every file of zoo/small; a model that the zoo does not have yet is skipped.
#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>

#include "libcore/autograd/grad_mode.h"
#include "libcore/core.h"
#include "tests/support/golden_json.h"
#include "tests/zoo/formula.h"
#include "zoo/zoo.h"

namespace {

using core::Tensor;
using test::Json;

constexpr std::uint32_t kDot = 131072;

void require(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error(what);
}

void require_close(double got, double want, double tolerance, const std::string& what) {
  std::ostringstream text;
  text << what << " is " << got << ", expected " << want << " within " << tolerance;
  require(std::abs(got - want) <= tolerance, text.str());
}

bool has_model(const std::string& name) {
  auto models = zoo::list();
  return std::any_of(models.begin(), models.end(), [&](const zoo::Model& m) { return m.name == name; });
}

/// Fills every entry by its rule and casts the module when `dtype` is f64.
void fill_model(core::Module& module, Json golden, core::DType dtype) {
  if (dtype == core::DType::f64) module.to(core::DType::f64);
  core::StateDict state = module.state_dict();
  for (Json entry : golden["state_dict"].get_array()) {
    test::Formula formula{.tensor = static_cast<std::uint32_t>(test::integer(entry["i"])),
                          .add = test::number(entry["add"]),
                          .mul = test::number(entry["mul"])};
    test::fill_by_formula(state.at(test::text(entry["key"])), formula);
  }
}

Tensor make_input(Json input, core::DType dtype) {
  core::Shape shape = test::shape(input["shape"]);
  if (test::text(input["kind"]) == "rand") {
    core::manual_seed(static_cast<std::uint64_t>(test::integer(input["seed"])));
    return core::rand(shape);
  }
  test::Formula formula{.tensor = static_cast<std::uint32_t>(test::integer(input["tensor"]))};
  if (test::text(input["kind"]) == "tokens") {
    Tensor tokens = core::empty(shape, {.dtype = core::DType::i64});
    test::fill_tokens(tokens, formula, test::integer(input["vocabulary"]));
    return tokens;
  }
  formula.add = test::number(input["add"]);
  formula.mul = test::number(input["mul"]);
  Tensor values = core::empty(shape, {.dtype = dtype});
  test::fill_by_formula(values, formula);
  return values;
}

void check_layout(core::Module& module, Json golden) {
  core::StateDict state = module.state_dict();
  std::size_t at = 0;
  std::vector<std::string> keys = state.keys();
  for (Json entry : golden["state_dict"].get_array()) {
    require(at < keys.size() && keys[at] == test::text(entry["key"]), "key " + std::to_string(at) + " differs");
    require(state.at(keys[at]).sizes() == test::shape(entry["shape"]), "shape of " + keys[at] + " differs");
    require(core::name(state.at(keys[at]).dtype()) == test::text(entry["dtype"]), "dtype of " + keys[at] + " differs");
    ++at;
  }
  require(at == keys.size(), "the model has more keys");
  at = 0;
  for (Json pair : golden["metadata"].get_array()) {
    require(at < state.versions().size() && state.versions()[at].first == test::text(pair.at(0)) &&
                state.versions()[at].second == test::integer(pair.at(1)),
            "module version " + std::to_string(at) + " differs");
    ++at;
  }
  require(module.str() == test::text(golden["repr"]), "printed text differs: " + module.str());
}

void check_output(const Tensor& output, Json block, double tolerance) {
  Tensor wide = output.to(core::DType::f64).contiguous();
  require(wide.sizes() == test::shape(block["shape"]), "shape of the output differs");
  std::vector<double> values = wide.to_vector<double>();
  std::vector<double> first = test::numbers(block["first"]);
  for (std::size_t i = 0; i < first.size(); ++i) require_close(values[i], first[i], tolerance, "output value");
  Tensor coefficients = core::empty(wide.sizes(), {.dtype = core::DType::f64});
  test::fill_by_formula(coefficients, {.tensor = kDot});
  double spread = tolerance * std::sqrt(static_cast<double>(values.size())) * 4;
  require_close((wide * coefficients).sum().item<double>(), test::number(block["dot"]), spread, "dot of the output");
  require_close(wide.sum().item<double>(), test::number(block["sum"]), spread, "sum of the output");
}

Tensor forward(core::Module& module, Json inputs, core::DType dtype) {
  core::NoGradGuard no_grad;
  return module.call(make_input(inputs.at(0), dtype));
}

void check_init(core::Module& module, Json golden) {
  core::StateDict state = module.state_dict();
  std::vector<std::string> keys = state.keys();
  for (Json row : golden["init"]["tensors"].get_array()) {
    const std::string& key = keys.at(static_cast<std::size_t>(test::integer(row.at(0))));
    Tensor tensor = state.at(key).contiguous();
    auto width = static_cast<std::size_t>(core::bit_width(tensor.dtype()) / 8);
    core::Bytes bytes{static_cast<const std::byte*>(tensor.raw_data()),
                      static_cast<std::size_t>(tensor.numel()) * width};
    require(test::sha256(bytes) == test::text(row.at(1)), "initial bits of " + key + " differ");
  }
  module.eval();
  for (Json one : golden["init"]["cases"].get_array()) {
    Json output = one["outputs"].at(0);
    check_output(forward(module, one["inputs"], core::DType::f32), output["f64"], test::number(output["tolerance"]));
  }
}

void check_formula(core::Module& module, Json golden, core::DType dtype) {
  fill_model(module, golden, dtype);
  module.eval();
  for (Json one : golden["formula"]["cases"].get_array()) {
    Json output = one["outputs"].at(0);
    double tolerance =
        dtype == core::DType::f32 ? test::number(output["tolerance"]) : 1e-9 * test::number(output["f64"]["abs_max"]);
    check_output(forward(module, one["inputs"], dtype), output["f64"], tolerance);
  }
}

double option(Json options, const char* name, double fallback) {
  return test::has(options, name) ? test::number(options[name]) : fallback;
}

std::unique_ptr<core::Optimizer> make_optimizer(const std::vector<Tensor>& parameters, Json run) {
  Json o = run["options"];
  std::string name = test::text(run["optimizer"]);
  double lr = test::number(o["lr"]);
  double decay = option(o, "weight_decay", 0);
  if (name == "SGD") {
    bool nesterov = test::has(o, "nesterov") && test::boolean(o["nesterov"]);
    return std::make_unique<core::SGD>(
        parameters,
        core::SGDOptions{.lr = lr, .momentum = option(o, "momentum", 0), .weight_decay = decay, .nesterov = nesterov});
  }
  if (name == "Adam")
    return std::make_unique<core::Adam>(parameters, core::AdamOptions{.lr = lr, .weight_decay = decay});
  if (name == "AdamW") {
    return std::make_unique<core::AdamW>(parameters, core::AdamWOptions{.lr = lr, .weight_decay = decay});
  }
  throw std::runtime_error("no optimizer named " + name);
}

/// A model by name, under DataParallel when there is more than one device.
struct Placed {
  Placed(const std::string& name, int devices) : module(zoo::make(name)) {
    if (devices > 1) {
      device = core::Device("cuda:0");
      wrapped = std::make_shared<core::DataParallel<core::Module>>(module);
    }
  }
  Tensor operator()(const Tensor& x) { return (wrapped ? *wrapped : *module).call(x.to(device)); }

  std::shared_ptr<core::Module> module;
  std::shared_ptr<core::Module> wrapped;
  core::Device device;
};

/// Six losses: with the parameters after 0 ... 5 steps.
void check_training(const std::string& name, Json golden, Json run, core::DType dtype, int devices) {
  core::set_logical_devices(devices > 1 ? devices : 0);
  Placed net(name, devices);
  fill_model(*net.module, golden, dtype);
  net.module->train();
  net.module->to(net.device);
  auto optimizer = make_optimizer(net.module->parameters(), run);
  Tensor x = make_input(golden["train"]["inputs"].at(0), dtype);
  Tensor target = make_input(golden["train"]["target"], dtype).to(net.device);
  bool f64 = dtype == core::DType::f64;
  for (Json want : run[f64 ? "losses_f64" : "losses_f32"].get_array()) {
    Tensor loss = core::cross_entropy(net(x), target);
    double expected = test::number(want);
    std::string what = test::text(run["name"]) + " loss on " + std::to_string(devices) + " devices";
    require_close(loss.item<double>(), expected, (f64 ? 1e-9 : 1e-5) * std::max(1.0, std::abs(expected)), what);
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
  }
}

void check_all_training(const std::string& name, Json golden) {
  for (Json run : golden["train"]["runs"].get_array()) {
    check_training(name, golden, run, core::DType::f64, 1);
    check_training(name, golden, run, core::DType::f32, 1);
    for (int devices : {2, 3, 4}) check_training(name, golden, run, core::DType::f32, devices);
  }
  core::set_logical_devices(0);
}

void check_model(const std::string& name, Json golden, test::GoldenRun& run) {
  auto fresh = [&] {
    core::manual_seed(static_cast<std::uint64_t>(test::integer(golden["init"]["seed"])));
    return zoo::make(name);
  };
  auto check = [&](const char* what, const std::function<void()>& body) {
    test::guarded(run, name + "/" + what, [&] {
      body();
      run.pass();
    });
  };
  check("layout", [&] { check_layout(*fresh(), golden); });
  check("init", [&] { check_init(*fresh(), golden); });
  check("formula_f32", [&] { check_formula(*fresh(), golden, core::DType::f32); });
  check("formula_f64", [&] { check_formula(*fresh(), golden, core::DType::f64); });
  check("train", [&] { check_all_training(name, golden); });
}

}  // namespace

int main() {
  auto folder = test::golden_file("zoo/small");
  if (!folder) return 77;
  test::GoldenRun run("zoo_small");
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    test::GoldenJson json(file);
    std::string name = test::text(json.root()["name"]);
    if (has_model(name)) {
      check_model(name, json.root(), run);
    } else {
      run.skip(name, "model not in the zoo");
    }
  }
  return run.finish() == 0 ? 0 : 1;
}
