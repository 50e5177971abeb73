// Small convolutional networks.

#include <array>
#include <memory>

#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/ops/activation.h"
#include "tests/bench/bench_steps.h"
#include "tests/bench/bench_training.h"

namespace bench {
namespace {

using core::Device;
using core::Tensor;

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

Step cnn28_fwd_bwd(Device d) {
  return train_step(on<Cnn>(d), kNoOptimizer, randn_on({16, 1, 28, 28}, d), core::randint(0, 10, {16}).to(d), classify);
}

Step lenet_b64(Device d) {
  auto net = on<LeNet>(d);
  auto sgd = std::make_shared<core::SGD>(net->parameters(), core::SGDOptions{.lr = 1e-2, .momentum = 0.9});
  return train_step(net, sgd, randn_on({64, 1, 28, 28}, d), core::randint(0, 10, {64}).to(d), classify);
}

constexpr std::array kSteps = {
    StepKind{"cnn28_fwd_bwd", "two convolutions on 28 x 28, batch 16, forward and backward", cnn28_fwd_bwd},
    StepKind{"lenet_b64", "LeNet-5 on 28 x 28, batch 64, SGD with momentum step", lenet_b64},
};

}  // namespace

StepTable image_steps() {
  return kSteps;
}

}  // namespace bench
