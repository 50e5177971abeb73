// Single operations, small dense networks, data and printing.

#include <array>
#include <cstdint>
#include <memory>
#include <sstream>

#include "libcore/autograd/grad_mode.h"
#include "libcore/data/loader.h"
#include "libcore/module/linear.h"
#include "libcore/ops/activation.h"
#include "libcore/optim/adam.h"
#include "libcore/tensor/print.h"
#include "tests/bench/bench_steps.h"
#include "tests/bench/bench_training.h"

namespace bench {
namespace {

using core::Device;
using core::Tensor;

struct Mlp : core::ModuleOf<Mlp> {
  core::Linear a{32, 64}, b{64, 64}, c{64, 10};
  void members(core::Members& m) override { m.child("0", a).child("2", b).child("4", c); }
  Tensor forward(const Tensor& x) { return c(core::relu(b(core::relu(a(x))))); }
};

Step add4(Device d) {
  Tensor a = core::ones({4}, {.device = d}), b = core::ones({4}, {.device = d});
  return [=]() { return static_cast<double>((a + b).numel()); };
}

Step add_1k(Device d) {
  Tensor a = core::ones({256}, {.device = d}), b = core::ones({256}, {.device = d});
  return [=]() { return static_cast<double>((a + b).numel()); };
}

Step linear_fwd(Device d) {
  auto net = on<core::Linear>(d, 64, 64);
  Tensor x = randn_on({8, 64}, d);
  return [=]() {
    core::NoGradGuard no_grad;
    return static_cast<double>((*net)(x).numel());
  };
}

Step mlp_fwd(Device d) {
  auto net = on<Mlp>(d);
  Tensor x = randn_on({8, 32}, d);
  return [=]() {
    core::NoGradGuard no_grad;
    return static_cast<double>((*net)(x).numel());
  };
}

Step mlp_fwd_bwd(Device d) {
  return train_step(on<Mlp>(d), kNoOptimizer, randn_on({8, 32}, d), core::randint(0, 10, {8}).to(d), classify);
}

Step mlp_adam(Device d) {
  auto net = on<Mlp>(d);
  auto adam = std::make_shared<core::Adam>(net->parameters(), core::AdamOptions{.lr = 1e-3});
  return train_step(net, adam, randn_on({8, 32}, d), core::randint(0, 10, {8}).to(d), classify);
}

Step boston_linear(Device d) {
  auto net = on<core::Linear>(d, 13, 1);
  auto sgd = std::make_shared<core::SGD>(net->parameters(), core::SGDOptions{.lr = 1e-2});
  auto mse = [](const Tensor& a, const Tensor& b) { return core::mse_loss(a, b); };
  return train_step(net, sgd, randn_on({506, 13}, d), randn_on({506, 1}, d), mse);
}

/// Gives one row at a time, as a dataset that a user writes does.
struct RandomDataset {
  Tensor data = core::randn({10000, 5});
  std::int64_t size() const { return 10000; }
  Tensor get(std::int64_t i) const { return data[i]; }
};

Step dataloader_epoch(Device) {
  auto data = std::make_shared<RandomDataset>();
  return [=]() {
    double rows = 0;
    for (const Tensor& x : core::DataLoader(*data, {.batch_size = 30, .shuffle = true})) {
      rows += static_cast<double>(x.size(0));
    }
    return rows;
  };
}

/// The same by a dataset that can give whole batches.
Step dataloader_tensors(Device) {
  auto data = std::make_shared<core::TensorDataset<1>>(core::randn({10000, 5}));
  return [=]() {
    double rows = 0;
    for (const auto& [x] : core::DataLoader(*data, {.batch_size = 30, .shuffle = true})) {
      rows += static_cast<double>(x.size(0));
    }
    return rows;
  };
}

Step print_1000(Device d) {
  Tensor x = randn_on({1000}, d);
  return [=]() {
    std::ostringstream out;
    out << x;
    return static_cast<double>(out.str().size());
  };
}

constexpr std::array kSteps = {
    StepKind{"add4", "sum of two tensors of 4 floats, no gradient", add4},
    StepKind{"add_1k", "sum of two tensors of 256 floats (1 KiB)", add_1k},
    StepKind{"linear_fwd", "Linear 64 -> 64, batch 8, forward", linear_fwd},
    StepKind{"mlp_fwd", "MLP 32-64-64-10, batch 8, forward", mlp_fwd},
    StepKind{"mlp_fwd_bwd", "the same, forward and backward", mlp_fwd_bwd},
    StepKind{"mlp_adam", "the same plus an Adam update", mlp_adam},
    StepKind{"boston_linear", "linear regression on 506 x 13, MSE, SGD step", boston_linear},
    StepKind{"dataloader_epoch", "one epoch over 10,000 items of 5 floats, batch 30, shuffled", dataloader_epoch},
    StepKind{"dataloader_tensors", "the same from a TensorDataset, which gives whole batches", dataloader_tensors},
    StepKind{"print_1000", "printing 1,000 values", print_1000},
};

}  // namespace

StepTable small_steps() {
  return kSteps;
}

}  // namespace bench
