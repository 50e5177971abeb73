// Rarer mathematics: values and errors of PyTorch 2.15.
#include <gtest/gtest.h>

#include "libcore/ops/norm.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/options.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "tests/libcore/ops/op_test.h"

namespace {

using core::DType;
using core::Shape;
using core::Tensor;
using core::tensor;
using test::counted;
using test::kInf;
using test::kNan;
using test::message_of;

TEST(MathOps, OneTensor) {
  EXPECT_EQ(core::to_string(core::asinh(tensor({-2.0, 0.5}))), "tensor([-1.4436,  0.4812])");
  EXPECT_EQ(core::to_string(core::acosh(tensor({1.0, 2.5}))), "tensor([0.0000, 1.5668])");
  EXPECT_EQ(core::to_string(core::atanh(tensor({-0.5, 0.25}))), "tensor([-0.5493,  0.2554])");
  EXPECT_EQ(core::to_string(core::asinh(tensor({1, 2}))), "tensor([0.8814, 1.4436])");
  EXPECT_EQ(core::to_string(core::erfc(tensor({-1.0, 0.0, 2.0}))), "tensor([1.8427, 1.0000, 0.0047])");
  EXPECT_EQ(core::to_string(core::sinc(tensor({0.0, 0.5, 2.0, -1.3}))),
            "tensor([ 1.0000e+00,  6.3662e-01,  2.7828e-08, -1.9809e-01])");
  EXPECT_EQ(core::to_string(core::deg2rad(tensor({180, 90}))), "tensor([3.1416, 1.5708])");
  EXPECT_EQ(core::to_string(core::rad2deg(tensor({3.0, -1.0}))), "tensor([171.8873, -57.2958])");
  EXPECT_EQ(core::to_string(core::sgn(tensor({-3.0, 0.0, 2.0}))), "tensor([-1.,  0.,  1.])");
  EXPECT_EQ(core::to_string(core::signbit(tensor({-0.0, 0.0, 2.0, -3.0}))), "tensor([ True, False, False,  True])");
  EXPECT_EQ(core::to_string(core::signbit(tensor({-1, 0}))), "tensor([ True, False])");
  EXPECT_EQ(core::to_string(core::isposinf(tensor({kInf, -kInf, kNan, 1.0}))), "tensor([ True, False, False, False])");
  EXPECT_EQ(core::to_string(core::isneginf(tensor({kInf, -kInf, kNan, 1.0}))), "tensor([False,  True, False, False])");
  EXPECT_EQ(core::to_string(core::polygamma(1, tensor({1.0, 0.5, -0.5, 0.0, 3.7}, {.dtype = DType::f64}))),
            "tensor([1.6449, 4.9348, 8.9348,    inf, 0.3100], dtype=torch.float64)");
  EXPECT_EQ(core::to_string(core::polygamma(2, tensor({1.0, 0.5, -0.5, 0.0, 3.7}, {.dtype = DType::f64}))),
            "tensor([ -2.4041, -16.8288,  -0.8288,     -inf,  -0.0954], dtype=torch.float64)");
  EXPECT_EQ(core::to_string(core::polygamma(4, tensor({1.0, 0.5, -0.5, 20.0, 3.7}, {.dtype = DType::f64}))),
            "tensor([-2.4886e+01, -7.7147e+02, -3.4742e+00, -4.1406e-05, -5.3039e-02],\n"
            "       dtype=torch.float64)");
  EXPECT_EQ(message_of([&] { core::polygamma(-1, tensor({1.0})); }), "polygamma(n, x) does not support negative n.");
  EXPECT_EQ(message_of([&] { core::positive(tensor({true})); }),
            "The `+` operator, on a bool tensor is not supported.");
}

TEST(MathOps, InfinityBecomesTheLargestOfItsDtype) {
  EXPECT_EQ(core::to_string(core::nan_to_num(tensor({kInf, -kInf, kNan}, {.dtype = DType::f16}))),
            "tensor([ 65504., -65504.,      0.], dtype=torch.float16)");
  EXPECT_EQ(core::to_string(core::nan_to_num(tensor({kInf, -kInf, kNan}, {.dtype = DType::bf16}))),
            "tensor([ 3.3895e+38, -3.3895e+38,  0.0000e+00], dtype=torch.bfloat16)");
  EXPECT_EQ(core::to_string(core::nan_to_num(tensor({kInf, -kInf, kNan}, {.dtype = DType::f64}))),
            "tensor([ 1.7977e+308, -1.7977e+308,   0.0000e+00], dtype=torch.float64)");
}

TEST(MathOps, TwoTensors) {
  EXPECT_EQ(core::to_string(core::logaddexp(tensor({-1000.0, 1.0, kInf, -kInf}), tensor({-1000.0, 2.0, 3.0, -kInf}))),
            "tensor([-999.3068,    2.3133,       inf,      -inf])");
  EXPECT_EQ(core::to_string(core::logaddexp2(tensor({-1000.0, 1.0, 3.0}), tensor({-1000.0, 2.0, kNan}))),
            "tensor([-999.0000,    2.5850,       nan])");
  EXPECT_EQ(core::to_string(core::hypot(tensor({3.0, 5.0}), tensor({{4.0}, {12.0}}))),
            "tensor([[ 5.0000,  6.4031],\n"
            "        [12.3693, 13.0000]])");
  EXPECT_EQ(core::to_string(core::copysign(tensor({1, 2}), -0.0)), "tensor([-1., -2.])");
  EXPECT_EQ(core::to_string(core::copysign(tensor({1.0, -2.0}), tensor({-3.0, 1.0}))), "tensor([-1.,  2.])");
  EXPECT_EQ(core::to_string(core::heaviside(tensor({-1.0, 0.0, 2.0}), tensor({0.5}))),
            "tensor([0.0000, 0.5000, 1.0000])");
  EXPECT_EQ(core::to_string(core::fmax(tensor({kNan, 2.0, 1.0}), tensor({1.0, kNan, 3.0}))), "tensor([1., 2., 3.])");
  EXPECT_EQ(core::to_string(core::fmin(tensor({kNan, 2.0, 1.0}), tensor({1.0, kNan, 3.0}))), "tensor([1., 2., 1.])");
  EXPECT_EQ(core::to_string(core::fmax(tensor({1, 5}), tensor({2, 3}))), "tensor([2, 5])");
  EXPECT_EQ(core::to_string(core::xlogy(tensor({0.0, 0.0, 2.0}), tensor({0.0, kNan, 3.0}))),
            "tensor([0.0000,    nan, 2.1972])");
  EXPECT_EQ(core::to_string(core::ldexp(tensor({1.0, 3.0}), tensor({2, -1}))), "tensor([4.0000, 1.5000])");
  EXPECT_EQ(core::to_string(core::float_power(tensor({2, 3}), 2)), "tensor([4., 9.], dtype=torch.float64)");
  EXPECT_EQ(core::to_string(core::gcd(tensor({12, -8, 0}), tensor({18, 12, 5}))), "tensor([6, 4, 5])");
  EXPECT_EQ(core::to_string(core::lcm(tensor({4, 0, -6}), tensor({6, 0, 4}))), "tensor([12,  0, 12])");
  EXPECT_EQ(core::to_string(core::bitwise_left_shift(tensor({1, -8}), tensor({3, 64}))), "tensor([8, 0])");
  EXPECT_EQ(core::to_string(core::bitwise_right_shift(tensor({16, -8}), tensor({3, 64}))), "tensor([ 2, -1])");
  EXPECT_EQ(core::to_string(core::isclose(tensor({1.0, kInf, kNan, 2.0}), tensor({1.000001, kInf, kNan, 2.1}))),
            "tensor([ True,  True, False, False])");
}

TEST(MathOps, WrongTypesAreErrors) {
  EXPECT_EQ(message_of([&] { core::logaddexp(tensor({1}), tensor({1})); }),
            "\"logaddexp_cpu\" not implemented for 'Long'");
  EXPECT_EQ(message_of([&] { core::hypot(tensor({1}), tensor({1})); }), "\"hypot_cpu\" not implemented for 'Long'");
  EXPECT_EQ(message_of([&] { core::gcd(tensor({1.0}), tensor({1.0})); }), "\"gcd_cpu\" not implemented for 'Float'");
  EXPECT_EQ(message_of([&] { core::bitwise_right_shift(tensor({1.0}), tensor({1})); }),
            "\"rshift_cpu\" not implemented for 'Float'");
  EXPECT_EQ(message_of([&] { core::isclose(tensor({1.0}), tensor({1.0}, {.dtype = DType::f64})); }),
            "Float did not match Double");
  EXPECT_EQ(message_of([&] { core::heaviside(tensor({1.0}), tensor({1.0}, {.dtype = DType::f64})); }),
            "heaviside is not yet implemented for tensors with different dtypes.");
  EXPECT_EQ(message_of([&] {
              core::logcumsumexp(tensor({1, 2}), 0);
            }),
            "\"logcumsumexp_out_cpu\" not implemented for 'Long'");
}

TEST(MathOps, Reductions) {
  EXPECT_EQ(core::to_string(core::nansum(tensor({1.0, kNan, 2.0}))), "tensor(3.)");
  EXPECT_EQ(core::to_string(core::nanmean(tensor({{1.0, kNan, 2.0}, {kNan, kNan, kNan}}), {.dims = {1}})),
            "tensor([1.5000,    nan])");
  EXPECT_EQ(message_of([&] {
              core::nanmean(tensor({1, 2}));
            }),
            "nanmean(): expected input to have floating point or complex dtype but got Long");
  EXPECT_EQ(core::to_string(core::count_nonzero(counted(), {1})), "tensor([2, 3])");
  EXPECT_EQ(core::to_string(core::std_mean(counted(), {.dims = {1}}).std), "tensor([1., 1.])");
  EXPECT_EQ(core::to_string(core::std_mean(counted()).mean), "tensor(2.5000)");
  EXPECT_EQ(core::to_string(core::dist(counted(), counted() + 2, 3)), "tensor(3.6342)");
  EXPECT_EQ(core::to_string(core::renorm(tensor({{3.0, 4.0}, {0.3, 0.4}}), 2, 0, 1)),
            "tensor([[0.6000, 0.8000],\n"
            "        [0.3000, 0.4000]])");
  EXPECT_EQ(core::to_string(core::cov(tensor({{0.0, 1.0, 2.0}, {2.0, 1.0, 0.0}}))),
            "tensor([[ 1., -1.],\n"
            "        [-1.,  1.]])");
  EXPECT_EQ(core::to_string(core::corrcoef(tensor({{0.0, 1.0, 2.0}, {2.0, 1.0, 5.0}}))),
            "tensor([[1.0000, 0.7206],\n"
            "        [0.7206, 1.0000]])");
  EXPECT_EQ(core::to_string(core::logcumsumexp(tensor({-kInf, 0.0, 1000.0, -1000.0}), 0)),
            "tensor([ -inf,    0., 1000., 1000.])");
  EXPECT_EQ(core::to_string(core::prod(tensor({{1.0, 2.0}, {3.0, 4.0}}), {.dims = {0}})), "tensor([3., 8.])");
}

TEST(MathOps, AlongADimension) {
  EXPECT_EQ(core::to_string(core::diff(tensor({1, 4, 9, 16}))), "tensor([3, 5, 7])");
  EXPECT_EQ(core::to_string(core::diff(tensor({1, 4, 9, 16}), {.n = 2})), "tensor([2, 2])");
  EXPECT_EQ(core::to_string(core::diff(tensor({true, false, false}))), "tensor([ True, False])");
  EXPECT_EQ(core::to_string(core::diff(tensor({1, 4}), {.prepend = tensor({0}), .append = tensor({9})})),
            "tensor([1, 3, 5])");
  EXPECT_EQ(core::to_string(core::trapezoid(tensor({1.0, 2.0, 4.0}), {.x = tensor({0.0, 1.0, 3.0})})),
            "tensor(7.5000)");
  EXPECT_EQ(core::to_string(core::trapezoid(tensor({1, 2, 4}))), "tensor(4.5000)");
  EXPECT_EQ(core::to_string(core::cumulative_trapezoid(tensor({1.0, 2.0, 4.0}), {.dx = 2})), "tensor([3., 9.])");
  EXPECT_EQ(core::to_string(core::trapezoid(tensor({1.0}))), "tensor(0.)");
}

}  // namespace
