// Adam over moments that became denormal numbers has the bits of plain arithmetic, however it computes them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "libcore/module/parameter.h"
#include "libcore/optim/adam.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::Tensor;

struct Options {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false, maximize = false;
};

struct State {
  std::vector<float> p, m, v;
};

/// The step as PyTorch has it, one operation after the other.
void step_plainly(State& s, const std::vector<float>& g, const Options& o, int step) {
  const auto rate = static_cast<float>(-(o.lr / (1 - std::pow(o.beta1, step))));
  const auto correction = static_cast<float>(std::sqrt(1 - std::pow(o.beta2, step)));
  const auto weight1 = static_cast<float>(1 - o.beta1), weight2 = static_cast<float>(1 - o.beta2);
  const auto beta2 = static_cast<float>(o.beta2), eps = static_cast<float>(o.eps);
  const auto decay = static_cast<float>(o.decoupled ? 0 : o.weight_decay);
  const float shrink = o.decoupled ? static_cast<float>(1 - o.lr * o.weight_decay) : 1;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const float old = s.p[i] * shrink;
    float grad = o.maximize ? -g[i] : g[i];
    if (decay != 0) grad = std::fma(old, decay, grad);
    s.m[i] = weight1 < 0.5F ? std::fma(weight1, grad - s.m[i], s.m[i]) : std::fma(weight1 - 1, grad - s.m[i], grad);
    s.v[i] = std::fma(weight2 * grad, grad, s.v[i] * beta2);
    const float root = std::sqrt(s.v[i]) / correction;
    s.p[i] = old + rate * s.m[i] / (root + eps);
  }
}

constexpr std::size_t kCount = 16 * 40 + 5;  // whole vectors and a rest

/// Of every magnitude, more of the smallest; the sign and the digits by place.
float number(std::size_t i, int lowest, int highest) {
  const auto power = lowest + static_cast<int>(i * 7919 % static_cast<std::size_t>(highest - lowest + 1));
  const double value = std::ldexp(1 + static_cast<double>(i * 104729 % 9973) / 9973, power);
  return static_cast<float>(i % 3 == 0 ? -value : value);
}

/// Gradients at first, then hardly any, or none, so that the moments go down to denormal numbers and stay.
std::vector<float> grads_of(int step) {
  std::vector<float> grads(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const bool quiet = step > 2 && i % 5 != 0;
    grads[i] = !quiet ? number(i, -150, -40) : i % 4 == 0 ? number(i + static_cast<std::size_t>(step), -149, -140) : 0;
  }
  return grads;
}

std::uint32_t bits(float x) {
  return std::bit_cast<std::uint32_t>(x);
}

void expect_same(const Tensor& got, const std::vector<float>& expected, const char* what, int step) {
  const float* values = got.data<float>();
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(bits(values[i]), bits(expected[i])) << what << " " << i << " of step " << step << ": " << values[i];
  }
}

void expect_plain_bits(const Options& o, int denormals_at_least = 3000) {
  State state{std::vector<float>(kCount), std::vector<float>(kCount), std::vector<float>(kCount)};
  for (std::size_t i = 0; i < kCount; ++i) state.p[i] = i / 16 % 4 == 3 ? number(i, -140, -60) : number(i, -12, 1);
  core::Parameter param(core::from_values(state.p));
  core::Adam adam({param}, core::AdamOptions{.lr = o.lr,
                                             .betas = {o.beta1, o.beta2},
                                             .eps = o.eps,
                                             .weight_decay = o.weight_decay,
                                             .maximize = o.maximize,
                                             .decoupled_weight_decay = o.decoupled});
  int denormals = 0;
  for (int step = 1; step <= 60; ++step) {
    const std::vector<float> grads = grads_of(step);
    param.set_grad(core::from_values(grads));
    adam.step();
    step_plainly(state, grads, o, step);
    expect_same(param, state.p, "parameter", step);
    for (const auto& [name, tensor] : adam.state_of(param)) {
      if (name == "exp_avg") expect_same(tensor, state.m, "first moment", step);
      if (name == "exp_avg_sq") expect_same(tensor, state.v, "second moment", step);
    }
    if (testing::Test::HasFatalFailure()) return;
    for (const float m : state.m) denormals += m != 0 && std::abs(m) < 0x1p-126F ? 1 : 0;
  }
  EXPECT_GE(denormals, denormals_at_least);
}

TEST(AdamDenormals, HaveTheBitsOfPlainArithmetic) {
  expect_plain_bits({});
}
TEST(AdamDenormals, MaximizeToo) {
  expect_plain_bits({.maximize = true});
}
TEST(AdamDenormals, WithAnyKindOfDecay) {
  expect_plain_bits({.weight_decay = 0.01, .decoupled = true});
  expect_plain_bits({.weight_decay = 0.01}, 0);
}
/// First moments of a few units of 2^-149, which lose less than half a unit a step and stay, and of some more, whose
/// blocks have to be computed; the second ones are ordinary numbers, or small, or none.
void expect_plain_bits_at_rest(const Options& o) {
  State state{std::vector<float>(kCount), std::vector<float>(kCount), std::vector<float>(kCount)};
  core::Parameter param(core::zeros({static_cast<std::int64_t>(kCount)}));
  core::Adam adam({param}, core::AdamOptions{.lr = o.lr, .betas = {o.beta1, o.beta2}, .maximize = o.maximize});
  param.set_grad(core::zeros_like(param));
  adam.step();
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto block = static_cast<int>(i / 16);
    const int most = block % 3 == 0 ? 4 : block % 3 == 1 ? 6 : 40;
    const double units = static_cast<double>(i * 7919 % static_cast<std::size_t>(most + 1));
    state.m[i] = static_cast<float>(std::ldexp(i % 4 == 0 ? -units : units, -149));
    if (units == 0 && block % 5 == 4) state.m[i] = -0.0F;
    state.v[i] = block % 7 == 6 && i % 3 == 0 ? number(i, -149, -120) : i % 11 == 0 ? 0 : number(3 * i + 1, -40, -20);
    state.v[i] = std::abs(state.v[i]);
    state.p[i] = block % 13 == 12 && i % 5 == 0 ? number(i, -149, -140) : number(i, -12, 1);
  }
  param.detach().copy_(core::from_values(state.p));
  for (const auto& [name, tensor] : adam.state_of(param)) {
    if (name == "exp_avg") tensor.copy_(core::from_values(state.m));
    if (name == "exp_avg_sq") tensor.copy_(core::from_values(state.v));
  }
  std::vector<float> grads(kCount);
  for (std::size_t i = 0; i < kCount; ++i) grads[i] = i % 9 == 0 ? -0.0F : i / 16 % 17 == 16 && i % 7 == 0 ? 1e-3F : 0;
  for (int step = 2; step <= 40; ++step) {
    param.set_grad(core::from_values(grads));
    adam.step();
    step_plainly(state, grads, o, step);
    expect_same(param, state.p, "parameter", step);
    for (const auto& [name, tensor] : adam.state_of(param)) {
      if (name == "exp_avg") expect_same(tensor, state.m, "first moment", step);
      if (name == "exp_avg_sq") expect_same(tensor, state.v, "second moment", step);
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(AdamDenormals, HaveTheBitsOfPlainArithmeticAtRest) {
  expect_plain_bits_at_rest({});
  expect_plain_bits_at_rest({.maximize = true});
  expect_plain_bits_at_rest({.beta1 = 0.95});
  expect_plain_bits_at_rest({.beta1 = 0.75});
}

/// A step of nothing still adds a zero, whose sign is the moment's: -0 + 0 is 0.
TEST(AdamDenormals, KeepTheSignOfZeroAtARateOfZero) {
  core::Parameter param(core::zeros({16}));
  core::Adam adam({param}, core::AdamOptions{.lr = 0});
  param.set_grad(core::zeros({16}));
  adam.step();
  for (const auto& [name, tensor] : adam.state_of(param)) {
    if (name == "exp_avg") tensor.fill_(-0x1p-140);
  }
  param.detach().fill_(-0.0);
  adam.step();
  for (int i = 0; i < 16; ++i) EXPECT_EQ(bits(param.data<float>()[i]), 0U);
}

TEST(AdamDenormals, WithNumbersThatNeedEveryDigit) {
  expect_plain_bits({.lr = 3e-2, .beta1 = 0.98, .beta2 = 0.9});
  expect_plain_bits({.beta1 = 0.999, .eps = 1e-30});  // sums of more digits than f64 has: one by one
  expect_plain_bits({.beta1 = 0.3});
}

}  // namespace
