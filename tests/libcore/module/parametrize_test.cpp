// Computed parameters: keys, printed forms, values and errors of PyTorch 2.15.
#include "libcore/module/parametrize.h"

#include <gtest/gtest.h>

#include "libcore/core.h"
#include "tests/support/message_of.h"

namespace {

using core::Linear;
using core::Tensor;
using test::message_of;
using Keys = std::vector<std::string>;

void put(const Tensor& to, const core::NestedValues& values) {
  const core::NoGradGuard no_history;
  to.copy_(core::tensor(values));
}
void expect_close(const Tensor& found, const core::NestedValues& expected) {
  EXPECT_TRUE(core::allclose(found, core::tensor(expected), {.rtol = 1e-4, .atol = 2e-6})) << found;
}

Linear known() {
  Linear fc(3, 2);
  put(fc.weight, {{1.0, 2.0, 2.0}, {0.0, 3.0, 4.0}});
  put(fc.bias, {0.5, -0.5});
  return fc;
}
const Tensor kOnes = core::ones({1, 3});

TEST(WeightNorm, OlderStyle) {
  Linear fc = known();
  core::weight_norm(fc);
  EXPECT_EQ(fc.state_dict().keys(), (Keys{"bias", "weight_g", "weight_v"}));
  EXPECT_EQ(fc.str(), "Linear(in_features=3, out_features=2, bias=True)");
  expect_close(fc.parameter("weight_g"), {{3.0}, {5.0}});
  EXPECT_EQ(fc.weight.grad_fn_name(), "WeightNormInterfaceBackward0");
  put(fc.parameter("weight_g"), {{6.0}, {10.0}});
  const Tensor y = fc(kOnes);
  expect_close(y, {{10.5, 13.5}});
  y.sum().backward();
  expect_close(fc.parameter("weight_g").grad(), {{1.666667}, {1.4}});
  expect_close(fc.parameter("weight_v").grad(), {{0.888889, -0.222222, -0.222222}, {2.0, 0.32, -0.24}});
}

TEST(WeightNorm, IsRemovedWithTheValueItHas) {
  Linear fc = known();
  core::weight_norm(fc);
  put(fc.parameter("weight_g"), {{6.0}, {10.0}});
  core::remove_weight_norm(fc);
  EXPECT_EQ(fc.state_dict().keys(), (Keys{"weight", "bias"}));
  expect_close(fc.weight, {{2.0, 4.0, 4.0}, {0.0, 6.0, 8.0}});
  EXPECT_TRUE(fc.weight.is_leaf());
  EXPECT_EQ(message_of([&] { core::remove_weight_norm(fc); }),
            "weight_norm of 'weight' not found in Linear(in_features=3, out_features=2, bias=True)");
}

TEST(WeightNorm, Errors) {
  Linear fc = known();
  core::weight_norm(fc);
  EXPECT_EQ(message_of([&] { core::weight_norm(fc); }),
            "Cannot register two weight_norm hooks on the same parameter weight");
  core::ReLU relu;
  EXPECT_EQ(message_of([&] { core::weight_norm(relu); }), "'ReLU' object has no attribute 'weight'");
}

TEST(WeightNorm, OverAnotherDimensionOrAll) {
  core::ConvTranspose2d conv(2, 4, {3});
  core::weight_norm(conv, "weight", 1);
  EXPECT_EQ(conv.parameter("weight_g").sizes(), (core::Shape{1, 4, 1, 1}));
  Linear fc = known();
  core::weight_norm(fc, "weight", std::nullopt);
  EXPECT_EQ(fc.parameter("weight_g").dim(), 0);
}

TEST(WeightNorm, NewerStyle) {
  Linear fc = known();
  core::parametrizations::weight_norm(fc);
  EXPECT_EQ(fc.state_dict().keys(),
            (Keys{"bias", "parametrizations.weight.original0", "parametrizations.weight.original1"}));
  EXPECT_EQ(fc.str(),
            "ParametrizedLinear(\n"
            "  in_features=3, out_features=2, bias=True\n"
            "  (parametrizations): ModuleDict(\n"
            "    (weight): ParametrizationList(\n"
            "      (0): _WeightNorm()\n"
            "    )\n"
            "  )\n"
            ")");
  const core::StateDict::Versions versions = {
      {"", 1}, {"parametrizations", 1}, {"parametrizations.weight", 1}, {"parametrizations.weight.0", 1}};
  EXPECT_EQ(fc.state_dict().versions(), versions);
  put(fc.parameter("parametrizations.weight.original0"), {{6.0}, {10.0}});
  expect_close(fc(kOnes), {{10.5, 13.5}});
}

TEST(WeightNorm, NewerStyleLoadsTheOlder) {
  Linear older = known(), newer(3, 2);
  core::weight_norm(older);
  core::parametrizations::weight_norm(newer);
  EXPECT_EQ(newer.load_state_dict(older.state_dict()).str(), "<All keys matched successfully>");
  expect_close(newer(kOnes), {{5.5, 6.5}});
}

TEST(WeightNorm, IsTrained) {
  Linear fc = known();
  core::parametrizations::weight_norm(fc);
  core::SGD optimizer(fc.parameters(), {.lr = 0.1});
  const Tensor before = fc(kOnes).detach();
  fc(kOnes).sum().backward();
  optimizer.step();
  EXPECT_LT(fc(kOnes).sum().item<double>(), before.sum().item<double>());
}

TEST(WeightNorm, CopiesHaveTheirOwn) {
  Linear fc = known();
  core::parametrizations::weight_norm(fc);
  Linear copy = fc.clone();
  put(copy.parameter("parametrizations.weight.original0"), {{6.0}, {10.0}});
  expect_close(copy(kOnes), {{10.5, 13.5}});
  expect_close(fc(kOnes), {{5.5, 6.5}});
  Linear older = known();
  core::weight_norm(older);
  Linear second = older.clone();
  put(second.parameter("weight_g"), {{6.0}, {10.0}});
  expect_close(second(kOnes), {{10.5, 13.5}});
  expect_close(older(kOnes), {{5.5, 6.5}});
}

/// Logical devices while the object lives; declared before what is on them.
struct Devices {
  explicit Devices(int count) { core::set_logical_devices(count); }
  ~Devices() { core::set_logical_devices(0); }
};

TEST(WeightNorm, InReplicasOfDataParallel) {
  const Devices devices(2);
  Linear fc = known();
  core::weight_norm(fc);
  fc.to(core::Device("cuda:0"));
  core::DataParallel model(fc);
  const Tensor y = model(core::ones({4, 3}, {.device = core::Device("cuda:0")}));
  expect_close(y.cpu()[3], {5.5, 6.5});
  y.sum().backward();
  expect_close(fc.parameter("weight_g").grad().cpu(), {{4 * 1.666667}, {4 * 1.4}});
}

TEST(SpectralNorm, NewerStyle) {
  Linear fc = known();
  core::parametrizations::spectral_norm(fc);
  EXPECT_EQ(fc.state_dict().keys(), (Keys{"bias", "parametrizations.weight.original", "parametrizations.weight.0._u",
                                          "parametrizations.weight.0._v"}));
  put(fc.buffer("parametrizations.weight.0._u"), {1.0, 0.0});
  put(fc.buffer("parametrizations.weight.0._v"), {0.0, 1.0, 0.0});
  expect_close(fc(kOnes), {{1.370388, 0.718544}});
  expect_close(fc.buffer("parametrizations.weight.0._u"), {0.5547, 0.83205});
  expect_close(fc.buffer("parametrizations.weight.0._v"), {0.096561, 0.627646, 0.772487});
  fc.eval();
  const Tensor y = fc(kOnes);
  expect_close(y, {{1.370388, 0.718544}});
  y.sum().backward();
  expect_close(fc.parameter("parametrizations.weight.original").grad(),
               {{0.1546, 0.047476, 0.01826}, {0.144862, -0.015825, -0.059649}});
}

TEST(SpectralNorm, OlderStyle) {
  Linear fc = known();
  core::spectral_norm(fc);
  EXPECT_EQ(fc.state_dict().keys(), (Keys{"bias", "weight_orig", "weight_u", "weight_v"}));
  put(fc.buffer("weight_u"), {1.0, 0.0});
  put(fc.buffer("weight_v"), {0.0, 1.0, 0.0});
  expect_close(fc(kOnes), {{1.401263, 0.761768}});
  expect_close(fc.buffer("weight_u"), {0.540758, 0.841179});
  core::remove_spectral_norm(fc);
  EXPECT_EQ(fc.state_dict().keys(), (Keys{"weight", "bias"}));
  EXPECT_EQ(message_of([&] { core::remove_spectral_norm(fc); }),
            "spectral_norm of 'weight' not found in Linear(in_features=3, out_features=2, bias=True)");
}

TEST(SpectralNorm, DrawsAsPyTorch) {
  core::manual_seed(0);
  Linear newer(3, 2);
  core::parametrizations::spectral_norm(newer);
  expect_close(newer.buffer("parametrizations.weight.0._u"), {0.785607, -0.618725});
  expect_close(core::rand({1}), {0.681609});
  core::manual_seed(0);
  Linear older(3, 2);
  core::spectral_norm(older);
  expect_close(older.buffer("weight_v"), {0.343065, 0.712779, -0.611761});
}

TEST(SpectralNorm, OfTransposedConvolutionsByTheSecondDimension) {
  core::ConvTranspose2d conv(2, 3, {2});
  core::parametrizations::spectral_norm(conv);
  EXPECT_EQ(conv.buffer("parametrizations.weight.0._u").sizes(), (core::Shape{3}));
  EXPECT_EQ(conv.buffer("parametrizations.weight.0._v").sizes(), (core::Shape{8}));
}

TEST(SpectralNorm, Errors) {
  Linear fc = known();
  core::ReLU relu;
  EXPECT_EQ(message_of([&] { core::spectral_norm(fc, "weight", {.n_power_iterations = 0}); }),
            "Expected n_power_iterations to be positive, but got n_power_iterations=0");
  EXPECT_EQ(message_of([&] { core::parametrizations::spectral_norm(relu); }),
            "Module 'ReLU()' has no parameter or buffer with name 'weight'");
  core::spectral_norm(fc);
  EXPECT_EQ(message_of([&] { core::spectral_norm(fc); }),
            "Cannot register two spectral_norm hooks on the same parameter weight");
}

struct Symmetric : core::ModuleOf<Symmetric> {
  void members(core::Members&) override {}
  Tensor forward(const Tensor& x) const { return core::triu(x) + core::triu(x, 1).t(); }
  Tensor right_inverse(const Tensor& x) const { return core::triu(x); }
};
struct FirstRows : core::ModuleOf<FirstRows> {
  void members(core::Members&) override {}
  Tensor forward(const Tensor& x) const { return x.narrow(0, 0, 2); }
};
struct Wider : core::ModuleOf<Wider> {
  void members(core::Members&) override {}
  Tensor forward(const Tensor& x) const { return x.to_double(); }
};

TEST(Parametrize, AUsersOwn) {
  Linear fc(3, 3);
  core::parametrize::register_parametrization(fc, "weight", Symmetric());
  EXPECT_EQ(fc.state_dict().keys(), (Keys{"bias", "parametrizations.weight.original"}));
  EXPECT_TRUE(fc.weight.equal(fc.weight.t()));
  EXPECT_EQ(fc.parameter("parametrizations.weight.original")[2][0].item<double>(), 0);  // by right_inverse
  core::parametrize::register_parametrization(fc, "weight", core::Tanh());
  EXPECT_NE(fc.str().find("      (0): Symmetric()\n      (1): Tanh()\n"), std::string::npos);
  EXPECT_TRUE(core::parametrize::is_parametrized(fc));
  EXPECT_TRUE(core::parametrize::is_parametrized(fc, "weight"));
  EXPECT_FALSE(core::parametrize::is_parametrized(fc, "bias"));
}

TEST(Parametrize, Removal) {
  Linear fc(3, 3);
  const Tensor held = fc.weight;
  core::parametrize::register_parametrization(fc, "weight", Symmetric());
  core::parametrize::remove_parametrizations(fc, "weight");
  EXPECT_TRUE(fc.weight.is_same(held));  // an optimizer goes on
  EXPECT_TRUE(fc.weight.equal(fc.weight.t()));
  core::parametrize::register_parametrization(fc, "bias", core::Softplus());
  put(fc.parameter("parametrizations.bias.original"), {1.0, 2.0, 3.0});
  core::parametrize::remove_parametrizations(fc, "bias", false);
  expect_close(fc.bias, {1.0, 2.0, 3.0});
  EXPECT_EQ(fc.str(), "Linear(in_features=3, out_features=3, bias=True)");
  EXPECT_EQ(message_of([&] { core::parametrize::remove_parametrizations(fc, "weight"); }),
            "Module Linear(in_features=3, out_features=3, bias=True) does not have a parametrization on weight");
}

TEST(Parametrize, Errors) {
  Linear fc(3, 3);
  EXPECT_EQ(message_of([&] { core::parametrize::register_parametrization(fc, "foo", Symmetric()); }),
            "Module 'Linear(in_features=3, out_features=3, bias=True)' does not have a parameter, a buffer, or a "
            "parametrized element with name 'foo'");
  EXPECT_EQ(message_of([&] { core::parametrize::register_parametrization(fc, "weight", FirstRows()); }),
            "Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is "
            "enabled.\nunparametrized shape: torch.Size([3, 3])\nparametrized shape: torch.Size([2, 3])");
  EXPECT_EQ(message_of([&] { core::parametrize::register_parametrization(fc, "weight", Wider()); }),
            "Registering a parametrization may not change the dtype of the tensor, unless `unsafe` flag is "
            "enabled.\nunparametrized dtype: torch.float32\nparametrized dtype: torch.float64");
  EXPECT_FALSE(core::parametrize::is_parametrized(fc));
  EXPECT_EQ(fc.state_dict().keys(), (Keys{"weight", "bias"}));
}

TEST(Parametrize, OfALayerWhoseResultIsNoTensor) {
  core::LSTM lstm(2, 3);
  core::weight_norm(lstm, "weight_hh_l0");
  const Tensor x = core::ones({4, 1, 2});
  const Tensor before = std::get<0>(lstm(x)).detach();
  {
    const core::NoGradGuard no_history;
    lstm.parameter("weight_hh_l0_g").mul_(3);
  }
  EXPECT_FALSE(std::get<0>(lstm(x)).equal(before));
}

TEST(Parametrize, NormalisationHasGradients) {
  const Tensor v = core::arange(6.0, {.dtype = core::DType::f64}).reshape({2, 3}) * 0.3 - 0.7;
  Linear fc(3, 2, {.dtype = core::DType::f64});
  core::weight_norm(fc);
  const auto of_members = [&](std::span<const Tensor> in) {
    fc.parameter("weight_v") = in[0], fc.parameter("weight_g") = in[1];
    return fc(core::ones({1, 3}, {.dtype = core::DType::f64}));
  };
  const Tensor g = core::tensor({{1.5}, {0.7}}, {.dtype = core::DType::f64});
  EXPECT_TRUE(core::gradcheck(of_members, {v.clone().requires_grad_(), g.clone().requires_grad_()}));
  EXPECT_TRUE(core::gradgradcheck(of_members, {v.clone().requires_grad_(), g.clone().requires_grad_()}));
}

}  // namespace
