#include "libcore/module/init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libcore/base/error.h"
#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/module/parameter_vector.h"
#include "libcore/module/transformer_model.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/random.h"

namespace {

testing::Matcher<const std::vector<float>&> near(float tolerance, const std::vector<float>& wanted) {
  return testing::Pointwise(testing::FloatNear(tolerance), wanted);
}

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

std::vector<float> values(const core::Tensor& tensor) {
  return tensor.to_vector<float>();
}

// Values of PyTorch after manual_seed(0).
TEST(Init, OrthogonalRowsOrColumns) {
  core::manual_seed(0);
  EXPECT_THAT(values(core::init::orthogonal_(core::empty({2, 3}))),
              near(1e-6F, {0.57398093F, -0.10929461F, -0.81154215F, -0.34541512F, -0.93088269F, -0.11893554F}));
  core::manual_seed(0);
  EXPECT_THAT(values(core::init::orthogonal_(core::empty({3, 2}), 2)),
              near(2e-6F, {1.06990504F, -0.33986017F, -1.51272166F, 0.68036765F, -0.75297797F, -1.84975541F}));
  EXPECT_THROW(core::init::orthogonal_(core::empty({3})), core::Error);
}

TEST(Init, SparseColumns) {
  core::manual_seed(0);
  EXPECT_THAT(values(core::init::sparse_(core::empty({4, 2}), 0.3)),
              near(1e-8F, {0.0F, -0.00293429F, 0.0F, 0.0F, -0.01084522F, -0.01398595F, 0.00403347F, 0.0F}));
  EXPECT_THROW(core::init::sparse_(core::empty({4}), 0.3), core::Error);
}

TEST(Init, DiagonalsAndDeltas) {
  EXPECT_THAT(values(core::init::eye_(core::empty({2, 3}))), testing::ElementsAre(1, 0, 0, 0, 1, 0));
  const core::Tensor delta = core::init::dirac_(core::empty({4, 2, 3}), 2);
  EXPECT_EQ(delta.sum().item<float>(), 4.0F);
  for (int channel = 0; channel < 4; ++channel) {
    EXPECT_EQ(delta.select(0, channel).select(0, channel % 2).select(0, 1).item<float>(), 1.0F);
  }
  EXPECT_THROW(core::init::dirac_(core::empty({3, 2, 1}), 2), core::Error);
  EXPECT_THROW(core::init::dirac_(core::empty({2, 2})), core::Error);
  EXPECT_THROW(core::init::eye_(core::empty({2})), core::Error);
}

TEST(Transformer, ComputesWhatPyTorchComputes) {
  core::manual_seed(0);
  core::Transformer net({.d_model = 4,
                         .nhead = 2,
                         .num_encoder_layers = 1,
                         .num_decoder_layers = 2,
                         .layer = {.dim_feedforward = 8, .dropout = 0}});
  EXPECT_FLOAT_EQ(core::rand({1}).item<float>(), 0.43097937F);
  const core::Tensor source = core::arange(24).to_float().view({3, 2, 4}) / 10;
  const core::Tensor target = core::arange(16).to_float().view({2, 2, 4}) / 7;
  const core::Tensor y =
      net.eval()(source, target, core::TransformerMasks{.target_mask = net.generate_square_subsequent_mask(2)});
  EXPECT_THAT(values(y.detach()),
              near(2e-5F, {0.670934F, 0.433702F, -1.725263F, 0.620628F, 0.534537F, 0.696305F, -1.727155F, 0.496313F,
                           0.628169F, 0.619053F, -1.729133F, 0.481911F, 0.572095F, 0.702815F, -1.725118F, 0.450208F}));
  EXPECT_EQ(net.state_dict().keys().front(), "encoder.layers.0.self_attn.in_proj_weight");
  EXPECT_THROW(net(source, core::ones({2, 3, 4})), core::Error);
  EXPECT_THROW(net(source, core::ones({2, 2, 5})), core::Error);
}

TEST(ParameterVector, GoesThereAndBack) {
  core::Linear fc(2, 2);
  EXPECT_EQ(core::parameters_to_vector(fc.parameters()).sizes(), (core::Shape{6}));
  core::vector_to_parameters(core::arange(6).to_float(), fc.parameters());
  EXPECT_THAT(values(fc.weight.detach()), testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(values(fc.bias.detach()), testing::ElementsAre(4, 5));
}

}  // namespace
