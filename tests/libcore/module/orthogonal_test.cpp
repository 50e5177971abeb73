// Orthogonal parameters: keys, printed forms, values, gradients and errors of PyTorch 2.15.
#include <gtest/gtest.h>

#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/module/parametrize.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/print.h"
#include "tests/support/message_of.h"

namespace {

using core::Linear;
using core::Tensor;
using test::message_of;

void expect_close(const Tensor& found, const core::NestedValues& expected) {
  EXPECT_TRUE(core::allclose(found, core::tensor(expected), {.rtol = 1e-4, .atol = 5e-6})) << found;
}

struct Case {
  std::int64_t in, out;
  core::OrthogonalOptions options;
};

/// A Linear drawn after manual_seed(0), orthogonal, and the gradient of the sum of the squares of its output of ones.
struct Made {
  Linear fc;
  Tensor value, gradient;

  explicit Made(const Case& c) : fc((core::manual_seed(0), Linear(c.in, c.out))) {
    core::parametrizations::orthogonal(fc, "weight", c.options);
    value = fc.weight.detach();
    fc(core::ones({1, c.in})).pow(2).sum().backward();
    gradient = fc.parameter("parametrizations.weight.original").grad().flatten();
  }
};

TEST(Orthogonal, OfASquareMatrix) {
  const Made made({3, 3, {}});
  expect_close(made.value,
               {{-0.010169, 0.558102, -0.829710}, {-0.999586, -0.028004, -0.006586}, {-0.026911, 0.829300, 0.558156}});
  expect_close(made.gradient, {0.0, 0.0, 0.0, -0.359752, 0.0, 0.0, -0.729728, -0.369975, 0.0});
  EXPECT_EQ(made.fc.state_dict().keys(),
            (std::vector<std::string>{"bias", "parametrizations.weight.original", "parametrizations.weight.0.base"}));
  EXPECT_EQ(made.fc.str(),
            "ParametrizedLinear(\n  in_features=3, out_features=3, bias=True\n  (parametrizations): ModuleDict(\n    "
            "(weight): ParametrizationList(\n      (0): _Orthogonal()\n    )\n  )\n)");
}

TEST(Orthogonal, MapsWithoutABase) {
  const Made exponential({3, 3, {.orthogonal_map = "matrix_exp", .use_trivialization = false}});
  expect_close(exponential.value,
               {{0.912566, 0.400329, -0.083422}, {-0.395261, 0.811214, -0.430930}, {-0.104841, 0.426226, 0.898521}});
  expect_close(exponential.gradient, {0.0, 0.0, 0.0, -0.566105, 0.0, 0.0, -0.605145, 0.298808, 0.0});
  const Made cayley({3, 3, {.orthogonal_map = "cayley", .use_trivialization = false}});
  expect_close(cayley.value,
               {{0.917696, 0.389513, -0.078186}, {-0.384742, 0.822290, -0.419300}, {-0.099031, 0.414872, 0.904475}});
  expect_close(cayley.gradient, {0.0, 0.0, 0.0, -0.529580, 0.0, 0.0, -0.584907, 0.260318, 0.0});
  const Made reflections({3, 3, {.orthogonal_map = "householder", .use_trivialization = false}});
  expect_close(reflections.gradient, {0.0, 0.0, 0.0, 0.399441, 0.0, 0.0, 0.353889, 0.584657, 0.0});
  expect_close(reflections.fc.parameters()[1].detach().flatten(),
               {1.0, 0.206808, -0.148546, 0.989524, 1.0, -0.312028, 0.026640, -0.515378, -1.0});
}

TEST(Orthogonal, OfWideAndTallMatrices) {
  const Made wide({4, 2, {}});
  expect_close(wide.value, {{-0.006099, 0.437010, -0.670487, -0.599527}, {-0.452619, 0.488392, -0.291598, 0.686717}});
  const Made tall({2, 4, {}});
  expect_close(tall.value,
               {{-0.008237, 0.484121}, {-0.905487, -0.228335}, {-0.423734, 0.441480}, {-0.021798, 0.720129}});
  const Made tall_exponential({2, 4, {.orthogonal_map = "matrix_exp", .use_trivialization = false}});
  expect_close(tall_exponential.gradient, {0.0, 0.0, 0.334451, 0.0, -0.582302, -0.276507, -0.395657, -0.278735});
}

TEST(Orthogonal, StaysSoWhileItIsTrained) {
  core::manual_seed(1);
  Linear fc(5, 3);
  core::parametrizations::orthogonal(fc);
  core::SGD optimizer(fc.parameters(), {.lr = 0.3});
  for (int i = 0; i < 5; ++i) {
    optimizer.zero_grad();
    fc(core::ones({1, 5})).sum().backward();
    optimizer.step();
  }
  fc(core::ones({1, 5}));
  const Tensor weight = fc.weight.detach();
  EXPECT_TRUE(core::allclose(core::matmul(weight, weight.t()), core::eye(3), {.atol = 1e-5}));
}

TEST(Orthogonal, ConvolutionsAreBatchesOfMatrices) {
  core::Conv2d conv(3, 3, 3);
  core::parametrizations::orthogonal(conv);
  EXPECT_EQ(conv.weight.sizes(), (core::Shape{3, 3, 3, 3}));
}

TEST(Orthogonal, Errors) {
  Linear fc(2, 2);
  EXPECT_EQ(message_of([&] { core::parametrizations::orthogonal(fc, "weight", {.orthogonal_map = "x"}); }),
            "orthogonal_map has to be one of \"matrix_exp\", \"cayley\", \"householder\". Got: x");
  EXPECT_EQ(message_of([&] { core::parametrizations::orthogonal(fc, "bias"); }),
            "Expected a matrix or batch of matrices. Got a tensor of 1 dimensions.");
  EXPECT_EQ(message_of([&] { core::parametrizations::orthogonal(fc, "foo"); }),
            "Module 'Linear(in_features=2, out_features=2, bias=True)' has no parameter or buffer with name 'foo'");
}

}  // namespace
