#include "libcore/optim/lbfgs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "libcore/base/error.h"
#include "libcore/module/parameter.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "tests/support/message_of.h"

namespace {

using core::Parameter;
using core::Scalar;
using core::Tensor;
using test::message_of;

/// Rosenbrock's valley from (-1.5, 2).
struct Valley {
  Parameter w{core::tensor({-1.5, 2.0}, {.dtype = core::DType::f64})};
  core::LBFGS optimizer;

  explicit Valley(const core::LBFGSOptions& options) : optimizer({w}, options) {}
  double step() {
    return optimizer
        .step([&] {
          optimizer.zero_grad();
          const Tensor rise = w[1] - w[0] * w[0];
          Tensor loss = core::square(w[0] * -1.0 + 1.0) + rise * rise * 100.0;
          loss.backward();
          return loss;
        })
        .item<double>();
  }
  std::int64_t count(const char* name) const {
    const core::OptimizerState state = optimizer.state_dict();
    for (const auto& [key, value] : state.values.at(0).second) {
      if (key == name) return std::get<Scalar>(value).to_int();
    }
    return -1;
  }
};

// Literals of PyTorch 2.15.

TEST(LBFGS, FollowsTheStrongWolfeSearch) {
  Valley valley({.line_search_fn = "strong_wolfe"});
  EXPECT_DOUBLE_EQ(valley.step(), 12.5);
  EXPECT_NEAR(valley.step(), 1.3070983150500495, 1e-9);
  EXPECT_NEAR(valley.step(), 1.884048137837783e-07, 1e-11);
  EXPECT_NEAR(valley.step(), 1.8769270132829514e-10, 1e-13);
  EXPECT_NEAR(valley.w[0].item<double>(), 0.9999979943196398, 1e-9);
  EXPECT_EQ(valley.count("func_evals"), 54);
  EXPECT_EQ(valley.count("n_iter"), 42);
}

TEST(LBFGS, StepsByTheRateWithoutASearch) {
  Valley valley({.lr = 0.1, .max_iter = 5});
  EXPECT_DOUBLE_EQ(valley.step(), 12.5);
  EXPECT_NEAR(valley.step(), 5.869497426825734, 1e-9);
  EXPECT_NEAR(valley.step(), 5.85847173127243, 1e-9);
  EXPECT_NEAR(valley.step(), 5.843923375196381, 1e-9);
  EXPECT_EQ(valley.count("func_evals"), 20);
}

TEST(LBFGS, ForgetsWhatIsOlderThanItsHistory) {
  Valley valley({.max_iter = 3, .history_size = 2, .line_search_fn = "strong_wolfe"});
  for (int i = 0; i < 4; ++i) valley.step();
  EXPECT_NEAR(valley.w[0].item<double>(), -1.3079672704460197, 1e-9);
  EXPECT_NEAR(valley.w[1].item<double>(), 1.6657227146162434, 1e-9);
  EXPECT_EQ(valley.count("n_iter"), 7);
}

TEST(LBFGS, ResumesBitForBit) {
  const core::LBFGSOptions options{.max_iter = 3, .history_size = 4, .line_search_fn = "strong_wolfe"};
  Valley straight(options), resumed(options);
  for (int i = 0; i < 3; ++i) straight.step();
  resumed.w.set_data(straight.w.detach().clone());
  resumed.optimizer.load_state_dict(straight.optimizer.state_dict());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(straight.step(), resumed.step());
  EXPECT_TRUE(straight.w.detach().equal(resumed.w.detach()));
  EXPECT_EQ(straight.count("func_evals"), resumed.count("func_evals"));
}

TEST(LBFGS, TakesSeveralParametersAndSomeWithoutGradient) {
  Parameter w(core::tensor({3.0, -2.0})), b(core::tensor({{0.5}})), unused(core::ones({2}));
  core::LBFGS optimizer({w, b, unused}, {.max_iter = 2, .line_search_fn = "strong_wolfe"});
  const auto loss = [&] {
    optimizer.zero_grad();
    Tensor sum = core::sum(w * w * core::tensor({1.0, 10.0})) + core::sum(core::square(b - w[0]));
    sum.backward();
    return sum;
  };
  EXPECT_EQ(optimizer.step(loss).item<float>(), 55.25F);
  EXPECT_NEAR(optimizer.step(loss).item<float>(), 29.293685913, 1e-3);
  EXPECT_NEAR(optimizer.step(loss).item<float>(), 5.041850566, 1e-3);
  EXPECT_TRUE(unused.detach().equal(core::ones({2})));
}

TEST(LBFGS, ChecksItsArguments) {
  Valley valley({});
  EXPECT_EQ(message_of([&] { valley.optimizer.step(); }),
            "LBFGS.step() missing 1 required positional argument: 'closure'");
  Valley other({.line_search_fn = "armijo"});
  EXPECT_EQ(message_of([&] { other.step(); }), "only 'strong_wolfe' is supported");
  EXPECT_EQ(message_of([] { Valley({.lr = -1}); }), "Invalid learning rate: -1");
}

TEST(LBFGS, PrintsItsOptions) {
  EXPECT_EQ(Valley({}).optimizer.str(),
            "LBFGS (\nParameter Group 0\n    history_size: 100\n    line_search_fn: None\n    lr: 1\n    max_eval: 25\n"
            "    max_iter: 20\n    maximize: False\n    tolerance_change: 1e-09\n    tolerance_grad: 1e-07\n)");
}

}  // namespace
