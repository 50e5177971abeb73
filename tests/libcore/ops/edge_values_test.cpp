// Values and gradients at the edges of types: NaN, infinities, ties, factors and bounds that a type cannot hold. As
// PyTorch 2.15 gives them.
#include <gtest/gtest.h>

#include "libcore/autograd/autograd.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/scan.h"
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

TEST(EdgeIntegers, ActivationsStayIntegers) {
  const Tensor x = tensor({-2, 0, 3}, {.dtype = DType::i32});
  EXPECT_EQ(core::to_string(core::hardtanh(x, -1, 2)), "tensor([-1,  0,  2], dtype=torch.int32)");
  EXPECT_EQ(core::to_string(core::relu6(x)), "tensor([0, 0, 3], dtype=torch.int32)");
  EXPECT_EQ(core::to_string(core::threshold(x, 0, 9)), "tensor([9, 9, 3], dtype=torch.int32)");
  EXPECT_EQ(core::to_string(core::nan_to_num(x)), "tensor([-2,  0,  3], dtype=torch.int32)");
  EXPECT_EQ(core::to_string(core::logit(tensor({true, false}))), "tensor([inf, -inf])");
  EXPECT_EQ(message_of([] { core::hardtanh(tensor({true})); }), "Bool inputs not supported for hardtanh");
}

}  // namespace
