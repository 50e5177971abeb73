// Hooks of optimizers, closures, and the parts of clipping.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libcore/base/error.h"
#include "libcore/module/parameter.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/clip.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::Optimizer;
using core::OptimizerState;
using core::Parameter;
using core::Tensor;
using testing::ElementsAre;

TEST(OptimizerHooks, RunAroundEveryStep) {
  Parameter a(core::ones({1}));
  core::SGD optimizer({a}, {.lr = 0.5});
  a.set_grad(core::ones({1}));
  std::vector<float> seen;
  const auto look = [&](Optimizer&) { seen.push_back(a.item<float>()); };
  const auto before = optimizer.register_step_pre_hook(look);
  optimizer.register_step_post_hook(look);
  optimizer.step();
  optimizer.remove_hook(before);
  optimizer.step();
  EXPECT_THAT(seen, ElementsAre(1.0F, 0.5F, 0.0F));
}

TEST(OptimizerHooks, MayChangeWhatIsSavedAndLoaded) {
  Parameter a(core::ones({1}));
  core::SGD optimizer({a}, {.lr = 0.5});
  std::vector<std::string> calls;
  optimizer.register_state_dict_pre_hook([&](Optimizer&) { calls.push_back("before save"); });
  optimizer.register_state_dict_post_hook(
      [](Optimizer&, OptimizerState& state) { state.param_groups[0].options.set("note", std::string("saved")); });
  optimizer.register_load_state_dict_pre_hook(
      [](Optimizer&, OptimizerState& state) { state.param_groups[0].options.set("lr", core::Scalar(0.25)); });
  optimizer.register_load_state_dict_post_hook([&](Optimizer&) { calls.push_back("after load"); });
  const OptimizerState state = optimizer.state_dict();
  EXPECT_EQ(state.param_groups[0].options.text("note"), "saved");
  optimizer.load_state_dict(state);
  EXPECT_EQ(optimizer.param_groups()[0].lr(), 0.25);
  EXPECT_EQ(state.param_groups[0].options.number("lr"), 0.5);
  EXPECT_THAT(calls, ElementsAre("before save", "after load"));
}

TEST(Optimizer, AClosureGivesTheLossBeforeTheStep) {
  Parameter a(core::full({1}, 3.0));
  core::SGD optimizer({a}, {.lr = 0.1});
  const Tensor loss = optimizer.step([&] {
    optimizer.zero_grad();
    Tensor square = core::sum(a * a);
    square.backward();
    return square;
  });
  EXPECT_EQ(loss.item<float>(), 9.0F);
  EXPECT_FLOAT_EQ(a.item<float>(), 2.4F);
}

TEST(Optimizer, AddedGroupsGetTheDefaults) {
  Parameter a(core::ones({1})), b(core::ones({1}));
  core::SGD optimizer({a}, {.lr = 0.1, .momentum = 0.9});
  optimizer.add_param_group({.params = {b}, .options = {{"lr", core::Scalar(0.5)}}});
  EXPECT_EQ(optimizer.param_groups()[1].lr(), 0.5);
  EXPECT_EQ(optimizer.param_groups()[1].options.number("momentum"), 0.9);
  EXPECT_EQ(optimizer.defaults().number("lr"), 0.1);
}

TEST(Clip, RefusesANormThatIsNotFiniteWhenAsked) {
  Parameter a(core::ones({1}));
  a.set_grad(core::full({1}, INFINITY));
  try {
    core::clip_grad_norm_({a}, 1.0, INFINITY, true);
    FAIL() << "no error";
  } catch (const core::Error& error) {
    EXPECT_THAT(error.message(), testing::StartsWith("The total norm of order inf for gradients from `parameters` is "
                                                     "non-finite, so it cannot be clipped."));
  }
  EXPECT_TRUE(std::isinf(a.grad().item<float>()));
}

TEST(Clip, HasTwoHalves) {
  Parameter a(core::ones({2}));
  a.set_grad(core::tensor({3.0, 4.0}));
  const Tensor total = core::total_norm({a.grad()});
  EXPECT_EQ(total.item<float>(), 5.0F);
  core::clip_grads_with_norm_({a}, 1.0, total);
  EXPECT_NEAR(a.grad()[1].item<float>(), 0.8, 1e-5);
}

}  // namespace
