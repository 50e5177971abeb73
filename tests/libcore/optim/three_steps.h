#pragma once
// What the tests of single optimizers share: parameters, gradients from a simple rule, and a comparison with numbers of
// PyTorch. Use: run_dense(optimizer, params); expect_close(params[0], {{-0.96, ...}});

#include <gtest/gtest.h>

#include <vector>

#include "libcore/ops/compare.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/optimizer.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/print.h"
#include "tests/support/message_of.h"

namespace test {

inline void expect_close(const core::Tensor& found, const core::NestedValues& expected, double rtol = 1e-5) {
  EXPECT_TRUE(core::allclose(found, core::tensor(expected), {.rtol = rtol, .atol = 1e-6})) << found;
}

/// From -1 to 1.
inline core::Tensor parameter(const core::Shape& sizes) {
  return core::linspace(-1, 1, sizes.numel()).view(sizes).clone().requires_grad_();
}

/// Three steps with gradients from a simple rule.
inline void run_dense(core::Optimizer& optimizer, const std::vector<core::Tensor>& params) {
  for (int k = 0; k < 3; ++k) {
    for (const core::Tensor& p : params) {
      p.set_grad(core::arange(static_cast<double>(p.numel())).view(p.sizes()) * 0.3 - 0.5 + 0.1 * k);
    }
    optimizer.step();
  }
}

}  // namespace test
