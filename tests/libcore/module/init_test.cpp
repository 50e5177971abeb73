#include "libcore/module/init.h"

#include <gtest/gtest.h>

#include <cmath>

#include "libcore/base/error.h"
#include "libcore/core.h"
#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/tensor/random.h"

namespace {

// Values of PyTorch after manual_seed(0), six decimals.
TEST(Init, LinearStartsAsPyTorch) {
  core::manual_seed(0);
  const core::Linear fc(3, 1);
  const std::vector<float> weight = fc.weight.to_vector<float>();
  EXPECT_NEAR(weight[0], -0.004323, 5e-7);
  EXPECT_NEAR(weight[1], 0.309716, 5e-7);
  EXPECT_NEAR(weight[2], -0.475185, 5e-7);
  EXPECT_NEAR(fc.bias.to_vector<float>()[0], -0.424895, 5e-7);
}

TEST(Init, ConvolutionStartsAsPyTorch) {
  core::manual_seed(0);
  const core::Conv2d conv(1, 2, 3);
  EXPECT_NEAR(conv.weight.to_vector<float>()[0], -0.002496, 5e-7);
  EXPECT_NEAR(conv.bias.to_vector<float>()[1], -0.145154, 5e-7);
}

TEST(Init, FansCountTheReceptiveField) {
  const core::init::Fans fans = core::init::fan_in_and_fan_out(core::empty({6, 4, 3, 5}));
  EXPECT_EQ(fans.in, 60);
  EXPECT_EQ(fans.out, 90);
  EXPECT_THROW(core::init::fan_in_and_fan_out(core::empty({6})), core::Error);
}

TEST(Init, GainsAreThoseOfTheNonlinearity) {
  EXPECT_DOUBLE_EQ(core::init::calculate_gain("conv2d"), 1);
  EXPECT_DOUBLE_EQ(core::init::calculate_gain("tanh"), 5.0 / 3);
  EXPECT_DOUBLE_EQ(core::init::calculate_gain("leaky_relu", 0.2), std::sqrt(2 / 1.04));
  EXPECT_THROW(core::init::calculate_gain("foo"), core::Error);
}

TEST(Init, XavierStaysWithinItsBound) {
  core::Tensor w = core::empty({30, 20});
  core::init::xavier_uniform_(w);
  const float bound = std::sqrt(6.0F / 50);
  EXPECT_LE(core::max(core::abs(w)).item<float>(), bound);
  EXPECT_GT(core::max(core::abs(w)).item<float>(), bound * 0.95F);
}

}  // namespace
