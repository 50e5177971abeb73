#pragma once
// What the steps that train a network have in common.
// Use: return bench::train_step(bench::on<Mlp>(d), adam, x, y, bench::classify);

#include <memory>
#include <utility>

#include "libcore/ops/loss.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/random.h"
#include "tests/bench/bench_steps.h"

namespace bench {

inline core::Tensor randn_on(const core::Shape& shape, core::Device device) {
  return core::randn(shape).to(device);
}

/// A new network on a device.
template <class Net, class... Args>
std::shared_ptr<Net> on(core::Device device, Args&&... args) {
  auto net = std::make_shared<Net>(std::forward<Args>(args)...);
  net->to(device);
  return net;
}

/// Where a step has no update.
inline const std::shared_ptr<core::SGD> kNoOptimizer;

/// Zero, forward, loss, backward and, with an optimizer, update; gives the loss.
template <class Net, class Optimizer, class Loss>
Step train_step(std::shared_ptr<Net> net, std::shared_ptr<Optimizer> optimizer, core::Tensor x, core::Tensor y,
                Loss loss_of) {
  auto loss = std::make_shared<core::Tensor>();
  const core::Device device = x.device();
  const auto work = [=]() {
    if (optimizer) {
      optimizer->zero_grad();
    } else {
      net->zero_grad();
    }
    *loss = loss_of((*net)(x), y);
    loss->backward();
    if (optimizer) optimizer->step();
  };
  return step_of(work, loss, device);
}

inline core::Tensor classify(const core::Tensor& logits, const core::Tensor& target) {
  return core::cross_entropy(logits, target);
}

}  // namespace bench
