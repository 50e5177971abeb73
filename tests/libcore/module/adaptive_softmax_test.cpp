// Values, texts and errors of PyTorch 2.15.
#include "libcore/module/adaptive_softmax.h"

#include <gtest/gtest.h>

#include "libcore/autograd/grad_mode.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/print.h"
#include "tests/support/message_of.h"

namespace {

using core::NestedValues;
using core::Tensor;
using test::message_of;

void expect_close(const Tensor& found, const NestedValues& expected) {
  EXPECT_TRUE(core::allclose(found, core::tensor(expected), {.rtol = 1e-4, .atol = 2e-6})) << found;
}

/// Ten classes, cut at 2 and 5, with weights from a simple rule.
core::AdaptiveLogSoftmaxWithLoss adaptive() {
  core::AdaptiveLogSoftmaxWithLoss loss(4, 10, {2, 5}, {.div_value = 2});
  const core::NoGradGuard no_history;
  for (const Tensor& p : loss.parameters()) {
    const Tensor count = core::arange(static_cast<double>(p.numel())).reshape(p.sizes());
    p.copy_(core::remainder(count, core::tensor(7.0)) * 0.25 - 0.5);
  }
  return loss;
}
const Tensor kRows = core::tensor({{1.0, 2.0, 3.0, 4.0}, {-1.0, 0.0, 1.0, 2.0}, {0.5, 0.5, -0.5, -0.5}});
const Tensor kTargets = core::tensor({0, 3, 9});

TEST(AdaptiveLogSoftmax, LossAndItsGradients) {
  auto loss = adaptive();
  const auto [output, value] = loss(kRows, kTargets);
  expect_close(output, {-3.542467, -1.696311, -2.442827});
  expect_close(value, 2.560535);
  value.backward();
  expect_close(loss.head.weight.grad()[0], {-0.420813, -0.630957, -0.873931, -1.084076});
  expect_close(loss.parameter("tail.1.1.weight").grad(),
               {{-0.042140}, {-0.037188}, {-0.032818}, {-0.028962}, {0.141108}});
}

TEST(AdaptiveLogSoftmax, AllProbabilitiesAndTheBest) {
  auto loss = adaptive();
  expect_close(loss.log_prob(kRows)[1], {-1.076973, -2.576973, -1.946311, -1.696311, -1.446311, -5.998085, -5.748085,
                                         -5.498085, -5.248085, -4.998085});
  EXPECT_TRUE(loss.predict(kRows).equal(core::tensor({1, 0, 1})));
  EXPECT_TRUE(loss.predict(-kRows).equal(core::tensor({0, 5, 0})));
  expect_close(loss(kRows[1], core::tensor(3)).output, -1.696311);
}

TEST(AdaptiveLogSoftmax, KeysAndText) {
  auto loss = adaptive();
  EXPECT_EQ(loss.state_dict().keys(), (std::vector<std::string>{"head.weight", "tail.0.0.weight", "tail.0.1.weight",
                                                                "tail.1.0.weight", "tail.1.1.weight"}));
  EXPECT_EQ(loss.str(),
            "AdaptiveLogSoftmaxWithLoss(\n"
            "  (head): Linear(in_features=4, out_features=4, bias=False)\n"
            "  (tail): ModuleList(\n"
            "    (0): Sequential(\n"
            "      (0): Linear(in_features=4, out_features=2, bias=False)\n"
            "      (1): Linear(in_features=2, out_features=3, bias=False)\n"
            "    )\n"
            "    (1): Sequential(\n"
            "      (0): Linear(in_features=4, out_features=1, bias=False)\n"
            "      (1): Linear(in_features=1, out_features=5, bias=False)\n"
            "    )\n"
            "  )\n"
            ")");
}

TEST(AdaptiveLogSoftmax, Errors) {
  const std::string order =
      "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is "
      "between 1 and n_classes-1";
  EXPECT_EQ(message_of([] { core::AdaptiveLogSoftmaxWithLoss(4, 10, {5, 2}); }), order);
  EXPECT_EQ(message_of([] { core::AdaptiveLogSoftmaxWithLoss(4, 10, {10}); }), order);
  EXPECT_EQ(message_of([] { core::AdaptiveLogSoftmaxWithLoss(4, 10, {}); }),
            "cutoffs should be a sequence of length larger than 0");
  auto loss = adaptive();
  EXPECT_EQ(message_of([&] {
              loss(kRows, core::tensor({0, 1}));
            }),
            "Input and target should have the same size in the batch dimension.");
  EXPECT_EQ(message_of([&] {
              loss(kRows, core::tensor({0, 1, 10}));
            }),
            "Target values should be in [0, 9], but values in range [0, 10] were found. ");
  EXPECT_EQ(message_of([&] {
              loss(kRows, core::tensor({{0, 1, 2}}));
            }),
            "0D or 1D target tensor expected, multi-target not supported");
}

}  // namespace
