// Upsampling under its older names: values and texts of PyTorch 2.15.
#include "libcore/module/image.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/print.h"

#include <gtest/gtest.h>

namespace {

using core::NestedValues;
using core::Tensor;

void expect_close(const Tensor& found, const NestedValues& expected) {
  EXPECT_TRUE(core::allclose(found, core::tensor(expected), {.rtol = 1e-4, .atol = 2e-6})) << found;
}

TEST(Upsampling, ByNameAsInOlderPrograms) {
  const Tensor x = core::arange(4.0).view({1, 1, 2, 2});
  core::UpsamplingBilinear2d bilinear({.scale_factor = {2}});
  expect_close(bilinear(x)[0][0][1], {0.666667, 1.0, 1.333333, 1.666667});
  core::UpsamplingNearest2d nearest({.size = {3}});
  expect_close(nearest(x)[0][0], {{0.0, 0.0, 1.0}, {0.0, 0.0, 1.0}, {2.0, 2.0, 3.0}});
  EXPECT_EQ(bilinear.str(), "UpsamplingBilinear2d(scale_factor=2.0, mode='bilinear')");
  EXPECT_EQ(core::UpsamplingNearest2d({.scale_factor = {2}}).str(),
            "UpsamplingNearest2d(scale_factor=2.0, mode='nearest')");
  EXPECT_EQ(core::UpsamplingBilinear2d({.size = {3, 4}}).str(), "UpsamplingBilinear2d(size=(3, 4), mode='bilinear')");
}

}  // namespace
