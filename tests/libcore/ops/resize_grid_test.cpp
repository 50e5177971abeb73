// Sampling at places of a grid, grids of affine maps, distances of pairs, draws of categories: values, gradients and
// errors of PyTorch 2.15.
#include <gtest/gtest.h>

#include "libcore/autograd/autograd.h"
#include "libcore/ops/distance.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/resize.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/generator.h"
#include "tests/libcore/ops/op_test.h"

namespace {

using core::Shape;
using core::Tensor;
using test::message_of;

void expect_close(const Tensor& found, const std::vector<double>& expected, double tolerance = 2e-5) {
  const std::vector<double> values = found.detach().to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance) << "at " << i;
}

Tensor image() {
  return core::arange(12.0).reshape({1, 1, 3, 4}).requires_grad_();
}
Tensor places() {
  return core::tensor({{{{-1.2, -0.5}, {0.3, 0.9}}, {{0.0, 1.4}, {-0.7, -0.1}}}}).requires_grad_();
}

struct Row {
  const char *mode, *padding;
  bool align_corners;
  std::vector<double> values, grid_gradient;
  double image_gradient;  ///< the sum of its squares
};

const std::vector<Row> kRows = {
    {"bilinear", "zeros", false, {0.1, 6.565, 0, 3.5}, {2, 0.6, 2.6, -30.3, 0, 0, 8, 24}, 11.40045},
    {"bilinear", "zeros", true, {1.4, 9.55, 5.7, 4.05}, {3, 2.8, 3, 8, 2.7, -28.5, 6, 16}, 16.2714},
    {"bilinear", "border", false, {1, 10.1, 9.5, 3.5}, {0, 6, 4, 0, 6, 0, 8, 24}, 25.9194},
    {"bilinear", "reflection", false, {1, 10.1, 9.1, 3.5}, {0, 6, 4, 0, 6, -18, 8, 24}, 24.6714},
    {"bilinear", "reflection", true, {2.3, 9.55, 7.9, 4.05}, {-1.5, 4, 3, 8, 4.5, -12, 6, 16}, 19.9434},
    {"nearest", "zeros", false, {0, 10, 0, 4}, {0, 0, 0, 0, 0, 0, 0, 0}, 20},
    {"nearest", "border", true, {0, 10, 10, 4}, {0, 0, 0, 0, 0, 0, 0, 0}, 42},
    {"bicubic",
     "zeros",
     false,
     {0.055319, 7.262002, -0.577125, 3.432674},
     {1.073261, 0.390637, 7.590616, -33.742389, -0.273375, -20.199368, 18.107321, 32.809807},
     16.87535},
    {"bicubic",
     "border",
     true,
     {1.514749, 9.627622, 9.931998, 3.789281},
     {0.078749, 3.749998, 4.072494, 6.060004, 3.374999, -1.079991, 5.411268, 21.72001},
     30.95449},
    {"bicubic",
     "reflection",
     false,
     {0.698125, 10.825252, 9.198999, 3.239374},
     {-1.200001, 4.78125, 5.42999, 2.699986, 4.5, -13.635008, 6.060004, 31.004982},
     34.0262},
};

TEST(GridSample, ValuesAndGradients) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(std::string(row.mode) + " " + row.padding + (row.align_corners ? " aligned" : ""));
    const Tensor x = image(), grid = places();
    const Tensor y =
        core::grid_sample(x, grid, {.mode = row.mode, .padding_mode = row.padding, .align_corners = row.align_corners});
    expect_close(y, row.values);
    EXPECT_EQ(y.grad_fn_name(), "GridSampler2DBackward0");
    const std::vector<Tensor> slopes = core::grad({(y * core::tensor({1, 2, 3, 4}).reshape({1, 1, 2, 2})).sum()},
                                                  {x, grid}, {.allow_unused = true, .materialize_grads = true});
    EXPECT_NEAR(slopes[0].square().sum().item<double>(), row.image_gradient, 2e-4);
    expect_close(slopes[1], row.grid_gradient, 1e-4);
  }
}

TEST(GridSample, WithDepth) {
  const Tensor x = core::arange(24.0).reshape({1, 1, 2, 3, 4});
  const Tensor grid = core::tensor({-1.2, -0.5, 0.3, 0.9, 0.1, -0.2}).reshape({1, 1, 1, 2, 3});
  const auto sampled = [&](const char* mode, const char* padding) {
    return core::grid_sample(x, grid, {.mode = mode, .padding_mode = padding, .align_corners = false});
  };
  expect_close(sampled("bilinear", "zeros"), {1.059999, 7.840001});
  expect_close(sampled("bilinear", "reflection"), {10.6, 11.2});
  expect_close(sampled("bicubic", "zeros"), {1.062713, 9.663819});
  expect_close(sampled("nearest", "border"), {12, 7});
}

TEST(GridSample, Errors) {
  const auto with = [](const Tensor& x, const Tensor& grid, core::GridSampleOptions o = {.align_corners = false}) {
    return message_of([&] { core::grid_sample(x, grid, o); });
  };
  EXPECT_EQ(with(image(), places(), {.mode = "foo", .align_corners = false}),
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: 'foo'");
  EXPECT_EQ(with(image(), places(), {.padding_mode = "foo", .align_corners = false}),
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            "'foo'");
  EXPECT_EQ(with(image(), core::ones({2, 1, 1, 2})),
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes [1, 1, 3, 4] "
            "and grid with sizes [2, 1, 1, 2]");
  EXPECT_EQ(with(image(), core::ones({1, 1, 1, 3})),
            "grid_sampler(): expected grid to have size 2 in last dimension, but got grid with sizes [1, 1, 1, 3]");
  EXPECT_EQ(with(core::ones({1, 1, 0, 2}), places()),
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes [1, 1, 0, 2] "
            "with dimension 2 being empty");
  EXPECT_EQ(with(image(), core::ones({1, 1, 2})),
            "grid_sampler(): expected 4D input and grid with same number of dimensions, but got input with sizes [1, "
            "1, 3, 4] and grid with sizes [1, 1, 2]");
  EXPECT_EQ(with(image(), places().to_double()), "expected scalar type Float but found Double");
}

const Tensor kTheta = core::tensor({{{1.0, 0.5, 0.1}, {0.0, 2.0, -0.3}}});

TEST(AffineGrid, Values) {
  const Tensor theta = kTheta.clone().requires_grad_(), grid = core::affine_grid(theta, {1, 1, 2, 3}, false);
  EXPECT_EQ(grid.sizes(), (Shape{1, 2, 3, 2}));
  EXPECT_EQ(grid.grad_fn_name(), "AffineGridGeneratorBackward0");
  expect_close(grid, {-0.816667, -1.3, -0.15, -1.3, 0.516667, -1.3, -0.316667, 0.7, 0.35, 0.7, 1.016667, 0.7});
  expect_close(core::affine_grid(kTheta, {1, 1, 2, 3}, true),
               {-1.4, -2.3, -0.4, -2.3, 0.6, -2.3, -0.4, 1.7, 0.6, 1.7, 1.6, 1.7});
  const Tensor solid = core::tensor({{{1.0, 0.5, 0.1, 0.0}, {0.0, 2.0, -0.3, 1.0}, {0.2, 0.3, 0.4, 0.5}}});
  expect_close(core::affine_grid(solid, {1, 1, 2, 1, 2}, false),
               {-0.55, 1.15, 0.2, 0.45, 1.15, 0.4, -0.45, 0.85, 0.6, 0.55, 0.85, 0.8});
}

TEST(AffineGrid, Errors) {
  const auto with = [](const Tensor& theta, const Shape& size) {
    return message_of([&] { core::affine_grid(theta, size, false); });
  };
  EXPECT_EQ(with(kTheta, {1, 1, 2}),
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size [1, "
            "1, 2].");
  EXPECT_EQ(with(kTheta, {1, 1, 2, 3, 4}),
            "Expected a batch of 3D affine matrices of shape Nx3x4 for size [1, 1, 2, 3, 4]. Got torch.Size([1, 2, "
            "3]).");
  EXPECT_EQ(with(kTheta.to_long(), {1, 1, 2, 3}), "Expected theta to have floating point type, but got torch.int64");
  EXPECT_EQ(with(kTheta, {1, 1, 0, 3}), "Expected non-zero, positive output size. Got [1, 1, 0, 3]");
}

TEST(GumbelSoftmax, DrawsAsPyTorch) {
  core::manual_seed(0);
  const Tensor logits = core::arange(6.0).reshape({2, 3}).requires_grad_();
  expect_close(core::gumbel_softmax(logits, {.tau = 0.5}),
               {5.441947e-04, 3.269350e-02, 9.667623e-01, 5.309808e-03, 2.350670e-01, 7.596232e-01});
  core::manual_seed(0);
  const Tensor hard = core::gumbel_softmax(logits, {.hard = true});
  expect_close(hard, {0, 0, 1, 0, 0, 1});
  hard[0][1].backward();
  expect_close(logits.grad(), {-0.002992, 0.129090, -0.126098, 0, 0, 0});
}

TEST(Pdist, Values) {
  const Tensor x = core::tensor({{0.0, 0.0}, {3.0, 4.0}, {6.0, 8.0}}).requires_grad_(), d = core::pdist(x);
  expect_close(d, {5, 10, 5});
  EXPECT_EQ(d.grad_fn_name(), "PdistBackward0");
  d.sum().backward();
  expect_close(x.grad(), {-1.2, -1.6, 0, 0, 1.2, 1.6});
  expect_close(core::pdist(x, 1), {7, 14, 7});
  expect_close(core::pdist(x, test::kInf), {4, 8, 4});
  EXPECT_EQ(core::pdist(core::ones({1, 3})).numel(), 0);
  EXPECT_EQ(message_of([] { core::pdist(core::ones({3})); }), "pdist only supports 2D tensors, got: 1D");
  EXPECT_EQ(message_of([] { core::pdist(core::ones({2, 2}), -1); }), "pdist only supports non-negative p values");
}

}  // namespace
