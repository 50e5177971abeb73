// Values and gradients at the edges of types: NaN, infinities, ties, factors and bounds that a type cannot hold. As
// PyTorch 2.15 gives them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "libcore/autograd/autograd.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/print.h"
#include "tests/libcore/ops/op_test.h"

namespace {

using core::DType;
using core::Tensor;
using core::tensor;
using test::kInf;
using test::kNan;
using test::message_of;

/// The gradient of the sum of what `function` makes of x.
template <class Function>
std::string slope(const Tensor& x, Function function) {
  const Tensor leaf = x.clone().requires_grad_();
  core::backward({function(leaf).sum()});
  return core::to_string(leaf.grad());
}

TEST(EdgeGradients, OfLargeNumbersAreFinite) {
  const Tensor x = tensor({9.0, 100.0, 1e38});
  EXPECT_EQ(slope(x, [](const Tensor& t) { return core::selu(t); }), "tensor([1.0507, 1.0507, 1.0507])");
  EXPECT_EQ(slope(x, [](const Tensor& t) { return core::celu(t, 0.1); }), "tensor([1., 1., 1.])");
  const Tensor half = tensor({12.0, 60000.0, -1.0}, {.dtype = DType::f16});
  EXPECT_EQ(slope(half, [](const Tensor& t) { return core::celu(t); }),
            "tensor([1.0000, 1.0000, 0.3679], dtype=torch.float16)");
  EXPECT_EQ(slope(tensor({kInf, -kInf}), [](const Tensor& t) { return core::selu(t); }), "tensor([1.0507, 0.0000])");
  EXPECT_EQ(slope(tensor({0.0, -0.0, -1.0}), [](const Tensor& t) { return core::selu(t); }),
            "tensor([1.7581, 1.7581, 0.6468])");
  EXPECT_EQ(slope(tensor({0.0, 1e-38, 1e-20}), [](const Tensor& t) { return core::sinc(t); }), "tensor([0., 0., 0.])");
  const Tensor odds = tensor({0.0, 0.25, 1.0, 1.5, -0.5});
  EXPECT_EQ(slope(odds, [](const Tensor& t) { return core::logit(t); }),
            "tensor([   inf, 5.3333,    inf,    nan,    nan])");
  EXPECT_EQ(slope(odds, [](const Tensor& t) { return core::logit(t, 0.1); }),
            "tensor([0.0000, 5.3333, 0.0000, 0.0000, 0.0000])");
}

TEST(EdgeGradients, PassNanThroughActivations) {
  const Tensor x = tensor({kNan, 0.25, 5.0});
  const auto expect = [&](const std::string& text, auto function) { EXPECT_EQ(slope(x, function), text); };
  expect("tensor([1., 1., 0.])", [](const Tensor& t) { return core::hardtanh(t); });
  expect("tensor([1., 0., 1.])", [](const Tensor& t) { return core::softshrink(t); });
  expect("tensor([1., 0., 1.])", [](const Tensor& t) { return core::hardshrink(t); });
  expect("tensor([1., 0., 1.])", [](const Tensor& t) { return core::threshold(t, 0.5, 0); });
  expect("tensor([1., 1., 1.])", [](const Tensor& t) { return core::elu(t); });
  expect("tensor([1.0507, 1.0507, 1.0507])", [](const Tensor& t) { return core::selu(t); });
}

TEST(EdgeGradients, AreSharedByEqualElements) {
  const Tensor numbers = tensor({1.0, 2.0, 2.0, 3.0, 2.0});
  EXPECT_EQ(slope(numbers, [](const Tensor& t) { return core::median(t); }),
            "tensor([0.0000, 0.3333, 0.3333, 0.0000, 0.3333])");
  EXPECT_EQ(slope(numbers, [](const Tensor& t) { return core::nanmedian(t); }),
            "tensor([0.0000, 0.3333, 0.3333, 0.0000, 0.3333])");
  const Tensor holes = tensor({kNan, 1.0, kNan, 2.0});
  EXPECT_EQ(slope(holes, [](const Tensor& t) { return core::max(t); }), "tensor([0.5000, 0.0000, 0.5000, 0.0000])");
  EXPECT_EQ(slope(holes, [](const Tensor& t) { return core::min(t); }), "tensor([0.5000, 0.0000, 0.5000, 0.0000])");
  EXPECT_EQ(slope(holes, [](const Tensor& t) { return core::median(t); }), "tensor([0.5000, 0.0000, 0.5000, 0.0000])");
  EXPECT_EQ(slope(holes, [](const Tensor& t) { return core::nanmedian(t); }), "tensor([0., 1., 0., 0.])");
  const Tensor other = tensor({0.0, 1.0, kNan, 3.0});
  EXPECT_EQ(slope(holes, [&](const Tensor& t) { return core::fmax(t, other); }),
            "tensor([0.0000, 0.5000, 1.0000, 0.0000])");
  EXPECT_EQ(slope(other, [&](const Tensor& t) { return core::fmin(holes, t); }),
            "tensor([1.0000, 0.5000, 0.0000, 0.0000])");
}

TEST(EdgeClamp, TakesNanBounds) {
  EXPECT_EQ(core::to_string(core::clamp(tensor({1.0, 2.0}), kNan)), "tensor([nan, nan])");
  EXPECT_EQ(core::to_string(core::clamp(tensor({1, 2}), {}, kNan)), "tensor([nan, nan])");
  EXPECT_EQ(core::to_string(core::clamp(tensor({1.0, 2.0, 3.0}), tensor({0.0, kNan, 4.0}), Tensor())),
            "tensor([1., nan, 4.])");
  EXPECT_EQ(core::to_string(core::clamp(tensor({1.0, 2.0, 3.0}), tensor({0.0, 0.0, 4.0}), tensor({kNan, 1.0, 3.5}))),
            "tensor([   nan, 1.0000, 3.5000])");
  EXPECT_EQ(slope(tensor({1.0, 2.0}),
                  [](const Tensor& t) {
                    return core::clamp(t, tensor({1.0, 1.0}), Tensor());
                  }),
            "tensor([0.5000, 1.0000])");
}

TEST(EdgeClamp, RefusesBoundsBeyondTheType) {
  const Tensor small = tensor({1, 0}, {.dtype = DType::i8}), byte = tensor({1, 0}, {.dtype = DType::u8});
  EXPECT_EQ(message_of([&] { core::clamp(small, 200); }),
            "Clamp min value 200 is outside the representable range of Char");
  EXPECT_EQ(message_of([&] { core::clamp(small, {}, -200); }),
            "Clamp max value -200 is outside the representable range of Char");
  EXPECT_EQ(message_of([&] { core::clamp(byte, std::int64_t{1} << 40); }),
            "Clamp min value 1.09951e+12 is outside the representable range of Byte");
  EXPECT_EQ(core::to_string(core::clamp(small, -129, 300)), "tensor([1, 0], dtype=torch.int8)");
  EXPECT_EQ(core::to_string(core::clamp(byte, -1)), "tensor([1, 0], dtype=torch.uint8)");
  EXPECT_EQ(message_of([] { core::clamp(tensor({1.0}), 1e39); }),
            "value cannot be converted to type float without overflow");
  EXPECT_EQ(message_of([] { core::clamp(tensor({1.0}, {.dtype = DType::f16}), {}, 70000); }),
            "value cannot be converted to type c10::Half without overflow");
  EXPECT_EQ(core::to_string(core::clamp(tensor({true, false}), 2)), "tensor([2, 2])");
  EXPECT_EQ(message_of([] { core::clamp(tensor({true}), true); }),
            "\"clamp_min_scalar_cpu\" not implemented for 'Bool'");
}

TEST(EdgeFactors, MustFitTheType) {
  const Tensor x = tensor({1, 2, 3}, {.dtype = DType::i8});
  const char *overflow = "value cannot be converted to type int8_t without overflow",
             *real = "For integral input tensors, argument alpha must not be a floating point number.",
             *truth = "Boolean alpha only supported for Boolean results.";
  const auto refused = [&](auto function) {
    EXPECT_EQ(message_of([&] { function(200); }), overflow);
    EXPECT_EQ(message_of([&] { function(1.5); }), real);
    EXPECT_EQ(message_of([&] { function(true); }), truth);
  };
  refused([&](core::Scalar alpha) { core::add(x, x, alpha); });
  refused([&](core::Scalar alpha) { core::sub(x, x, alpha); });
  refused([&](core::Scalar alpha) { core::rsub(x, x, alpha); });
  refused([&](core::Scalar alpha) { core::add(x, 1, alpha); });
  refused([&](core::Scalar alpha) { core::sub(x, 1, alpha); });
  refused([&](core::Scalar alpha) { x.clone().add_(x, alpha); });
  refused([&](core::Scalar alpha) { x.clone().sub_(x, alpha); });
  refused([&](core::Scalar alpha) { x.clone().add_(1, alpha); });
  EXPECT_EQ(message_of([&] { x.clone().index_add_(0, tensor({0, 2, 0}), x, 200); }), overflow);
  EXPECT_EQ(core::to_string(x.clone().index_add_(0, tensor({0, 2, 0}), x, 1.5)), "tensor([5, 2, 5], dtype=torch.int8)");
  EXPECT_EQ(message_of([&] { core::pow(x, 200); }), overflow);
  EXPECT_EQ(message_of([] { core::add(tensor({1.0}), tensor({1.0}), 1e39); }),
            "value cannot be converted to type float without overflow");
}

TEST(EdgeFactors, OfProducts) {
  const Tensor m = tensor({{1, 2}, {3, 4}}, {.dtype = DType::i8});
  const char* overflow = "value cannot be converted to type int8_t without overflow";
  EXPECT_EQ(message_of([&] { core::addmm(m, m, m, 1, 200); }), overflow);
  EXPECT_EQ(message_of([&] { core::addmv(m[0], m, m[0], 200); }), overflow);
  EXPECT_EQ(message_of([&] { core::baddbmm(m.unsqueeze(0), m.unsqueeze(0), m.unsqueeze(0), 1, 200); }), overflow);
  EXPECT_EQ(core::to_string(core::addmv(m[0], m, m[0], 1.5, 1.5)), "tensor([ 6, 13], dtype=torch.int8)");
  EXPECT_EQ(message_of([&] { core::addr(m, m[0], m[1], 1.5); }),
            "For integral input tensors, argument beta must not be a floating point number.");
}

TEST(EdgeFactors, AddcmulOfIntegers) {
  const Tensor x = tensor({1, 2, 3}, {.dtype = DType::i8}), y = tensor({1, 0, 2}, {.dtype = DType::i8});
  EXPECT_EQ(core::to_string(core::addcmul(x, y, x, 127)), "tensor([-128,    2,   -3], dtype=torch.int8)");
  EXPECT_EQ(core::to_string(x.clone().addcmul_(y, x, 2)), "tensor([ 3,  2, 15], dtype=torch.int8)");
  EXPECT_EQ(core::to_string(core::addcmul(tensor({1, 2}), tensor({3, 4}, {.dtype = DType::i32}), tensor({true, true}))),
            "tensor([4, 6])");
  EXPECT_EQ(message_of([&] { core::addcmul(x, y, x, 200); }),
            "value cannot be converted to type int8_t without overflow");
  EXPECT_EQ(message_of([&] { x.clone().addcdiv_(y, x, 1); }).substr(0, 51),
            "Integer division with addcdiv is no longer supporte");
}

TEST(EdgeFactors, NoElementsHaveNoZeroDivisor) {
  const Tensor none = core::zeros({0}, {.dtype = DType::i32}), zero = tensor({0}, {.dtype = DType::i32});
  EXPECT_EQ(core::floor_divide(none, zero).sizes(), core::Shape{0});
  EXPECT_EQ(core::remainder(none, zero).sizes(), core::Shape{0});
  EXPECT_EQ(core::fmod(none, zero).sizes(), core::Shape{0});
  EXPECT_EQ(core::floor_divide(none, 0).sizes(), core::Shape{0});
}

TEST(EdgeIntegers, ActivationsStayIntegers) {
  const Tensor x = tensor({-2, 0, 3}, {.dtype = DType::i32});
  EXPECT_EQ(core::to_string(core::hardtanh(x, -1, 2)), "tensor([-1,  0,  2], dtype=torch.int32)");
  EXPECT_EQ(core::to_string(core::relu6(x)), "tensor([0, 0, 3], dtype=torch.int32)");
  EXPECT_EQ(core::to_string(core::threshold(x, 0, 9)), "tensor([9, 9, 3], dtype=torch.int32)");
  EXPECT_EQ(core::to_string(core::nan_to_num(x)), "tensor([-2,  0,  3], dtype=torch.int32)");
  EXPECT_EQ(core::to_string(core::logit(tensor({true, false}))), "tensor([inf, -inf])");
  EXPECT_EQ(message_of([] { core::hardtanh(tensor({true})); }), "Bool inputs not supported for hardtanh");
}

TEST(EdgeIntegers, SumsOfNarrowTypes) {
  const Tensor x = tensor({100, 100, 100}, {.dtype = DType::i16});
  EXPECT_EQ(core::to_string(core::sum(x, {.dtype = DType::i8})), "tensor(44, dtype=torch.int8)");
  EXPECT_EQ(core::to_string(core::prod(x, {.dtype = DType::i32})), "tensor(1000000, dtype=torch.int32)");
  EXPECT_EQ(core::to_string(core::cumsum(x, 0, DType::i8)), "tensor([100, -56,  44], dtype=torch.int8)");
  EXPECT_EQ(core::to_string(core::sum(tensor({1.9, 2.9}), {.dtype = DType::i32})), "tensor(3, dtype=torch.int32)");
  EXPECT_EQ(core::to_string(core::prod(tensor({0, 2}), {.dtype = DType::boolean})), "tensor(False)");
  EXPECT_EQ(core::to_string(tensor({1, 2, 3}, {.dtype = DType::i32}).cumsum_(0)),
            "tensor([1, 3, 6], dtype=torch.int32)");
}

TEST(EdgeRanges, OfNarrowTypes) {
  EXPECT_EQ(core::to_string(core::linspace(1.7, 9.3, 6, {.dtype = DType::i8})),
            "tensor([1, 2, 4, 5, 7, 9], dtype=torch.int8)");
  const char* overflow = "value cannot be converted to type int8_t without overflow";
  EXPECT_EQ(message_of([] { core::linspace(0, 300, 3, {.dtype = DType::i8}); }), overflow);
  EXPECT_EQ(message_of([] { core::logspace(0, 300, 3, 10, {.dtype = DType::i8}); }), overflow);
  EXPECT_EQ(message_of([] { core::linspace(0, 70000, 3, {.dtype = DType::f16}); }),
            "value cannot be converted to type c10::Half without overflow");
  EXPECT_EQ(message_of([] { core::linspace(0, 1, 3, {.dtype = DType::boolean}); }),
            "\"linspace_cpu\" not implemented for 'Bool'");
  EXPECT_EQ(message_of([] { core::arange(0, 3, {.dtype = DType::boolean}); }),
            "\"arange_cpu\" not implemented for 'Bool'");
  EXPECT_EQ(message_of([] { core::arange(kInf); }), "unsupported range: 0 -> inf");
  EXPECT_EQ(message_of([] { core::eye(-1); }), "n must be greater or equal to 0, got -1");
  EXPECT_EQ(message_of([] { core::eye(2, -1); }), "m must be greater or equal to 0, got -1");
}

TEST(EdgeRanges, MeshgridByColumns) {
  const auto grids = core::meshgrid({tensor({1, 2, 3}), tensor({4, 5})}, "xy");
  EXPECT_EQ(core::to_string(grids[0]), "tensor([[1, 2, 3],\n        [1, 2, 3]])");
  EXPECT_EQ(core::to_string(grids[1]), "tensor([[4, 4, 4],\n        [5, 5, 5]])");
}

TEST(EdgeSizes, MeansOfNothingAreRefused) {
  EXPECT_EQ(message_of([] {
              core::adaptive_avg_pool1d(core::zeros({2, 2, 0}), 2);
            }),
            "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            "[2, 2, 1, 0] with dimension 3 being empty");
  EXPECT_EQ(message_of([] {
              core::adaptive_avg_pool2d(core::zeros({0, 2, 0, 5}), 2);
            }),
            "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            "[0, 2, 0, 5] with dimension 2 being empty");
  EXPECT_EQ(core::adaptive_avg_pool2d(core::zeros({2, 0, 5, 5}), 2).sizes(), (core::Shape{2, 0, 2, 2}));
}

TEST(EdgeSizes, ConvTbcOfNoChannelsIsItsBias) {
  const Tensor out = core::conv_tbc(core::zeros({3, 1, 0}), core::zeros({2, 0, 2}), tensor({1.5, -2.0}));
  EXPECT_EQ(core::to_string(out), "tensor([[[ 1.5000, -2.0000]],\n\n        [[ 1.5000, -2.0000]]])");
}

TEST(EdgeGradients, OfAnglesAtZeroAreZero) {
  const auto slopes = [](const Tensor& y, const Tensor& x) {
    return slope(y, [&](const Tensor& t) { return core::atan2(t, x); }) + " " +
           slope(x, [&](const Tensor& t) { return core::atan2(y, t); });
  };
  EXPECT_EQ(slopes(tensor({0.0, 1.0, 0.0}), tensor({0.0, 0.0, 2.0})),
            "tensor([0.0000, 0.0000, 0.5000]) tensor([-0., -1., -0.])");
  EXPECT_EQ(slope(tensor(3.0), [](const Tensor& t) { return core::topk(t, 1).values; }), "tensor(1.)");
}

TEST(EdgeGradients, OfScatteredExtremesAreThoseOfPyTorch) {
  const Tensor x = tensor({1.0, 5.0, 3.0, 0.0}), from = tensor({1.0, 1.0, kNan, 2.0, 3.0});
  const Tensor index = tensor({0, 0, 1, 1, 2});
  const auto largest = [&](bool include_self) {
    return slope(x, [&](const Tensor& t) { return core::scatter_reduce(t, 0, index, from, "amax", include_self); }) +
           " " +
           slope(from, [&](const Tensor& t) { return core::scatter_reduce(x, 0, index, t, "amax", include_self); });
  };
  EXPECT_EQ(largest(true), "tensor([0.3333,    nan, 0.5000, 1.0000]) tensor([0.3333, 0.3333,    nan,    nan, 0.5000])");
  EXPECT_EQ(largest(false), "tensor([0., 0., 0., 1.]) tensor([0.3333, 0.3333,    nan,    nan, 0.5000])");
}

TEST(EdgeValues, BehindHalvesAreTheNextOnes) {
  const auto next = [](DType dtype, double to) {
    const Tensor x = tensor({-kInf, -2.0, -0.0, 0.0, 65504.0, 1.0, kNan}, {.dtype = dtype});
    return core::to_string(core::nextafter(x, core::full({7}, to, {.dtype = dtype})).to(DType::f64));
  };
  EXPECT_EQ(next(DType::f16, kInf),
            "tensor([-6.5504e+04, -1.9990e+00,  5.9605e-08,  5.9605e-08,         inf,\n"
            "         1.0010e+00,         nan], dtype=torch.float64)");
  EXPECT_EQ(next(DType::bf16, -kInf),
            "tensor([       -inf, -2.0156e+00, -9.1835e-41, -9.1835e-41,  6.5280e+04,\n"
            "         9.9609e-01,         nan], dtype=torch.float64)");
  EXPECT_EQ(message_of([] {
              core::nextafter(tensor({1, 2}), tensor({2, 3}));
            }),
            "\"nextafter_cpu\" not implemented for 'Long'");
}

TEST(EdgeValues, OfActivationsAreNoWholeNumbers) {
  const auto refused = [](Tensor (*function)(const Tensor&), const char* text) {
    for (const DType dtype : {DType::i64, DType::boolean}) {
      const std::string type = dtype == DType::i64 ? "Long" : "Bool";
      EXPECT_EQ(message_of([&] { function(core::ones({2}, {.dtype = dtype})); }),
                "\"" + std::string(text) + "\" not implemented for '" + type + "'");
    }
  };
  refused([](const Tensor& x) { return core::gelu(x); }, "GeluKernelImpl");
  refused([](const Tensor& x) { return core::silu(x); }, "silu_cpu");
  refused([](const Tensor& x) { return core::mish(x); }, "mish_cpu");
  refused([](const Tensor& x) { return core::elu(x); }, "elu_cpu");
  refused([](const Tensor& x) { return core::selu(x); }, "elu_cpu");
  refused([](const Tensor& x) { return core::celu(x); }, "elu_cpu");
  refused([](const Tensor& x) { return core::softplus(x); }, "softplus_cpu");
  refused([](const Tensor& x) { return core::softshrink(x); }, "softshrink_check");
  refused([](const Tensor& x) { return core::hardshrink(x); }, "hardshrink_cpu");
  refused([](const Tensor& x) { return core::hardsigmoid(x); }, "hardsigmoid_cpu");
  refused([](const Tensor& x) { return core::hardswish(x); }, "hardswish_cpu");
  refused([](const Tensor& x) { return core::leaky_relu(x); }, "leaky_relu_cpu");
  refused([](const Tensor& x) { return core::log_sigmoid(x); }, "log_sigmoid_cpu");
  refused([](const Tensor& x) { return core::glu(x); }, "glu_cpu");
  refused([](const Tensor& x) { return core::prelu(x, x.narrow(0, 0, 1)); }, "prelu_cpu");
  refused([](const Tensor& x) { return core::rrelu(x, {.training = true}); }, "rrelu_with_noise_out_cpu");
  EXPECT_EQ(message_of([] {
              core::prelu(tensor({1, 2}), tensor({0.5}));
            }),
            "prelu: Type promoting not supported. Got Long and Float");
  EXPECT_EQ(core::to_string(core::relu6(tensor({-2, 9}))), "tensor([0, 6])");
}

TEST(EdgeConversions, OfWhatNoIntegerHoldsAreThoseOfTheProcessor) {
  // Twenty of each, so that vectors do some of them and single instructions the rest.
  for (const double x : {kNan, kInf, -kInf, 3e9, -3e9, 1e20}) {
    for (const DType from : {DType::f32, DType::f64, DType::bf16}) {
      const Tensor all = core::full({20}, x, {.dtype = from});
      const auto expect = [&](DType to, std::int64_t value) {
        EXPECT_TRUE(core::equal(all.to(to), core::full({20}, value, {.dtype = to}))) << x;
      };
      expect(DType::i32, INT32_MIN);
      for (const DType to : {DType::i8, DType::u8, DType::i16}) expect(to, 0);
      if (!(std::abs(x) < 1e10)) expect(DType::i64, INT64_MIN);
    }
  }
  EXPECT_EQ(core::to_string(tensor({-1.5, 300.0, 70000.0}).to(DType::i16)),
            "tensor([  -1,  300, 4464], dtype=torch.int16)");
}

}  // namespace
