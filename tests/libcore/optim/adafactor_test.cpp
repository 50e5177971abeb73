// Three steps against PyTorch 2.15.
#include "libcore/optim/adafactor.h"

#include <gtest/gtest.h>

#include "libcore/core.h"

namespace {

using core::NestedValues;
using core::Shape;
using core::Tensor;

template <class F>
std::string message_of(F function) {
  try {
    function();
  } catch (const core::Error& error) {
    return error.message();
  }
  return "no error";
}

void expect_close(const Tensor& found, const NestedValues& expected, double rtol = 1e-5) {
  EXPECT_TRUE(core::allclose(found, core::tensor(expected), {.rtol = rtol, .atol = 1e-6})) << found;
}

Tensor parameter(const Shape& sizes) {
  return core::linspace(-1, 1, sizes.numel()).view(sizes).clone().requires_grad_();
}
/// Three steps with gradients from a simple rule.
void run_dense(core::Optimizer& optimizer, const std::vector<Tensor>& params) {
  for (int k = 0; k < 3; ++k) {
    for (const Tensor& p : params) {
      p.set_grad(core::arange(static_cast<double>(p.numel())).view(p.sizes()) * 0.3 - 0.5 + 0.1 * k);
    }
    optimizer.step();
  }
}
TEST(Adafactor, ThreeSteps) {
  const std::vector<Tensor> params{parameter({2, 3}), parameter({3})};
  core::Adafactor optimizer(params);
  run_dense(optimizer, params);
  expect_close(params[0], {{-0.9662181, -0.5932462, -0.2106462}, {0.184347, 0.5792458, 0.9793116}});
  expect_close(params[1], {-0.9784096, 0.0135319, 0.9715862});
  expect_close(optimizer.state_of(params[0])[1].second, {{0.0733}, {0.7333}}, 1e-3);
  EXPECT_EQ(optimizer.str(),
            "Adafactor (\nParameter Group 0\n    beta2_decay: -0.8\n    d: 1.0\n    eps: (None, 0.001)\n    foreach: "
            "None\n    lr: 0.01\n    maximize: False\n    weight_decay: 0.0\n)");
}

TEST(Adafactor, ThreeStepsWithAllOptions) {
  const std::vector<Tensor> params{parameter({2, 3}), parameter({3})};
  core::Adafactor optimizer(
      params, {.lr = 0.1, .eps = {core::Scalar(1e-6), 1e-2}, .d = 2.0, .weight_decay = 0.1, .maximize = true});
  run_dense(optimizer, params);
  expect_close(params[0], {{-1.3634374, -0.6572317, -0.0657018}, {0.3791463, 0.8259283, 1.2128414}});
  expect_close(params[1], {-1.2006617, -0.1375151, 1.2782964});
}

TEST(Adafactor, Errors) {
  const std::vector<Tensor> params{parameter({3})};
  EXPECT_EQ(message_of([&] { core::Adafactor(params, {.lr = -1.0}); }), "Learning rate should be >= 0 but is: -1.0");
  EXPECT_EQ(message_of([&] { core::Adafactor(params, {.beta2_decay = 1.0}); }),
            "beta2_decay should be <= 0 but is: 1.0");
  EXPECT_EQ(message_of([&] { core::Adafactor(params, {.d = 0.5}); }),
            "Clipping threshold d should be >= 1 but is: 0.5");
  EXPECT_EQ(message_of([&] {
              core::Adafactor(params, {.eps = {core::Scalar(-1.0), 1e-3}});
            }),
            "epsilon1 should be >= 0 but is: -1.0");
}

}  // namespace
