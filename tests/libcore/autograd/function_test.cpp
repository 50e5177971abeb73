// Operations of a user's own.
#include <gtest/gtest.h>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/function.h"
#include "libcore/autograd/gradcheck.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/options.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "tests/support/message_of.h"

namespace {

using core::FunctionContext;
using core::Tensor;
using test::message_of;
using Tensors = std::vector<Tensor>;

Tensor leaf() {
  return core::tensor({1.0, 2.0, 3.0}, {.requires_grad = true});
}

struct Square : core::Function<Square> {
  static Tensor forward(FunctionContext& context, const Tensor& x) {
    context.save_for_backward({x});
    return x * x;
  }
  static Tensors backward(FunctionContext& context, const Tensors& g) {
    return {g[0] * 2 * context.saved_tensors()[0]};
  }
};

TEST(Function, PrintsItsNameAndGivesItsGradient) {
  const Tensor x = leaf();
  const Tensor y = Square::apply(x);
  EXPECT_EQ(core::to_string(y), "tensor([1., 4., 9.], grad_fn=<SquareBackward>)");
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 4, 6}));
}

TEST(Function, HasNoHistoryWithoutGradients) {
  EXPECT_FALSE(Square::apply(core::ones({2})).requires_grad());
  const core::NoGradGuard guard;
  EXPECT_FALSE(Square::apply(leaf()).requires_grad());
}

TEST(Function, SecondDerivativeGoesThroughBackward) {
  const Tensor x = leaf();
  const Tensor slope = core::grad({Square::apply(x).sum()}, {x}, {.create_graph = true})[0];
  slope.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

TEST(Function, SavedTensorsAreFreedAndGuarded) {
  const Tensor x = leaf();
  Tensor y = Square::apply(x).sum();
  y.backward();
  EXPECT_TRUE(message_of([&] { y.backward(); }).starts_with("Trying to backward through the graph a second time"));
  const Tensor changed = x * 1;
  y = Square::apply(changed).sum();
  changed.add_(1);
  EXPECT_TRUE(message_of([&] { y.backward(); })
                  .starts_with("one of the variables needed for gradient computation has been modified by an inplace "
                               "operation: [torch.FloatTensor [3]], which is output 0 of Add, is at version 1; "
                               "expected version 0 instead."));
}

/// Saves its output.
struct Exponential : core::Function<Exponential> {
  static Tensor forward(FunctionContext& context, const Tensor& x) {
    const Tensor y = core::exp(x);
    context.save_for_backward({y});
    return y;
  }
  static Tensors backward(FunctionContext& context, const Tensors& g) { return {g[0] * context.saved_tensors()[0]}; }
};

TEST(Function, MaySaveItsOutput) {
  const Tensor x = core::tensor({0.0, 1.0}, {.dtype = core::DType::f64, .requires_grad = true});
  EXPECT_TRUE(core::gradcheck([](auto in) { return Exponential::apply(in[0]); }, {x}));
  EXPECT_TRUE(core::gradgradcheck([](auto in) { return Exponential::apply(in[0]); }, {x}));
}

/// A tensor, a number and a tensor; two outputs.
struct Scaled : core::Function<Scaled> {
  static Tensors forward(FunctionContext& context, const Tensor& a, double factor, const Tensor& b) {
    context.saved_data["factor"] = factor;
    return {a * factor, b * factor};
  }
  static Tensors backward(FunctionContext& context, const Tensors& g) {
    const auto factor = std::any_cast<double>(context.saved_data["factor"]);
    return {context.needs_input_grad(0) ? g[0] * factor : Tensor(), {}, g[1] * factor};
  }
};

TEST(Function, TakesNumbersAndGivesSeveralTensors) {
  const Tensor a = leaf(), b = leaf();
  const Tensors both = Scaled::apply(a, 3.0, b);
  (both[0] + both[1] * 2).sum().backward();
  EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{3, 3, 3}));
  EXPECT_EQ(b.grad().to_vector<float>(), (std::vector<float>{6, 6, 6}));
}

TEST(Function, GradientsOfUnusedOutputsAreZeros) {
  const Tensor a = leaf(), b = leaf();
  Scaled::apply(a, 3.0, b)[0].sum().backward();
  EXPECT_EQ(b.grad().to_vector<float>(), (std::vector<float>{0, 0, 0}));
}

struct TooFew : core::Function<TooFew> {
  static Tensor forward(FunctionContext&, const Tensor& a, const Tensor& b) { return a * b; }
  static Tensors backward(FunctionContext&, const Tensors& g) { return g; }
};
struct WrongShape : core::Function<WrongShape> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x * 2; }
  static Tensors backward(FunctionContext&, const Tensors&) { return {core::ones({2})}; }
};
struct ForNumber : core::Function<ForNumber> {
  static Tensor forward(FunctionContext&, const Tensor& x, double factor) { return x * factor; }
  static Tensors backward(FunctionContext&, const Tensors& g) { return {g[0], g[0]}; }
};

TEST(Function, WrongGradientsAreErrors) {
  const Tensor x = leaf();
  EXPECT_EQ(message_of([&] { TooFew::apply(x, x).sum().backward(); }),
            "function TooFewBackward returned an incorrect number of gradients (expected 2, got 1)");
  EXPECT_EQ(message_of([&] { WrongShape::apply(x).sum().backward(); }),
            "Function WrongShapeBackward returned an invalid gradient at index 0 - got [2] but expected shape "
            "compatible with [3]");
  EXPECT_EQ(message_of([&] { ForNumber::apply(x, 2.0).sum().backward(); }),
            "function ForNumberBackward returned a gradient different from None at position 2, but the corresponding "
            "forward input was not a Variable");
}

struct DoubleInPlace : core::Function<DoubleInPlace> {
  static Tensor forward(FunctionContext& context, const Tensor& x) {
    x.mul_(2);
    context.mark_dirty({x});
    return x;
  }
  static Tensors backward(FunctionContext&, const Tensors& g) { return {g[0] * 2}; }
};

TEST(Function, DirtyInputIsItsOutput) {
  const Tensor x = leaf();
  const Tensor y = x * 1;
  const Tensor z = DoubleInPlace::apply(y);
  EXPECT_TRUE(z.is_same(y));
  EXPECT_EQ(y.grad_fn_name(), "DoubleInPlaceBackward");
  z.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

struct WithPlace : core::Function<WithPlace> {
  static Tensors forward(FunctionContext& context, const Tensor& x) {
    const Tensor copy = x.clone();
    context.mark_non_differentiable({copy});
    return {x * 2, x.argmax(), copy};
  }
  static Tensors backward(FunctionContext&, const Tensors& g) { return {g[0] * 2}; }
};

TEST(Function, MarkedOutputsAndIntegersHaveNoGradient) {
  const Tensors results = WithPlace::apply(leaf());
  EXPECT_TRUE(results[0].requires_grad());
  EXPECT_FALSE(results[1].requires_grad());
  EXPECT_FALSE(results[2].requires_grad());
}

struct Through : core::Function<Through> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x; }
  static Tensors backward(FunctionContext&, const Tensors& g) { return {g[0] * 3}; }
};

TEST(Function, InputThatIsHandedThroughIsAnotherTensor) {
  const Tensor x = leaf();
  const Tensor y = Through::apply(x);
  EXPECT_FALSE(y.is_same(x));
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{3, 3, 3}));
}

}  // namespace
