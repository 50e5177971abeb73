#include "libcore/ops/activation.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/gradcheck.h"
#include "libcore/base/error.h"
#include "libcore/base/shape.h"
#include "libcore/tensor/random.h"

namespace {

using core::Shape;
using core::Tensor;
using Inputs = std::span<const Tensor>;

Tensor leaf(const Shape& sizes) {
  return core::randn(sizes, {.dtype = core::DType::f64, .requires_grad = true});
}

/// First derivatives against finite differences, and second ones through the gradient of a weighted sum.
void check_gradients(const std::function<Tensor(Inputs)>& function, const std::vector<Tensor>& inputs) {
  EXPECT_TRUE(core::gradcheck(function, inputs));
  const auto gradient = [&](Inputs in) {
    const core::GradModeGuard history(true);     // gradcheck evaluates without
    const Tensor out = core::sin(function(in));  // so that the gradient of a linear operation depends on its input
    const Tensor upstream = core::arange(out.numel(), {.dtype = core::DType::f64}).reshape(out.sizes()) * 0.1 + 0.5;
    const std::vector<Tensor> grads = core::grad(
        {out}, {in.begin(), in.end()}, {.grad_outputs = {upstream}, .create_graph = true, .allow_unused = true});
    Tensor total;
    for (const Tensor& grad : grads) {
      if (!grad.defined()) continue;
      const Tensor part = core::sum(core::sin(grad));
      total = total.defined() ? total + part : part;
    }
    return total;
  };
  EXPECT_TRUE(core::gradcheck(gradient, inputs));
}

class NnOps : public testing::Test {
 protected:
  void SetUp() override { core::manual_seed(7); }
};

TEST_F(NnOps, ConvolutionGradients) {
  const core::Conv2dOptions options{.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2};
  check_gradients([&](Inputs in) { return core::conv2d(in[0], in[1], in[2], options); },
                  {leaf({2, 4, 5, 6}), leaf({2, 2, 3, 2}), leaf({2})});
}

TEST_F(NnOps, ConvolutionOfOneImageAndSamePadding) {
  check_gradients([&](Inputs in) { return core::conv2d(in[0], in[1], {}, {.padding = "same"}); },
                  {leaf({2, 4, 3}), leaf({3, 2, 2, 3})});
  EXPECT_EQ(core::conv2d(leaf({2, 4, 3}), leaf({3, 2, 2, 3}), {}, {.padding = "same"}).sizes(), (Shape{3, 4, 3}));
}

/// Fewer channels than a block of the blocked layout has, without history, where weights are packed.
TEST_F(NnOps, NarrowGroupsOfFewChannels) {
  const core::NoGradGuard no_history;
  for (const std::int64_t channels : {4, 8, 12, 20, 24}) {
    const Tensor x = core::randn({3, channels, 5, 6}), w = core::randn({channels, 4, 3, 2});
    const core::Conv2dOptions options{.padding = 1, .groups = channels / 4};
    const Tensor exact = core::conv2d(x.to_double(), w.to_double(), {}, options);
    EXPECT_TRUE(core::allclose(core::conv2d(x, w, {}, options).to_double(), exact, {.rtol = 1e-4, .atol = 1e-4}))
        << channels;
  }
}

/// oneDNN against the other path.
void check_against_double(const Shape& image, const Shape& weight, const core::Conv2dOptions& options) {
  SCOPED_TRACE(core::to_list(image) + " by " + core::to_list(weight));
  const Tensor x = leaf(image), w = leaf(weight), b = leaf({weight[0]});
  Tensor y = core::conv2d(x, w, b, options);
  const Tensor upstream = core::randn(y.sizes(), {.dtype = core::DType::f64});
  const std::vector<Tensor> wide = core::grad({y}, {x, w, b}, {.grad_outputs = {upstream}});
  const auto narrow = [](const Tensor& t) { return t.detach().to_float().requires_grad_(); };
  const Tensor xf = narrow(x), wf = narrow(w), bf = narrow(b);
  const Tensor yf = core::conv2d(xf, wf, bf, options);
  const std::vector<Tensor> grads = core::grad({yf}, {xf, wf, bf}, {.grad_outputs = {upstream.to_float()}});
  const core::CloseOptions close{.rtol = 1e-4, .atol = 1e-4};
  EXPECT_TRUE(core::allclose(yf.detach().to_double(), y.detach(), close));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(core::allclose(grads[i].to_double(), wide[i], close)) << i;
}

TEST_F(NnOps, ConvolutionInSinglePrecisionAgreesWithDouble) {
  for (const std::int64_t groups : {1, 2, 4}) {
    check_against_double({3, 4, 9, 8}, {8, 4 / groups, 3, 3},
                         {.stride = {1, 2}, .padding = 1, .dilation = {2, 1}, .groups = groups});
  }
}

/// Where a kernel, an image or both are one pixel, orders that differ elsewhere may be the same bytes, or may not.
TEST_F(NnOps, ConvolutionOfOnePixelAgreesWithDouble) {
  for (const auto& [in, out] :
       {std::pair<std::int64_t, std::int64_t>{1, 5}, {3, 4}, {5, 1}, {7, 9}, {16, 8}, {20, 33}}) {
    for (const std::int64_t padding : {0, 1}) {
      check_against_double({2, in, 4, 3}, {out, in, 1, 1}, {.padding = padding});
      check_against_double({2, in, 5, 4}, {out, in, 1, 1}, {.stride = 2, .padding = padding});
      check_against_double({3, in, 1, 1}, {out, in, 1, 1}, {.padding = padding});
    }
    check_against_double({2, in, 1, 1}, {out, in, 3, 3}, {.padding = 1});
  }
}

TEST_F(NnOps, MaxPoolGradients) {
  check_gradients(
      [](Inputs in) {
        return core::max_pool2d(in[0], {3, 2}, {.stride = {1, 2}, .padding = 1});
      },
      {leaf({2, 2, 4, 5})});
}

TEST_F(NnOps, MaxPoolTakesTheFirstOfEqualValues) {
  const Tensor x = core::tensor({{{1.0, 5.0, 2.0, 2.0}, {5.0, 0.0, 2.0, 2.0}}});
  const core::ValuesIndices out = core::max_pool2d_with_indices(x, 2);
  EXPECT_EQ(out.values.to_vector<float>(), (std::vector<float>{5, 2}));
  EXPECT_EQ(out.indices.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2}));
}

TEST_F(NnOps, MaxPoolCountsNanAsLargest) {
  Tensor x = core::zeros({1, 2, 300});
  x.select(2, 130).fill_(NAN);
  const Tensor y = core::max_pool2d(x, 2);
  EXPECT_TRUE(std::isnan(y.to_vector<float>()[65]));
  EXPECT_EQ(y.to_vector<float>()[64], 0);
}

TEST_F(NnOps, AveragePoolGradients) {
  check_gradients(
      [](Inputs in) {
        return core::avg_pool2d(in[0], {3, 2},
                                {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false});
      },
      {leaf({2, 2, 5, 6})});
  check_gradients([](Inputs in) { return core::adaptive_avg_pool2d(in[0], {3, std::nullopt}); }, {leaf({2, 5, 4})});
}

TEST_F(NnOps, BatchNormGradients) {
  check_gradients([](Inputs in) { return core::batch_norm(in[0], {.weight = in[1], .bias = in[2], .training = true}); },
                  {leaf({4, 2, 3}), leaf({2}), leaf({2})});
  const Tensor mean = core::rand({2}, {.dtype = core::DType::f64}), var = mean + 0.5;
  check_gradients(
      [&](Inputs in) {
        return core::batch_norm(in[0], {.running_mean = mean, .running_var = var, .weight = in[1], .bias = in[2]});
      },
      {leaf({4, 2}), leaf({2}), leaf({2})});
}

TEST_F(NnOps, BatchNormUpdatesRunningStatistics) {  // values of PyTorch
  const Tensor x = core::tensor({{1.0, 2.0}, {3.0, 6.0}, {5.0, 10.0}});
  const Tensor mean = core::zeros({2}), var = core::ones({2});
  core::batch_norm(x, {.running_mean = mean, .running_var = var, .training = true});
  EXPECT_TRUE(core::allclose(mean, core::tensor({0.3, 0.6})));
  EXPECT_TRUE(core::allclose(var, core::tensor({1.3, 2.5})));
}

TEST_F(NnOps, LayerNormGradients) {
  check_gradients(
      [](Inputs in) {
        return core::layer_norm(in[0], {2, 3}, {in[1], in[2]});
      },
      {leaf({3, 2, 3}), leaf({2, 3}), leaf({2, 3})});
}

/// More rows than are widened at once: what f32 gives, rounded once. Beside parameters of 16 bits the statistics are
/// kept in 16 bits too, as PyTorch's, so that the gradients of input and weight are others.
TEST_F(NnOps, LayerNormOfManyRowsOf16Bits) {
  for (const core::DType type : {core::float16, core::bfloat16}) {
    for (const bool f32_parameters : {false, true}) {
      const auto rounded = [type](const Tensor& t) { return t.to(type).to(core::float32); };
      const auto results = [&](bool narrow) {
        const auto as = [&](const Tensor& t) { return (narrow ? t.to(type) : t).detach().clone().requires_grad_(); };
        core::manual_seed(5);
        const Tensor x = as(rounded(core::randn({70, 130}))), upstream = rounded(core::randn({70, 130}));
        const Tensor values = rounded(core::randn({2, 130}));
        const auto parameter = [&](std::int64_t i) {
          return f32_parameters ? values.select(0, i).clone().requires_grad_() : as(values.select(0, i));
        };
        const Tensor weight = parameter(0), bias = parameter(1);
        const Tensor y = core::layer_norm(x, {130}, {weight, bias});
        y.backward(upstream.to(y.dtype()));
        std::vector<Tensor> all;
        for (const Tensor& t : {y.detach(), x.grad()}) all.push_back(rounded(t));
        for (const Tensor& t : {weight.grad(), bias.grad()}) all.push_back(f32_parameters ? t : rounded(t));
        return all;
      };
      const std::vector<Tensor> narrow = results(true), wide = results(false);
      for (std::size_t i = 0; i < wide.size(); ++i) {
        const bool of_statistics = i == 1 || i == 2;
        if (f32_parameters || !of_statistics) {
          EXPECT_TRUE(core::equal(narrow[i], wide[i])) << "result " << i;
        }
      }
    }
  }
}

TEST_F(NnOps, SoftmaxGradients) {
  check_gradients([](Inputs in) { return core::softmax(in[0], 1); }, {leaf({2, 4, 3})});
  check_gradients([](Inputs in) { return core::log_softmax(in[0], -1); }, {leaf({3, 4})});
}

TEST_F(NnOps, SoftmaxOfLargeNumbersIsFinite) {
  const Tensor y = core::softmax(core::tensor({1000.0, 1000.0, -1000.0}), 0);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0.5F, 0.5F, 0}));
}

TEST_F(NnOps, LossGradients) {
  const Tensor target = core::tensor({0, 2, 1});
  const Tensor weight = core::tensor({1.0, 2.0, 3.0}, {.dtype = core::DType::f64});
  for (const core::Reduction reduction : {core::Reduction::none, core::Reduction::mean, core::Reduction::sum}) {
    check_gradients(
        [&](Inputs in) {
          return core::cross_entropy(in[0], target, {weight, 1, reduction, 0.1});
        },
        {leaf({3, 3})});
    check_gradients(
        [&](Inputs in) {
          return core::nll_loss(in[0], target, {weight, -100, reduction});
        },
        {leaf({3, 3})});
    check_gradients([&](Inputs in) { return core::mse_loss(in[0], in[1], reduction); }, {leaf({2, 3}), leaf({2, 3})});
  }
}

/// Values of PyTorch: logits [[2,.5,-1],[0,1,3],[1,1,1]], targets [0,2,1].
TEST_F(NnOps, CrossEntropyValues) {
  const Tensor logits = core::tensor({{2.0, 0.5, -1.0}, {0.0, 1.0, 3.0}, {1.0, 1.0, 1.0}});
  const Tensor target = core::tensor({0, 2, 1});
  const Tensor weight = core::tensor({1.0, 2.0, 3.0});
  const auto loss = [&](const core::CrossEntropyOptions& o) {
    return core::cross_entropy(logits, target, o).item<double>();
  };
  EXPECT_NEAR(loss({}), 0.50325656, 1e-6);
  EXPECT_NEAR(loss({.reduction = core::Reduction::sum}), 1.50976968, 1e-6);
  EXPECT_NEAR(loss({.label_smoothing = 0.1}), 0.60881215, 1e-6);
  EXPECT_NEAR(loss({.weight = weight}), 0.49134567, 1e-6);
  EXPECT_NEAR(loss({.weight = weight, .label_smoothing = 0.1}), 0.59809232, 1e-6);
  EXPECT_NEAR(loss({.ignore_index = 1}), 0.20557868, 1e-6);
  const Tensor certain = core::tensor({{1.0, 0.0, 0.0}, {0.0, 0.0, 1.0}, {0.0, 1.0, 0.0}});
  EXPECT_NEAR(core::cross_entropy(logits, certain).item<double>(), 0.50325656, 1e-6);
}

TEST_F(NnOps, LossOfNothingButIgnoredTargetsIsNan) {
  const Tensor loss = core::cross_entropy(core::ones({2, 3}), core::tensor({1, 1}), {.ignore_index = 1});
  EXPECT_TRUE(std::isnan(loss.item<float>()));
}

TEST_F(NnOps, LossOverPixels) {
  const Tensor target = core::tensor({{{0, 1}, {2, 0}}});
  check_gradients([&](Inputs in) { return core::cross_entropy(in[0], target); }, {leaf({1, 3, 2, 2})});
}

TEST_F(NnOps, EmbeddingGradients) {
  const Tensor indices = core::tensor({{0, 2}, {2, 1}});
  check_gradients([&](Inputs in) { return core::embedding(indices, in[0]); }, {leaf({3, 2})});
  const Tensor weight = leaf({3, 2});
  core::sum(core::embedding(indices, weight, 1)).backward();
  EXPECT_EQ(weight.grad().to_vector<double>(), (std::vector<double>{1, 1, 0, 0, 2, 2}));
}

TEST_F(NnOps, DropoutKeepsTheMean) {
  const Tensor y = core::dropout(core::ones({20000}), 0.25);
  EXPECT_NEAR(core::mean(y).item<float>(), 1, 0.02);
  EXPECT_TRUE(core::equal(core::dropout(core::ones({3}), 0.5, false), core::ones({3})));
}

/// Result and gradients of an operation in single precision, against double.
void check_against_double(const std::function<Tensor(Inputs)>& function, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> single, twice;
  for (const Tensor& t : inputs) {
    single.push_back(t.detach().to_float().requires_grad_());
    twice.push_back(single.back().detach().to_double().requires_grad_());
  }
  const Tensor out = function(single), wanted = function(twice);
  const Tensor upstream = core::randn(out.sizes());
  out.backward(upstream);
  wanted.backward(upstream.to_double());
  EXPECT_TRUE(core::allclose(out.to_double(), wanted, {.rtol = 1e-5, .atol = 1e-5}));
  for (std::size_t i = 0; i < single.size(); ++i) {
    EXPECT_TRUE(core::allclose(single[i].grad().to_double(), twice[i].grad(), {.rtol = 1e-4, .atol = 1e-4})) << i;
  }
}

TEST_F(NnOps, LayerNormOfLongRowsAgreesWithDouble) {
  for (const std::int64_t length : {64, 71, 1100}) {
    check_against_double(
        [&](Inputs in) {
          return core::layer_norm(in[0] * 3 + 5, {length}, {in[1], in[2]});
        },
        {core::randn({37, length}), core::randn({length}), core::randn({length})});
  }
}

TEST_F(NnOps, GeluWithTanhAgreesWithDouble) {
  check_against_double([](Inputs in) { return core::gelu(in[0] * 4, core::GeluForm::tanh); }, {core::randn({5, 61})});
  const Tensor far = core::tensor({-300.0F, 300.0F, -12.0F, 12.0F}).requires_grad_();
  core::gelu(far, core::GeluForm::tanh).sum().backward();
  EXPECT_EQ(far.grad().to_vector<float>(), (std::vector<float>{0, 1, 0, 1}));
}

}  // namespace
