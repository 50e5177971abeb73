// GradScaler's rules and texts; trainings beside PyTorch's are in half/scaler.json.
#include "libcore/optim/grad_scaler.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "libcore/autograd/autograd.h"
#include "libcore/backend/logical_devices.h"
#include "libcore/base/warning.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/factory.h"
#include "tests/support/message_of.h"

namespace {

using core::DType;
using core::GradScaler;
using core::Tensor;
using test::message_of;

struct Training {
  Tensor weight = core::ones({2}).requires_grad_();
  core::SGD optimizer{std::vector<Tensor>{weight}, {.lr = 0.5}};
  GradScaler scaler{"cpu", {.init_scale = 4, .growth_interval = 2}};

  void backward(double factor) { scaler.scale(weight.sum() * factor).backward(); }
};

TEST(GradScaler, AnInfiniteGradientLeavesTheStepOut) {
  Training t;
  t.backward(std::numeric_limits<double>::infinity());
  EXPECT_FALSE(t.scaler.step(t.optimizer));
  t.scaler.update();
  EXPECT_EQ(t.scaler.get_scale(), 2);
  EXPECT_EQ(t.weight[0].item<double>(), 1);
  t.optimizer.zero_grad();
  t.backward(1);
  EXPECT_TRUE(t.scaler.step(t.optimizer));
  t.scaler.update();
  EXPECT_EQ(t.weight[0].item<double>(), 0.5);
}

TEST(GradScaler, EachOptimizerHasItsOwnCheck) {
  Training t;
  const Tensor other = core::ones({1}).requires_grad_();
  core::SGD second(std::vector<Tensor>{other}, {.lr = 1});
  t.backward(std::numeric_limits<double>::quiet_NaN());
  t.scaler.scale(other.sum()).backward();
  EXPECT_FALSE(t.scaler.step(t.optimizer));
  EXPECT_TRUE(t.scaler.step(second));
  t.scaler.update();
  EXPECT_EQ(other.item<double>(), 0);
  EXPECT_EQ(t.scaler.get_scale(), 2);
}

TEST(GradScaler, SaysWhatIsOutOfOrder) {
  Training t;
  EXPECT_EQ(
      message_of([&] { t.scaler.step(t.optimizer); }),
      "Attempted step but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) "
      "earlier in the iteration.");
  t.backward(1);
  EXPECT_EQ(message_of([&] { t.scaler.update(); }), "No inf checks were recorded prior to update.");
  t.scaler.unscale_(t.optimizer);
  EXPECT_EQ(message_of([&] { t.scaler.unscale_(t.optimizer); }),
            "unscale_() has already been called on this optimizer since the last update().");
  t.scaler.step(t.optimizer);
  EXPECT_EQ(message_of([&] { t.scaler.step(t.optimizer); }), "step() has already been called since the last update().");
  EXPECT_EQ(message_of([&] { t.scaler.unscale_(t.optimizer); }), "unscale_() is being called after step().");
  EXPECT_EQ(message_of([] { GradScaler("cpu", {.growth_factor = 1}); }), "The growth factor must be > 1.0.");
  EXPECT_EQ(message_of([] { GradScaler("cpu", {.backoff_factor = 1}); }), "The backoff factor must be < 1.0.");
}

TEST(GradScaler, TakesAScaleOfOnesOwn) {
  Training t;
  t.backward(1);
  t.scaler.update(core::tensor(4.0));
  EXPECT_EQ(t.scaler.get_scale(), 4);
  EXPECT_EQ(message_of([&] {
              t.scaler.update(core::tensor({4.0, 2.0}));
            }),
            "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
            "requires_grad=False.");
  EXPECT_EQ(message_of([&] { t.scaler.update(core::tensor({4.0})); }),
            "output with shape [] doesn't match the broadcast shape [1]");
}

TEST(GradScaler, RefusesHalfGradientsAndOptimizersWithoutAny) {
  const Tensor half = core::ones({2}, {.dtype = DType::f16}).requires_grad_();
  core::SGD optimizer(std::vector<Tensor>{half}, {.lr = 1});
  GradScaler scaler("cpu");
  const Tensor loss = scaler.scale(half.sum());
  EXPECT_EQ(loss.dtype(), DType::f32);
  EXPECT_EQ(message_of([&] { scaler.step(optimizer); }), "No inf checks were recorded for this optimizer.");
  GradScaler again("cpu", {.init_scale = 2});
  again.scale(half.sum()).backward();
  EXPECT_EQ(message_of([&] { again.step(optimizer); }), "Attempting to unscale FP16 gradients.");
}

TEST(GradScaler, WorksWhereTheGradientsAre) {
  core::set_logical_devices(1);
  {
    const Tensor weight = core::ones({2}, {.device = "cuda:0"}).requires_grad_();
    core::AdamW optimizer(std::vector<Tensor>{weight}, 0.1);
    GradScaler scaler("cuda");
    scaler.scale(weight.sum() * std::numeric_limits<double>::infinity()).backward();
    EXPECT_FALSE(scaler.step(optimizer));
    scaler.update();
    optimizer.zero_grad();
    scaler.scale(weight.sum()).backward();
    scaler.unscale_(optimizer);
    EXPECT_EQ(weight.grad()[0].item<double>(), 1);
    EXPECT_TRUE(scaler.step(optimizer));
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), 32768);
  }
  core::set_logical_devices(0);
}

TEST(GradScaler, StateComesBack) {
  Training t;
  t.backward(1);
  t.scaler.step(t.optimizer);
  t.scaler.update();
  GradScaler other("cpu");
  other.load_state_dict(t.scaler.state_dict());
  EXPECT_EQ(other.get_scale(), 4);
  EXPECT_EQ(other.get_growth_interval(), 2);
  EXPECT_EQ(other.state_dict().integer("_growth_tracker"), 1);
  GradScaler off("cpu", {.enabled = false});
  EXPECT_TRUE(off.state_dict().items().empty());
  EXPECT_EQ(off.get_scale(), 1);
  EXPECT_EQ(message_of([&] { other.load_state_dict({}); }),
            "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.");
}

}  // namespace
