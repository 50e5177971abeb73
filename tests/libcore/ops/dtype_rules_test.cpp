// Dtypes of results and refusals of operations: as PyTorch 2.15.
#include <gtest/gtest.h>

#include "libcore/core.h"
#include "tests/libcore/ops/op_test.h"

namespace {

using core::DType;
using core::Shape;
using core::Tensor;
using core::tensor;
using test::kNan;
using test::message_of;

TEST(DtypeRules, Promotion) {
  EXPECT_EQ(core::to_string(core::cat({core::ones({2}), core::ones({2}, {.dtype = DType::i32})})),
            "tensor([1., 1., 1., 1.])");
  EXPECT_EQ(core::to_string(core::stack({core::ones({2}), core::ones({2}, {.dtype = DType::f64})})),
            "tensor([[1., 1.],\n"
            "        [1., 1.]], dtype=torch.float64)");
  EXPECT_EQ(
      core::to_string(core::where(tensor({true, false}), core::ones({2}), core::ones({2}, {.dtype = DType::i64}))),
      "tensor([1., 1.])");
  EXPECT_EQ(core::to_string(core::where(tensor({true, false}), 1, core::ones({2}, {.dtype = DType::i64}))),
            "tensor([1, 1])");
  EXPECT_EQ(core::to_string(core::where(tensor({true, false}), 1.5, core::ones({2}, {.dtype = DType::i64}))),
            "tensor([1.5000, 1.0000])");
  EXPECT_EQ(core::to_string(core::addcmul(core::ones({2}), core::ones({2}, {.dtype = DType::f64}), core::ones({2}))),
            "tensor([2., 2.], dtype=torch.float64)");
  EXPECT_EQ(core::to_string(core::clamp(core::ones({2}, {.dtype = DType::i64}), 0.5)), "tensor([1., 1.])");
  EXPECT_EQ(core::to_string(core::clamp(core::ones({2}, {.dtype = DType::i64}), tensor(0.5), Tensor())),
            "tensor([1., 1.])");
  EXPECT_EQ(core::to_string(core::masked_fill(core::ones({2}, {.dtype = DType::i64}), tensor({true, false}), 1.5)),
            "tensor([1, 1])");
  EXPECT_EQ(core::to_string(core::ones({3}, {.dtype = DType::boolean}).sum()), "tensor(3)");
  EXPECT_EQ(core::to_string(core::ones({2}, {.dtype = DType::u8}).prod()), "tensor(1)");
  EXPECT_EQ(core::to_string(core::ones({2}, {.dtype = DType::boolean}).cumsum(0)), "tensor([1, 2])");
  EXPECT_EQ(core::to_string(core::nansum(core::ones({3}, {.dtype = DType::i32}))), "tensor(3)");
  EXPECT_EQ(core::to_string(core::ones({2}, {.dtype = DType::i8}).sqrt()), "tensor([1., 1.])");
  EXPECT_EQ(core::to_string(core::floor(core::ones({2}, {.dtype = DType::i64}))), "tensor([1, 1])");
  EXPECT_EQ(core::to_string(core::cumprod(core::ones({2}, {.dtype = DType::f16}), 0)),
            "tensor([1., 1.], dtype=torch.float16)");
  EXPECT_EQ(
      core::to_string(core::lerp(core::ones({2}, {.dtype = DType::f16}), core::zeros({2}, {.dtype = DType::f16}), 0.5)),
      "tensor([0.5000, 0.5000], dtype=torch.float16)");
  EXPECT_EQ(
      core::to_string(core::atan2(core::ones({2}, {.dtype = DType::i64}), core::ones({2}, {.dtype = DType::i64}))),
      "tensor([0.7854, 0.7854])");
  EXPECT_EQ(core::to_string(core::pow(core::ones({2}, {.dtype = DType::boolean}), 2)), "tensor([1, 1])");
  EXPECT_EQ(core::to_string(core::sort(tensor({true, false})).values), "tensor([False,  True])");
  EXPECT_EQ(core::to_string(core::sort(tensor({true, false})).indices), "tensor([1, 0])");
}

TEST(DtypeRules, Arithmetic) {
  EXPECT_EQ(core::to_string(core::remainder(tensor({-3, 3}), tensor({2, -2}))), "tensor([ 1, -1])");
  EXPECT_EQ(core::to_string(core::fmod(tensor({-3.0, 3.0}), tensor({2.0, -2.0}))), "tensor([-1.,  1.])");
  EXPECT_EQ(core::to_string(core::floor_divide(tensor({-7, 7}), tensor({2, -2}))), "tensor([-4, -4])");
  EXPECT_EQ(core::to_string(core::round(tensor({0.5, 1.5, 2.5, -0.5}))), "tensor([0., 2., 2., -0.])");
  EXPECT_EQ(core::to_string(core::maximum(tensor({kNan, 1.0}), tensor({1.0, kNan}))), "tensor([nan, nan])");
  EXPECT_EQ(core::to_string(core::clamp(tensor({kNan, 5.0}), 0, 1)), "tensor([nan, 1.])");
}

TEST(DtypeRules, Refusals) {
  EXPECT_EQ(message_of([&] { core::lerp(core::ones({2}), core::ones({2}, {.dtype = DType::f64}), 0.5); }),
            "expected dtype float for `end` but got dtype double");
  EXPECT_EQ(
      message_of([&] { core::index_add(core::ones({2}), 0, tensor({0}), core::ones({1}, {.dtype = DType::f64})); }),
      "index_add_(): self (Float) and source (Double) must have the same scalar type");
  EXPECT_EQ(
      message_of([&] { core::scatter_add(core::ones({2}), 0, tensor({0}), core::ones({1}, {.dtype = DType::f64})); }),
      "scatter(): Expected self.dtype to be equal to src.dtype");
  EXPECT_EQ(message_of([&] { core::scatter(core::ones({2}), 0, tensor({0}), core::ones({1}, {.dtype = DType::f64})); }),
            "scatter(): Expected self.dtype to be equal to src.dtype");
  EXPECT_EQ(
      message_of([&] { core::ones({2}, {.dtype = DType::i64}).mean(); }),
      "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long");
  EXPECT_EQ(message_of([&] { core::neg(core::ones({2}, {.dtype = DType::boolean})); }),
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "
            "the `~` or `logical_not()` operator instead.");
  EXPECT_EQ(
      message_of([&] { core::ones({2}, {.dtype = DType::boolean}) - core::ones({2}, {.dtype = DType::boolean}); }),
      "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
      "instead.");
  EXPECT_EQ(message_of([&] { core::abs(core::ones({2}, {.dtype = DType::boolean})); }),
            "\"abs_cpu\" not implemented for 'Bool'");
  EXPECT_EQ(message_of([&] { core::bitwise_and(core::ones({2}), core::ones({2})); }),
            "\"bitwise_and_cpu\" not implemented for 'Float'");
  EXPECT_EQ(message_of([&] { core::argmax(core::ones({2}, {.dtype = DType::boolean})); }),
            "argmax(): does not support bool input");
  EXPECT_EQ(message_of([&] { core::median(core::ones({2}, {.dtype = DType::boolean})); }),
            "\"median_cpu\" not implemented for 'Bool'");
  EXPECT_EQ(message_of([&] { core::relu(core::ones({2}, {.dtype = DType::boolean})); }),
            "Boolean inputs not supported for relu");
  EXPECT_EQ(message_of([&] { core::softmax(core::ones({2}, {.dtype = DType::i64}), 0); }),
            "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'");
  EXPECT_EQ(message_of([&] { core::std(core::ones({2}, {.dtype = DType::i64})); }),
            "std and var only support floating point and complex dtypes");
  EXPECT_EQ(message_of([&] { core::var_mean(core::ones({2}, {.dtype = DType::i64})); }),
            "var_mean only support floating point and complex dtypes");
  EXPECT_EQ(message_of([&] { core::norm(core::ones({2}, {.dtype = DType::i64})); }),
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got Long");
  EXPECT_EQ(message_of([&] { core::dot(core::ones({2}), core::ones({2}, {.dtype = DType::f64})); }),
            "dot : expected both vectors to have same dtype, but found Float and Double");
  EXPECT_EQ(message_of([&] {
              core::pow(core::ones({2}, {.dtype = DType::boolean}), core::ones({2}, {.dtype = DType::boolean}));
            }),
            "\"pow\" not implemented for 'Bool'");
  EXPECT_EQ(message_of([&] {
              core::addcdiv(core::ones({2}, {.dtype = DType::i64}), core::ones({2}, {.dtype = DType::i64}),
                            core::ones({2}, {.dtype = DType::i64}));
            }),
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a "
            "true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value "
            "* torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / "
            "tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value "
            "* tensor1 / tensor2), for all dtypes.");
}

}  // namespace
