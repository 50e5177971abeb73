// Golden data set golden_runtime_training: whole training runs. Data order, initial values and dropout masks must be
// exact, or the losses leave the tolerance at once; rounding differs, so they are compared to 1e-5 relative.
#include <cmath>

#include "libcore/autograd/grad_mode.h"
#include "libcore/data/loader.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pointwise.h"
#include "libcore/optim/clip.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "tests/libcore/module/module_spec.h"
#include "tests/libcore/optim/optim_spec.h"
#include "tests/support/golden_device.h"

namespace {

using core::Tensor;
using test::Json;
using test::member;

/// Rounding grows with the steps.
constexpr double kTolerance = 2e-4;

bool is_near(double a, double b) {
  return std::abs(a - b) <= kTolerance * (1 + std::abs(b));
}

std::unique_ptr<core::LRScheduler> schedule_of(Json extras, core::Optimizer& optimizer) {
  if (test::has(extras, "step_lr")) {
    std::vector<double> args = test::numbers(member(extras, "step_lr"));
    return std::make_unique<core::StepLR>(optimizer,
                                          core::StepLR::Options{static_cast<std::int64_t>(args[0]), args[1]});
  }
  if (test::has(extras, "cosine")) {
    return std::make_unique<core::CosineAnnealingLR>(
        optimizer, core::CosineAnnealingLR::Options{.T_max = test::integer(member(extras, "cosine"))});
  }
  return nullptr;
}

/// x = randn(n, features), then y: values, or classes from randint.
std::pair<Tensor, Tensor> draw_data(Json json) {
  std::int64_t n = test::integer(member(json, "n"));
  core::Shape sizes{n};
  for (std::int64_t size : test::integers(member(json, "features"))) sizes.push_back(size);
  Tensor x = core::randn(sizes);
  std::string target = test::text(member(json, "target"));
  if (target == "value") return {x, core::randn({n, 1})};
  return {x, core::randint(std::stoll(target.substr(5)), {n})};
}

struct Run {
  std::vector<double> losses;
  std::vector<double> norms;
};

Run train(Json json, core::Module& model, core::Optimizer& optimizer, const Tensor& x, const Tensor& y) {
  Json extras = member(json, "extras");
  auto schedule = schedule_of(extras, optimizer);
  core::DataLoader loader(core::TensorDataset(x, y),
                          {.batch_size = test::integer(member(json, "batch_size")), .shuffle = true});
  Run run;
  for (std::int64_t epoch = 0; epoch < test::integer(member(json, "epochs")); ++epoch) {
    for (auto& [input, target] : loader) {
      Tensor output = model.call(input);
      Tensor loss = target.is_floating_point() ? core::mse_loss(output, target) : core::cross_entropy(output, target);
      optimizer.zero_grad();
      loss.backward();
      if (test::has(extras, "clip")) {
        double limit = test::number(member(extras, "clip"));
        run.norms.push_back(core::clip_grad_norm_(model.parameters(), limit).item<double>());
      }
      optimizer.step();
      run.losses.push_back(loss.item<double>());
    }
    if (schedule) schedule->step();
  }
  return run;
}

std::string compare_all(const char* what, const std::vector<double>& ours, const std::vector<double>& wanted) {
  if (ours.size() != wanted.size()) return std::string(what) + ": another number of them";
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (is_near(ours[i], wanted[i])) continue;
    return std::string(what) + " " + std::to_string(i) + " is " + std::to_string(ours[i]) + " where " +
           std::to_string(wanted[i]);
  }
  return "";
}

std::string compare_array(const char* what, const Tensor& ours, const test::GoldenArray& wanted) {
  return compare_all(what, ours.detach().to_vector<double>(), test::to_tensor(wanted).to_vector<double>());
}

/// The module of a spec; a DataParallel is built for real, around the spec of its child.
test::BuiltModule build(Json spec) {
  if (test::text(member(spec, "type")) != "DataParallel") return test::build_module(spec);
  Json child = simdjson::dom::array(simdjson::dom::array(member(spec, "children")).at(0)).at(1);
  test::BuiltModule inner = test::build_module(child);
  if (inner.module) inner.module = std::make_shared<core::DataParallel<core::Module>>(inner.module);
  return inner;
}

void run_case(Json json, const test::GoldenArrays& arrays, test::GoldenRun& run) {
  std::string id = test::text(member(json, "id"));
  core::manual_seed(test::integer(member(json, "seed")));
  auto [x, y] = draw_data(json);
  test::BuiltModule model = build(member(json, "model"));
  if (!model.module) return run.skip(id, model.missing);
  Json extras = member(json, "extras");
  if (test::has(extras, "dtype")) {
    core::DType dtype = test::dtype(member(extras, "dtype"));
    model.module->to(dtype);
    x = x.to(dtype);
    if (y.is_floating_point()) y = y.to(dtype);
  }
  model.module->to(test::golden_device());
  std::string name = test::text(member(json, "optimizer"));
  auto optimizer = test::make_optimizer(name, {{.params = model.module->parameters()}}, member(json, "options"));
  if (!optimizer) return run.skip(id, name);
  if (!x.equal(test::to_tensor(arrays.at(test::text(member(json, "x")))))) return run.fail(id, "the data differ");
  x = x.to(test::golden_device());
  Run made = train(json, *model.module, *optimizer, x, y.to(test::golden_device()));
  std::string why = compare_all("loss", made.losses, test::numbers(member(json, "losses"))) +
                    compare_all("norm", made.norms, test::numbers(member(json, "clip_norms")));
  core::ByteVector rand = test::bytes_of(core::rand({2}));
  if (test::hex_words(rand, 4) != test::text(member(json, "rand_after"))) why += " the generator drew another count";
  model.module->eval();
  core::NoGradGuard no_grad;
  why += compare_array("eval output", model.module->call(x), arrays.at(test::text(member(json, "eval_output"))));
  if (test::drew_on_golden_device()) return run.skip(id, "it draws on the device");
  run.check(id, why.empty(), why);
}

}  // namespace

int main() {
  auto arrays_file = test::golden_file("runtime/training.safetensors");
  if (!arrays_file) return 77;
  test::GoldenArrays arrays(*arrays_file);
  test::set_golden_devices(0);
  return test::golden_main("training", "runtime/training.json", [&](Json root, test::GoldenRun& run) {
    for (Json json : simdjson::dom::array(member(root, "cases"))) {
      test::guarded(run, test::text(member(json, "id")), [&] { run_case(json, arrays, run); });
    }
  });
}
