#include "libcore/tensor/blocked_layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/collectives.h"
#include "libcore/backend/threads.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/join.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pool.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::Conv2dOptions;
using core::Shape;
using core::Tensor;
using core::blocked::is_blocked;

/// Within the rounding of single precision of what the ordinary path gives in double.
void expect_close(const Tensor& found, const Tensor& wanted, double tolerance = 2e-5) {
  ASSERT_EQ(found.sizes(), wanted.sizes());
  const std::vector<double> a = found.to(core::DType::f64).to_vector<double>();
  const std::vector<double> b = wanted.to(core::DType::f64).to_vector<double>();
  double largest = 1;
  for (const double value : b) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * largest) << "at " << i;
}

/// Before the members of a test are made.
struct Prepared {
  Prepared() {
    core::manual_seed(3);
    core::set_num_threads(1);
  }
};

/// Whether this processor has convolutions on blocks; without, nothing is blocked and all results are the same.
bool runs_blocked() {
  static const bool blocked = is_blocked(core::conv2d(core::ones({1, 16, 8, 8}), core::ones({16, 16, 3, 3})));
  return blocked;
}

class BlockedLayout : private Prepared, public testing::Test {
 protected:
  /// A tensor in blocked layout (2, 32, 6, 7), and what it is in double.
  Tensor x = core::randn({2, 32, 6, 7});
  Tensor weight = core::randn({32, 32, 3, 3}) * 0.1;
  Tensor y = core::conv2d(x, weight, {}, {.padding = 1});
  Tensor in_double() const { return core::conv2d(x.to_double(), weight.to_double(), {}, {.padding = 1}); }
};

core::BatchNormArguments eval_norm(std::int64_t channels) {
  return {.running_mean = core::arange(channels).to_float() * 0.01,
          .running_var = core::arange(channels).to_float() * 0.1 + 0.5,
          .weight = core::arange(channels).to_float() * 0.05 - 0.4,
          .bias = core::arange(channels).to_float() * 0.02};
}
core::BatchNormArguments to_double(core::BatchNormArguments a) {
  for (Tensor* t : {&a.running_mean, &a.running_var, &a.weight, &a.bias}) *t = t->to_double();
  return a;
}

TEST_F(BlockedLayout, IsBlockedUntilItsBytesAreRead) {
  EXPECT_EQ(is_blocked(y), runs_blocked());
  const float first = y.data<float>()[0];
  EXPECT_FALSE(is_blocked(y));
  EXPECT_NEAR(first, in_double().data<double>()[0], 1e-5);
}

TEST_F(BlockedLayout, HasTheSizesAndStridesOfADenseTensor) {
  EXPECT_EQ(y.sizes(), (Shape{2, 32, 6, 7}));
  EXPECT_EQ(y.strides(), (Shape{1344, 42, 7, 1}));
  EXPECT_TRUE(y.is_contiguous());
  EXPECT_EQ(y.storage_offset(), 0);
  EXPECT_EQ(y.storage().nbytes(), 2U * 32 * 6 * 7 * 4);
  EXPECT_EQ(is_blocked(y), runs_blocked());
}

TEST_F(BlockedLayout, KeepsItsAddressOnceRead) {
  const float* before = y.data<float>();
  const Tensor more = core::relu(y) + y;
  EXPECT_EQ(y.data<float>(), before);
  EXPECT_EQ(more.numel(), y.numel());
}

TEST_F(BlockedLayout, ViewsShareItsMemory) {
  const Tensor plane = y.select(1, 3);
  EXPECT_EQ(plane.strides(), (Shape{1344, 7, 1}));
  plane.fill_(7);
  EXPECT_EQ(y.select(0, 1).select(0, 3).select(0, 5).select(0, 6).item<float>(), 7);
  expect_close(y.select(1, 4), in_double().select(1, 4));
}

TEST_F(BlockedLayout, FlatteningIsAViewWithTheOrderOfElementsKept) {
  const Tensor flat = y.flatten(1);
  EXPECT_EQ(flat.storage().id(), y.storage().id());
  expect_close(flat, in_double().flatten(1));
}

TEST_F(BlockedLayout, DetachedTensorsShareItsMemory) {
  const Tensor other = y.detach();
  other.zero_();
  EXPECT_EQ(y.abs().sum().item<float>(), 0);
}

TEST_F(BlockedLayout, WritesInPlaceAreSeen) {
  y.add_(1).mul_(2);
  expect_close(y, (in_double() + 1) * 2);
  const Tensor negative = core::conv2d(x, weight, {}, {.padding = 1}).neg_();
  negative.relu_();
  expect_close(negative, core::relu(-in_double()));
}

TEST_F(BlockedLayout, PendingWorkDoesNotSeeLaterWrites) {
  const Tensor z = core::relu(core::batch_norm(y, eval_norm(32)));
  const Tensor sum = y + z;
  y.zero_();
  const Tensor wanted = core::relu(core::batch_norm(in_double(), to_double(eval_norm(32))));
  expect_close(z, wanted);
  expect_close(sum, in_double() + wanted);
}

TEST_F(BlockedLayout, PendingWorkDoesNotSeeWritesToStatistics) {
  const core::BatchNormArguments norm = eval_norm(32);
  const Tensor z = core::batch_norm(y, norm);
  norm.running_mean.fill_(100);
  norm.weight.fill_(100);
  expect_close(z, core::batch_norm(in_double(), to_double(eval_norm(32))));
}

TEST_F(BlockedLayout, ResultsOfPendingWorkAreTensorsOfTheirOwn) {
  const Tensor z = core::relu(y);
  EXPECT_NE(z.storage().id(), y.storage().id());
  z.fill_(5);
  expect_close(y, in_double());
}

TEST_F(BlockedLayout, AddsToItself) {
  expect_close(y + y, in_double() * 2);
  const Tensor z = core::batch_norm(y, eval_norm(32));
  expect_close(z + z, core::batch_norm(in_double(), to_double(eval_norm(32))) * 2);
}

TEST_F(BlockedLayout, AddsWhatHasWorkPendingOnBothSides) {
  const auto block = [](const Tensor& a, const core::BatchNormArguments& norm) {
    const Tensor left = core::batch_norm(a, norm), right = core::relu(core::batch_norm(core::relu(a), norm));
    return core::relu((left + right) + (right + left));
  };
  expect_close(block(y, eval_norm(32)), block(in_double(), to_double(eval_norm(32))));
}

TEST_F(BlockedLayout, WorksInPlaceWithoutLosingTheImage) {
  const core::NoGradGuard inference;
  const Tensor before = core::relu(y), norm = core::batch_norm(y, eval_norm(32));
  const std::uint32_t version = y.version();
  y.add_(norm).relu_().add_(y);
  EXPECT_EQ(y.version(), version + 3);
  EXPECT_EQ(is_blocked(y), runs_blocked());
  expect_close(before, core::relu(in_double()));
  expect_close(y, core::relu(in_double() + core::batch_norm(in_double(), to_double(eval_norm(32)))) * 2);
}

TEST_F(BlockedLayout, ViewsSeeWhatWasDoneInPlace) {
  const Tensor row = y.select(0, 1);
  y.relu_();
  expect_close(row, core::relu(in_double()).select(0, 1));
  const Tensor other = core::conv2d(x, weight, {}, {.padding = 1});
  const Tensor alias = other.detach();
  alias.add_(core::relu(other));
  expect_close(other, in_double() + core::relu(in_double()));
}

TEST_F(BlockedLayout, ClonesAndCopiesAreApartFromTheirOrigin) {
  const Tensor copy = y.clone(), target = core::relu(y);
  EXPECT_EQ(is_blocked(copy), runs_blocked());
  target.copy_(y);
  y.zero_();
  copy.add_(1);
  expect_close(copy, in_double() + 1);
  expect_close(target, in_double());
}

TEST_F(BlockedLayout, ReluInPlaceHasItsGradient) {
  const Tensor in = x.clone().requires_grad_(), same = x.clone().requires_grad_();
  core::conv2d(in, weight, {}, {.padding = 1}).relu_().sum().backward();
  core::relu(core::conv2d(same.to_double(), weight.to_double(), {}, {.padding = 1})).sum().backward();
  expect_close(in.grad(), same.grad());
}

TEST_F(BlockedLayout, Concatenates) {
  const Tensor z = core::relu(y);
  const Tensor channels = core::cat({y, z, y}, 1), images = core::cat({z, y}, 0);
  EXPECT_EQ(is_blocked(channels), runs_blocked());
  expect_close(channels, core::cat({in_double(), core::relu(in_double()), in_double()}, 1));
  expect_close(images, core::cat({core::relu(in_double()), in_double()}, 0));
  expect_close(core::cat({y, z}, 3), core::cat({in_double(), core::relu(in_double())}, 3));
  EXPECT_THROW(core::cat({y, core::conv2d(x, weight)}, 1), core::Error);
}

TEST_F(BlockedLayout, OtherOperationsSeeOrdinaryTensors) {
  expect_close(y * 2 + x, in_double() * 2 + x.to_double());
  expect_close(core::cat({y, x}, 1), core::cat({in_double(), x.to_double()}, 1));
  expect_close(y.permute({0, 2, 3, 1}).contiguous(), in_double().permute({0, 2, 3, 1}).contiguous());
  expect_close(core::add(y, core::relu(y), 0.5), in_double() + core::relu(in_double()) * 0.5);
  expect_close(y.clone(), in_double());
}

TEST_F(BlockedLayout, MeanOverPlanes) {
  const Tensor mean = core::adaptive_avg_pool2d(y, 1);
  EXPECT_EQ(mean.sizes(), (Shape{2, 32, 1, 1}));
  EXPECT_EQ(is_blocked(y), runs_blocked());
  expect_close(mean, core::adaptive_avg_pool2d(in_double(), 1));
  expect_close(core::mean(y, {.dims = {3, 2}}), core::mean(in_double(), {.dims = {3, 2}}));
  expect_close(core::mean(y, {.dims = {0, 2}}), core::mean(in_double(), {.dims = {0, 2}}));
}

TEST_F(BlockedLayout, NotANumberStaysSo) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor bad = y.clone();
  bad.select(0, 1).select(0, 3).fill_(nan);
  core::blocked::Bytes bytes = core::blocked::image(bad).bytes;
  const Tensor image = core::blocked::make(bad.sizes(), {.bytes = bytes}, core::raw::backend_of(bad));
  const Tensor out =
      core::max_pool2d(core::relu(core::batch_norm(image, eval_norm(32))), 3, {.stride = 2, .padding = 1});
  EXPECT_TRUE(std::isnan(out.select(0, 1).select(0, 3).select(0, 0).select(0, 0).item<float>()));
  EXPECT_FALSE(std::isnan(out.select(0, 1).select(0, 4).select(0, 0).select(0, 0).item<float>()));
}

TEST_F(BlockedLayout, ChangedWeightsAreSeen) {
  const auto infer = [&]() { return core::conv2d(x, weight, {}, {.padding = 1}); };
  infer();
  weight.mul_(2);
  expect_close(infer(), in_double());
  weight.mutable_data<float>()[5] = 3;
  expect_close(infer(), in_double());
  weight.select(0, 1).zero_();
  expect_close(infer(), in_double());
  weight.set_data(core::randn({32, 32, 3, 3}));
  expect_close(infer(), in_double());
}

TEST_F(BlockedLayout, WeightsThatTakeTheMemoryOfOthersAreNotConfused) {
  for (int i = 0; i < 4; ++i) {
    const Tensor other = core::randn({32, 32, 3, 3});
    expect_close(core::conv2d(x, other, {}, {.padding = 1}),
                 core::conv2d(x.to_double(), other.to_double(), {}, {.padding = 1}));
  }
}

TEST_F(BlockedLayout, SeveralThreadsReadOne) {
  for (int round = 0; round < 8; ++round) {
    const Tensor z = core::relu(core::batch_norm(core::conv2d(x, weight, {}, {.padding = 1}), eval_norm(32)));
    std::vector<float> sums(4);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back(
          [&, t]() { sums[t] = t % 2 == 0 ? z.sum().item<float>() : core::relu(z).sum().item<float>(); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(sums, std::vector<float>(4, sums[0]));
  }
}

TEST_F(BlockedLayout, TheSameInputGivesTheSameBits) {
  const Tensor again = core::conv2d(x, weight, {}, {.padding = 1});
  EXPECT_TRUE(again.equal(y));
}

TEST(BlockedImageOnly, OfSinglePrecisionWhereChannelsFillBlocks) {
  const auto is_blocked_for = [](const Shape& image, const Shape& weight, core::DType dtype) {
    return is_blocked(core::conv2d(core::ones(image, {.dtype = dtype}), core::ones(weight, {.dtype = dtype})));
  };
  EXPECT_EQ(is_blocked_for({1, 3, 8, 8}, {16, 3, 3, 3}, core::DType::f32), runs_blocked());
  EXPECT_EQ(is_blocked_for({1, 16, 8, 8}, {24, 16, 3, 3}, core::DType::f32), runs_blocked());
  EXPECT_FALSE(is_blocked_for({1, 16, 8, 8}, {10, 16, 3, 3}, core::DType::f32));
  EXPECT_FALSE(is_blocked_for({1, 16, 8, 8}, {16, 16, 3, 3}, core::DType::f64));
  EXPECT_FALSE(is_blocked_for({1, 16, 3, 3}, {16, 16, 3, 3}, core::DType::f32));  // one pixel
}

TEST(BlockedImageOnly, EmptyBatch) {
  const Tensor out = core::relu(core::conv2d(core::ones({0, 16, 8, 8}), core::ones({16, 16, 3, 3})));
  EXPECT_EQ(out.sizes(), (Shape{0, 16, 6, 6}));
}

/// A convolution, normalisation, relu and pooling: result and all gradients, against double.
struct Case {
  std::string name;
  Shape image, weight;
  Conv2dOptions options;
};

class BlockedConvolution : public testing::TestWithParam<Case> {};

Tensor leaf(const Tensor& x) {
  return x.detach().clone().requires_grad_();
}

TEST_P(BlockedConvolution, AgreesWithDouble) {
  core::manual_seed(5);
  core::set_num_threads(1);
  const Case& c = GetParam();
  const Tensor x = core::randn(c.image), w = core::randn(c.weight) * 0.2, b = core::randn({c.weight[0]});
  const Tensor single[] = {leaf(x), leaf(w), leaf(b)};
  const Tensor twice[] = {leaf(x.to_double()), leaf(w.to_double()), leaf(b.to_double())};
  const auto run = [&](const Tensor* in) {
    const Tensor h = core::conv2d(in[0], in[1], in[2], c.options);
    const Tensor n = core::relu(core::batch_norm(h, {.training = true}) + h);
    return core::max_pool2d(n, 2, {.stride = 1, .padding = 1});
  };
  const Tensor out = run(single), wanted = run(twice);
  EXPECT_EQ(is_blocked(out), runs_blocked());
  expect_close(out, wanted);
  const Tensor upstream = core::randn(out.sizes());
  out.backward(upstream);
  wanted.backward(upstream.to_double());
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    expect_close(single[i].grad(), twice[i].grad(), 1e-4);
  }
  const core::NoGradGuard inference;
  expect_close(core::conv2d(x, w, b, c.options), core::conv2d(x.to_double(), w.to_double(), b.to_double(), c.options));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BlockedConvolution,
    testing::Values(Case{"Usual", {2, 16, 9, 8}, {32, 16, 3, 3}, {.padding = 1}},
                    Case{"ThreeChannels", {2, 3, 11, 13}, {16, 3, 7, 7}, {.stride = 2, .padding = 3}},
                    Case{"OneChannel", {3, 1, 9, 9}, {16, 1, 5, 5}, {.padding = 2}},
                    Case{"OddSize", {1, 32, 7, 5}, {48, 32, 2, 3}, {.stride = {2, 1}}},
                    Case{"Pointwise", {2, 64, 6, 6}, {32, 64, 1, 1}, {.stride = 2}},
                    Case{"Dilation", {2, 16, 12, 12}, {16, 16, 3, 3}, {.padding = 2, .dilation = 2}},
                    Case{"Groups", {2, 32, 8, 8}, {32, 16, 3, 3}, {.padding = 1, .groups = 2}},
                    Case{"EachChannelAlone", {2, 32, 8, 8}, {32, 1, 3, 3}, {.padding = 1, .groups = 32}},
                    Case{"PartOfABlock", {2, 24, 9, 8}, {40, 24, 3, 3}, {.padding = 1}},
                    Case{"PartOfABlockAlone", {2, 24, 8, 8}, {24, 1, 3, 3}, {.padding = 1, .groups = 24}},
                    Case{"FromOrdinaryToPartOfABlock", {2, 3, 8, 8}, {12, 3, 3, 3}, {.padding = 1}},
                    Case{"Same", {2, 16, 8, 9}, {16, 16, 4, 4}, {.padding = "same"}},
                    Case{"Winograd", {2, 32, 13, 14}, {32, 32, 3, 3}, {.padding = 1}},
                    Case{"ManyWeights", {2, 64, 5, 4}, {128, 64, 3, 3}, {.padding = 1}},
                    Case{
                        "ManyWeightsOddStride", {3, 64, 7, 5}, {128, 64, 3, 3}, {.stride = {2, 1}, .padding = {0, 1}}}),
    [](const testing::TestParamInfo<Case>& which) { return which.param.name; });

TEST(BlockedPooling, SecondDerivativesAreThoseOfDouble) {
  core::manual_seed(9);
  const Tensor x = core::randn({1, 16, 6, 6}), w = core::randn({16, 16, 3, 3}) * 0.1;
  const auto second = [](const Tensor& image, const Tensor& weight) {
    const Tensor out = core::max_pool2d(core::conv2d(image, weight, {}, {.padding = 1}), 2);
    const Tensor first = core::grad({core::sin(out).sum()}, {image}, {.create_graph = true})[0];
    return core::grad({core::sin(first).sum()}, {weight})[0];
  };
  expect_close(second(leaf(x), leaf(w)), second(leaf(x.to_double()), leaf(w.to_double())), 1e-4);
}

/// The gradient of relu is taken along with that of the pooling behind it, be its windows tiles of the image or not,
/// but where somebody wants the one between them.
TEST(BlockedPooling, GradientsThroughReluAreThoseOfDouble) {
  core::manual_seed(10);
  const Tensor x = core::randn({2, 3, 9, 8}), w = core::randn({24, 3, 3, 3});
  struct Windows {
    std::int64_t kernel, padding, stride, dilation;
  };
  for (const Windows s : {Windows{2, 0, 2, 1}, {3, 0, 3, 1}, {1, 0, 1, 1}, {3, 1, 2, 1}, {2, 0, 1, 1}, {2, 0, 2, 2}}) {
    for (const bool looks : {false, true}) {
      SCOPED_TRACE(testing::Message() << s.kernel << " " << s.stride << " " << s.dilation << " " << looks);
      const auto grads = [&](const Tensor& image, const Tensor& weight) {
        const Tensor y = core::relu(core::conv2d(image, weight, {}, {.padding = {2, 1}}));
        if (looks) y.retain_grad();
        core::sin(core::max_pool2d(y, s.kernel, {.stride = s.stride, .padding = s.padding, .dilation = s.dilation}))
            .sum()
            .backward();
        return std::vector<Tensor>{image.grad(), weight.grad(), looks ? y.grad() : Tensor()};
      };
      const std::vector<Tensor> found = grads(leaf(x), leaf(w)),
                                wanted = grads(leaf(x.to_double()), leaf(w.to_double()));
      for (std::size_t i = 0; i < 2U + looks; ++i) expect_close(found[i], wanted[i], 1e-4);
    }
  }
}

TEST(BlockedPooling, RefusesASecondBackward) {
  const Tensor w = core::randn({16, 3, 3, 3}).requires_grad_();
  const Tensor out = core::max_pool2d(core::conv2d(core::randn({1, 3, 8, 8}), w), 2).sum();
  out.backward();
  EXPECT_THROW(out.backward(), core::Error);
}

TEST(BlockedPooling, IndicesAreThoseOfTheOrdinaryPath) {
  core::manual_seed(4);
  const Tensor y = core::conv2d(core::randn({2, 3, 9, 9}), core::randn({16, 3, 3, 3}));
  const Tensor plain = y.clone();
  const core::MaxPool2dOptions options{.stride = 2, .padding = 1, .dilation = 2};
  const core::ValuesIndices wanted = core::max_pool2d_with_indices(plain, 3, options);
  core::blocked::Bytes bytes = core::blocked::image(plain).bytes;
  const Tensor image = core::blocked::make(plain.sizes(), {.bytes = bytes}, core::raw::backend_of(plain));
  const core::raw::BlockedMaxPool found = core::raw::max_pool2d_of_image(image, 3, options, core::raw::KeepTaps::yes);
  EXPECT_TRUE(found.values.equal(wanted.values));
  EXPECT_TRUE(core::raw::indices_of(found, core::raw::backend_of(plain)).equal(wanted.indices));
}

/// Ordinary planes: sixteen windows at once, against one after the other in double.
TEST(PoolingOfPlanes, OfTwoByTwoAgreesWithDouble) {
  core::manual_seed(6);
  for (const Shape& sizes : {Shape{2, 3, 28, 28}, Shape{1, 5, 5, 7}, Shape{1, 1, 2, 2}, Shape{2, 2, 9, 67}}) {
    const Tensor x = core::round(core::randn(sizes) * 2);  // many equal values
    x.flatten().slice(0, 0, {}, 11).fill_(std::numeric_limits<float>::quiet_NaN());
    x.flatten().slice(0, 3, {}, 13).fill_(-std::numeric_limits<float>::infinity());
    const core::ValuesIndices found = core::max_pool2d_with_indices(x, 2);
    const core::ValuesIndices wanted = core::max_pool2d_with_indices(x.to_double(), 2);
    EXPECT_TRUE(found.indices.equal(wanted.indices));
    EXPECT_TRUE(core::isnan(found.values).equal(core::isnan(wanted.values)));
    EXPECT_TRUE(core::nan_to_num(found.values)
                    .to_double()
                    .equal(core::nan_to_num(wanted.values.to(core::DType::f32)).to_double()));
  }
}

}  // namespace
