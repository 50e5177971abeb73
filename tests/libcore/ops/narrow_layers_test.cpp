// Products, convolutions and recurrent layers of 16 bits: f64's results for the same numbers, rounded once.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/module/recurrent.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/recurrent.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/libcore/ops/op_test.h"

namespace {

using core::DType;
using core::Tensor;

class NarrowLayers : public ::testing::TestWithParam<DType> {
 protected:
  Tensor randn(const core::Shape& sizes) const { return core::randn(sizes).to(GetParam()); }
  static Tensor exact(const Tensor& x) { return x.detach().to(DType::f64); }
  /// Half a unit in the last place of a rounding, and what f32 sums of `terms` numbers about 1 may be off.
  void expect_rounded(const Tensor& got, const Tensor& wanted, double terms) const {
    EXPECT_EQ(got.dtype(), GetParam());
    const double unit = GetParam() == DType::f16 ? 0x1p-11 : 0x1p-8;
    const Tensor room = wanted.abs() * (1.01 * unit) + (terms * 1e-7 + 1e-6);
    EXPECT_TRUE(((exact(got) - wanted).abs() <= room).all().item<bool>())
        << (exact(got) - wanted).abs().max().item<double>();
  }
};

TEST_P(NarrowLayers, LinearOfFewAndManyRows) {
  for (const auto& [n, k] : {std::pair{64, 64}, {300, 333}, {17, 5000}, {1031, 65}, {9, 7}}) {
    const Tensor w = randn({n, k}), bias = randn({n});
    for (const std::int64_t m : {1, 2, 3, 4, 7, 11, 12, 40}) {
      const Tensor x = randn({m, k});
      expect_rounded(core::linear(x, w, bias), core::linear(exact(x), exact(w), exact(bias)), k);
      expect_rounded(core::matmul(x, w.t()), core::matmul(exact(x), exact(w).t()), k);
      expect_rounded(core::matmul(x.t().contiguous().t(), w.t()), core::matmul(exact(x), exact(w).t()), k);
    }
  }
}

TEST_P(NarrowLayers, ProductsOverNoElementsAreZero) {
  const Tensor x = randn({3, 17, 0}), w = randn({32, 0}), bias = randn({32});
  EXPECT_TRUE(core::matmul(x, w.t()).equal(core::zeros({3, 17, 32}, {.dtype = GetParam()})));
  EXPECT_TRUE(core::matmul(x, w[0]).equal(core::zeros({3, 17}, {.dtype = GetParam()})));
  EXPECT_TRUE(core::linear(x, w, bias).equal(bias.expand({3, 17, 32})));
}

TEST_P(NarrowLayers, WhatIsAddedZeroTimesMayBeNaN) {
  const Tensor c = core::full({2, 5, 4}, test::kNan, {.dtype = GetParam()}), a = randn({2, 5, 3}), b = randn({2, 3, 4});
  const Tensor start = c.clone().requires_grad_(), sums = core::baddbmm(start, a, b, 0);
  EXPECT_TRUE(sums.equal(core::bmm(a, b)));
  sums.sum().backward();
  EXPECT_TRUE(start.grad().equal(core::zeros_like(c)));
  EXPECT_TRUE(core::addmm(c[0], a[0], b[0], 0).equal(core::mm(a[0], b[0])));
  EXPECT_TRUE(core::addmv(c[0].select(1, 0), a[0], b[0].select(1, 0), 0).equal(core::mv(a[0], b[0].select(1, 0))));
}

TEST_P(NarrowLayers, ProductsOfPartsAndBatches) {
  const Tensor a = randn({20, 90}).slice(1, 3, 43), b = randn({40, 70}).slice(1, 5, 55), c = randn({20, 50});
  expect_rounded(core::matmul(a, b), core::matmul(exact(a), exact(b)), 40);
  expect_rounded(core::addmm(c, a, b), core::addmm(exact(c), exact(a), exact(b)), 40);
  const Tensor many = randn({3, 6, 5, 40}).select(2, 1), others = randn({3, 40, 30});  // rows far apart
  expect_rounded(core::bmm(many, others), core::bmm(exact(many), exact(others)), 40);
  const Tensor turned = randn({3, 30, 40}).transpose(1, 2);
  expect_rounded(core::bmm(many, turned), core::bmm(exact(many), exact(turned)), 40);
}

/// Through the first column of the kernel no output sees a pixel: its gradient is 0, whatever memory held before.
TEST_P(NarrowLayers, TapsThatSeePaddingAloneGetNoGradient) {
  for (const std::int64_t channels : {8, 40}) {
    const Tensor x = randn({2, channels, 5, 2}), w = randn({33, channels, 3, 3}).requires_grad_();
    const core::Conv2dOptions options{.stride = {1, 3}, .padding = {0, 1}, .dilation = {2, 1}};
    const Tensor loud = randn({33, 64, 3, 3}).requires_grad_();  // what is in memory now
    (core::conv2d(randn({2, 64, 20, 20}) * 100, loud) * 100).sum().backward();
    const Tensor y = core::conv2d(x, w, {}, options), wide = exact(w).requires_grad_();
    y.sum().backward();
    core::conv2d(exact(x), wide, {}, options).sum().backward();
    expect_rounded(w.grad(), wide.grad(), 1);
    EXPECT_TRUE(w.grad().select(3, 0).equal(core::zeros({33, channels, 3}, {.dtype = GetParam()})));
  }
}

struct Layer {
  core::Shape image, weight;
  core::Conv2dOptions options;
};

TEST_P(NarrowLayers, ConvolutionsBothWays) {
  const std::vector<Layer> layers{
      {{2, 9, 33, 31}, {40, 9, 3, 3}, {.padding = 1}},
      {{2, 8, 6, 5}, {27, 8, 1, 1}, {}},  // this one and the next four are wrong by some of oneDNN's kernels
      {{2, 8, 12, 10}, {27, 8, 1, 1}, {.stride = 2}},
      {{1, 33, 10, 7}, {42, 33, 2, 4}, {.stride = {1, 2}, .padding = 1, .dilation = {2, 1}}},
      {{2, 34, 10, 11}, {8, 34, 1, 4}, {.stride = 3}},
      {{3, 40, 6, 6}, {9, 40, 1, 1}, {.stride = 3, .dilation = {2, 3}}},
      {{2, 40, 15, 13}, {24, 40, 1, 1}, {}},
      {{2, 40, 15, 14}, {24, 40, 1, 1}, {.stride = 2}},
      {{2, 40, 15, 14}, {24, 40, 1, 1}, {.stride = {3, 1}}},
      {{2, 40, 15, 14}, {24, 40, 1, 1}, {.stride = 2, .padding = 1}},
      {{1, 33, 20, 20}, {33, 1, 3, 3}, {.padding = 1, .groups = 33}},
      {{3, 130, 70, 70}, {24, 130, 1, 1}, {}},                               // images that are convolved one by one
      {{1, 20, 9, 33}, {24, 20, 3, 3}, {.padding = 1, .dilation = {2, 1}}},  // and again wrong by oneDNN's
      {{2, 23, 8, 30}, {23, 1, 1, 1}, {.stride = {3, 1}, .dilation = {2, 1}, .groups = 23}},
  };
  for (const Layer& layer : layers) {
    const Tensor x = randn(layer.image).requires_grad_(), w = (randn(layer.weight) * 0.25).detach().requires_grad_();
    const Tensor bias = randn({layer.weight[0]}).requires_grad_();
    const Tensor wide_x = exact(x).requires_grad_(), wide_w = exact(w).requires_grad_();
    const Tensor wide_bias = exact(bias).requires_grad_();
    const Tensor y = core::conv2d(x, w, bias, layer.options);
    const Tensor wanted = core::conv2d(wide_x, wide_w, wide_bias, layer.options);
    const double terms = static_cast<double>(w[0].numel()), pixels = static_cast<double>(y.numel());
    expect_rounded(y, wanted.detach(), terms);
    {
      const core::NoGradGuard no_grad;
      expect_rounded(core::conv2d(x, w, bias, layer.options), wanted.detach(), terms);
    }
    const Tensor grad = randn(y.sizes());
    y.backward(grad);
    wanted.backward(exact(grad));
    expect_rounded(x.grad(), wide_x.grad(), static_cast<double>(w.numel()));
    expect_rounded(w.grad(), wide_w.grad(), pixels);
  }
}

/// Tensors are made where the layer is.
TEST_P(NarrowLayers, LstmBesideAnotherDefaultDevice) {
  core::LSTM lstm(20, 24, {.dtype = GetParam()});
  const Tensor x = randn({3, 2, 20});
  core::set_default_device(core::DeviceType::meta);
  const auto [y, state] = lstm(x);
  y.sum().backward();
  core::set_default_device(core::Device());
  EXPECT_TRUE(y.device().is_cpu());
  EXPECT_TRUE(lstm["weight_hh_l0"].grad().isfinite().all().item<bool>());
}

/// A weight that was brought into another order is so again when it has changed.
TEST_P(NarrowLayers, ConvolutionSeesAWeightThatChanges) {
  const core::NoGradGuard no_grad;
  const Tensor x = randn({2, 32, 9, 9}), w = randn({32, 32, 3, 3});
  const Tensor first = core::conv2d(x, w, {}, {.padding = 1}).clone();
  EXPECT_TRUE(core::conv2d(x, w, {}, {.padding = 1}).equal(first));
  w.mul_(2);
  EXPECT_TRUE(core::conv2d(x, w, {}, {.padding = 1}).equal(first * 2));
  w.slice(0, 0, 16).zero_();
  EXPECT_TRUE(core::conv2d(x, w, {}, {.padding = 1}).slice(1, 0, 16).equal(core::zeros_like(first.slice(1, 0, 16))));
}

/// Steps of a layer, which share what is made of the weights once, are those of a cell.
TEST_P(NarrowLayers, RecurrentLayersAreTheirSteps) {
  const Tensor x = randn({5, 12, 6}), h = randn({12, 10}), c = randn({12, 10});
  const auto small = [&](const core::Shape& sizes) { return (randn(sizes) * 0.25).detach().requires_grad_(); };
  for (const core::RecurrentKind kind :
       {core::RecurrentKind::tanh, core::RecurrentKind::gru, core::RecurrentKind::lstm}) {
    if (kind == core::RecurrentKind::lstm && GetParam() == DType::bf16) continue;  // whose states are f32
    const std::int64_t gates = kind == core::RecurrentKind::lstm ? 40 : kind == core::RecurrentKind::gru ? 30 : 10;
    const core::RecurrentWeights w{small({gates, 6}), small({gates, 10}), small({gates}), small({gates}), {}};
    const Tensor layer = core::recurrent_layer(kind, x, {h, c}, w, false).output;
    core::RecurrentState state{h, c};
    std::vector<Tensor> steps;
    for (std::int64_t t = 0; t < x.size(0); ++t) {
      const Tensor input = x.select(0, t);
      if (kind == core::RecurrentKind::lstm) state = core::lstm_cell(input, state, w);
      if (kind == core::RecurrentKind::gru) state.h = core::gru_cell(input, state.h, w);
      if (kind == core::RecurrentKind::tanh) state.h = core::rnn_tanh_cell(input, state.h, w);
      steps.push_back(state.h);
    }
    EXPECT_TRUE(layer.equal(core::stack(steps)));
    layer.sum().backward();
    const Tensor together = w.w_hh.grad().clone();
    EXPECT_EQ(together.dtype(), GetParam());
    w.w_hh.set_grad({});
    core::stack(steps).sum().backward();
    // Whose sums over the steps are rounded at each of them.
    EXPECT_TRUE(core::allclose(exact(together), exact(w.w_hh.grad()), {.rtol = 0.05, .atol = 0.05}));
  }
}

/// PyTorch's layer of bf16 has gates and c in f32, and rounds h at every step: within a few roundings of f64's.
TEST(Bf16Lstm, IsNearDouble) {
  const auto exact = [](const Tensor& t) { return t.defined() ? t.detach().to(DType::f64).requires_grad_() : t; };
  const auto near = [&](const Tensor& got, const Tensor& wanted) {
    EXPECT_EQ(got.dtype(), DType::bf16);
    const double off = (got.to(DType::f64) - wanted).abs().max().item<double>();
    EXPECT_LE(off, 0.02 * (wanted.abs().max().item<double>() + 0.1));
  };
  const struct {
    std::int64_t steps, batch, input, hidden;
    bool bias, reverse;
  } cases[] = {{7, 1, 24, 16, true, false},
               {5, 17, 40, 33, true, true},
               {9, 40, 3, 70, false, false},
               {3, 66, 64, 64, true, false}};
  for (const auto& c : cases) {
    SCOPED_TRACE(testing::Message() << c.batch << " rows of " << c.hidden);
    const auto leaf = [](const core::Shape& sizes, double size) {
      return (core::randn(sizes) * size).to(DType::bf16).requires_grad_();
    };
    const double size = 0.3;
    const core::RecurrentWeights w{leaf({4 * c.hidden, c.input}, size),
                                   leaf({4 * c.hidden, c.hidden}, size),
                                   c.bias ? leaf({4 * c.hidden}, size) : Tensor(),
                                   c.bias ? leaf({4 * c.hidden}, size) : Tensor(),
                                   {}};
    const Tensor x = leaf({c.steps, c.batch, c.input}, 1), h = leaf({c.batch, c.hidden}, 0.5);
    const Tensor cell = leaf({c.batch, c.hidden}, 0.5);
    const core::RecurrentWeights exact_w{exact(w.w_ih), exact(w.w_hh), exact(w.b_ih), exact(w.b_hh), {}};
    const Tensor exact_x = exact(x), exact_h = exact(h), exact_cell = exact(cell);
    constexpr auto kLstm = core::RecurrentKind::lstm;
    const core::RecurrentLayer got = core::recurrent_layer(kLstm, x, {h, cell}, w, c.reverse);
    const core::RecurrentLayer wanted =
        core::recurrent_layer(kLstm, exact_x, {exact_h, exact_cell}, exact_w, c.reverse);
    near(got.output, wanted.output), near(got.last.h, wanted.last.h), near(got.last.c, wanted.last.c);
    const Tensor upstream = core::randn(got.output.sizes()).to(DType::bf16);
    got.output.backward(upstream);
    wanted.output.backward(upstream.to(DType::f64));
    near(x.grad(), exact_x.grad()), near(h.grad(), exact_h.grad()), near(cell.grad(), exact_cell.grad());
    near(w.w_ih.grad(), exact_w.w_ih.grad()), near(w.w_hh.grad(), exact_w.w_hh.grad());
    if (c.bias) near(w.b_ih.grad(), exact_w.b_ih.grad());
    const core::NoGradGuard no_history;
    const core::RecurrentLayer plain = core::recurrent_layer(kLstm, x, {h, cell}, w, c.reverse);
    EXPECT_TRUE(plain.output.equal(got.output));
    EXPECT_TRUE(plain.last.h.equal(got.last.h));
    EXPECT_TRUE(plain.last.c.equal(got.last.c));
  }
}

/// A state of another type is an error, in a cell and in a layer.
TEST_P(NarrowLayers, RecurrentStatesOfAnotherTypeAreRefused) {
  const Tensor x = randn({5, 12, 6}), h = core::randn({12, 10});
  const core::RecurrentWeights tanh{randn({10, 6}), randn({10, 10})}, gru{randn({30, 6}), randn({30, 10})};
  const std::string type = GetParam() == DType::f16 ? "Half" : "BFloat16";
  const auto refused = [&](const auto& function) {
    EXPECT_EQ(test::message_of(function), "mat1 and mat2 must have the same dtype, but got Float and " + type);
  };
  refused([&] { core::rnn_tanh_cell(x[0], h, tanh); });
  refused([&] { core::gru_cell(x[0], h, gru); });
  refused([&] { core::lstm_cell(x[0], {h, h}, {randn({40, 6}), randn({40, 10})}); });
  refused([&] { core::recurrent_layer(core::RecurrentKind::tanh, x, {h}, tanh, false); });
  refused([&] { core::recurrent_layer(core::RecurrentKind::gru, x, {h}, gru, false); });
}

INSTANTIATE_TEST_SUITE_P(Types, NarrowLayers, ::testing::Values(DType::f16, DType::bf16),
                         [](const auto& type) { return std::string(core::short_name(type.param)); });

}  // namespace
