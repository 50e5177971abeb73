// Optimizers whose parameters lie on a device with kernels for whole lists of them.
#include <gtest/gtest.h>

#include <utility>

#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/optim/adam.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/ops.h"

namespace core {
namespace {

/// The CPU's kernels and the emulated steps of optimizers.
const OpTables& tables() {
  static const OptimizerTable optimizers = [] {
    OptimizerTable filled;
    emulated_kernels::fill_optimizers(filled);
    return filled;
  }();
  static const OpTables all = [] {
    OpTables made = cpu_op_tables();
    made.optimizer = &optimizers;
    return made;
  }();
  return all;
}

/// A parameter after three steps, and the optimizer's counter of steps.
std::pair<Tensor, Tensor> trained(Device device, bool capturable) {
  Tensor p = arange(1, 6, {.dtype = DType::f32, .device = device});
  p.requires_grad_();
  Adam adam({p}, {.lr = 0.1, .weight_decay = 0.01});
  adam.param_groups()[0].options.set("capturable", Scalar(capturable));
  for (int i = 0; i < 3; ++i) {
    p.set_grad(full({5}, 0.5 - i, {.dtype = DType::f32, .device = device}));
    adam.step();
  }
  Tensor step;
  for (const auto& [name, value] : adam.state_of(p)) {
    if (name == "step") step = value;
  }
  return {p.detach(), step};
}

TEST(AdamOnDevice, StepsAsOnTheHost) {
  set_opaque_devices(1, tables());
  const auto [wanted, host_step] = trained(Device("cpu"), false);
  const auto [found, step] = trained(Device("cuda:0"), false);
  EXPECT_TRUE(allclose(found.cpu(), wanted));
  EXPECT_TRUE(step.device().is_cpu());
  EXPECT_EQ(step.item<double>(), 3);
}

TEST(AdamOnDevice, CountsStepsThereWhereCapturable) {
  set_opaque_devices(1, tables());
  const auto [wanted, host_step] = trained(Device("cpu"), true);
  const auto [found, step] = trained(Device("cuda:0"), true);
  EXPECT_TRUE(allclose(found.cpu(), wanted));
  EXPECT_EQ(step.device(), Device("cuda:0"));
  EXPECT_EQ(step.item<double>(), 3);
}

}  // namespace
}  // namespace core
