#include "libcore/tensor/iterate.h"

#include <gtest/gtest.h>

#include "libcore/tensor/print.h"
#include "tests/libcore/ops/op_test.h"

namespace {

TEST(Iterate, OverTheFirstDimensionByViews) {
  const core::Tensor x = test::counted();
  EXPECT_EQ(core::len(x), 2);
  for (const core::Tensor& row : x) row.add_(1);
  EXPECT_TRUE(x.equal(core::tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}})));
  double last = 0;
  for (const core::Tensor& row : x) last = row.sum().item<double>();
  EXPECT_EQ(last, 15);
  for (const core::Tensor& row : core::ones({0, 3})) FAIL() << row;
}

TEST(Iterate, NumbersHaveNoLength) {
  EXPECT_EQ(test::message_of([] { core::len(core::tensor(1.0)); }), "len() of a 0-d tensor");
  EXPECT_EQ(test::message_of([] {
              for (const core::Tensor& row : core::tensor(1.0)) row.sum();
            }),
            "iteration over a 0-d tensor");
}

}  // namespace
