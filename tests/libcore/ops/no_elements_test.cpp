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

TEST(NoElements, HaveNoPlaceOfTheLargest) {
  const auto message = [](std::int64_t dim) { return message_of([&] { core::argmax(zeros({2, 0}), dim); }); };
  EXPECT_EQ(message(1), "argmax(): Expected reduction dim 1 to have non-zero size.");
  EXPECT_EQ(message(-1), "argmax(): Expected reduction dim 1 to have non-zero size.");
  EXPECT_EQ(message_of([&] { core::argmin(zeros({0}), 0, true); }),
            "argmin(): Expected reduction dim 0 to have non-zero size.");
  EXPECT_EQ(core::argmax(zeros({2, 0}), 0).sizes(), Shape({0}));
}

}  // namespace
