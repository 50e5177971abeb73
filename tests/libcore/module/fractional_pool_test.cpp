// Fractional pooling: values, texts and errors of PyTorch 2.15.
#include "libcore/ops/compare.h"
#include "libcore/ops/index.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/pool.h"
#include "libcore/tensor/tensor.h"

#include <gtest/gtest.h>

#include "libcore/module/pooling.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/random.h"
#include "tests/support/message_of.h"

namespace {

using core::NestedValues;
using core::Shape;
using core::Tensor;
using test::message_of;

void expect_close(const Tensor& found, const NestedValues& expected) {
  EXPECT_TRUE(core::allclose(found, core::tensor(expected), {.rtol = 1e-4, .atol = 2e-6})) << found;
}

Tensor wave(const Shape& sizes) {
  return core::sin(core::arange(static_cast<double>(sizes.numel())) * 1.7).view(sizes);
}

TEST(FractionalMaxPool, OfPlanesWithGivenSamples) {
  const Tensor samples = core::tensor({{{0.3, 0.7}, {0.2, 0.9}}});
  const auto pooled =
      core::fractional_max_pool2d(wave({1, 2, 6, 6}), {2, 3}, {.output_size = {4, 3}, .random_samples = samples});
  EXPECT_TRUE(pooled.indices.flatten().equal(
      core::tensor({1, 1, 5, 12, 19, 23, 19, 27, 23, 30, 27, 34, 2, 2, 9, 13, 13, 9, 13, 13, 17, 24, 31, 35})));
  EXPECT_TRUE(pooled.values[0][0].flatten().equal(
      core::index_select(wave({1, 2, 6, 6})[0][0].flatten(), 0, pooled.indices[0][0].flatten())));
}

TEST(FractionalMaxPool, OfVolumesWithGivenSamples) {
  const Tensor samples = core::tensor({{{0.3, 0.7, 0.1}}});
  const auto pooled =
      core::fractional_max_pool3d(wave({1, 1, 6, 6, 6}), {2}, {.output_size = {3, 4, 2}, .random_samples = samples});
  EXPECT_TRUE(pooled.indices.flatten().equal(core::tensor(
      {1, 5, 12, 23, 60, 23, 60, 71, 108, 119, 90, 130, 97, 130, 97, 101, 145, 149, 193, 160, 204, 208, 204, 208})));
}

TEST(FractionalMaxPool, DrawsAsPyTorch) {
  core::manual_seed(0);
  const core::FractionalMaxPool2d pool({2}, {.output_ratio = {0.5}});
  expect_close(pool.forward(wave({1, 2, 6, 6}))[0][0],
               {{0.991665, 0.859162, 0.798487}, {0.999793, 0.529083, 0.985601}, {0.670229, 0.940428, 0.949405}});
  expect_close(core::rand({1}), {0.307423});
  EXPECT_EQ(core::fractional_max_pool2d(wave({2, 6, 6}), {2}, {.output_ratio = {0.5, 0.7}}).values.sizes(),
            (Shape{2, 3, 4}));
  const Tensor x = wave({1, 2, 6, 6}).requires_grad_();
  EXPECT_EQ(pool.forward(x).grad_fn_name(), "FractionalMaxPool2DBackward0");
  EXPECT_EQ(pool.str(), "FractionalMaxPool2d()");
}

TEST(FractionalMaxPool, Errors) {
  const Tensor x = core::ones({1, 1, 5, 5});
  EXPECT_EQ(message_of([&] { core::fractional_max_pool2d(x, {2}, {.output_size = {5}}); }),
            "fractional_max_pool2d(): pool height 2 too large relative to input height 5");
  EXPECT_EQ(message_of([&] {
              core::fractional_max_pool3d(core::ones({1, 1, 4, 4, 4}), {2}, {.output_size = {4}});
            }),
            "fractional_max_pool3d_out(): pool time 2 too large relative to input time 4");
  EXPECT_EQ(message_of([&] { core::fractional_max_pool2d(x, {2}, {}); }),
            "fractional_max_pool2d requires specifying either an output_size or an output_ratio");
  EXPECT_EQ(message_of([] { core::FractionalMaxPool2d({2}, {}); }),
            "FractionalMaxPool2d requires specifying either an output size, or a pooling ratio");
  EXPECT_EQ(message_of([] { core::FractionalMaxPool2d({2}, {.output_size = {2}, .output_ratio = {0.5}}); }),
            "only one of output_size and output_ratio may be specified");
  EXPECT_EQ(message_of([] { core::FractionalMaxPool2d({2}, {.output_ratio = {1.5}}); }),
            "output_ratio must be between 0 and 1 (got 1.5)");
}

}  // namespace
