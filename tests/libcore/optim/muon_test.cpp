// Three steps against PyTorch 2.15.
#include "libcore/optim/muon.h"

#include <gtest/gtest.h>

#include "tests/libcore/optim/three_steps.h"

namespace {

using core::Tensor;
using test::expect_close;
using test::message_of;
using test::parameter;
using test::run_dense;

TEST(Muon, ThreeSteps) {
  const std::vector<Tensor> params{parameter({2, 3}), parameter({4, 2})};
  core::Muon optimizer(params);
  run_dense(optimizer, params);
  expect_close(params[0], {{-0.9970948, -0.5992352, -0.2013715}, {0.1993575, 0.5986288, 0.9978994}}, 2e-5);
  expect_close(params[1],
               {{-0.997474, -0.7153046}, {-0.4275438, -0.1442228}, {0.1423813, 0.4268465}, {0.7122872, 0.9979544}},
               2e-5);
  expect_close(optimizer.state_of(params[0])[0].second,
               {{-0.0565875, -0.0138, 0.0289875}, {0.071775, 0.1145625, 0.15735}}, 2e-3);
}

TEST(Muon, ThreeStepsWithAnotherRate) {
  const std::vector<Tensor> params{parameter({2, 3}), parameter({4, 2})};
  core::Muon optimizer(params, {.lr = 0.1, .weight_decay = 0.0, .nesterov = false, .adjust_lr_fn = "match_rms_adamw"});
  run_dense(optimizer, params);
  expect_close(params[0], {{-0.9036547, -0.5779434, -0.2525028}, {0.181394, 0.5589991, 0.9366719}}, 2e-3);
  EXPECT_EQ(optimizer.str(),
            "Muon (\nParameter Group 0\n    adjust_lr_fn: match_rms_adamw\n    eps: 1e-07\n    lr: 0.1\n    momentum: "
            "0.95\n    nesterov: False\n    ns_coefficients: (3.4445, -4.775, 2.0315)\n    ns_steps: 5\n    "
            "weight_decay: 0.0\n)");
}

TEST(Muon, Errors) {
  EXPECT_EQ(message_of([] { core::Muon({parameter({3})}); }),
            "Muon only supports 2D parameters whereas we found a parameter with size: torch.Size([3])");
  EXPECT_EQ(message_of([] {
              core::Muon({parameter({3, 3})}, {.lr = -1.0});
            }),
            "Learning rate should be >= 0 but is: -1.0");
  EXPECT_EQ(message_of([] {
              core::Muon({parameter({3, 3})}, {.adjust_lr_fn = "x"});
            }),
            "Adjust learning rate function x is not supported");
}

}  // namespace
