// Three steps against PyTorch 2.15.
#include "libcore/optim/adafactor.h"

#include <gtest/gtest.h>

#include "tests/libcore/optim/three_steps.h"

namespace {

using core::Tensor;
using test::expect_close;
using test::message_of;
using test::parameter;
using test::run_dense;

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
