// What gradcheck says, and when.
#include <gtest/gtest.h>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/function.h"
#include "libcore/autograd/gradcheck.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "tests/support/message_of.h"

namespace {

using core::Tensor;
using test::message_of;
using In = std::span<const Tensor>;

/// Twice its input, with three times the gradient.
struct Wrong : core::Function<Wrong> {
  static Tensor forward(core::FunctionContext&, const Tensor& x) { return x * 2; }
  static std::vector<Tensor> backward(core::FunctionContext&, const std::vector<Tensor>& g) { return {g[0] * 3}; }
};
/// The cube, whose first derivative is right and whose second is not.
struct WrongTwice : core::Function<WrongTwice> {
  static Tensor forward(core::FunctionContext& context, const Tensor& x) {
    context.save_for_backward({x});
    return x * x * x;
  }
  static std::vector<Tensor> backward(core::FunctionContext& context, const std::vector<Tensor>& g) {
    const Tensor x = context.saved_tensors()[0];
    return {Wrong::apply(g[0]) * 3 * x * x / 2};
  }
};

Tensor two() {
  return core::tensor({1.0, 2.0}, {.dtype = core::DType::f64, .requires_grad = true});
}

TEST(Gradcheck, SaysBothJacobians) {
  EXPECT_EQ(message_of([] { core::gradcheck([](In in) { return Wrong::apply(in[0]); }, {two()}); }),
            "Jacobian mismatch for output 0 with respect to input 0,\n"
            "numerical:tensor([[2.0000, 0.0000],\n"
            "        [0.0000, 2.0000]], dtype=torch.float64)\n"
            "analytical:tensor([[3., 0.],\n"
            "        [0., 3.]], dtype=torch.float64)\n");
}

TEST(Gradcheck, GivesFalseWhereNoExceptionIsWanted) {
  const auto wrong = [](In in) { return Wrong::apply(in[0]); };
  EXPECT_FALSE(core::gradcheck(wrong, {two()}, {.raise_exception = false}));
  EXPECT_TRUE(core::gradcheck([](In in) { return in[0] * 2; }, {two()}));
}

TEST(Gradcheck, OfTheGradientFindsAWrongSecondDerivative) {
  const auto function = [](In in) { return WrongTwice::apply(in[0]); };
  EXPECT_TRUE(core::gradcheck(function, {two()}, {.raise_exception = false}));
  EXPECT_EQ(message_of([&] { core::gradgradcheck(function, {two()}, {core::ones({2}, {.dtype = core::DType::f64})}); }),
            "Jacobian mismatch for output 0 with respect to input 1,\n"
            "numerical:tensor([[ 3.0000,  0.0000],\n"
            "        [ 0.0000, 12.0000]], dtype=torch.float64)\n"
            "analytical:tensor([[ 4.5000,  0.0000],\n"
            "        [ 0.0000, 18.0000]], dtype=torch.float64)\n");
}

TEST(Gradcheck, NeedsAnInputWithAGradient) {
  const Tensor x = core::ones({2}, {.dtype = core::DType::f64});
  EXPECT_EQ(message_of([&] { core::gradcheck([](In in) { return in[0] * 2; }, {x}); }),
            "gradcheck expects at least one input tensor to require gradient, but none of them have "
            "requires_grad=True.");
}

TEST(Gradcheck, FindsLostHistory) {
  EXPECT_EQ(message_of([] { core::gradcheck([](In in) { return in[0].detach() * 2; }, {two()}); }),
            "Numerical gradient for function expected to be zero");
}

TEST(Gradcheck, FindsABackwardThatChanges) {
  struct Drifting : core::Function<Drifting> {
    static Tensor forward(core::FunctionContext&, const Tensor& x) { return x * 2; }
    static std::vector<Tensor> backward(core::FunctionContext&, const std::vector<Tensor>& g) {
      static double drift = 0;
      return {g[0] * (2 + (drift += 1e-9))};
    }
  };
  EXPECT_TRUE(message_of([] { core::gradcheck([](In in) { return Drifting::apply(in[0]); }, {two()}); })
                  .starts_with("Backward is not reentrant, i.e., running backward with same input and grad_output "
                               "multiple times gives different values"));
}

TEST(Gradcheck, LeavesInputsAndGradientsAsTheyWere) {
  const Tensor x = two();
  core::gradcheck([](In in) { return in[0] * in[0]; }, {x});
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{1, 2}));
  EXPECT_EQ(x.version(), 0U);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Gradcheck, RefusesInputsWhoseElementsShareMemory) {
  const Tensor x = core::ones({1}, {.dtype = core::DType::f64}).expand({3}).requires_grad_();
  EXPECT_TRUE(message_of([&] {
                core::gradcheck([](In in) { return in[0] * 2; }, {x});
              }).starts_with("The 0th input has a dimension with stride 0."));
}

}  // namespace
