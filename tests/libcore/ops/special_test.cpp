// Special functions: values, gradients and errors of PyTorch 2.15.
#include "libcore/ops/special.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "libcore/ops/operators.h"
#include "libcore/tensor/print.h"
#include "tests/libcore/ops/op_test.h"

namespace {

using core::DType;
using core::Tensor;
using core::tensor;
using test::kInf;
using test::kNan;
using test::message_of;
namespace special = core::special;

using Numbers = std::vector<double>;

Tensor f64(const Numbers& values, bool requires_grad = false) {
  Tensor made = core::from_values(values, {.dtype = DType::f64});
  if (requires_grad) made.requires_grad_();
  return made;
}

void expect_near(const Tensor& got, const Numbers& wanted, const char* what, double apart = 0) {
  ASSERT_EQ(got.numel(), static_cast<std::int64_t>(wanted.size())) << what;
  const Numbers values = got.to_vector<double>();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(values[i], wanted[i], apart + 1e-12 * std::abs(wanted[i])) << what << " at " << i;
  }
}

struct OfOne {
  const char* name;
  Tensor (*function)(const Tensor&);
  Numbers values, gradients;  // no gradients: PyTorch has none
};

const OfOne kOfOne[] = {
    {"entr",
     special::entr,
     {0.361191841297781, -2.29072682968539, 0.0948244640920437, -13.6213710433872},
     {0.203972804325936, -1.91629073187416, -0.894639484342174, -2.94591014905531}},
    {"erfcx",
     special::erfcx,
     {0.734599334567655, 0.210806364061144, 0.456531651323117, 0.079800054329153},
     {-0.687619566354919, -0.0743473467897946, -0.306622194713902, -0.0111784064873712}},
    {"ndtr",
     special::ndtr,
     {0.617911422188953, 0.993790334674224, 0.81593987465324, 0.99999999999872},
     {0.381387815460524, 0.0175283004935685, 0.266085249898755, 9.13472040836459e-12}},
    {"log_ndtr",
     special::log_ndtr,
     {-0.481410161588481, -0.00622902548586, -0.203414609755747, -1.27981254388665e-12},
     {0.617220853612735, 0.0176378254869167, 0.32610889376112, 9.13472040837628e-12}},
    {"i0e",
     special::i0e,
     {0.757580625182548, 0.270046441612203, 0.493162966100705, 0.153737744672881},
     {-0.645203064542709, -0.0634617920809362, -0.29104643522385, -0.0114485099632826}},
    {"i1",
     special::i1,
     {0.151693840003593, 2.5167162452887, 0.497126448160964, 156.039092869955},
     {0.516980746006287, 2.28315264593464, 0.660622445549835, 146.302609528867}},
    {"i1e",
     special::i1e,
     {0.112377560639839, 0.206584649531267, 0.202116530876856, 0.142289234709599},
     {0.270611195743246, -0.0191720677315704, 0.0664725120273431, -0.00887852356666}},
    {"bessel_j0",
     special::bessel_j0,
     {0.977626246538296, -0.0483837764682566, 0.807523798122545, 0.300079269717362},
     {-0.148318816273104, -0.49709410246447, -0.405949546078806, 0.00468279727589305}},
    {"bessel_j1",
     special::bessel_j1,
     {0.148318816273104, 0.49709410246447, 0.405949546078806, -0.00468279727589305},
     {0.483230192294616, -0.247221417454045, 0.356468746923872, 0.300748240756776}},
    {"bessel_y0",
     special::bessel_y0,
     {-0.80727357780452, 0.498070359615921, 0.00562830663520556, -0.025949755645462},
     {2.29310513838853, -0.145918137966958, 0.873126582456329, 0.302667238824338}},
    {"bessel_y1",
     special::bessel_y1,
     {-2.29310513838853, 0.145918137966958, -0.873126582456329, -0.302667238824338},
     {6.83641021682391, 0.439703104429137, 0.975768953808904, 0.0172884213294433}},
    {"modified_bessel_i0",
     special::modified_bessel_i0,
     {1.0226268793516, 3.28983914405012, 1.21298516572868, 168.59390851029},
     {0.151693840003593, 2.5167162452887, 0.497126448160964, 156.039092869955}},
    {"modified_bessel_i1",
     special::modified_bessel_i1,
     {0.151693840003593, 2.5167162452887, 0.497126448160964, 156.039092869955},
     {0.516980746006287, 2.28315264593464, 0.660622445549835, 146.302609528867}},
    {"modified_bessel_k0",
     special::modified_bessel_k0,
     {1.3724600605443, 0.0623475532003662, 0.486730308162901, 0.000424795741869232},
     {-3.05599203345733, -0.0738908163477471, -0.716533578776019, -0.000454182486884897}},
    {"modified_bessel_k1",
     special::modified_bessel_k1,
     {3.05599203345733, 0.0738908163477471, 0.716533578776019, 0.000454182486884897},
     {-11.5591001720687, -0.091903879739465, -1.28287872902514, -0.00048967895428136}},
    {"scaled_modified_bessel_k0",
     special::scaled_modified_bessel_k0,
     {1.85262730077201, 0.7595486903281, 1.19716338025185, 0.465845096093016},
     {}},
    {"scaled_modified_bessel_k1",
     special::scaled_modified_bessel_k1,
     {4.12515776224447, 0.900174423907878, 1.76238821960592, 0.498071575095477},
     {}},
    {"spherical_bessel_j0",
     special::spherical_bessel_j0,
     {0.985067355537799, 0.239388857641583, 0.870363232919426, 0.0938552283883984},
     {}},
    {"i0",
     core::i0,
     {1.0226268793516, 3.28983914405012, 1.21298516572868, 168.59390851029},
     {0.151693840003593, 2.5167162452887, 0.497126448160964, 156.039092869955}},
};
TEST(Special, FunctionsOfOneNumber) {
  for (const OfOne& c : kOfOne) {
    // PyTorch's own are off by 3e-8: J0(7) is 0.30007927051955560.
    const double apart = std::string_view(c.name).starts_with("bessel") ? 3e-8 : 0;
    const Tensor x = f64({0.3, 2.5, 0.9, 7.0}, true);
    const Tensor y = c.function(x);
    expect_near(y, c.values, c.name, apart);
    EXPECT_EQ(y.requires_grad(), !c.gradients.empty()) << c.name;
    if (c.gradients.empty()) continue;
    y.sum().backward();
    expect_near(x.grad(), c.gradients, c.name, apart);
  }
}

TEST(Special, QuantilesOfTheNormalDistribution) {
  const Tensor p = f64({0.001, 0.3, 0.5, 0.99}, true);
  const Tensor x = special::ndtri(p);
  expect_near(x, {-3.09023230616781, -0.524400512708041, 0, 2.32634787404084}, "ndtri");
  x.sum().backward();
  expect_near(p.grad(), {296.992351589231, 2.87610365926429, 2.506628274631, 37.5204361572951}, "ndtri, backward");
  EXPECT_EQ(core::to_string(special::ndtri(tensor({0.0, 1.0, -0.1, 1.1}))), "tensor([-inf, inf, nan, nan])");
  // Far out, where the integral itself has no more digits: the way back ends where it began.
  for (const double far : {-37.0, -8.0, 0.3, 5.0}) {
    EXPECT_NEAR(special::ndtri(special::ndtr(f64({far}))).item<double>(), far, 1e-9 * std::abs(far));
  }
  EXPECT_NEAR(special::log_ndtr(f64({-100.0})).item<double>(), -5005.5242086942, 1e-8);
}

TEST(Special, FunctionsOfTwoNumbers) {
  const Tensor a = f64({1.3, 3.5, 1.9, 8.0});
  struct Case {
    const char* name;
    Tensor (*function)(const Tensor&, const Tensor&);
    Numbers values, gradients;
  };
  const Case cases[] = {
      {"gammainc",
       special::gammainc,
       {0.677111048740049, 0.0025560465846576, 0.254506761557217, 0.676103035687104},
       {0.280779487964062, 0.0204106096584161, 0.384488965726378, 0.117116124452909}},
      {"gammaincc",
       special::gammaincc,
       {0.322888951259951, 0.997443953415342, 0.745493238442783, 0.323896964312896},
       {-0.280779487964062, -0.0204106096584161, -0.384488965726378, -0.117116124452909}},
      {"zeta",
       special::zeta,
       {3.28735657285116, 25.0867988095052, 2.01638936816956, 4.317325486885e-08},
       {-0.906174401751492, -217.03181681762, -3.05693218905877, -3.52387868129811e-08}},
  };
  for (const Case& c : cases) {
    const Tensor b = f64({1.5, 0.4, 0.9, 9.0}, true);
    const Tensor y = c.function(a, b);
    expect_near(y, c.values, c.name);
    y.sum().backward();
    expect_near(b.grad(), c.gradients, c.name);
  }
  const Tensor x = f64({0.3, 2.5, 0.9, 7.0}, true), y = f64({1.5, 0.4, 0.9, 9.0}, true);
  const Tensor both = special::xlog1py(x, y);
  expect_near(both, {0.274887219562247, 0.841180591553032, 0.577668497555155, 16.1180956509583}, "xlog1py");
  both.sum().backward();
  expect_near(x.grad(), {0.916290731874155, 0.336472236621213, 0.641853886172395, 2.30258509299405}, "xlog1py, x");
  expect_near(y.grad(), {0.12, 1.78571428571429, 0.473684210526316, 0.7}, "xlog1py, y");
  // Broadcast, and summed back.
  const Tensor column = core::tensor({{1.0}, {2.0}}).requires_grad_();
  core::igamma(tensor({1.0, 2.0, 3.0}), column).sum().backward();
  EXPECT_EQ(core::to_string(column.grad()), "tensor([[0.9197],\n        [0.6767]])");
}

TEST(Special, GammaOfSeveralDimensions) {
  const Tensor x = f64({2.3, 4.5, 2.9, 9.0}, true);
  const Tensor y = x.mvlgamma(3);
  expect_near(y, {1.6920256013115, 7.16356447119167, 2.49783948554917, 30.3961263498858}, "mvlgamma");
  y.sum().backward();
  expect_near(x.grad(), {0.715840424791031, 3.74814523543657, 1.8915852815024, 6.23637377349064}, "mvlgamma, backward");
  EXPECT_EQ(message_of([&] { core::mvlgamma(x, 0); }), "p has to be greater than or equal to 1");
}

TEST(Special, Borders) {
  EXPECT_EQ(core::to_string(special::gammainc(tensor({0.0, 1.0, 0.0, -1.0, 1.0}), tensor({1.0, 0.0, 0.0, 1.0, kInf}))),
            "tensor([1., 0., nan, nan, 1.])");
  EXPECT_EQ(core::to_string(special::entr(tensor({0.0, -1.0, kNan}))), "tensor([0., -inf, nan])");
  EXPECT_EQ(core::to_string(special::xlog1py(tensor({0.0, 0.0}), tensor({-1.0, kNan}))), "tensor([0., nan])");
  EXPECT_EQ(core::to_string(special::i0e(tensor({1, 2}))), "tensor([0.4658, 0.3085])");
  EXPECT_EQ(core::to_string(special::ndtr(tensor({1.0, 2.0}, {.dtype = DType::bf16}))),
            "tensor([0.8398, 0.9766], dtype=torch.bfloat16)");
  EXPECT_EQ(special::erfcx(f64({1e9})).item<double>(), 0.56418958354775628e-9);
  EXPECT_EQ(core::to_string(special::modified_bessel_k0(tensor({0.0, -1.0}))), "tensor([inf, nan])");
}

TEST(Special, WhatHasNoDerivativeSaysSo) {
  const Tensor a = tensor({2.5}).requires_grad_();
  EXPECT_EQ(message_of([&] { core::igamma(a, tensor({1.5})).backward(); }),
            "the derivative for 'igamma: input' is not implemented.");
  EXPECT_EQ(message_of([&] { core::igammac(a, tensor({1.5})).backward(); }),
            "the derivative for 'igammac: input' is not implemented.");
  EXPECT_EQ(message_of([&] { special::zeta(a, tensor({1.5})).backward(); }),
            "the derivative for 'zeta' is not implemented.");
}

TEST(Special, NeighboursAndParts) {
  EXPECT_EQ(core::nextafter(tensor({1.0}), tensor({2.0})).item<float>(), std::nextafterf(1, 2));
  EXPECT_EQ(core::nextafter(f64({1.0}), f64({0.0})).item<double>(), std::nextafter(1.0, 0.0));
  EXPECT_EQ(message_of([] { core::nextafter(tensor({1}), tensor({2})); }),
            "\"nextafter_cpu\" not implemented for 'Long'");
  const Tensor x = tensor({2.5, -0.75, 0.0, kInf}).requires_grad_();
  const auto [mantissa, exponent] = x.frexp();
  EXPECT_EQ(core::to_string(mantissa.detach()), "tensor([ 0.6250, -0.7500,  0.0000,     inf])");
  EXPECT_EQ(core::to_string(exponent), "tensor([2, 0, 0, 0], dtype=torch.int32)");
  mantissa.narrow(0, 0, 2).sum().backward();
  EXPECT_EQ(core::to_string(x.grad()), "tensor([0.2500, 1.0000, 0.0000, 0.0000])");
  EXPECT_EQ(message_of([] { core::frexp(tensor({1})); }), "torch.frexp() only supports floating-point dtypes");
}

}  // namespace
