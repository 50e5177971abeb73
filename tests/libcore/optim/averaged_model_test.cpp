#include "libcore/optim/averaged_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/factory.h"

namespace {

using core::Tensor;
using testing::DoubleNear;
using testing::ElementsAre;

/// The average after the weight was 1, 2 and 4. Literals of PyTorch 2.15.
std::vector<float> follow(const core::AveragedModelOptions& options) {
  core::Linear model(2, 1, {.bias = false});
  core::AveragedModel average(model, options);
  std::vector<float> seen;
  for (double value : {1.0, 2.0, 4.0}) {
    model.weight.detach().fill_(value);
    average.update_parameters(model);
    seen.push_back(average.module.weight.detach().to_vector<float>()[0]);
  }
  EXPECT_EQ(average.n_averaged.item<std::int64_t>(), 3);
  return seen;
}

TEST(AveragedModel, AveragesAllValuesOrForgetsOldOnes) {
  EXPECT_THAT(follow({}), ElementsAre(1.0F, 1.5F, testing::FloatEq(2.3333333F)));
  EXPECT_THAT(follow({.average = core::ema_average(0.9)}),
              ElementsAre(1.0F, testing::FloatEq(1.1F), testing::FloatEq(1.39F)));
}

TEST(AveragedModel, HasPyTorchsKeys) {
  const core::Linear model(2, 1);
  EXPECT_THAT(core::AveragedModel(model).state_dict().keys(),
              ElementsAre("n_averaged", "module.weight", "module.bias"));
}

TEST(AveragedModel, RefusesADecayOutsideOfOne) {
  try {
    core::ema_average(2);
    FAIL() << "no error";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.message(), "Invalid decay value 2 provided. Please provide a value in [0,1] range.");
  }
}

TEST(AveragedModel, UpdatesStatisticsFromALoader) {
  core::BatchNorm1d norm(1);
  norm.eval();
  norm.running_mean.fill_(9);
  const std::vector<Tensor> batches = {core::tensor({{1.0}, {3.0}}), core::tensor({{5.0}, {7.0}})};
  core::update_bn(batches, norm);
  EXPECT_FLOAT_EQ(norm.running_mean.item<float>(), 4.0F);  // the plain mean of 2 and 6
  EXPECT_EQ(norm.options.momentum, 0.1);
  EXPECT_FALSE(norm.is_training());
}

TEST(SWALR, AnnealsToItsRate) {
  const auto rates = [](const char* strategy, std::int64_t epochs, int steps) {
    core::SGD optimizer({core::Parameter(core::zeros({1}))}, {.lr = 0.5});
    core::SWALR schedule(optimizer, {.swa_lr = 0.05, .anneal_epochs = epochs, .anneal_strategy = strategy});
    std::vector<double> seen;
    for (int i = 0; i < steps; ++i) {
      optimizer.step();
      schedule.step();
      seen.push_back(schedule.last_lr()[0]);
    }
    return seen;
  };
  EXPECT_THAT(rates("cos", 4, 5), ElementsAre(DoubleNear(0.4340990257669732, 1e-15), DoubleNear(0.275, 1e-15),
                                              DoubleNear(0.11590097423302682, 1e-15), 0.05, 0.05));
  EXPECT_THAT(rates("linear", 2, 3), ElementsAre(DoubleNear(0.275, 1e-15), 0.05, 0.05));
}

}  // namespace
