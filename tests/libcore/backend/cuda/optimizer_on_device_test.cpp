// Optimizers whose parameters lie on a device with kernels for whole lists of them.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/backend/opaque/opaque_tables.h"
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/adaptive.h"
#include "libcore/optim/averaging.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/print.h"
#include "tests/libcore/backend/cuda/emulated_tables.h"

namespace core {
namespace {

class OptimizerOnDevice : public testing::Test {
 protected:
  void SetUp() override { set_opaque_devices(1, test::emulated_tables()); }
  void TearDown() override { set_logical_devices(0); }
};

Tensor state_of(Optimizer& optimizer, const Tensor& param, const std::string& wanted) {
  for (const auto& [name, value] : optimizer.state_of(param)) {
    if (name == wanted) return value;
  }
  return {};
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
  return {p.detach(), state_of(adam, p, "step")};
}

TEST_F(OptimizerOnDevice, AdamStepsAsOnTheHost) {
  const auto [wanted, host_step] = trained(Device("cpu"), false);
  const auto [found, step] = trained(Device("cuda:0"), false);
  EXPECT_TRUE(allclose(found.cpu(), wanted));
  EXPECT_TRUE(step.device().is_cpu());
  EXPECT_EQ(step.item<double>(), 3);
}

TEST_F(OptimizerOnDevice, AdamCountsStepsThereWhereCapturable) {
  const auto [wanted, host_step] = trained(Device("cpu"), true);
  const auto [found, step] = trained(Device("cuda:0"), true);
  EXPECT_TRUE(allclose(found.cpu(), wanted));
  EXPECT_EQ(step.device(), Device("cuda:0"));
  EXPECT_EQ(step.item<double>(), 3);
}

/// Forty parameters, more than a launch takes, and all tensors of their states after some steps, on the host.
template <class Make>
std::vector<Tensor> all_state(Device device, const Make& make) {
  std::vector<Tensor> params;
  for (std::int64_t i = 0; i < 40; ++i) {
    params.push_back((arange(0, i) * 0.7 + 0.3).sin().to(device, DType::f32).requires_grad_());
  }
  const std::unique_ptr<Optimizer> optimizer = make(params);
  for (int step = 0; step < 9; ++step) {  // RAdam changes its way at the sixth
    for (const Tensor& p : params) {
      p.set_grad((arange(0, p.numel()) * 1.3 + 0.5 * step).cos().to(device, DType::f32));
    }
    optimizer->step();
  }
  std::vector<Tensor> all;
  for (const Tensor& p : params) {
    all.push_back(p.detach().cpu());
    for (const auto& [name, value] : optimizer->state_of(p)) all.push_back(value.to(Device(), DType::f32));
  }
  return all;
}

/// As on the host, by one call a step.
template <class Make>
void compare(const std::string& slot, const Make& make) {
  const std::vector<Tensor> wanted = all_state(Device(), make);
  const auto before = opaque_calls()[slot];
  const std::vector<Tensor> found = all_state(Device("cuda:0"), make);
  EXPECT_EQ(opaque_calls()[slot] - before, 9U) << slot;
  ASSERT_EQ(found.size(), wanted.size()) << slot;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(allclose(found[i], wanted[i], {.rtol = 2e-5, .atol = 2e-6})) << slot << ' ' << i << '\n'
                                                                             << found[i] << '\n'
                                                                             << wanted[i];
  }
}

template <class O, class Options>
auto maker(const Options& options) {
  return [=](const std::vector<Tensor>& params) { return std::make_unique<O>(params, options); };
}

TEST_F(OptimizerOnDevice, Rmsprop) {
  compare("rmsprop.float32", maker<RMSprop>(RMSpropOptions{.lr = 0.01}));
  compare("rmsprop.float32",
          maker<RMSprop>(RMSpropOptions{.lr = 0.01, .weight_decay = 0.1, .momentum = 0.9, .centered = true}));
}
TEST_F(OptimizerOnDevice, Adagrad) {
  compare("adagrad.float32",
          maker<Adagrad>(AdagradOptions{.lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.1, .maximize = true}));
}
TEST_F(OptimizerOnDevice, Adadelta) {
  compare("adadelta.float32", maker<Adadelta>(AdadeltaOptions{.weight_decay = 0.1}));
}
TEST_F(OptimizerOnDevice, Adamax) {
  compare("adamax.float32", maker<Adamax>(AdamaxOptions{.weight_decay = 0.1, .maximize = true}));
}
TEST_F(OptimizerOnDevice, NAdam) {
  compare("nadam.float32", maker<NAdam>(NAdamOptions{.weight_decay = 0.1}));
  compare("nadam.float32", maker<NAdam>(NAdamOptions{.weight_decay = 0.1, .decoupled_weight_decay = true}));
}
TEST_F(OptimizerOnDevice, RAdam) {
  compare("radam.float32", maker<RAdam>(RAdamOptions{.lr = 0.01, .weight_decay = 0.1}));
  compare("radam.float32", maker<RAdam>(RAdamOptions{.lr = 0.01, .weight_decay = 0.1, .decoupled_weight_decay = true}));
}
TEST_F(OptimizerOnDevice, ASGD) {
  compare("asgd.float32", maker<ASGD>(ASGDOptions{.lr = 0.1, .t0 = 3, .weight_decay = 0.1}));
}
TEST_F(OptimizerOnDevice, Rprop) {
  compare("rprop.float32", maker<Rprop>(RpropOptions{.lr = 0.1, .step_sizes = {1e-3, 0.15}}));
}

}  // namespace
}  // namespace core
