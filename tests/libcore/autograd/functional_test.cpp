// Derivatives of functions: values and errors of PyTorch 2.15.
#include "libcore/autograd/functional.h"

#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::Tensor;
using Values = std::vector<double>;

Values values(const Tensor& x) {
  return x.detach().to_vector<double>();
}
std::string message_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const core::Error& error) {
    return error.message();
  }
  return "no error";
}

const Tensor kX = core::tensor({1.0, 2.0, 3.0});
Tensor two(const Tensor& x) {
  return x.slice(0, 0, 2) * x.sum();
}
Tensor one(const Tensor& x) {
  return x.pow(3).sum() * x[0];
}

TEST(Functional, Jacobian) {
  const Tensor j = core::jacobian(two, kX);
  EXPECT_EQ(j.sizes(), (core::Shape{2, 3}));
  EXPECT_EQ(values(j), (Values{7, 1, 1, 2, 8, 2}));
  EXPECT_FALSE(j.requires_grad());
  EXPECT_EQ(values(core::jacobian([](const Tensor&) { return core::ones({2}); }, kX)), Values(6, 0));
}

TEST(Functional, JacobianOfSeveralInputs) {
  const auto j = core::jacobian([](const std::vector<Tensor>& in) { return in[0] * in[1].sum(); },
                                std::vector<Tensor>{kX, core::ones({2})});
  EXPECT_EQ(values(j[0]), (Values{2, 0, 0, 0, 2, 0, 0, 0, 2}));
  EXPECT_EQ(values(j[1]), (Values{1, 1, 2, 2, 3, 3}));
}

TEST(Functional, GradientsFlowThroughAJacobian) {
  const Tensor x = kX.clone().requires_grad_();
  core::jacobian(two, x, {.create_graph = true}).sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{5, 5, 2}));
}

TEST(Functional, Hessian) {
  EXPECT_EQ(values(core::hessian(one, kX)), (Values{12, 12, 27, 12, 12, 0, 27, 0, 18}));
  EXPECT_EQ(values(core::hessian([](const Tensor& x) { return x.sum(); }, kX)), Values(9, 0));
  EXPECT_EQ(message_of([] { core::hessian(two, kX); }),
            "The Tensor returned by the function given to hessian should contain a single element");
}

TEST(Functional, Products) {
  const Tensor along = core::tensor({1.0, 0.0, 2.0});
  const auto [value, product] = core::vjp(two, kX, core::tensor({1.0, 2.0}));
  EXPECT_EQ(values(value), (Values{6, 12}));
  EXPECT_EQ(values(product), (Values{11, 17, 5}));
  EXPECT_EQ(values(core::vjp(one, kX).product), (Values{39, 12, 27}));
  EXPECT_EQ(values(core::jvp(two, kX, along).product), (Values{9, 6}));
  EXPECT_EQ(values(core::jvp([](const Tensor& x) { return x * 2; }, core::tensor(3.0)).product), Values{2});
  EXPECT_EQ(values(core::hvp(one, kX, along).product), (Values{66, 12, 63}));
  EXPECT_EQ(values(core::vhp(one, kX, along).product), (Values{66, 12, 63}));
}

TEST(Functional, Errors) {
  EXPECT_EQ(message_of([] { core::vjp(two, kX); }),
            "The vector v can only be None if the user-provided function returns a single Tensor with a single "
            "element.");
  EXPECT_EQ(message_of([] { core::jvp(two, kX); }),
            "The vector v can only be None if the input to the user-provided function is a single Tensor with a "
            "single element.");
  EXPECT_EQ(message_of([] { core::vjp(two, kX, core::ones({3})); }),
            "v has invalid size: should be torch.Size([2]) but got torch.Size([3]).");
  EXPECT_EQ(message_of([] { core::hvp(one, kX, core::ones({2})); }),
            "v has invalid size: should be torch.Size([3]) but got torch.Size([2]).");
  EXPECT_EQ(message_of([] { core::vhp(two, kX, core::ones({3})); }),
            "The Tensor returned by the function given to vhp should contain a single element");
}

}  // namespace
