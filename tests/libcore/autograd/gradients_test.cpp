// Gradients of every operation that has a float slot against finite differences: a slot without an entry here fails.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/op_tables.h"
#include "libcore/core.h"

namespace {

using core::BinaryOp;
using core::DType;
using core::ReduceOp;
using core::Tensor;
using core::TernaryOp;
using core::UnaryOp;

using Inputs = std::span<const Tensor>;
using Function = std::function<Tensor(Inputs)>;

Tensor input(double from, double to, const core::Shape& sizes = {2, 3}) {
  return core::linspace(from, to, sizes.numel(), {.dtype = DType::f64}).view(sizes).detach().requires_grad_();
}

template <class Op>
void expect_gradients(const char* what, int op, const Function& function, const std::vector<Tensor>& inputs) {
  EXPECT_NO_THROW(EXPECT_TRUE(core::gradcheck(function, inputs))) << what << ' ' << core::name(static_cast<Op>(op));
}

struct UnaryCase {
  Tensor (*function)(const Tensor&);
  double from = -0.83, to = 0.91;  // no kinks on the way
};

std::map<UnaryOp, UnaryCase> unary_cases() {
  return {{UnaryOp::neg, {core::neg}},
          {UnaryOp::abs, {core::abs}},
          {UnaryOp::sign, {core::sign}},
          {UnaryOp::floor, {core::floor}},
          {UnaryOp::ceil, {core::ceil}},
          {UnaryOp::round, {core::round}},
          {UnaryOp::trunc, {core::trunc}},
          {UnaryOp::frac, {core::frac}},
          {UnaryOp::square, {core::square}},
          {UnaryOp::reciprocal, {core::reciprocal}},
          {UnaryOp::sqrt, {core::sqrt, 0.2, 2}},
          {UnaryOp::rsqrt, {core::rsqrt, 0.2, 2}},
          {UnaryOp::exp, {core::exp}},
          {UnaryOp::exp2, {core::exp2}},
          {UnaryOp::expm1, {core::expm1}},
          {UnaryOp::log, {core::log, 0.2, 3}},
          {UnaryOp::log2, {core::log2, 0.2, 3}},
          {UnaryOp::log10, {core::log10, 0.2, 3}},
          {UnaryOp::log1p, {core::log1p}},
          {UnaryOp::sin, {core::sin}},
          {UnaryOp::cos, {core::cos}},
          {UnaryOp::tan, {core::tan}},
          {UnaryOp::asin, {core::asin}},
          {UnaryOp::acos, {core::acos}},
          {UnaryOp::atan, {core::atan}},
          {UnaryOp::sinh, {core::sinh}},
          {UnaryOp::cosh, {core::cosh}},
          {UnaryOp::tanh, {core::tanh}},
          {UnaryOp::sigmoid, {core::sigmoid}},
          {UnaryOp::relu, {core::relu}},
          {UnaryOp::erf, {core::erf}},
          {UnaryOp::erfinv, {core::erfinv}},
          {UnaryOp::lgamma, {core::lgamma, 0.3, 4}},
          {UnaryOp::digamma, {core::digamma, 0.3, 4}},
          {UnaryOp::gelu, {[](const Tensor& x) { return core::gelu(x); }}},
          {UnaryOp::gelu_tanh, {[](const Tensor& x) { return core::gelu(x, core::GeluForm::tanh); }}},
          {UnaryOp::silu, {core::silu}},
          {UnaryOp::log_sigmoid, {core::log_sigmoid}},
          {UnaryOp::leaky_relu, {[](const Tensor& x) { return core::leaky_relu(x, 0.2); }}},
          {UnaryOp::elu, {[](const Tensor& x) { return core::elu(x, 1.3); }}},
          {UnaryOp::softplus, {[](const Tensor& x) { return core::softplus(x, 2, 1.5); }}},
          {UnaryOp::clamp, {[](const Tensor& x) { return core::clamp(x, -0.5, 0.5); }}},
          {UnaryOp::threshold, {[](const Tensor& x) { return core::threshold(x, 0.1, 2); }}},
          {UnaryOp::nan_to_num, {[](const Tensor& x) { return core::nan_to_num(x); }}}};
}

TEST(Gradients, OfEveryUnarySlot) {
  const auto& table = core::cpu_op_tables().elementwise->unary;
  auto cases = unary_cases();
  for (int i = 0; i < static_cast<int>(UnaryOp::count_); ++i) {
    auto op = static_cast<UnaryOp>(i);
    if (table.at(op, DType::f64) == nullptr || op == UnaryOp::trigamma) continue;  // trigamma is a derivative itself
    auto found = cases.find(op);
    ASSERT_NE(found, cases.end()) << core::name(op) << " has no gradient test";
    auto function = found->second.function;
    expect_gradients<UnaryOp>("unary", i, [=](Inputs in) { return function(in[0]); },
                              {input(found->second.from, found->second.to)});
  }
}

std::map<BinaryOp, Function> binary_cases() {
  return {{BinaryOp::add, [](Inputs in) { return core::add(in[0], in[1], 1.5); }},
          {BinaryOp::sub, [](Inputs in) { return core::sub(in[0], in[1], 1.5); }},
          {BinaryOp::mul, [](Inputs in) { return in[0] * in[1]; }},
          {BinaryOp::div, [](Inputs in) { return in[0] / in[1]; }},
          {BinaryOp::div_floor, [](Inputs in) { return core::div(in[0], in[1], core::Rounding::floor); }},
          {BinaryOp::div_trunc, [](Inputs in) { return core::div(in[0], in[1], core::Rounding::trunc); }},
          {BinaryOp::pow, [](Inputs in) { return core::pow(in[0], in[1]); }},
          {BinaryOp::maximum, [](Inputs in) { return core::maximum(in[0], in[1]); }},
          {BinaryOp::minimum, [](Inputs in) { return core::minimum(in[0], in[1]); }},
          {BinaryOp::atan2, [](Inputs in) { return core::atan2(in[0], in[1]); }},
          {BinaryOp::remainder, [](Inputs in) { return core::remainder(in[0], in[1]); }},
          {BinaryOp::fmod, [](Inputs in) { return core::fmod(in[0], in[1]); }}};
}

bool is_fused_backward(BinaryOp op) {
  return op >= BinaryOp::relu_backward;
}

TEST(Gradients, OfEveryBinarySlot) {
  const auto& table = core::cpu_op_tables().elementwise->binary;
  auto cases = binary_cases();
  for (int i = 0; i < static_cast<int>(BinaryOp::count_); ++i) {
    auto op = static_cast<BinaryOp>(i);
    if (table.at(op, DType::f64) == nullptr || is_fused_backward(op)) continue;
    ASSERT_TRUE(cases.contains(op)) << core::name(op) << " has no gradient test";
    // The second operand is broadcast.
    expect_gradients<BinaryOp>("binary", i, cases[op], {input(0.33, 2.9), input(0.71, 1.6, {3})});
  }
}

TEST(Gradients, OfEveryTernarySlot) {
  Tensor mask = core::tensor({{true, false, true}, {false, false, true}});
  std::map<TernaryOp, Function> cases = {
      {TernaryOp::where, [=](Inputs in) { return core::where(mask, in[0], in[1]); }},
      {TernaryOp::addcmul, [](Inputs in) { return core::addcmul(in[0], in[1], in[2], 0.7); }},
      {TernaryOp::addcdiv, [](Inputs in) { return core::addcdiv(in[0], in[1], in[2], 0.7); }},
      {TernaryOp::lerp, [](Inputs in) { return core::lerp(in[0], in[1], in[2]); }}};
  for (int i = 0; i < static_cast<int>(TernaryOp::count_); ++i) {
    ASSERT_TRUE(cases.contains(static_cast<TernaryOp>(i)));
    expect_gradients<TernaryOp>("ternary", i, cases[static_cast<TernaryOp>(i)],
                                {input(-1, 1), input(0.3, 2), input(0.6, 0.9)});
  }
}

TEST(Gradients, OfEveryReduction) {
  core::ReduceOptions rows{.dims = {1}};
  std::map<ReduceOp, Function> cases = {
      {ReduceOp::sum, [=](Inputs in) { return core::sum(in[0], rows); }},
      {ReduceOp::mean, [=](Inputs in) { return core::mean(in[0], rows); }},
      {ReduceOp::prod, [=](Inputs in) { return core::prod(in[0], rows); }},
      {ReduceOp::max, [](Inputs in) { return core::max(in[0], 1).values; }},
      {ReduceOp::min, [](Inputs in) { return core::min(in[0], 0).values; }},
      {ReduceOp::var, [](Inputs in) { return core::var(in[0], {.dims = {1}}); }},
      {ReduceOp::norm, [](Inputs in) { return core::norm(in[0], {.p = 3, .dims = {1}}); }}};
  for (auto& [op, function] : cases) {
    expect_gradients<ReduceOp>("reduction", static_cast<int>(op), function, {input(-0.9, 1.3)});
  }
}

TEST(Gradients, OfShapesProductsAndIndices) {
  Tensor index = core::tensor({2, 0, 2});
  const Function cases[] = {
      [](Inputs in) { return core::matmul(in[0], in[0].t()); },
      [](Inputs in) { return core::linear(in[0], in[0], in[0].select(1, 0)); },
      [](Inputs in) {
        return in[0].as_strided({2, 2}, {1, 2}, 1) * 2;
      },
      [](Inputs in) { return in[0].unfold(1, 2, 1) * in[0].unfold(1, 2, 1); },
      [](Inputs in) {
        return core::cat({in[0], in[0] * 2}, 1).slice(1, 1, 6, 2);
      },
      [=](Inputs in) {
        return core::index_select(in[0], 1, index) * core::index(in[0], {core::Ellipsis(), index});
      },
      [](Inputs in) { return core::cumprod(in[0], 1) + core::cumsum(in[0], 0); },
      [](Inputs in) { return core::logsumexp(in[0], {0}); },
      [](Inputs in) {
        return in[0].repeat({2, 2}).flip({0}) * 3;
      },
      [](Inputs in) {
        return core::pad_constant(in[0], {1, 2, -1, 0}, 5) * core::roll(in[0], {1}).sum();
      },
      [](Inputs in) { return core::std(in[0]) + core::norm(in[0]) + core::prod(in[0]); },
      [](Inputs in) { return core::sort(in[0], 1, true).values * core::tril(in[0]); }};
  for (const Function& function : cases) EXPECT_TRUE(core::gradcheck(function, {input(-0.9, 1.3)}));
}

TEST(Gradients, SecondDerivatives) {
  const std::function<Tensor(const Tensor&)> cases[] = {
      [](const Tensor& x) { return core::tanh(x) * core::sigmoid(x) + core::relu(x); },
      [](const Tensor& x) { return core::exp(x) / (x * x + 1); },
      [](const Tensor& x) { return core::matmul(x, x.t()).sum({1}); },
      [](const Tensor& x) { return core::norm(x, {.dims = {1}}) * core::leaky_relu(x, 0.1).select(1, 0); }};
  for (const auto& f : cases) {
    auto slope = [&](Inputs in) { return core::grad({f(in[0]).sum()}, {in[0]}, {.create_graph = true})[0]; };
    EXPECT_TRUE(core::gradcheck(slope, {input(-0.8, 1.1)}));
  }
}

}  // namespace
