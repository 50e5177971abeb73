// Softmax along a dimension that is not the last one: neighbouring lines go side by side.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::DType;
using core::Tensor;

class SoftmaxOfLinesApart : public testing::TestWithParam<std::int64_t> {
 protected:
  SoftmaxOfLinesApart() { core::manual_seed(1); }
};

TEST_P(SoftmaxOfLinesApart, IsThatOfEachLineAlone) {
  const Tensor x = core::randn({3, 7, GetParam()}) * 5;
  const Tensor alone = core::softmax(x.transpose(1, 2).contiguous(), 2).transpose(1, 2);
  EXPECT_TRUE(core::allclose(core::softmax(x, 1), alone, {.rtol = 1e-6, .atol = 1e-8}));
  const Tensor wide = x.to(DType::f64), wide_alone = core::softmax(wide.transpose(1, 2).contiguous(), 2);
  EXPECT_TRUE(core::allclose(core::softmax(wide, 1), wide_alone.transpose(1, 2), {.rtol = 1e-14, .atol = 0}));
}

TEST_P(SoftmaxOfLinesApart, IsNaNWhereALineHoldsOne) {
  const Tensor x = core::randn({1, 7, GetParam()});
  x.select(1, 3).select(1, 0).fill_(std::numeric_limits<float>::quiet_NaN());
  const Tensor bad = core::isnan(core::softmax(x, 1));
  EXPECT_TRUE(bad.select(2, 0).all().item<bool>());
  EXPECT_EQ(bad.sum().item<std::int64_t>(), 7);
}

TEST_P(SoftmaxOfLinesApart, GivesTheSameBitsOnSeveralThreads) {
  const Tensor x = core::randn({41, 70, GetParam()});
  const core::ThreadLimitGuard one(1);
  const Tensor alone = core::softmax(x, 1);
  const core::ThreadLimitGuard three(3);
  EXPECT_TRUE(core::softmax(x, 1).equal(alone));
}

INSTANTIATE_TEST_SUITE_P(Lines, SoftmaxOfLinesApart, testing::Values(2, 16, 19, 33));

}  // namespace
