// Norms with running statistics under vmap.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "libcore/core.h"

namespace {

namespace func = core::func;
using core::Tensor;

/// Samples would leave their statistics to the next: PyTorch refuses that too. Statistics of a sample are its own.
TEST(VmapNorms, RefusesStatisticsThatAllSamplesWouldChange) {
  const Tensor x = core::randn({3, 6, 2}), mean = core::zeros({2}), var = core::ones({2});
  const std::string text =
      "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, "
      "were not batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be "
      "False.If you are using a prebuilt module and do not need eval mode, please see the functorch website for "
      "resources on how to patch your module to work with vmap";
  const auto expect_refused = [&](const std::function<Tensor(const Tensor&)>& f) {
    try {
      func::vmap(f)(x);
      ADD_FAILURE() << "not refused";
    } catch (const core::Error& e) {
      EXPECT_EQ(std::string(e.what()), text);
    }
  };
  expect_refused([&](const Tensor& v) {
    return core::batch_norm(v, {.running_mean = mean, .running_var = var, .training = true});
  });
  expect_refused([&](const Tensor& v) {
    return core::instance_norm(v.t().unsqueeze(0), {.running_mean = mean, .running_var = var, .training = true});
  });
  core::BatchNorm1d norm(2);
  expect_refused([&](const Tensor& v) { return norm(v); });
  EXPECT_TRUE(core::equal(mean, core::zeros({2})));
  norm.eval();
  EXPECT_TRUE(
      core::allclose(func::vmap([&](const Tensor& v) { return norm(v); })(x), norm(x.flatten(0, 1)).view_as(x)));
  const Tensor means = core::zeros({3, 2}), vars = core::ones({3, 2});
  func::vmap([](const Tensor& v, const Tensor& m, const Tensor& s) {
    return core::batch_norm(v, {.running_mean = m, .running_var = s, .training = true});
  })(x, means, vars);
  EXPECT_TRUE(core::allclose(means, x.mean({1}) * 0.1));
}

}  // namespace
