// Functions of functions where no golden case reaches: forms of arguments, history of results, modules, errors.
#include "libcore/autograd/func.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libcore/autograd/autograd.h"
#include "libcore/module/activation.h"
#include "libcore/module/functional_call.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/join.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/random.h"
#include "tests/support/message_of.h"

namespace {

namespace func = core::func;
using core::NamedTensors;
using core::Tensor;
using test::message_of;

Tensor cubes(const Tensor& x) {
  return (x * x * x).sum();
}
Tensor values(std::vector<double> numbers) {
  return core::from_values(numbers);
}

TEST(Func, ResultsHaveHistoryWhereSomebodyAsksForIt) {
  const Tensor x = values({1, 2});
  EXPECT_FALSE(func::grad(cubes)(x).requires_grad());
  EXPECT_EQ(x.grad().defined(), false);
  const Tensor leaf = values({1, 2}).requires_grad_();
  const Tensor slope = func::grad(cubes)(leaf);
  slope.sum().backward();  // 6 x
  EXPECT_EQ(leaf.grad().to_vector<double>(), (std::vector<double>{6, 12}));
  const Tensor factor = values({5}).requires_grad_();
  const Tensor captured = func::grad([&](const Tensor& v) { return (v * v * factor).sum(); })(x);
  captured.sum().backward();  // 2 x, summed
  EXPECT_EQ(factor.grad().to_vector<double>(), (std::vector<double>{6}));
  const core::NoGradGuard none;
  EXPECT_FALSE(func::grad(cubes)(leaf).requires_grad());
  EXPECT_EQ(func::grad(cubes)(leaf).to_vector<double>(), (std::vector<double>{3, 12}));
}

TEST(Func, GradientsHaveTheFormOfTheirArgument) {
  const NamedTensors params = {{"w", values({1, 2})}, {"b", values({3})}};
  const auto loss = [](const NamedTensors& p, const std::vector<Tensor>& x) {
    return (p[0].second * x[0] + p[1].second * x[1]).sum();
  };
  const std::vector<Tensor> x = {values({4, 5}), values({6})};
  const NamedTensors slopes = func::grad(loss)(params, x);
  EXPECT_EQ(slopes[0].first, "w");
  EXPECT_EQ(slopes[0].second.to_vector<double>(), (std::vector<double>{4, 5}));
  EXPECT_EQ(slopes[1].second.to_vector<double>(), (std::vector<double>{12}));
  const auto [both, value] = func::grad_and_value<0, 1>(loss)(params, x);
  EXPECT_EQ(std::get<1>(both)[0].to_vector<double>(), (std::vector<double>{1, 2}));
  EXPECT_EQ(value.item<double>(), 4 + 10 + 2 * 18);
}

TEST(Func, OneArgumentMayBeATuple) {
  const auto loss = [](const std::tuple<Tensor, Tensor>& both) {
    return (std::get<0>(both) * std::get<1>(both)).sum();
  };
  const auto [first, second] = func::grad(loss)(std::tuple{values({1, 2}), values({3, 4})});
  EXPECT_EQ(first.to_vector<double>(), (std::vector<double>{3, 4}));
  EXPECT_EQ(second.to_vector<double>(), (std::vector<double>{1, 2}));
  const Tensor each = func::vmap(loss)(std::tuple{values({1, 2}), values({3, 4})});
  EXPECT_EQ(each.to_vector<double>(), (std::vector<double>{3, 8}));
}

TEST(Func, WhatDoesNotMatterHasNoSlope) {
  const Tensor x = values({1, 2});
  EXPECT_EQ(func::grad([](const Tensor&) { return core::tensor(1.0); })(x).to_vector<double>(),
            (std::vector<double>{0, 0}));
  const auto [y, along] = func::jvp([](const Tensor&) { return core::ones({3}); }, x, x);
  EXPECT_EQ(along.to_vector<double>(), (std::vector<double>{0, 0, 0}));
}

TEST(Func, Errors) {
  const Tensor x = core::ones({2, 3});
  const auto twice = [](const Tensor& v) { return v * 2; };
  EXPECT_EQ(message_of([&] { func::grad(twice)(x); }),
            "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with 2 dims. Maybe you "
            "wanted to use the vjp or jacrev APIs instead?");
  EXPECT_EQ(message_of([&] { func::grad(cubes)(x.to_long()); }),
            "only Tensors of floating point dtype can require gradients");
  EXPECT_EQ(message_of([&] { func::vjp(twice, x).second(core::ones({})); }),
            "Mismatch in shape: grad_output[0] has a shape of torch.Size([]) and output[0] has a shape of "
            "torch.Size([2, 3]).");
  EXPECT_EQ(message_of([&] { func::jvp(twice, x, core::ones({3})); }),
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            "supported. Tensor is of size [2, 3] while the given forward gradient is of size [3].");
}

TEST(FuncVmap, Errors) {
  const auto same = [](const Tensor& v) { return v; };
  const auto sum = [](const Tensor& a, const Tensor& b) { return a + b; };
  const Tensor x = core::ones({2, 3});
  EXPECT_EQ(message_of([&] { func::vmap(same)(core::tensor(1.0)); }),
            "vmap(in_dims=0, ...)(<inputs>): Got in_dim=0 for some input, but that input is a Tensor of "
            "dimensionality 0 so expected in_dim to satisfy -0 <= in_dim < 0.");
  EXPECT_EQ(message_of([&] { func::vmap(sum)(x, core::ones({3})); }),
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes [2, 3] for the "
            "mapped dimension");
  EXPECT_EQ(message_of([&] { func::vmap(same, {.out_dims = {5}})(x); }),
            "Dimension out of range (expected to be in range of [-2, 1], but got 5)");
  EXPECT_EQ(message_of([&] { func::vmap(sum, {.in_dims = {0}})(x, x); }),
            "vmap: in_dims is not compatible with the structure of `inputs`: it has 1 dimensions for 2 arguments");
  EXPECT_EQ(message_of([&] { func::vmap(same, {.in_dims = {std::nullopt}})(x); }),
            "vmap: no argument has a dimension that runs over the samples: all in_dims are none");
  EXPECT_EQ(message_of([&] {
              func::vmap(same)(core::ones({0, 2}));
            }),
            "vmap: there are no samples, so the form of the results is not known");
  const auto change = [](const Tensor& a, const Tensor& b) { return Tensor(a.add_(b)); };
  EXPECT_EQ(message_of([&] {
              func::vmap(change, {.in_dims = {std::nullopt, 0}})(core::ones({3}), x);
            }),
            "vmap: an argument that is the same for all samples (in_dims: none) was changed in place; change a copy "
            "of it");
}

TEST(FuncVmap, RandomNumbersByThreeModes) {
  const auto noisy = [](const Tensor& v) { return v + core::rand({3}); };
  const Tensor x = core::zeros({2, 3});
  EXPECT_EQ(message_of([&] { func::vmap(noisy)(x); }),
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
            "'different' randomness flags on vmap or perform the randomness operation out of vmap");
  core::manual_seed(0);
  const Tensor same = func::vmap(noisy, {.randomness = func::Randomness::same})(x);
  EXPECT_TRUE(core::equal(same[0], same[1]));
  core::manual_seed(0);
  const Tensor different = func::vmap(noisy, {.randomness = func::Randomness::different})(x);
  core::manual_seed(0);
  EXPECT_TRUE(core::equal(different, core::rand({2, 3})));  // the numbers of one draw, as in PyTorch
}

TEST(FuncVmap, SeveralResultsEachTheirDimension) {
  const auto parts = [](const Tensor& v) { return std::tuple{v * 2, std::vector<Tensor>{v.sum()}}; };
  const auto [twice, sums] = func::vmap(parts, {.in_dims = {1}, .out_dims = {1, 0}})(values({1, 2, 3, 4}).view({2, 2}));
  EXPECT_EQ(twice.to_vector<double>(), (std::vector<double>{2, 4, 6, 8}));
  EXPECT_EQ(sums[0].to_vector<double>(), (std::vector<double>{4, 6}));
}

core::Sequential small_net() {
  return core::Sequential(core::Linear(3, 4), core::Tanh(), core::Linear(4, 2));
}

/// One gradient for each sample, as a loop over the batch gives them.
TEST(FuncModule, GradientsOfEachSample) {
  core::manual_seed(0);
  core::Sequential net = small_net();
  const Tensor x = core::randn({5, 3}), y = core::randn({5, 2});
  const auto loss = [&](const NamedTensors& p, const Tensor& sample, const Tensor& target) {
    return core::mse_loss(func::functional_call(net, p, sample), target);
  };
  NamedTensors params;
  for (const auto& [name, p] : net.named_parameters()) params.emplace_back(name, p.detach());
  const NamedTensors each = func::vmap(func::grad(loss), {.in_dims = {std::nullopt, 0, 0}})(params, x, y);
  for (std::int64_t i = 0; i < 5; ++i) {
    net.zero_grad();
    core::mse_loss(net(x[i]), y[i]).backward();
    for (std::size_t k = 0; k < each.size(); ++k) {
      EXPECT_TRUE(core::allclose(each[k].second[i], net.parameters()[k].grad())) << each[k].first;
    }
  }
  EXPECT_TRUE(core::equal(net.parameters()[0], params[0].second));
  EXPECT_FALSE(net.parameters()[0].is_same(params[0].second));
}

TEST(FuncModule, TheModuleHasItsOwnAgainAlsoAfterAnError) {
  core::Linear fc(3, 2);
  const Tensor weight = fc.weight;
  const NamedTensors wrong = {{"weight", core::ones({2, 4})}};
  EXPECT_NE(message_of([&] { func::functional_call(fc, wrong, core::ones({1, 3})); }), "");
  EXPECT_TRUE(fc.weight.is_same(weight));
  const Tensor y =
      func::functional_call(fc, {{"weight", core::ones({2, 3})}, {"bias", core::zeros({2})}}, core::ones({1, 3}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3, 3}));
}

TEST(FuncModule, BuffersMayBeGivenToo) {
  core::BatchNorm1d norm(2);
  const Tensor mean = core::zeros({2});
  func::functional_call(norm, {{"running_mean", mean}}, core::ones({4, 2}));
  EXPECT_NE(mean.to_vector<float>()[0], 0);
  EXPECT_EQ(norm.buffer("running_mean").to_vector<float>()[0], 0);
}

TEST(FuncModule, StrictKeysAndTiedWeights) {
  core::Linear fc(3, 2);
  const func::FunctionalCallOptions strict{.strict = true};
  const Tensor x = core::ones({1, 3});
  EXPECT_EQ(message_of([&] {
              func::functional_call(fc, {{"weight", core::ones({2, 3})}}, strict, x);
            }),
            "Error(s) in reparametrizing for Linear:\n\tMissing key(s): 'bias'.");
  const NamedTensors more = {{"weight", core::ones({2, 3})}, {"bias", core::zeros({2})}, {"w", x}};
  EXPECT_EQ(message_of([&] { func::functional_call(fc, more, strict, x); }),
            "Error(s) in reparametrizing for Linear:\n\tUnexpected key(s): 'w'.");
  core::Linear first(2, 2, false), second(2, 2, false);
  second.weight = first.weight;
  core::Sequential tied(first, second);
  const Tensor ones = core::ones({1, 2}), twice = core::eye(2) * 2;
  EXPECT_EQ(func::functional_call(tied, {{"0.weight", twice}}, ones).to_vector<float>(), (std::vector<float>{4, 4}));
  const NamedTensors two = {{"0.weight", core::eye(2)}, {"1.weight", core::eye(2)}};
  EXPECT_EQ(message_of([&] { func::functional_call(tied, two, ones); }),
            "functional_call got multiple values for keys ['0.weight', '1.weight'], which are tied. Consider using "
            "tie_weights=False");
  EXPECT_EQ(func::functional_call(tied, {{"0.weight", twice}}, {.tie_weights = false}, ones).sizes(),
            (core::Shape{1, 2}));
}

TEST(FuncModule, EnsemblesOfStackedModels) {
  core::manual_seed(1);
  core::Sequential a = small_net(), b = small_net();
  const func::ModuleState state = func::stack_module_state({&a, &b});
  EXPECT_EQ(state.parameters[0].second.sizes(), (core::Shape{2, 4, 3}));
  EXPECT_TRUE(state.parameters[0].second.requires_grad() && state.parameters[0].second.is_leaf());
  core::Sequential base = small_net();
  const Tensor x = core::randn({5, 3});
  const auto run = [&](const NamedTensors& p, const Tensor& in) { return func::functional_call(base, p, in); };
  const Tensor y = func::vmap(run, {.in_dims = {0, std::nullopt}})(state.parameters, x);
  EXPECT_TRUE(core::allclose(y, core::stack({a(x), b(x)})));
  y.sum().backward();
  EXPECT_TRUE(state.parameters[0].second.grad().defined());
  core::Sequential quiet = small_net();
  quiet.eval();
  core::ReLU other;
  EXPECT_EQ(message_of([] { func::stack_module_state({}); }),
            "stack_module_state: Expected at least one model, got 0.");
  EXPECT_EQ(message_of([&] {
              func::stack_module_state({&a, &quiet});
            }),
            "stack_module_state: Expected all models to have the same training/eval mode.");
  EXPECT_EQ(message_of([&] {
              func::stack_module_state({&a, &other});
            }),
            "stack_module_state: Expected all models to be of the same class.");
}

TEST(Func, JacobiansAreOfRealNumbers) {
  const Tensor x = core::ones({2});
  const auto square = [](const Tensor& v) { return v * v; };
  const auto turned = [](const Tensor& v) { return core::complex(v, v); };
  EXPECT_EQ(message_of([&] { core::func::jacrev(square)(turned(x)); }),
            "jacrev: Expected all inputs to be real but received complex tensor at flattened input idx: 0");
  EXPECT_EQ(message_of([&] { core::func::jacfwd(square)(turned(x)); }),
            "jacfwd: Expected all inputs to be real but received complex tensor at flattened input idx: 0");
  EXPECT_EQ(message_of([&] { core::func::jacrev(turned)(x); }),
            "jacrev: Expected all outputs to be real but received complex tensor at flattened input idx: 0");
}

}  // namespace
