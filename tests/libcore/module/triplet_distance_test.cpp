// The triplet loss of a given distance: values, texts and errors of PyTorch 2.15.
#include "libcore/module/loss.h"

#include <gtest/gtest.h>

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

const Tensor kAnchor = core::tensor({{1.0, 2.0}, {3.0, 4.0}}), kNear = core::tensor({{1.0, 1.0}, {0.0, 0.0}}),
             kFar = core::tensor({{2.0, 2.0}, {3.0, 5.0}});

TEST(TripletMarginWithDistance, Values) {
  expect_close(core::triplet_margin_with_distance_loss(kAnchor, kNear, kFar), 3.0);
  core::TripletMarginWithDistanceLoss city(
      [](const Tensor& a, const Tensor& b) { return (a - b).abs().sum(core::Shape{-1}); },
      {.margin = 2, .swap = true, .reduction = core::Reduction::none});
  expect_close(city(kAnchor, kNear, kFar), {2.0, 8.0});
  EXPECT_EQ(city.str(), "TripletMarginWithDistanceLoss()");
  EXPECT_EQ(core::TripletMarginWithDistanceLoss().str(),
            "TripletMarginWithDistanceLoss(\n  (distance_function): PairwiseDistance()\n)");
}

TEST(TripletMarginWithDistance, Errors) {
  EXPECT_EQ(message_of([] { core::triplet_margin_with_distance_loss(kAnchor, kNear, kFar, {}, {.margin = -1}); }),
            "margin must be greater than 0, got -1.0");
  EXPECT_EQ(message_of([] { core::TripletMarginWithDistanceLoss({.margin = 0}); }),
            "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got 0.0 instead");
  EXPECT_EQ(message_of([] { core::triplet_margin_with_distance_loss(kAnchor, kNear[0], kFar); }),
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            "anchor 2D, positive 1D, and negative 2D inputs");
}

}  // namespace
