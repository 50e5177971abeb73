#include "tests/bench/bench_steps.h"

#include <array>
#include <memory>
#include <sstream>

#include "libcore/core.h"
#include "tests/bench/bench_parallel.h"

namespace bench {
namespace {

using core::Device;
using core::Tensor;

struct Mlp : core::ModuleOf<Mlp> {
  core::Linear a{32, 64}, b{64, 64}, c{64, 10};
  void members(core::Members& m) override { m.child("0", a).child("2", b).child("4", c); }
  Tensor forward(const Tensor& x) { return c(core::relu(b(core::relu(a(x))))); }
};

struct Cnn : core::ModuleOf<Cnn> {
  core::Conv2d a{1, 16, 3, {.padding = 1}}, b{16, 32, 3, {.padding = 1}};
  core::Linear c{32 * 49, 10};
  void members(core::Members& m) override { m.child("0", a).child("3", b).child("7", c); }
  Tensor forward(const Tensor& x) {
    Tensor h = core::max_pool2d(core::relu(a(x)), 2);
    h = core::max_pool2d(core::relu(b(h)), 2);
    return c(h.flatten(1));
  }
};

struct LeNet : core::ModuleOf<LeNet> {
  core::Conv2d a{1, 6, 5, {.padding = 2}}, b{6, 16, 5};
  core::Linear c{400, 120}, d{120, 84}, e{84, 10};
  void members(core::Members& m) override { m.child("0", a).child("3", b).child("7", c).child("9", d).child("11", e); }
  Tensor forward(const Tensor& x) {
    Tensor h = core::max_pool2d(core::relu(a(x)), 2);
    h = core::max_pool2d(core::relu(b(h)), 2);
    return e(core::relu(d(core::relu(c(h.flatten(1))))));
  }
};

Tensor randn_on(const core::Shape& shape, Device device) {
  return core::randn(shape).to(device);
}

/// Zero, forward, loss, backward and, with an optimizer, update.
template <class Net, class Optimizer, class Loss>
Step train_step(std::shared_ptr<Net> net, std::shared_ptr<Optimizer> optimizer, Tensor x, Tensor y, Loss loss_of) {
  return [=]() {
    if (optimizer) {
      optimizer->zero_grad();
    } else {
      net->zero_grad();
    }
    Tensor loss = loss_of((*net)(x), y);
    loss.backward();
    if (optimizer) optimizer->step();
    return loss.template item<double>();
  };
}

Tensor classify(const Tensor& logits, const Tensor& target) {
  return core::cross_entropy(logits, target);
}

template <class Net>
std::shared_ptr<Net> on(Device device) {
  auto net = std::make_shared<Net>();
  net->to(device);
  return net;
}

const std::shared_ptr<core::SGD> kNoOptimizer;

Step add4(Device d) {
  Tensor a = core::ones({4}, {.device = d}), b = core::ones({4}, {.device = d});
  return [=]() { return static_cast<double>((a + b).numel()); };
}

Step add_1k(Device d) {
  Tensor a = core::ones({256}, {.device = d}), b = core::ones({256}, {.device = d});
  return [=]() { return static_cast<double>((a + b).numel()); };
}

Step linear_fwd(Device d) {
  auto net = std::make_shared<core::Linear>(64, 64);
  net->to(d);
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
  auto net = std::make_shared<core::Linear>(13, 1);
  net->to(d);
  auto sgd = std::make_shared<core::SGD>(net->parameters(), core::SGDOptions{.lr = 1e-2});
  auto mse = [](const Tensor& a, const Tensor& b) { return core::mse_loss(a, b); };
  return train_step(net, sgd, randn_on({506, 13}, d), randn_on({506, 1}, d), mse);
}

Step cnn28_fwd_bwd(Device d) {
  return train_step(on<Cnn>(d), kNoOptimizer, randn_on({16, 1, 28, 28}, d), core::randint(0, 10, {16}).to(d), classify);
}

Step lenet_b64(Device d) {
  auto net = on<LeNet>(d);
  auto sgd = std::make_shared<core::SGD>(net->parameters(), core::SGDOptions{.lr = 1e-2, .momentum = 0.9});
  return train_step(net, sgd, randn_on({64, 1, 28, 28}, d), core::randint(0, 10, {64}).to(d), classify);
}

Step dataloader_epoch(Device) {
  auto data = std::make_shared<core::TensorDataset<1>>(core::randn({10000, 5}));
  return [=]() {
    double rows = 0;
    for (auto& [x] : core::DataLoader(*data, {.batch_size = 30, .shuffle = true}))
      rows += static_cast<double>(x.size(0));
    return rows;
  };
}

Step print_1000(Device) {
  Tensor x = core::randn({1000});
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
    StepKind{"cnn28_fwd_bwd", "two convolutions on 28 x 28, batch 16, forward and backward", cnn28_fwd_bwd},
    StepKind{"lenet_b64", "LeNet-5 on 28 x 28, batch 64, SGD with momentum step", lenet_b64},
    StepKind{"dataloader_epoch", "one epoch over 10,000 items of 5 floats, batch 30, shuffled", dataloader_epoch},
    StepKind{"print_1000", "printing 1,000 values", print_1000},
    StepKind{"dp_one_replica", "10 M-parameter MLP, batch 64, forward and backward, one replica", dp_one_replica},
    StepKind{"dp_two_replicas", "the same split over two replicas on logical devices", dp_two_replicas},
    StepKind{"dp_one_replica_2048", "dp_one_replica with a batch of 2048", dp_one_replica_2048},
    StepKind{"dp_two_replicas_2048", "dp_two_replicas with a batch of 2048", dp_two_replicas_2048},
};

}  // namespace

std::span<const StepKind> steps() {
  return kSteps;
}

}  // namespace bench
