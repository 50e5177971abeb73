// Tensors without elements: an empty batch, images without channels, reductions over nothing. As PyTorch 2.15 answers.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "libcore/core.h"
#include "libcore/tensor/print.h"
#include "tests/libcore/ops/op_test.h"

namespace {

using core::DType;
using core::Shape;
using core::Tensor;
using core::zeros;
using test::message_of;

Tensor leaf(const Shape& sizes) {
  return core::ones(sizes).requires_grad_();
}

TEST(EmptyBatch, LeavesRunningStatisticsAsTheyAre) {
  for (const Shape& sizes : {Shape{0, 3}, Shape{0, 3, 4}, Shape{0, 3, 4, 4}, Shape{2, 3, 0, 4}}) {
    const Tensor mean = core::full({3}, 0.5), var = core::full({3}, 2.0), x = zeros(sizes).requires_grad_();
    const Tensor weight = leaf({3}), bias = leaf({3});
    const Tensor out = core::batch_norm(
        x, {.running_mean = mean, .running_var = var, .weight = weight, .bias = bias, .training = true});
    core::backward({out.sum()});
    EXPECT_EQ(out.sizes(), sizes);
    EXPECT_EQ(core::to_string(mean), "tensor([0.5000, 0.5000, 0.5000])");
    EXPECT_EQ(core::to_string(var), "tensor([2., 2., 2.])");
    EXPECT_EQ(x.grad().sizes(), sizes);
    EXPECT_EQ(core::to_string(weight.grad()), "tensor([0., 0., 0.])");
    EXPECT_EQ(core::to_string(bias.grad()), "tensor([0., 0., 0.])");
  }
}

TEST(EmptyBatch, GivesWeightsOfLayerNormNoGradient) {
  const Tensor x = zeros({0, 3}).requires_grad_(), weight = leaf({3}), bias = leaf({3});
  core::backward({core::layer_norm(x, {3}, {.weight = weight, .bias = bias}).sum()});
  EXPECT_EQ(x.grad().sizes(), Shape({0, 3}));
  EXPECT_EQ(core::to_string(weight.grad()), "tensor([0., 0., 0.])");
  EXPECT_EQ(core::to_string(bias.grad()), "tensor([0., 0., 0.])");
}

TEST(EmptyBatch, PassesGroupNorm) {
  for (const Shape& sizes : {Shape{0, 6}, Shape{0, 6, 4}, Shape{0, 6, 4, 4}}) {
    const Tensor x = zeros(sizes).requires_grad_(), weight = leaf({6});
    const Tensor out = core::group_norm(x, 3, {.weight = weight});
    core::backward({out.sum()});
    EXPECT_EQ(out.sizes(), sizes);
    EXPECT_EQ(x.grad().sizes(), sizes);
    EXPECT_EQ(core::to_string(weight.grad()), "tensor([0., 0., 0., 0., 0., 0.])");
  }
  EXPECT_EQ(message_of([] { core::group_norm(zeros({2, 6, 0}), 3); }), "Expected HxW to be greater than 0, got 0");
  EXPECT_EQ(message_of([] {
              core::group_norm(zeros({2, 0, 4}), 3);
            }),
            "Expected number of channels to be greater than 0, got 0");
}

TEST(EmptyBatch, PassesPoolsOfTheLargest) {
  const auto expect = [](const Shape& sizes, const Shape& pooled,
                         const std::function<core::ValuesIndices(const Tensor&)>& pool) {
    const Tensor x = zeros(sizes).requires_grad_();
    const core::ValuesIndices out = pool(x);
    core::backward({out.values.sum()});
    EXPECT_EQ(out.values.sizes(), pooled);
    EXPECT_EQ(out.indices.sizes(), pooled);
    EXPECT_EQ(out.indices.dtype(), DType::i64);
    EXPECT_EQ(x.grad().sizes(), sizes);
  };
  const auto line = [](const Tensor& x) { return core::adaptive_max_pool1d(x, 2); };
  const auto plane = [](const Tensor& x) { return core::adaptive_max_pool2d(x, {2}); };
  const auto volume = [](const Tensor& x) { return core::adaptive_max_pool3d(x, {2}); };
  const auto windows = [](const Tensor& x) { return core::max_pool3d_with_indices(x, {2}); };
  expect({0, 3, 8}, {0, 3, 2}, line);
  expect({0, 8}, {0, 2}, line);
  expect({0, 3, 8, 8}, {0, 3, 2, 2}, plane);
  expect({0, 3, 8, 8, 8}, {0, 3, 2, 2, 2}, volume);
  expect({0, 3, 8, 8, 8}, {0, 3, 4, 4, 4}, windows);
  expect({2, 3, 4, 4}, {2, 3, 0, 0}, [](const Tensor& x) { return core::adaptive_max_pool2d(x, {0}); });
  EXPECT_EQ(message_of([&] {
              line(zeros({3, 0, 8}));
            }),
            "adaptive_max_pool1d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            "[3, 0, 8] with dimension 1 being empty");
  EXPECT_EQ(message_of([&] {
              windows(zeros({0, 8, 8, 8}));
            }),
            "max_pool3d_with_indices_out_cpu_template(): Expected input to have non-zero size for non-batch "
            "dimensions, but input has sizes [0, 8, 8, 8] with dimension 0 being empty");
}

TEST(NoChannels, StayNoneInConvolutions) {
  const auto expect = [](std::size_t rank,
                         const std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>& f) {
    Shape sizes{2, 0}, kernel{4, 0}, out{2, 0};
    for (std::size_t i = 0; i < rank; ++i) sizes.push_back(5), kernel.push_back(3), out.push_back(3);
    const Tensor x = zeros(sizes).requires_grad_(), weight = zeros(kernel).requires_grad_(), bias = leaf({4});
    const Tensor y = f(x, weight, bias);
    EXPECT_EQ(y.sizes(), out);
    EXPECT_EQ(f(x, weight, {}).sizes(), out);
    core::backward({y.sum()});
    EXPECT_EQ(x.grad().sizes(), sizes);
    EXPECT_EQ(weight.grad().sizes(), kernel);
    EXPECT_EQ(core::to_string(bias.grad()), "tensor([0., 0., 0., 0.])");
  };
  expect(1, [](const Tensor& x, const Tensor& w, const Tensor& b) { return core::conv1d(x, w, b); });
  expect(2, [](const Tensor& x, const Tensor& w, const Tensor& b) { return core::conv2d(x, w, b); });
  expect(3, [](const Tensor& x, const Tensor& w, const Tensor& b) { return core::conv3d(x, w, b); });
}

TEST(NoElements, OfImagesAreRefusedByPools) {
  EXPECT_EQ(message_of([] {
              core::avg_pool2d(zeros({1, 0, 4, 4}), {2});
            }),
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:[1, 0, 4, 4]");
  EXPECT_EQ(
      message_of([] {
        core::max_pool1d(zeros({1, 1, 0}), {2});
      }),
      "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:[1, 1, 0]");
  const auto of_volume = [](const char* name, const char* sizes, const char* dim) {
    return std::string(name) +
           "(): Expected input to have non-zero size for non-batch dimensions, but input has sizes " + sizes +
           " with dimension " + dim + " being empty";
  };
  EXPECT_EQ(message_of([] {
              core::avg_pool3d(zeros({0, 4, 4, 4}), {2});
            }),
            of_volume("avg_pool3d", "[0, 4, 4, 4]", "0"));
  EXPECT_EQ(message_of([] {
              core::adaptive_avg_pool3d(zeros({1, 1, 4, 4, 0}), {2});
            }),
            of_volume("adaptive_avg_pool3d", "[1, 1, 4, 4, 0]", "4"));
  EXPECT_EQ(core::avg_pool3d(zeros({0, 1, 4, 4, 4}), {2}).sizes(), Shape({0, 1, 2, 2, 2}));
}

TEST(Pools, TakeABatchOfImagesOrOne) {
  EXPECT_EQ(message_of([] {
              core::adaptive_max_pool2d(zeros({4, 4}), {2});
            }),
            "adaptive_max_pool2d(): Expected 3D or 4D tensor, but got: [4, 4]");
  EXPECT_EQ(message_of([] {
              core::adaptive_avg_pool3d(zeros({4, 4, 4}), {2});
            }),
            "adaptive_avg_pool3d(): Expected 4D or 5D tensor, but got [4, 4, 4]");
  EXPECT_EQ(message_of([] {
              core::avg_pool3d(zeros({4, 4, 4}), {2});
            }),
            "non-empty 4D or 5D (batch mode) tensor expected for input");
  EXPECT_EQ(message_of([] { core::avg_pool1d(zeros({4}), {2}); }),
            "Expected 2 to 3 dimensions, but got 1-dimensional tensor for argument #1 'self' (while checking arguments "
            "for avg_pool1d)");
}

TEST(NoElements, OfKernelsAreRefusedByConvolutions) {
  EXPECT_EQ(message_of([] {
              core::conv2d(zeros({1, 1, 4, 4}), zeros({2, 1, 0, 3}));
            }),
            "kernel size should be greater than zero, but got kernel_height: 0 kernel_width: 3");
  EXPECT_EQ(message_of([] {
              core::conv1d(zeros({1, 1, 4}), zeros({2, 1, 0}));
            }),
            "kernel size should be greater than zero, but got kernel_height: 1 kernel_width: 0");
  EXPECT_EQ(message_of([] {
              core::conv3d(zeros({1, 1, 4, 4, 4}), zeros({2, 1, 0, 3, 3}));
            }),
            "kernel size should be greater than zero, but got: 0 x 3 x 3 (TxHxW)");
}

TEST(NoElements, AreRefusedByTransposedConvolutions) {
  const auto message = [](const Shape& sizes, const Shape& kernel) {
    return message_of([&] { core::conv_transpose1d(zeros(sizes), zeros(kernel)); });
  };
  EXPECT_EQ(
      message({1, 0, 4}, {0, 2, 3}),
      "Given groups=1, expected weight to be at least 1 at dimension 0, but got weight of size [0, 2, 3] instead");
  EXPECT_EQ(message({1, 1, 0}, {1, 2, 3}),
            "Only zero batch or zero channel inputs are supported, but got input shape: [1, 1, 1, 0]");
  EXPECT_EQ(message({1, 1, 4}, {1, 0, 3}), "non-empty 2D or 4D weight tensor expected, but got: [1, 0, 1, 3]");
  EXPECT_EQ(message({1, 1, 4}, {1, 2, 0}),
            "kernel size should be greater than zero, but got kernel_height: 1 kernel_width: 0");
  EXPECT_EQ(core::conv_transpose1d(zeros({0, 1, 4}), zeros({1, 2, 3})).sizes(), Shape({0, 2, 6}));
}

TEST(NoElements, HaveNoPlaceOfTheLargest) {
  const auto message = [](std::int64_t dim) { return message_of([&] { core::argmax(zeros({2, 0}), dim); }); };
  EXPECT_EQ(message(1), "argmax(): Expected reduction dim 1 to have non-zero size.");
  EXPECT_EQ(message(-1), "argmax(): Expected reduction dim 1 to have non-zero size.");
  EXPECT_EQ(message_of([&] { core::argmin(zeros({0}), 0, true); }),
            "argmin(): Expected reduction dim 0 to have non-zero size.");
  EXPECT_EQ(core::argmax(zeros({2, 0}), 0).sizes(), Shape({0}));
}

}  // namespace
