// Order and counting: values and errors of PyTorch 2.15.
#include <gtest/gtest.h>

#include "libcore/ops/scan.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/options.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "tests/libcore/ops/op_test.h"

namespace {

using core::DType;
using core::Shape;
using core::Tensor;
using core::tensor;
using test::counted;
using test::kInf;
using test::kNan;
using test::message_of;

TEST(OrderOps, RunningExtremes) {
  EXPECT_EQ(core::to_string(core::cummax(tensor({1.0, 3.0, 3.0, kNan, 5.0}), 0).values),
            "tensor([1., 3., 3., nan, nan])");
  EXPECT_EQ(core::to_string(core::cummax(tensor({1.0, 3.0, 3.0, kNan, 5.0}), 0).indices), "tensor([0, 1, 2, 3, 3])");
  EXPECT_EQ(core::to_string(core::cummin(tensor({4.0, 3.0, 3.0, 5.0, 1.0}), 0).values), "tensor([4., 3., 3., 3., 1.])");
  EXPECT_EQ(core::to_string(core::cummin(tensor({4.0, 3.0, 3.0, 5.0, 1.0}), 0).indices), "tensor([0, 1, 2, 2, 4])");
  EXPECT_EQ(core::to_string(core::cummax(tensor({{1, 5, 2}, {4, 3, 9}}), 0).values),
            "tensor([[1, 5, 2],\n"
            "        [4, 5, 9]])");
  EXPECT_EQ(core::to_string(core::cummax(tensor({{1, 5, 2}, {4, 3, 9}}), 0).indices),
            "tensor([[0, 0, 0],\n"
            "        [1, 0, 1]])");
}

TEST(OrderOps, PlacesInOrder) {
  EXPECT_EQ(core::to_string(core::kthvalue(tensor({1.0, 3.0, 2.0}), 2).values), "tensor(2.)");
  EXPECT_EQ(core::to_string(core::kthvalue(tensor({1.0, 3.0, 2.0}), 2).indices), "tensor(2)");
  EXPECT_EQ(core::to_string(core::kthvalue(counted(), 3, 1, true).values),
            "tensor([[2.],\n"
            "        [5.]])");
  EXPECT_EQ(core::to_string(core::kthvalue(counted(), 3, 1, true).indices),
            "tensor([[2],\n"
            "        [2]])");
  EXPECT_EQ(core::to_string(core::mode(tensor({{1, 2, 2, 1, 3}, {3, 3, 1, 1, 1}}), 1).values), "tensor([1, 1])");
  EXPECT_EQ(core::to_string(core::mode(tensor({{1, 2, 2, 1, 3}, {3, 3, 1, 1, 1}}), 1).indices), "tensor([3, 4])");
  EXPECT_EQ(core::to_string(core::median(tensor({{1.0, kNan, 3.0}, {5.0, 4.0, 7.0}}), 1).values), "tensor([nan, 5.])");
  EXPECT_EQ(core::to_string(core::median(tensor({{1.0, kNan, 3.0}, {5.0, 4.0, 7.0}}), 1).indices), "tensor([1, 0])");
  EXPECT_EQ(core::to_string(core::nanmedian(tensor({{1.0, kNan, 3.0}, {5.0, 4.0, 7.0}}), 1).values),
            "tensor([1., 5.])");
  EXPECT_EQ(core::to_string(core::nanmedian(tensor({{1.0, kNan, 3.0}, {5.0, 4.0, 7.0}}), 1).indices), "tensor([0, 0])");
  EXPECT_EQ(core::to_string(core::median(tensor({1.0, kNan, 3.0}))), "tensor(nan)");
  EXPECT_EQ(core::to_string(core::median(tensor({4, 1, 3, 2}))), "tensor(2)");
  EXPECT_EQ(core::to_string(core::nanmedian(tensor({1.0, kNan, 3.0}))), "tensor(1.)");
  EXPECT_EQ(core::to_string(core::aminmax(counted(), 1).min), "tensor([0., 3.])");
  EXPECT_EQ(core::to_string(core::aminmax(counted()).max), "tensor(5.)");
  EXPECT_EQ(message_of([&] { core::kthvalue(counted(), 4, 1); }),
            "kthvalue(): selected number k out of range for dimension 1");
  EXPECT_EQ(message_of([&] {
              core::median(core::ones({2, 0}), 1);
            }),
            "median(): Expected reduction dim 1 to have non-zero size.");
}

TEST(OrderOps, Quantiles) {
  EXPECT_EQ(core::to_string(core::quantile(counted(), tensor({0.25, 0.5}), {.dim = 1})),
            "tensor([[0.5000, 3.5000],\n"
            "        [1.0000, 4.0000]])");
  EXPECT_EQ(core::to_string(core::quantile(counted(), 0.3)), "tensor(1.5000)");
  EXPECT_EQ(core::to_string(core::quantile(counted(), 0.3, {.dim = 0, .keepdim = true})),
            "tensor([[0.9000, 1.9000, 2.9000]])");
  EXPECT_EQ(core::to_string(core::quantile(core::arange(6.0), 0.33, {.interpolation = "lower"})), "tensor(1.)");
  EXPECT_EQ(core::to_string(core::quantile(core::arange(6.0), 0.33, {.interpolation = "higher"})), "tensor(2.)");
  EXPECT_EQ(core::to_string(core::quantile(core::arange(6.0), 0.33, {.interpolation = "midpoint"})), "tensor(1.5000)");
  EXPECT_EQ(core::to_string(core::quantile(core::arange(6.0), 0.33, {.interpolation = "nearest"})), "tensor(2.)");
  EXPECT_EQ(core::to_string(core::quantile(tensor({1.0, kNan, 3.0}), 0.5)), "tensor(nan)");
  EXPECT_EQ(core::to_string(core::nanquantile(tensor({1.0, kNan, 3.0, 4.0}), 0.5)), "tensor(3.)");
  EXPECT_EQ(core::to_string(core::nanquantile(tensor({{1.0, kNan, 3.0}, {5.0, 4.0, 7.0}}), 0.4, {.dim = 1})),
            "tensor([1.8000, 4.8000])");
  EXPECT_EQ(message_of([&] { core::quantile(core::arange(6.0), 1.3); }),
            "quantile() q must be in the range [0, 1] but got 1.3");
  EXPECT_EQ(message_of([&] { core::quantile(core::arange(6), 0.3); }),
            "quantile() input tensor must be either float or double dtype");
  EXPECT_EQ(message_of([&] { core::quantile(core::arange(6.0), 0.3, {.interpolation = "foo"}); }),
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got foo");
  EXPECT_EQ(message_of([&] { core::quantile(core::zeros({0}), 0.3); }), "quantile() input tensor must be non-empty");
  EXPECT_EQ(message_of([&] { core::quantile(core::arange(6.0), tensor({1.3})); }),
            "quantile() q values must be in the range [0, 1]");
}

TEST(OrderOps, DistinctValues) {
  EXPECT_EQ(core::to_string(core::unique_with(tensor({3, 1, 3, 2})).values), "tensor([1, 2, 3])");
  EXPECT_EQ(core::to_string(core::unique_with(tensor({3, 1, 3, 2})).inverse), "tensor([2, 0, 2, 1])");
  EXPECT_EQ(core::to_string(core::unique_with(tensor({3, 1, 3, 2})).counts), "tensor([1, 1, 2])");
  EXPECT_EQ(core::to_string(core::unique_with(tensor({{3, 1}, {1, 2}, {3, 1}}), 0).values),
            "tensor([[1, 2],\n"
            "        [3, 1]])");
  EXPECT_EQ(core::to_string(core::unique_with(tensor({{3, 1}, {1, 2}, {3, 1}}), 0).inverse), "tensor([1, 0, 1])");
  EXPECT_EQ(core::to_string(core::unique_with(tensor({{3, 1}, {1, 2}, {3, 1}}), 0).counts), "tensor([1, 2])");
  EXPECT_EQ(core::to_string(core::unique_with(tensor({{3, 1, 3}, {1, 2, 1}}), 1).values),
            "tensor([[1, 3],\n"
            "        [2, 1]])");
  EXPECT_EQ(core::to_string(core::unique_with(tensor({{3, 1, 3}, {1, 2, 1}}), 1).inverse), "tensor([1, 0, 1])");
  EXPECT_EQ(core::to_string(core::unique_with(tensor({{3, 1, 3}, {1, 2, 1}}), 1).counts), "tensor([1, 2])");
  EXPECT_EQ(core::to_string(core::unique_consecutive(tensor({1, 1, 2, 2, 1})).values), "tensor([1, 2, 1])");
  EXPECT_EQ(core::to_string(core::unique_consecutive(tensor({1, 1, 2, 2, 1})).inverse), "tensor([0, 0, 1, 1, 2])");
  EXPECT_EQ(core::to_string(core::unique_consecutive(tensor({1, 1, 2, 2, 1})).counts), "tensor([2, 2, 1])");
  EXPECT_EQ(core::to_string(core::unique_with(tensor({{3, 1}, {1, 3}})).inverse),
            "tensor([[1, 0],\n"
            "        [0, 1]])");
  EXPECT_EQ(core::to_string(core::unique(tensor({kNan, 1.0, kNan}))), "tensor([1., nan, nan])");
}

TEST(OrderOps, Histogram) {
  EXPECT_EQ(core::to_string(core::histc(tensor({1.0, 2.0, 1.0, 5.0}), 4)), "tensor([2., 1., 0., 1.])");
  EXPECT_EQ(core::to_string(core::histc(tensor({1.0, 2.0, 1.0, 5.0}), 4, 0, 3)), "tensor([0., 2., 1., 0.])");
  EXPECT_EQ(core::to_string(core::histc(tensor({2.0, 2.0}), 3)), "tensor([0., 2., 0.])");
  EXPECT_EQ(message_of([&] { core::histc(tensor({1, 2}), 4); }), "\"histogram_cpu\" not implemented for 'Long'");
  EXPECT_EQ(message_of([&] { core::histc(tensor({1.0}), 0); }),
            "torch.histogram(): bins must be > 0, but got 0 for dimension 0");
  EXPECT_EQ(message_of([&] { core::histc(tensor({1.0}), 2, 3, 1); }), "torch.histc: max must be larger than min");
  EXPECT_EQ(message_of([&] { core::histc(tensor({2.0, kInf}), 3); }), "torch.histc: range of [2, inf] is not finite");
}

TEST(OrderOps, Searching) {
  EXPECT_EQ(core::to_string(core::searchsorted(tensor({1, 3, 5, 7}), tensor({3, 6, 9}))), "tensor([1, 3, 4])");
  EXPECT_EQ(core::to_string(core::searchsorted(tensor({1, 3, 5, 7}), tensor({3, 6, 9}), {.right = true})),
            "tensor([2, 3, 4])");
  EXPECT_EQ(core::to_string(core::searchsorted(tensor({{1, 3, 5}, {2, 4, 6}}), tensor({{3, 6}, {3, 6}}))),
            "tensor([[1, 3],\n"
            "        [1, 2]])");
  EXPECT_EQ(core::to_string(core::bucketize(tensor({{3.0, 6.0}}), tensor({1.0, 3.0}))), "tensor([[1, 2]])");
  EXPECT_EQ(core::to_string(core::bucketize(tensor({3.0, kNan}), tensor({1.0, 3.0}), {.right = true, .int32 = true})),
            "tensor([2, 2], dtype=torch.int32)");
  EXPECT_EQ(message_of([&] {
              core::searchsorted(tensor({{1, 3, 5}, {2, 4, 6}}), tensor({3, 6}));
            }),
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            "tensor and input value tensor must match, but we got boundaries tensor [2, 3] and input value tensor [2]");
  EXPECT_EQ(message_of([&] {
              core::bucketize(tensor({3.0}), core::ones({2, 2}));
            }),
            "boundaries tensor must be 1 dimension, but got dim(2)");
}

TEST(Extremes, OfNoElementsAreRefused) {
  const Tensor x = core::zeros({2, 0});
  EXPECT_EQ(message_of([&] { core::amax(x, {1}); }), "amax(): Expected reduction dim 1 to have non-zero size.");
  EXPECT_EQ(message_of([&] { core::amin(x, {0, -1}); }), "amin(): Expected reduction dim -1 to have non-zero size.");
  EXPECT_EQ(message_of([&] { core::amax(x); }),
            "amax(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
            "'dim' argument.");
  EXPECT_EQ(message_of([&] { core::aminmax(x, -1); }), "aminmax: Expected reduction dim 1 to have non-zero size.");
  EXPECT_EQ(core::amax(x, {0}).sizes(), core::Shape{0});
}

TEST(Histograms, MoreBoxesThanNumbersCanCount) {
  const std::int64_t many = 1 << 17;  // to the fourth: 2^68
  EXPECT_EQ(message_of([&] {
              core::histogramdd(core::ones({3, 4}), core::Shape{many, many, many, many});
            }),
            "Storage size calculation overflowed with sizes=[131072, 131072, 131072, 131072]");
}

}  // namespace
