#include "libcore/optim/optimizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/module/parameter.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/clip.h"
#include "libcore/optim/schedule.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::DType;
using core::Parameter;
using core::Tensor;

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error.message();
  }
  return "no error";
}

Parameter param(double value = 1, DType dtype = DType::f32) {
  return Parameter(core::full({2}, value, {.dtype = dtype}));
}

TEST(Optimizer, SkipsParametersWithoutGradient) {
  Parameter a = param();
  Parameter b = param();
  core::SGD optimizer({a, b}, {.lr = 0.5});
  a.set_grad(core::ones({2}));
  optimizer.step();
  EXPECT_EQ(a[0].item<float>(), 0.5F);
  EXPECT_EQ(b[0].item<float>(), 1.0F);
}

TEST(Optimizer, ZeroGradForgetsOrClears) {
  Parameter a = param();
  core::SGD optimizer({a});
  a.set_grad(core::ones({2}));
  optimizer.zero_grad(false);
  EXPECT_EQ(a.grad().sum().item<float>(), 0.0F);
  optimizer.zero_grad();
  EXPECT_FALSE(a.grad().defined());
}

TEST(Optimizer, StepCountsAsAWriteForEveryCache) {
  Parameter a = param();
  a.set_grad(core::ones({2}));
  auto version = a.version();
  auto writes = a.storage()->writes();
  core::SGD({a}).step();
  EXPECT_GT(a.version(), version);
  EXPECT_GT(a.storage()->writes(), writes);
}

TEST(Optimizer, UpdatesTensorsOfOtherLayoutsAndTypes) {
  Parameter half = param(1, DType::f16);
  Parameter turned(core::arange(6).to(DType::f32).view({2, 3}).t());
  core::SGD optimizer({half, turned}, {.lr = 0.5});
  half.set_grad(core::ones({2}, {.dtype = DType::f16}));
  turned.set_grad(core::ones({3, 2}));
  optimizer.step();
  EXPECT_EQ(half[1].item<float>(), 0.5F);
  EXPECT_EQ(turned.select(0, 2)[1].item<float>(), 4.5F);
}

TEST(Optimizer, LoadsStateIntoTheParametersType) {
  Parameter a = param();
  core::Adam trained({a}, {.lr = 0.1});
  a.set_grad(core::ones({2}));
  trained.step();
  Parameter wide = param(1, DType::f64);
  core::Adam fresh({wide});
  fresh.load_state_dict(trained.state_dict());
  const core::ParamState& state = fresh.state_of(wide);
  ASSERT_EQ(state.size(), 3U);
  EXPECT_EQ(state[0].first, "step");
  EXPECT_EQ(state[0].second.dtype(), DType::f32);
  EXPECT_EQ(state[1].second.dtype(), DType::f64);
  EXPECT_EQ(fresh.param_groups()[0].lr(), 0.1);
  trained.step();  // what was loaded is a copy
  EXPECT_EQ(fresh.state_of(wide)[0].second.item<float>(), 1.0F);
}

TEST(Optimizer, ResumesBitForBit) {
  Parameter a = param();
  Parameter b = param();
  core::Adam straight({a}, {.lr = 0.01});
  auto run = [](core::Optimizer& optimizer, const Parameter& p, int from, int to) {
    for (int i = from; i < to; ++i) {
      p.set_grad(p.detach() * 0.3 + (i % 3));
      optimizer.step();
    }
  };
  run(straight, a, 0, 6);
  core::Adam first({b}, {.lr = 0.01});
  run(first, b, 0, 3);
  core::Adam second({b});
  second.load_state_dict(first.state_dict());
  run(second, b, 3, 6);
  EXPECT_TRUE(a.detach().equal(b.detach()));
}

TEST(Optimizer, RefusesStateThatDoesNotFit) {
  Parameter a = param();
  Parameter b = param();
  core::SGD one({a, b});
  core::SGD two({{.params = {a}}, {.params = {b}}});
  core::SGD small(std::vector<Tensor>{a});
  EXPECT_EQ(message_of([&] { one.load_state_dict(two.state_dict()); }),
            "loaded state dict has a different number of parameter groups");
  EXPECT_EQ(message_of([&] { one.load_state_dict(small.state_dict()); }),
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group");
}

TEST(Optimizer, ChecksItsArguments) {
  Parameter a = param();
  Tensor inner = a * 2;
  EXPECT_EQ(message_of([] { core::SGD(std::vector<Tensor>{}); }), "optimizer got an empty parameter list");
  EXPECT_EQ(message_of([&] { core::SGD({inner}); }), "can't optimize a non-leaf Tensor");
  EXPECT_EQ(message_of([&] {
              core::SGD({{.params = {a}}, {.params = {a}}});
            }),
            "some parameters appear in more than one parameter group");
  EXPECT_EQ(message_of([&] { core::SGD({a}, {.lr = -1}); }), "Invalid learning rate: -1");
  EXPECT_EQ(message_of([&] { core::SGD({a}, {.momentum = -1}); }), "Invalid momentum value: -1");
  EXPECT_EQ(message_of([&] { core::SGD({a}, {.nesterov = true}); }),
            "Nesterov momentum requires a momentum and zero dampening");
  EXPECT_EQ(message_of([&] { core::Adam({a}, {.betas = {1.0, 0.9}}); }), "Invalid beta parameter at index 0: 1.0");
  EXPECT_EQ(message_of([&] { core::Adam({a}, {.eps = -1}); }), "Invalid epsilon value: -1");
}

TEST(Optimizer, IsMovedWithItsStateAndItsRates) {
  Parameter w = param();
  const auto made = [&] {
    core::Adam optimizer({w}, 0.5);
    w.set_grad(core::ones({2}));
    optimizer.step();
    return optimizer;
  };
  std::vector<core::Adam> all;
  all.push_back(made());
  all.push_back(core::Adam({w}, 0.25));  // moves the first one again
  EXPECT_EQ(all[0].param_groups()[0].lr(), 0.5);
  EXPECT_EQ(all[0].state_of(w).size(), 3U);
  all[0].step();
  EXPECT_EQ(all[0].state_of(w)[0].second.item<float>(), 2);
  all[0] = std::move(all[1]);
  EXPECT_EQ(all[0].param_groups()[0].lr(), 0.25);
  EXPECT_EQ(core::SGD({w}, 1).param_groups()[0].lr(), 1);
}

TEST(Schedule, ResumesFromItsState) {
  Parameter a = param();
  core::SGD optimizer({a}, {.lr = 0.1});
  core::StepLR schedule(optimizer, {.step_size = 2, .gamma = 0.5});
  for (int i = 0; i < 3; ++i) schedule.step();
  core::OptionMap saved = schedule.state_dict();
  core::SGD other({a}, {.lr = 0.1});
  core::StepLR resumed(other, {.step_size = 9});
  other.load_state_dict(optimizer.state_dict());
  resumed.load_state_dict(saved);
  schedule.step();
  resumed.step();
  EXPECT_EQ(resumed.last_lr(), schedule.last_lr());
  EXPECT_EQ(other.param_groups()[0].lr(), 0.025);
}

TEST(Clip, LeavesOutParametersWithoutGradient) {
  Parameter a = param();
  Parameter b = param();
  a.set_grad(core::full({2}, 3.0));
  EXPECT_NEAR(core::clip_grad_norm_({a, b}, 1.0).item<double>(), 4.242640687, 1e-6);
  EXPECT_NEAR(core::norm(a.grad()).item<double>(), 1.0, 1e-5);
  EXPECT_EQ(core::clip_grad_norm_({b}, 1.0).item<double>(), 0.0);
}

}  // namespace
