// The zoo's models against PyTorch: keys, printed text, initial bits, outputs, gradients and training steps.
// usage: golden_zoo_models FOLDER [--full] [MODEL...]     the files of zoo/FOLDER; --full: the largest inputs alone
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string_view>

#include "libcore/autograd/grad_mode.h"
#include "libcore/module/lazy.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/options.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "tests/support/golden.h"
#include "tests/support/golden_device.h"
#include "tests/support/sha256.h"
#include "tests/zoo/formula.h"
#include "tests/zoo/golden_model.h"
#include "zoo/googlenet.h"
#include "zoo/inception.h"
#include "zoo/made_as.h"

namespace {

using core::DType;
using core::Tensor;
using test::Json;
using test::require;

constexpr std::uint32_t kDot = 131072;

struct Settings {
  std::string folder;
  bool full = false;
  std::vector<std::string> only;
};

void check_layout(core::Module& module, Json golden) {
  core::StateDict state = module.state_dict();
  std::vector<std::string> keys = state.keys();
  std::size_t at = 0;
  for (Json entry : test::items(golden["state_dict"])) {
    const std::string key = test::text(entry["key"]);
    require(at < keys.size(), "key " + key + " is missing");
    require(keys[at] == key, "key " + std::to_string(at) + " is " + keys[at] + ", expected " + key);
    require(state.at(key).sizes() == test::shape(entry["shape"]), "shape of " + key + " differs");
    require(core::name(state.at(key).dtype()) == test::text(entry["dtype"]), "dtype of " + key + " differs");
    ++at;
  }
  require(at == keys.size(), "the model has more keys: " + (at < keys.size() ? keys[at] : ""));
  at = 0;
  for (Json pair : test::items(golden["metadata"])) {
    // A version that is a text, as Phi-3 has one, cannot be held here.
    const bool whole = pair.at(1).is_int64();
    require(at < state.versions().size() && state.versions()[at].first == test::text(pair.at(0)) &&
                (!whole || state.versions()[at].second == test::integer(pair.at(1))),
            "module version " + std::to_string(at) + " differs, of " + test::text(pair.at(0)));
    ++at;
  }
  const std::string printed = module.str(), wanted = test::text(golden["repr"]);
  const auto differs = std::mismatch(printed.begin(), printed.end(), wanted.begin(), wanted.end());
  require(printed == wanted,
          "printed text differs at: " + std::string(differs.first, std::min(differs.first + 60, printed.end())) +
              " | " + std::string(differs.second, std::min(differs.second + 60, wanted.end())));
}

void check_ties(core::Module& module, Json golden) {
  core::StateDict state = module.state_dict();
  for (Json tie : test::items(golden["ties"])) {
    const std::string first = test::text(tie.at(0)), second = test::text(tie.at(1));
    require(state.at(first).raw_data() == state.at(second).raw_data(), first + " and " + second + " are not tied");
  }
}

void check_init(core::Module& module, Json golden) {
  auto state = test::state_in_order(module);
  for (Json row : test::items(golden["init"]["tensors"])) {
    const auto& [key, value] = state.at(static_cast<std::size_t>(test::integer(row.at(0))));
    Tensor tensor = value.detach().contiguous();
    const auto width = static_cast<std::size_t>(core::bit_width(tensor.dtype()) / 8);
    core::Bytes bytes{static_cast<const std::byte*>(tensor.raw_data()),
                      static_cast<std::size_t>(tensor.numel()) * width};
    require(test::sha256(bytes) == test::text(row.at(1)), "initial bits of " + key + " differ");
  }
}

/// Models that are left to the slow run but for their layout, which needs no memory.
bool is_large(Json golden) {
  const std::string family = test::text(golden["family"]);
  const std::int64_t parameters = test::integer(golden["parameters"]);
  return (family == "small" && parameters > 600'000) || (family == "language" && parameters > 20'000'000);
}

/// Whether a case belongs to this run: for image models, inputs of the usual size are the large ones.
bool selected(const Settings& settings, Json golden, Json one) {
  if (test::text(golden["family"]) != "vision") return true;
  core::Shape sizes = test::shape(test::inputs_of(one)[0]["shape"]);
  std::int64_t elements = 1;
  for (std::int64_t size : sizes) elements *= size;
  return (elements > 120'000) == settings.full;
}

/// Where a forward first goes wrong.
std::string first_wrong_stage(core::Module& module, Json one, const std::vector<Tensor>& inputs) {
  if (!test::has(one, "stages")) return "";
  std::vector<Json> stages = test::items(one["stages"]);
  std::string wrong;
  for (Json stage : stages) {
    const std::string name = test::text(stage.at(0));
    if (name.empty()) continue;
    std::vector<double> first = test::numbers(stage.at(4));
    module.submodule(name).register_forward_hook(
        [&wrong, name, first](core::Module&, const std::vector<Tensor>&, const Tensor& output) {
          std::vector<double> got = output.detach().to(DType::f64).contiguous().to_vector<double>();
          for (std::size_t i = 0; i < first.size() && wrong.empty(); ++i) {
            if (std::abs(got[i] - first[i]) > 1e-5 * std::max(1.0, std::abs(first[i]))) wrong = name;
          }
          return Tensor();
        });
  }
  core::NoGradGuard no_grad;
  test::run_model(module, inputs);
  return "; the first stage that differs is " + wrong;
}

void check_formula(const Settings& settings, core::Module& module, Json golden, DType dtype) {
  test::fill_by_rules(module, golden, dtype);
  module.to(test::golden_device());
  module.eval();
  for (Json one : test::items(golden["formula"]["cases"])) {
    if (!selected(settings, golden, one)) continue;
    std::vector<Tensor> inputs = test::make_inputs(one, dtype, test::golden_device());
    std::vector<Tensor> y;
    {
      core::NoGradGuard no_grad;
      y = test::run_model(module, inputs);
    }
    std::vector<Json> outputs = test::outputs_of(one);
    require(y.size() == outputs.size(), "the number of outputs differs");
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double tolerance = dtype == DType::f32
                                   ? test::number(outputs[i]["tolerance"])
                                   : test::wide_tolerance(golden) * test::number(outputs[i]["f64"]["abs_max"]);
      try {
        test::check_output(y[i], outputs[i]["f64"], tolerance);
      } catch (const std::exception& error) {
        throw std::runtime_error(error.what() + first_wrong_stage(module, one, inputs));
      }
    }
  }
}

/// Outputs of freshly drawn models, relative where they are huge.
void check_init_outputs(const Settings& settings, core::Module& module, Json golden) {
  module.to(test::golden_device());
  module.eval();
  for (Json one : test::items(golden["init"]["cases"])) {
    if (!selected(settings, golden, one)) continue;
    core::NoGradGuard no_grad;
    std::vector<Tensor> y = test::run_model(module, test::make_inputs(one, DType::f32, test::golden_device()));
    std::vector<Json> outputs = test::outputs_of(one);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double largest = test::number(outputs[i]["f32"]["abs_max"]);
      test::check_output(y[i], outputs[i]["f32"], std::max(1e-4 * largest, 1e-7));
    }
  }
}

/// Gradients of sum(output * coefficients) in f64.
void check_backward(const Settings& settings, core::Module& module, Json golden) {
  test::fill_by_rules(module, golden, DType::f64);
  module.to(test::golden_device());
  module.eval();
  for (Json one : test::items(golden["formula"]["cases"])) {
    if (!selected(settings, golden, one) || !test::has(one, "backward")) continue;
    module.zero_grad();
    Tensor y = test::run_model(module, test::make_inputs(one, DType::f64, test::golden_device()))[0];
    Tensor coefficients = core::empty(y.sizes(), {.dtype = DType::f64});
    test::fill_by_formula(coefficients, {.tensor = kDot});
    (y * coefficients.to(y.device())).sum().backward();
    auto state = test::state_in_order(module);
    for (Json row : test::items(one["backward"])) {
      if (test::is_null(row.at(1))) continue;
      std::vector<double> n = test::numbers(row);
      const auto& [name, tensor] = state.at(static_cast<std::size_t>(n[0]));
      test::check_sums(tensor.grad(), n[1], n[2], 2 * test::wide_tolerance(golden) * std::max(1.0, n[2]),
                       "the gradient of " + name);
    }
  }
}

/// Outputs of the heads that help in training alone.
void check_auxiliary(core::Module& module, Json one) {
  std::vector<Tensor> inputs = test::make_inputs(one, DType::f64, test::golden_device());
  core::NoGradGuard no_grad;
  auto check = [&](const Tensor& y, const char* name) {
    Json block = one["auxiliary"][name]["f64"];
    test::check_output(y, block, 1e-9 * test::number(block["abs_max"]));
  };
  if (auto* googlenet = dynamic_cast<zoo::GoogLeNet*>(&module)) {
    auto y = (*googlenet)(inputs[0], zoo::WithHeads{});
    check(y.aux_logits1, "aux_logits1");
    check(y.aux_logits2, "aux_logits2");
  } else if (auto* inception = dynamic_cast<zoo::Inception3*>(&module)) {
    check((*inception)(inputs[0], zoo::WithHeads{}).aux_logits, "aux_logits");
  } else {
    throw std::runtime_error("nothing gives its auxiliary outputs");
  }
}

void check_all_auxiliary(core::Module& module, Json golden) {
  test::fill_by_rules(module, golden, DType::f64);
  module.to(test::golden_device());
  module.eval();
  for (Json one : test::items(golden["formula"]["cases"])) {
    if (test::has(one, "auxiliary")) check_auxiliary(module, one);
  }
}

bool any_case(Json golden, const char* member) {
  if (!test::has(golden, "formula")) return false;
  std::vector<Json> cases = test::items(golden["formula"]["cases"]);
  return std::any_of(cases.begin(), cases.end(), [&](Json one) { return test::has(one, member); });
}

void check_model(const Settings& settings, Json golden, test::GoldenRun& run) {
  const std::string name = test::text(golden["name"]);
  auto fresh = [&] {
    core::manual_seed(test::has(golden, "init") ? static_cast<std::uint64_t>(test::integer(golden["init"]["seed"]))
                                                : 0);
    return test::build_golden_model(golden);
  };
  // One module for all checks, as drawing it takes longer than most of them: what looks at drawn values comes first,
  // the rest fills it by formulas.
  std::shared_ptr<core::Module> kept;
  auto module = [&]() -> core::Module& {
    if (!kept) kept = fresh();
    return *kept;
  };
  auto without_memory = [&] {
    const zoo::MadeAs scope(core::Device("meta"));
    return test::build_golden_model(golden);
  };
  auto check = [&](const char* what, const std::function<void()>& body) {
    test::guarded(run, name + "/" + what, [&] {
      try {
        body();
      } catch (...) {
        kept.reset();  // half filled, perhaps with hooks
        throw;
      }
      run.pass(name + "/" + what);
    });
    if (test::on_golden_device()) kept.reset();  // before its device ends
    test::set_golden_devices(0);
  };
  if (!settings.full) check("layout", [&] { check_layout(*without_memory(), golden); });
  if (test::text(golden["family"]) != "vision" && is_large(golden) != settings.full) return;
  if (!test::has(golden, "init") && !test::has(golden, "formula")) return;  // a key list
  const bool whole = !(settings.full && test::text(golden["family"]) == "vision");
  // Hugging Face's initial values follow that library's own order of passes.
  const bool drawn = test::has(golden, "init") && !test::text(golden["constructor"]).starts_with("transformers.");
  if (drawn && whole) check("init", [&] { check_init(module(), golden); });
  if (drawn && test::has(golden["init"], "cases"))
    check("init_outputs", [&] { check_init_outputs(settings, module(), golden); });
  if (whole) check("ties", [&] { check_ties(module(), golden); });
  if (test::has(golden, "formula")) {
    check("formula_f32", [&] { check_formula(settings, module(), golden, DType::f32); });
    check("formula_f64", [&] { check_formula(settings, module(), golden, DType::f64); });
  }
  if (!whole) return;
  if (any_case(golden, "backward")) check("backward", [&] { check_backward(settings, module(), golden); });
  if (any_case(golden, "auxiliary")) check("auxiliary", [&] { check_all_auxiliary(module(), golden); });
  kept.reset();
  if (!test::has(golden, "train")) return;
  check("train", [&] { test::check_training(golden); });
  if (test::has(golden["train"], "data_parallel")) {
    check("data_parallel", [&] { test::check_parallel_statistics(golden); });
  }
}

void run_file(const Settings& settings, const std::filesystem::path& file, test::GoldenRun& run) {
  test::GoldenJson json(file);
  const std::string name = test::text(json.root()["name"]);
  if (!settings.only.empty() && std::find(settings.only.begin(), settings.only.end(), name) == settings.only.end()) {
    return;
  }
  if (!test::has_golden_model(json.root())) return run.skip(name, "model not in the zoo");
  check_model(settings, json.root(), run);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--full") {
      settings.full = true;
    } else if (settings.folder.empty()) {
      settings.folder = word;
    } else {
      settings.only.emplace_back(word);
    }
  }
  auto folder = test::golden_file("zoo/" + settings.folder);
  if (!folder) return 77;
  test::GoldenRun run("zoo_" + settings.folder + (settings.full ? "_full" : ""));
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) run_file(settings, file, run);
  return run.finish();
}
