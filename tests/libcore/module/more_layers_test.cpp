// Layers and losses that the golden data do not have: values, texts and errors of PyTorch 2.15.
#include "libcore/module/more_layers.h"

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

void expect_close(const Tensor& found, const NestedValues& expected) {
  EXPECT_TRUE(core::allclose(found, core::tensor(expected), {.rtol = 1e-4, .atol = 2e-6})) << found;
}

/// Ten classes, cut at 2 and 5, with weights from a simple rule.
core::AdaptiveLogSoftmaxWithLoss adaptive() {
  core::AdaptiveLogSoftmaxWithLoss loss(4, 10, {2, 5}, {.div_value = 2});
  const core::NoGradGuard no_history;
  for (const Tensor& p : loss.parameters()) {
    const Tensor count = core::arange(static_cast<double>(p.numel())).reshape(p.sizes());
    p.copy_(core::remainder(count, core::tensor(7.0)) * 0.25 - 0.5);
  }
  return loss;
}
const Tensor kRows = core::tensor({{1.0, 2.0, 3.0, 4.0}, {-1.0, 0.0, 1.0, 2.0}, {0.5, 0.5, -0.5, -0.5}});
const Tensor kTargets = core::tensor({0, 3, 9});

TEST(AdaptiveLogSoftmax, LossAndItsGradients) {
  auto loss = adaptive();
  const auto [output, value] = loss(kRows, kTargets);
  expect_close(output, {-3.542467, -1.696311, -2.442827});
  expect_close(value, 2.560535);
  value.backward();
  expect_close(loss.head.weight.grad()[0], {-0.420813, -0.630957, -0.873931, -1.084076});
  expect_close(loss.parameter("tail.1.1.weight").grad(),
               {{-0.042140}, {-0.037188}, {-0.032818}, {-0.028962}, {0.141108}});
}

TEST(AdaptiveLogSoftmax, AllProbabilitiesAndTheBest) {
  auto loss = adaptive();
  expect_close(loss.log_prob(kRows)[1], {-1.076973, -2.576973, -1.946311, -1.696311, -1.446311, -5.998085, -5.748085,
                                         -5.498085, -5.248085, -4.998085});
  EXPECT_TRUE(loss.predict(kRows).equal(core::tensor({1, 0, 1})));
  EXPECT_TRUE(loss.predict(-kRows).equal(core::tensor({0, 5, 0})));
  expect_close(loss(kRows[1], core::tensor(3)).output, -1.696311);
}

TEST(AdaptiveLogSoftmax, KeysAndText) {
  auto loss = adaptive();
  EXPECT_EQ(loss.state_dict().keys(), (std::vector<std::string>{"head.weight", "tail.0.0.weight", "tail.0.1.weight",
                                                                "tail.1.0.weight", "tail.1.1.weight"}));
  EXPECT_EQ(loss.str(),
            "AdaptiveLogSoftmaxWithLoss(\n"
            "  (head): Linear(in_features=4, out_features=4, bias=False)\n"
            "  (tail): ModuleList(\n"
            "    (0): Sequential(\n"
            "      (0): Linear(in_features=4, out_features=2, bias=False)\n"
            "      (1): Linear(in_features=2, out_features=3, bias=False)\n"
            "    )\n"
            "    (1): Sequential(\n"
            "      (0): Linear(in_features=4, out_features=1, bias=False)\n"
            "      (1): Linear(in_features=1, out_features=5, bias=False)\n"
            "    )\n"
            "  )\n"
            ")");
}

TEST(AdaptiveLogSoftmax, Errors) {
  const std::string order =
      "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is "
      "between 1 and n_classes-1";
  EXPECT_EQ(message_of([] { core::AdaptiveLogSoftmaxWithLoss(4, 10, {5, 2}); }), order);
  EXPECT_EQ(message_of([] { core::AdaptiveLogSoftmaxWithLoss(4, 10, {10}); }), order);
  EXPECT_EQ(message_of([] { core::AdaptiveLogSoftmaxWithLoss(4, 10, {}); }),
            "cutoffs should be a sequence of length larger than 0");
  auto loss = adaptive();
  EXPECT_EQ(message_of([&] {
              loss(kRows, core::tensor({0, 1}));
            }),
            "Input and target should have the same size in the batch dimension.");
  EXPECT_EQ(message_of([&] {
              loss(kRows, core::tensor({0, 1, 10}));
            }),
            "Target values should be in [0, 9], but values in range [0, 10] were found. ");
  EXPECT_EQ(message_of([&] {
              loss(kRows, core::tensor({{0, 1, 2}}));
            }),
            "0D or 1D target tensor expected, multi-target not supported");
}

Tensor wave(const Shape& sizes) {
  return core::sin(core::arange(static_cast<double>(sizes.numel())) * 1.7).view(sizes);
}

TEST(FractionalMaxPool, OfPlanesWithGivenSamples) {
  const Tensor samples = core::tensor({{{0.3, 0.7}, {0.2, 0.9}}});
  const auto pooled =
      core::fractional_max_pool2d(wave({1, 2, 6, 6}), {2, 3}, {.output_size = {4, 3}, .random_samples = samples});
  EXPECT_TRUE(pooled.indices.flatten().equal(
      core::tensor({1, 1, 5, 12, 19, 23, 19, 27, 23, 30, 27, 34, 2, 2, 9, 13, 13, 9, 13, 13, 17, 24, 31, 35})));
  EXPECT_TRUE(pooled.values[0][0].flatten().equal(
      core::index_select(wave({1, 2, 6, 6})[0][0].flatten(), 0, pooled.indices[0][0].flatten())));
}

TEST(FractionalMaxPool, OfVolumesWithGivenSamples) {
  const Tensor samples = core::tensor({{{0.3, 0.7, 0.1}}});
  const auto pooled =
      core::fractional_max_pool3d(wave({1, 1, 6, 6, 6}), {2}, {.output_size = {3, 4, 2}, .random_samples = samples});
  EXPECT_TRUE(pooled.indices.flatten().equal(core::tensor(
      {1, 5, 12, 23, 60, 23, 60, 71, 108, 119, 90, 130, 97, 130, 97, 101, 145, 149, 193, 160, 204, 208, 204, 208})));
}

TEST(FractionalMaxPool, DrawsAsPyTorch) {
  core::manual_seed(0);
  const core::FractionalMaxPool2d pool({2}, {.output_ratio = {0.5}});
  expect_close(pool.forward(wave({1, 2, 6, 6}))[0][0],
               {{0.991665, 0.859162, 0.798487}, {0.999793, 0.529083, 0.985601}, {0.670229, 0.940428, 0.949405}});
  expect_close(core::rand({1}), {0.307423});
  EXPECT_EQ(core::fractional_max_pool2d(wave({2, 6, 6}), {2}, {.output_ratio = {0.5, 0.7}}).values.sizes(),
            (Shape{2, 3, 4}));
  const Tensor x = wave({1, 2, 6, 6}).requires_grad_();
  EXPECT_EQ(pool.forward(x).grad_fn_name(), "FractionalMaxPool2DBackward0");
  EXPECT_EQ(pool.str(), "FractionalMaxPool2d()");
}

TEST(FractionalMaxPool, Errors) {
  const Tensor x = core::ones({1, 1, 5, 5});
  EXPECT_EQ(message_of([&] { core::fractional_max_pool2d(x, {2}, {.output_size = {5}}); }),
            "fractional_max_pool2d(): pool height 2 too large relative to input height 5");
  EXPECT_EQ(message_of([&] {
              core::fractional_max_pool3d(core::ones({1, 1, 4, 4, 4}), {2}, {.output_size = {4}});
            }),
            "fractional_max_pool3d_out(): pool time 2 too large relative to input time 4");
  EXPECT_EQ(message_of([&] { core::fractional_max_pool2d(x, {2}, {}); }),
            "fractional_max_pool2d requires specifying either an output_size or an output_ratio");
  EXPECT_EQ(message_of([] { core::FractionalMaxPool2d({2}, {}); }),
            "FractionalMaxPool2d requires specifying either an output size, or a pooling ratio");
  EXPECT_EQ(message_of([] { core::FractionalMaxPool2d({2}, {.output_size = {2}, .output_ratio = {0.5}}); }),
            "only one of output_size and output_ratio may be specified");
  EXPECT_EQ(message_of([] { core::FractionalMaxPool2d({2}, {.output_ratio = {1.5}}); }),
            "output_ratio must be between 0 and 1 (got 1.5)");
}

const Tensor kAnchor = core::tensor({{1.0, 2.0}, {3.0, 4.0}}), kNear = core::tensor({{1.0, 1.0}, {0.0, 0.0}}),
             kFar = core::tensor({{2.0, 2.0}, {3.0, 5.0}});

TEST(TripletMarginWithDistance, Values) {
  expect_close(core::triplet_margin_with_distance_loss(kAnchor, kNear, kFar), 3.0);
  core::TripletMarginWithDistanceLoss city(
      [](const Tensor& a, const Tensor& b) { return (a - b).abs().sum(Shape{-1}); },
      {.margin = 2, .swap = true, .reduction = core::Reduction::none});
  expect_close(city(kAnchor, kNear, kFar), {2.0, 8.0});
  EXPECT_EQ(city.str(), "TripletMarginWithDistanceLoss()");
  EXPECT_EQ(core::TripletMarginWithDistanceLoss().str(),
            "TripletMarginWithDistanceLoss(\n  (distance_function): PairwiseDistance()\n)");
}

TEST(TripletMarginWithDistance, Errors) {
  EXPECT_EQ(message_of([] { core::triplet_margin_with_distance_loss(kAnchor, kNear, kFar, {}, {.margin = -1}); }),
            "margin must be greater than 0, got -1.0");
  EXPECT_EQ(message_of([] { core::TripletMarginWithDistanceLoss({.margin = 0}); }),
            "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got 0.0 instead");
  EXPECT_EQ(message_of([] { core::triplet_margin_with_distance_loss(kAnchor, kNear[0], kFar); }),
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            "anchor 2D, positive 1D, and negative 2D inputs");
}

TEST(Upsampling, ByNameAsInOlderPrograms) {
  const Tensor x = core::arange(4.0).view({1, 1, 2, 2});
  core::UpsamplingBilinear2d bilinear({.scale_factor = {2}});
  expect_close(bilinear(x)[0][0][1], {0.666667, 1.0, 1.333333, 1.666667});
  core::UpsamplingNearest2d nearest({.size = {3}});
  expect_close(nearest(x)[0][0], {{0.0, 0.0, 1.0}, {0.0, 0.0, 1.0}, {2.0, 2.0, 3.0}});
  EXPECT_EQ(bilinear.str(), "UpsamplingBilinear2d(scale_factor=2.0, mode='bilinear')");
  EXPECT_EQ(core::UpsamplingNearest2d({.scale_factor = {2}}).str(),
            "UpsamplingNearest2d(scale_factor=2.0, mode='nearest')");
  EXPECT_EQ(core::UpsamplingBilinear2d({.size = {3, 4}}).str(), "UpsamplingBilinear2d(size=(3, 4), mode='bilinear')");
}

}  // namespace
