#pragma once
// What the tests of operations share: a small matrix, special values, the text of an error.
// Use: EXPECT_EQ(test::message_of([] { core::polygamma(-1, x); }), "polygamma(n, x) does not support negative n.");

#include <limits>
#include <string>

#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "tests/support/message_of.h"

namespace test {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// [[0, 1, 2], [3, 4, 5]] in f32.
inline core::Tensor counted() {
  return core::tensor({{0.0, 1.0, 2.0}, {3.0, 4.0, 5.0}});
}

}  // namespace test
