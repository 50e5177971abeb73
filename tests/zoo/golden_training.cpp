// Training of the zoo's models against PyTorch's runs.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>

#include "libcore/backend/cpu/isa.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/averaged_model.h"
#include "libcore/optim/graphed_step.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "tests/support/golden_device.h"
#include "tests/zoo/golden_model.h"
#include "zoo/autoencoder.h"
#include "zoo/capsnet.h"

namespace test {

namespace {

using core::DType;
using core::Tensor;

double option(Json options, const char* name, double fallback) {
  return has(options, name) ? number(options[name]) : fallback;
}

std::unique_ptr<core::Optimizer> make_optimizer(const std::vector<Tensor>& parameters, Json run) {
  Json o = run["options"];
  const std::string name = text(run["optimizer"]);
  const double lr = number(o["lr"]), decay = option(o, "weight_decay", 0);
  if (name == "SGD") {
    const bool nesterov = has(o, "nesterov") && boolean(o["nesterov"]);
    return std::make_unique<core::SGD>(
        parameters,
        core::SGDOptions{.lr = lr, .momentum = option(o, "momentum", 0), .weight_decay = decay, .nesterov = nesterov});
  }
  if (name == "Adam") {
    return std::make_unique<core::Adam>(parameters, core::AdamOptions{.lr = lr, .weight_decay = decay});
  }
  if (name == "AdamW") {
    core::AdamWOptions options{.lr = lr, .weight_decay = decay};
    if (has(o, "betas")) options.betas = {numbers(o["betas"]).at(0), numbers(o["betas"]).at(1)};
    return std::make_unique<core::AdamW>(parameters, options);
  }
  throw std::runtime_error("no optimizer named " + name);
}

/// What a step computes its loss from.
struct Batch {
  std::vector<Tensor> inputs;
  Tensor target;
  Tensor extra;
};

Tensor loss_of(const std::string& kind, const std::vector<Tensor>& y, const Batch& batch) {
  const Tensor& out = y[0];
  if (kind.starts_with("mean cross entropy")) {
    return core::cross_entropy(out.reshape({-1, out.size(-1)}), batch.target.flatten());
  }
  if (kind.starts_with("mean negative")) return core::nll_loss(out, batch.target);
  if (kind == "mean squared error against the target") return core::mse_loss(out, batch.target);
  if (kind.starts_with("mean squared error between")) return core::mse_loss(out, batch.inputs[0].to(out.device()));
  if (kind.starts_with("mean binary")) return core::binary_cross_entropy_with_logits(out, batch.target);
  if (kind.starts_with("(sum of binary")) return zoo::vae_loss({y[0], y[1], y[2]}, batch.inputs[0].to(out.device()));
  if (kind.starts_with("capsule")) {
    return zoo::capsule_loss({y[0], y[1]}, batch.inputs[0].to(out.device()), batch.target);
  }
  throw std::runtime_error("no loss for: " + kind);
}

/// A model in training, filled, on so many logical devices.
class Trainee {
 public:
  Trainee(Json golden, DType dtype, int devices) : train_(golden["train"]), devices_(devices) {
    set_golden_devices(devices > 1 ? devices : 0);
    core::manual_seed(0);
    module_ = build_golden_model(golden);
    fill_by_rules(*module_, golden, dtype);
    if (text(golden["family"]) != "vision") silence_dropout(*module_);
    module_->train();
    module_->to(devices > 1 ? core::Device("cuda:0") : golden_device());
    batch_.inputs = make_inputs(train_, dtype, devices > 1 ? core::Device() : golden_device());
    const bool capsules = text(train_["loss"]).starts_with("capsule");
    if (has(train_, "target") && !is_null(train_["target"])) batch_.target = place(make_input(train_["target"], dtype));
    if (has(train_, "noise")) batch_.extra = place(make_input(train_["noise"], dtype));
    if (capsules) batch_.extra = batch_.target;
    batch_dim_ = has(train_, "batch_dim") ? integer(train_["batch_dim"]) : 0;
  }

  core::Module& module() { return *module_; }
  Tensor loss() {
    auto y = devices_ > 1 ? run_parallel_model(*module_, placed_inputs(), batch_.extra, batch_dim_)
                          : run_model(*module_, batch_.inputs, batch_.extra);
    return loss_of(text(train_["loss"]), y, batch_);
  }

 private:
  Tensor place(const Tensor& x) const { return x.to(devices_ > 1 ? core::Device("cuda:0") : golden_device()); }
  std::vector<Tensor> placed_inputs() const {
    std::vector<Tensor> placed;
    for (const Tensor& x : batch_.inputs) placed.push_back(place(x));
    return placed;
  }

  Json train_;
  int devices_;
  std::shared_ptr<core::Module> module_;
  Batch batch_;
  std::int64_t batch_dim_ = 0;
};

void check_gradients(core::Module& module, Json rows, double relative) {
  auto state = state_in_order(module);
  for (Json row : items(rows)) {
    std::vector<double> n = numbers(row);
    const auto& [name, tensor] = state.at(static_cast<std::size_t>(n[0]));
    check_sums(tensor.grad(), n[1], n[2], relative * std::max(1.0, n[2]), "the gradient of " + name);
  }
}

/// rows: [i, sum_f32, magnitudes_f32, sum_f64, magnitudes_f64, largest difference of an element].
void check_state(core::Module& module, Json rows, DType dtype, double relative) {
  auto state = state_in_order(module);
  for (Json row : items(rows)) {
    std::vector<double> n = numbers(row);
    const auto& [name, tensor] = state.at(static_cast<std::size_t>(n[0]));
    const bool f64 = dtype == DType::f64;
    const double elements = static_cast<double>(tensor.numel());
    const double tolerance = f64 ? 10 * relative * std::max(1.0, n[4]) : elements * n[5] * 4 + 1e-6 * n[4];
    check_sums(tensor, n[3], n[4], tolerance, name + " after the last step");
  }
}

/// Whether steps are recorded once and replayed (optim/graphed_step.h): CKPT_GOLDEN_GRAPH=1.
bool trains_by_graphs() {
  const char* text = std::getenv("CKPT_GOLDEN_GRAPH");
  return text != nullptr && std::string(text) == "1";
}

/// One step, which gives the loss before it. `gradients` is called between backward and the update of a plain step.
class Steps {
 public:
  Steps(Trainee& net, core::Optimizer& optimizer, int devices) : net_(net), optimizer_(optimizer) {
    if (!trains_by_graphs() || devices > 1) return;
    for (core::ParamGroup& group : optimizer.param_groups()) {
      if (group.options.contains("capturable")) group.options.set("capturable", core::Scalar(true));
    }
    graphed_.emplace([this](const auto&) { return plain([] {}); },
                     core::GraphedStep::Options{.device = golden_device(), .warmup = 1, .optimizers = {&optimizer}});
  }
  Tensor operator()(const std::function<void()>& gradients) { return graphed_ ? (*graphed_)({}) : plain(gradients); }

 private:
  Tensor plain(const std::function<void()>& gradients) {
    Tensor loss = net_.loss();
    optimizer_.zero_grad();
    loss.backward();
    gradients();
    optimizer_.step();
    return loss;
  }
  Trainee& net_;
  core::Optimizer& optimizer_;
  std::optional<core::GraphedStep> graphed_;
};

/// Of the loss of step `step`, relative. Networks with ReLU and batch norm amplify rounding: in f32 their first loss
/// alone can be compared closely.
double loss_tolerance(Json golden, Json run, DType dtype, std::size_t step) {
  if (dtype == DType::f64) return wide_tolerance(golden);
  // Optimizers that compute in single operations round more often than the CPU's one pass, and so do kernels without
  // fused multiplications.
  const bool rounds_more = on_golden_device() || core::cpu::isa() == core::cpu::Isa::baseline;
  // A unit of ReLU that is zero but for rounding lets its whole gradient through or none, of which Adam makes as large
  // a step as of any other: the next loss may differ by 2e-5.
  const bool scales_steps = step > 0 && text(run["optimizer"]).starts_with("Adam");
  const double steps = rounds_more ? static_cast<double>(step + 1) : scales_steps ? 4 : 1;
  return steps * (text(golden["family"]) == "vision" && step > 0 ? 1e-2 : 1e-5);
}

/// Takes the steps that `run` has losses for; on one device the gradients and the state are compared too.
void check_run(Json golden, Json run, DType dtype, int devices) {
  Trainee net(golden, dtype, devices);
  auto optimizer = make_optimizer(net.module().parameters(), run);
  Steps take_step(net, *optimizer, devices);
  const bool f64 = dtype == DType::f64;
  const bool vision = text(golden["family"]) == "vision";
  std::vector<double> losses = numbers(run[f64 ? "losses_f64" : "losses_f32"]);
  for (std::size_t step = 0; step < losses.size(); ++step) {
    // The last loss is taken behind the last step; statistics of image models were recorded before it.
    if (vision && f64 && devices == 1 && step + 1 == losses.size()) {
      check_state(net.module(), run["after_2_steps"], dtype, wide_tolerance(golden));
    }
    const bool is_last = step + 1 == losses.size();
    const Tensor loss = is_last ? net.loss() : take_step([&] {
      if (step > 0 || !f64 || devices > 1 || !has(golden["train"], "gradients_step_1")) return;
      check_gradients(net.module(), golden["train"]["gradients_step_1"], wide_tolerance(golden));
    });
    require_close(loss.item<double>(), losses[step],
                  loss_tolerance(golden, run, dtype, step) * std::max(1.0, std::abs(losses[step])),
                  (vision ? "" : text(run["name"]) + " ") + "loss " + std::to_string(step) + " on " +
                      std::to_string(devices) + " devices");
  }
  if (devices == 1 && !vision) check_state(net.module(), run["after_5_steps"], dtype, wide_tolerance(golden));
}

}  // namespace

void check_training(Json golden) {
  Json train = golden["train"];
  std::vector<Json> runs = has(train, "runs") ? items(train["runs"]) : std::vector<Json>{train};
  const bool statistics = has(train, "data_parallel");
  const bool vision = text(golden["family"]) == "vision";
  for (Json run : runs) {
    check_run(golden, run, DType::f64, 1);
    check_run(golden, run, DType::f32, 1);
    if (statistics || vision) continue;
    for (int devices : {2, 3, 4}) {
      if (!has(run, "split_deviation") || has(run["split_deviation"], std::to_string(devices))) {
        check_run(golden, run, DType::f32, devices);
      }
    }
  }
  set_golden_devices(0);
}

void check_parallel_statistics(Json golden) {
  auto check_buffers = [](core::Module& module, Json wanted) {
    for (auto [key, values] : wanted.get_object()) {
      Tensor buffer = module.buffer(key).to(core::Device("cpu"), DType::f64).flatten();
      std::vector<double> got = buffer.to_vector<double>(), want = numbers(values);
      for (std::size_t i = 0; i < want.size(); ++i) {
        require_close(got[i], want[i], 1e-9 * std::max(1.0, std::abs(want[i])), std::string(key));
      }
    }
  };
  for (Json part : items(golden["train"]["data_parallel"])) {
    const auto devices = static_cast<int>(integer(part["devices"]));
    Trainee net(golden, DType::f64, devices);
    auto optimizer = make_optimizer(net.module().parameters(), items(golden["train"]["runs"])[0]);
    std::vector<double> losses = numbers(part["losses_f64"]);
    for (std::size_t step = 0; step < losses.size(); ++step) {
      Tensor loss = net.loss();
      require_close(loss.item<double>(), losses[step], 1e-9 * std::max(1.0, losses[step]),
                    "loss " + std::to_string(step) + " on " + std::to_string(devices) + " devices");
      if (step == 0) check_buffers(net.module(), part["buffers_after_1_step"]);
      if (step + 1 == losses.size()) break;
      optimizer->zero_grad();
      loss.backward();
      optimizer->step();
    }
    check_buffers(net.module(), part["buffers_after_6_forwards"]);
  }
  set_golden_devices(0);
}

}  // namespace test
