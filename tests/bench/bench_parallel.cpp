// DataParallel: a perceptron of 10 million parameters as one replica, and as two on logical devices, each with the
// threads that the program was given.

#include <array>
#include <cstdint>
#include <memory>

#include "libcore/backend/device_registry.h"
#include "libcore/backend/threads.h"
#include "libcore/module/linear.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/adam.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/random.h"
#include "tests/bench/bench_steps.h"

namespace bench {
namespace {

using core::Device;
using core::Tensor;

struct BigMlp : core::ModuleOf<BigMlp> {
  core::Linear a{1024, 2048}, b{2048, 2048}, c{2048, 2048}, d{2048, 10};
  void members(core::Members& m) override { m.child("0", a).child("2", b).child("4", c).child("6", d); }
  Tensor forward(const Tensor& x) { return d(core::relu(c(core::relu(b(core::relu(a(x))))))); }
};

template <class Net>
Step step_of(std::shared_ptr<Net> net, Device device, std::int64_t batch) {
  net->to(device);
  Tensor x = core::randn({batch, 1024}).to(device), y = core::randint(0, 10, {batch}).to(device);
  return [=]() {
    net->zero_grad();
    Tensor loss = core::cross_entropy((*net)(x), y);
    loss.backward();
    return wants_value ? loss.item<double>() : 0;
  };
}

Step one_replica(Device device, std::int64_t batch) {
  return step_of(std::make_shared<BigMlp>(), device, batch);
}

Step two_replicas(std::int64_t batch) {
  if (core::cuda::device_count() < 2) core::set_logical_devices(2);
  auto net = std::make_shared<core::DataParallel<BigMlp>>(std::make_shared<BigMlp>(),
                                                          core::DataParallelOptions{.device_ids = {{0, 1}}});
  if (core::num_threads() > 1) core::set_num_threads(2 * core::num_threads());  // that many for each replica
  return step_of(net, Device("cuda:0"), batch);
}

Step dp_one_replica(Device device) {
  return one_replica(device, 64);
}
Step dp_two_replicas(Device) {
  return two_replicas(64);
}
Step dp_one_replica_1024(Device device) {
  return one_replica(device, 1024);
}
Step dp_one_replica_2048(Device device) {
  return one_replica(device, 2048);
}
Step dp_two_replicas_2048(Device) {
  return two_replicas(2048);
}

/// The update alone, with gradients that stay.
Step adamw_10m(Device device) {
  auto net = std::make_shared<BigMlp>();
  step_of(net, device, 64)();
  auto adamw = std::make_shared<core::AdamW>(net->parameters(), core::AdamWOptions{.lr = 1e-3});
  return [=]() {
    adamw->step();
    return wants_value ? net->d.bias.detach()[0].item<double>() : 0;
  };
}

constexpr std::array kSteps = {
    StepKind{"dp_one_replica", "10 M-parameter MLP, batch 64, forward and backward, one replica", dp_one_replica},
    StepKind{"dp_two_replicas", "the same split over two replicas on logical devices", dp_two_replicas},
    StepKind{"dp_one_replica_1024", "dp_one_replica with what each of two replicas has of 2048", dp_one_replica_1024},
    StepKind{"dp_one_replica_2048", "dp_one_replica with a batch of 2048", dp_one_replica_2048},
    StepKind{"dp_two_replicas_2048", "dp_two_replicas with a batch of 2048", dp_two_replicas_2048},
    StepKind{"adamw_10m", "AdamW's update of 10 million parameters", adamw_10m},
};

}  // namespace

StepTable parallel_steps() {
  return kSteps;
}

}  // namespace bench
