// Convolutions of images in ordinary order that are computed as they lie, beside the same in double.
#include "libcore/backend/image_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/threads.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/blocked_layout.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::Conv2dOptions;
using core::Shape;
using core::Tensor;
using core::blocked::is_blocked;

/// One convolution.
struct Layer {
  Shape image, weight;
  Conv2dOptions options;
  bool has_bias = false;

  std::string text() const {
    std::string all;
    for (const Shape& sizes : {image, weight}) {
      for (const std::int64_t size : sizes) all += std::to_string(size) + " ";
    }
    return all + "stride " + std::to_string(options.stride.h()) + " " + std::to_string(options.stride.w()) +
           " groups " + std::to_string(options.groups);
  }
};

/// Within `tolerance` of the largest number; NaN is within nothing.
void expect_close(const Tensor& found, const Tensor& wanted, double tolerance, const std::string& what) {
  ASSERT_EQ(found.sizes(), wanted.sizes()) << what;
  const std::vector<double> a = found.to(core::DType::f64).to_vector<double>(), b = wanted.to_vector<double>();
  double largest = 1, worst = 0;
  for (const double value : b) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::isnan(a[i]) ? 1e30 : std::max(worst, std::abs(a[i] - b[i]));
  EXPECT_LE(worst, tolerance * largest) << what;
}

/// Output and gradients.
std::vector<Tensor> passes(const Layer& layer, core::DType type, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.defined() ? input.to(type).clone() : Tensor());
  for (std::size_t i = 0; i < 3; ++i) {
    if (leaves[i].defined()) leaves[i].requires_grad_();
  }
  const Tensor y = core::conv2d(leaves[0], leaves[1], leaves[2], layer.options);
  y.backward(leaves[3]);
  std::vector<Tensor> found{y.detach(), leaves[0].grad(), leaves[1].grad()};
  if (leaves[2].defined()) found.push_back(leaves[2].grad());
  return found;
}

void expect_right(const Layer& layer, core::DType type, double tolerance) {
  std::vector<Tensor> inputs{core::randn(layer.image), core::randn(layer.weight), Tensor()};
  if (layer.has_bias) inputs[2] = core::randn({layer.weight[0]});
  for (Tensor& input : inputs) {
    if (input.defined()) input = input.to(type);
  }
  const core::NoGradGuard no_grad;
  const Tensor y = core::conv2d(inputs[0], inputs[1], inputs[2], layer.options);
  inputs.push_back(core::randn(y.sizes()).to(type));
  std::vector<Tensor> found, wanted;
  {
    const core::EnableGradGuard grad;
    found = passes(layer, type, inputs);
    wanted = passes(layer, core::DType::f64, inputs);
  }
  expect_close(y, wanted[0], tolerance, "without gradients: " + layer.text());
  for (std::size_t i = 0; i < found.size(); ++i) {
    expect_close(found[i], wanted[i], tolerance, "result " + std::to_string(i) + ": " + layer.text());
  }
}

/// Layers at random that are computed so, until `visit` has seen `count`.
template <class Visit>
void for_random_layers(int count, Visit visit) {
  std::mt19937 generator(5);
  const auto any = [&](int least, int most) {
    return static_cast<std::int64_t>(std::uniform_int_distribution<int>(least, most)(generator));
  };
  for (int i = 0; i < count; ++i) {
    const std::int64_t h = any(32, 44), w = any(32, 60), stride_h = any(1, 2), stride_w = any(1, 2);
    Layer layer;
    layer.has_bias = any(0, 1) == 1;
    layer.options.stride = {stride_h, stride_w};
    if (i % 3 == 0) {  // a product
      layer.image = {any(1, 3), any(1, 70), h, w};
      layer.weight = {any(1, 70), layer.image[1], 1, 1};
    } else {
      const std::int64_t channels = any(2, 20), inputs = i % 3 == 1 ? 1 : any(1, 3);
      layer.options.padding = {any(0, 3), any(0, 3)};
      layer.options.dilation = {any(1, 3), any(1, 3)};
      layer.options.groups = i % 3 == 1 ? channels : 1;
      layer.image = {any(1, 3), layer.options.groups * inputs, h, w};
      layer.weight = {i % 3 == 1 ? channels : any(1, 11), inputs, any(1, 4), any(2, 5)};
    }
    visit(layer);
  }
}

/// Layers of few channels over many images, which AVX-512 computes with an image in each lane.
template <class Visit>
void for_lanes_of_images(int count, Visit visit) {
  std::mt19937 generator(7);
  const auto any = [&](int least, int most) {
    return static_cast<std::int64_t>(std::uniform_int_distribution<int>(least, most)(generator));
  };
  for (int i = 0; i < count; ++i) {
    Layer layer;
    layer.has_bias = any(0, 1) == 1;
    const std::int64_t kernel_h = any(1, 6), kernel_w = any(2, 7);
    layer.options.padding = {any(0, kernel_h / 2 + i % 2), any(0, kernel_w / 2 + i % 2)};
    layer.image = {16 * any(1, 3), i % 3 == 0 ? any(1, 3) : any(4, 8), any(kernel_h, 20), any(kernel_w, 20)};
    layer.weight = {any(1, 19), layer.image[1], kernel_h, kernel_w};
    visit(layer);
  }
}

/// Whether the results of passes(), but for the bias, see number `operand` of what these are given.
constexpr bool kSees[3][4] = {{true, true, false, false}, {false, true, false, true}, {true, false, false, true}};

/// Image, weight and gradient of the output, one after the other with a number that is not finite.
void expect_infinity_where_seen(const Layer& layer, std::int64_t at) {
  std::vector<Tensor> inputs{core::randn(layer.image), core::randn(layer.weight), Tensor()};
  inputs.push_back(core::randn(core::conv2d(inputs[0], inputs[1], {}, layer.options).sizes()));
  for (const std::size_t operand : {0, 1, 3}) {
    std::vector<Tensor> some = inputs, marked;
    for (const Tensor& input : inputs) marked.push_back(input.defined() ? core::ones_like(input) : Tensor());
    some[operand] = inputs[operand].clone();
    some[operand].view({-1})[at % some[operand].numel()].fill_(std::numeric_limits<double>::infinity());
    marked[operand] = some[operand].isinf();
    const std::vector<Tensor> found = passes(layer, core::DType::f32, some);
    const std::vector<Tensor> seen = passes(layer, core::DType::f64, marked);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Tensor wanted = kSees[i][operand] ? seen[i] == 0 : core::ones_like(seen[i]) == 1;
      EXPECT_TRUE(found[i].isfinite().equal(wanted)) << "result " << i << " of " << operand << ": " << layer.text();
    }
  }
}

struct ImageOrder : testing::Test {
  ImageOrder() { core::manual_seed(3); }
};

TEST_F(ImageOrder, ConvolutionsThatKeepItAreThoseOfDouble) {
  for_random_layers(200, [](const Layer& layer) {
    const core::NoGradGuard no_grad;
    const Tensor y = core::conv2d(core::randn(layer.image), core::randn(layer.weight), {}, layer.options);
    EXPECT_FALSE(is_blocked(y)) << layer.text();
    expect_right(layer, core::DType::f32, 2e-5);
  });
}

TEST_F(ImageOrder, PlanesOf16BitsAreRoundedOnce) {
  for_random_layers(60, [](const Layer& layer) {
    if (layer.weight[3] == 1) return;
    expect_right(layer, core::DType::bf16, 1.01 / 256);
    expect_right(layer, core::DType::f16, 1.01 / 2048);
  });
}

TEST_F(ImageOrder, WhatIsNotFiniteReachesWhatSeesItAlone) {
  std::int64_t at = 0;
  for_random_layers(60, [&](const Layer& layer) { expect_infinity_where_seen(layer, at += 977); });
}

TEST_F(ImageOrder, ThreadsDoNotChangePlanes) {
  const core::NoGradGuard no_grad;
  const Tensor x = core::randn({4, 24, 40, 40}), weight = core::randn({24, 1, 3, 3});
  core::set_num_threads(1);
  const Tensor alone = core::conv2d(x, weight, {}, {.padding = 1, .groups = 24});
  core::set_num_threads(2);
  const Tensor shared = core::conv2d(x, weight, {}, {.padding = 1, .groups = 24});
  core::set_num_threads(1);
  EXPECT_EQ(alone.to_vector<float>(), shared.to_vector<float>());
}

TEST_F(ImageOrder, ImagesSideBySideAreThoseOfDouble) {
  for_lanes_of_images(60, [](const Layer& layer) { expect_right(layer, core::DType::f32, 2e-5); });
}

TEST_F(ImageOrder, WhatIsNotFiniteInAnImageReachesWhatSeesItAlone) {
  if (core::cpu::isa() < core::cpu::Isa::avx512) GTEST_SKIP() << "oneDNN multiplies borders too";
  std::int64_t at = 0;
  for_lanes_of_images(12, [&](const Layer& layer) { expect_infinity_where_seen(layer, at += 977); });
}

TEST_F(ImageOrder, ThreadsDoNotChangeImagesSideBySide) {
  if (core::cpu::isa() < core::cpu::Isa::avx512) GTEST_SKIP() << "oneDNN's sums depend on the number of threads";
  const Layer layer{{48, 6, 14, 14}, {16, 6, 5, 5}, {}, true};
  const std::vector<Tensor> inputs{core::randn(layer.image), core::randn(layer.weight), core::randn({16}),
                                   core::randn({48, 16, 10, 10})};
  core::set_num_threads(1);
  const std::vector<Tensor> alone = passes(layer, core::DType::f32, inputs);
  core::set_num_threads(3);
  const std::vector<Tensor> shared = passes(layer, core::DType::f32, inputs);
  core::set_num_threads(1);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(alone[i].to_vector<float>(), shared[i].to_vector<float>()) << "result " << i;
  }
}

TEST_F(ImageOrder, ImagesInBlocksStayThere) {
  const core::NoGradGuard no_grad;
  const Tensor blocks = core::conv2d(core::randn({2, 16, 16, 16}), core::randn({32, 16, 3, 3}), {}, {.padding = 1});
  if (!is_blocked(blocks)) GTEST_SKIP() << "this processor has no convolutions on blocks";
  EXPECT_TRUE(is_blocked(core::conv2d(blocks, core::randn({64, 32, 1, 1}))));
  EXPECT_TRUE(is_blocked(core::conv2d(blocks, core::randn({32, 1, 3, 3}), {}, {.padding = 1, .groups = 32})));
}

TEST_F(ImageOrder, NoImagesGiveNone) {
  const Tensor x = core::zeros({0, 16, 20, 20});
  EXPECT_EQ(core::conv2d(x, core::ones({8, 16, 1, 1})).sizes(), (Shape{0, 8, 20, 20}));
  EXPECT_EQ(core::conv2d(x, core::ones({16, 1, 3, 3}), {}, {.groups = 16}).sizes(), (Shape{0, 16, 18, 18}));
}

}  // namespace
