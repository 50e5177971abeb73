// Convolutions of 3 x 3 whose weights are prepared, which Winograd's algorithm computes where there is a kernel:
// against the definition in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "libcore/backend/cpu/isa.h"
#include "libcore/core.h"
#include "libcore/tensor/blocked_layout.h"

namespace {

using core::Tensor;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Kernels of our own are for AVX-512; below it oneDNN convolves.
bool own_kernels() {
  return core::cpu::isa() >= core::cpu::Isa::avx512;
}

/// Within a few roundings of what the definition gives in double, on the scale of the largest sum. oneDNN's sums below
/// AVX-512 have fewer lanes, so each lane adds up more.
void expect_close(const Tensor& found, const Tensor& wanted) {
  ASSERT_EQ(found.sizes(), wanted.sizes());
  const double largest = wanted.abs().max().item<double>();
  const double share = own_kernels() ? 3e-6 : 5e-6;
  EXPECT_LT((found.to_double() - wanted).abs().max().item<double>(), share * largest);
}

/// An image, the outputs of the convolution and how it is taken.
struct Case {
  std::string name;
  core::Shape image;
  std::int64_t outputs;
  core::Conv2dOptions options;
};

class Winograd : public testing::TestWithParam<Case> {
 protected:
  Winograd() {
    core::manual_seed(17);
    core::set_num_threads(1);
    const Case& c = GetParam();
    const std::int64_t width = c.image[1] / c.options.groups;
    x = core::randn(c.image);
    w = core::randn({c.outputs, width, 3, 3}) / std::sqrt(9.0 * static_cast<double>(width));
    b = core::randn({c.outputs});
    wanted = core::conv2d(x.to_double(), w.to_double(), b.to_double(), c.options);
  }
  Tensor conv() const { return core::conv2d(x, w, b, GetParam().options); }

  Tensor x, w, b, wanted;
};

TEST_P(Winograd, AgreesWithDouble) {
  expect_close(conv(), wanted);
  const core::Conv2dOptions& options = GetParam().options;
  expect_close(core::conv2d(x, w, {}, options), core::conv2d(x.to_double(), w.to_double(), {}, options));
}

TEST_P(Winograd, IsNormalisedAddedToAndActivatedAlong) {
  const std::int64_t channels = GetParam().outputs;
  const core::BatchNormArguments norm{.running_mean = core::randn({channels}),
                                      .running_var = core::rand({channels}) + 0.5,
                                      .weight = core::randn({channels}),
                                      .bias = core::randn({channels})};
  core::BatchNormArguments wide = norm;
  for (Tensor* t : {&wide.running_mean, &wide.running_var, &wide.weight, &wide.bias}) *t = t->to_double();
  const Tensor right = core::batch_norm(wanted, wide);
  const Tensor other = core::relu(core::conv2d(x, w * 2, {}, GetParam().options));
  other.raw_data();
  const Tensor blocked = core::relu(core::conv2d(x, w * 2, {}, GetParam().options));
  expect_close(core::relu(core::batch_norm(conv(), norm)), core::relu(right));
  expect_close(core::relu6(conv()), core::relu6(wanted));
  expect_close(core::hardswish(core::batch_norm(conv(), norm)), core::hardswish(right));
  expect_close(core::silu(core::batch_norm(conv(), norm)), core::silu(right));
  expect_close(core::relu(core::batch_norm(conv(), norm) + blocked), core::relu(right + other.to_double()));
  expect_close(conv() + blocked, wanted + other.to_double());
}

TEST_P(Winograd, GivesTheSameBitsOnSeveralThreads) {
  if (!own_kernels()) GTEST_SKIP() << "oneDNN's sums depend on the number of threads";
  const Tensor alone = core::relu(conv());
  alone.raw_data();
  for (const int threads : {2, 3, 8}) {
    const core::ThreadLimitGuard more(threads);
    EXPECT_TRUE(core::relu(conv()).equal(alone)) << threads;
  }
}

const auto kName = [](const testing::TestParamInfo<Case>& which) { return which.param.name; };

INSTANTIATE_TEST_SUITE_P(Sizes, Winograd,
                         testing::Values(Case{"WholeTiles", {1, 32, 16, 16}, 32, {.padding = 1}},
                                         Case{"PartsOfTiles", {2, 32, 13, 14}, 48, {.padding = 1}},
                                         Case{"WithoutPadding", {1, 16, 19, 11}, 32, {}},
                                         Case{"MorePadding", {1, 16, 9, 10}, 16, {.padding = {2, 3}}},
                                         Case{"OneRow", {2, 16, 1, 40}, 16, {.padding = 1}},
                                         Case{"PartsOfBlocks", {3, 40, 12, 9}, 24, {.padding = 1}},
                                         Case{"OddChannels", {1, 29, 12, 9}, 45, {.padding = 1}},
                                         Case{"ManyTiles", {2, 64, 40, 41}, 64, {.padding = 1}},
                                         Case{"ManyWeights", {1, 512, 14, 14}, 256, {.padding = 1}},
                                         Case{"ManyWeightsOfBatch", {4, 256, 14, 14}, 320, {.padding = 1}},
                                         Case{"FewPixels", {1, 256, 7, 7}, 128, {.padding = 1}},
                                         Case{"MoreWeightsThanTilesSave", {2, 352, 7, 7}, 400, {.padding = 1}}),
                         kName);

INSTANTIATE_TEST_SUITE_P(
    Dilated, Winograd,
    testing::Values(Case{"Twice", {1, 32, 28, 28}, 32, {.padding = 2, .dilation = 2}},
                    Case{"FourTimes", {1, 64, 28, 28}, 64, {.padding = 4, .dilation = 4}},
                    Case{"OddSize", {2, 32, 17, 19}, 32, {.padding = 3, .dilation = 3}},
                    Case{"OtherPadding", {1, 32, 21, 23}, 32, {.padding = {1, 0}, .dilation = {2, 3}}},
                    Case{"WiderThanTheImage", {1, 32, 9, 10}, 32, {.padding = 12, .dilation = 12}},
                    Case{"InGroups", {1, 96, 20, 20}, 96, {.padding = 2, .dilation = 2, .groups = 4}}),
    kName);

INSTANTIATE_TEST_SUITE_P(Groups, Winograd,
                         testing::Values(Case{"Of8", {1, 72, 15, 14}, 72, {.padding = 1, .groups = 9}},
                                         Case{"Of16", {2, 48, 14, 14}, 48, {.padding = 1, .groups = 3}},
                                         Case{"Of24", {1, 120, 28, 28}, 120, {.padding = 1, .groups = 5}},
                                         Case{"Of32", {1, 96, 14, 15}, 96, {.padding = 1, .groups = 3}},
                                         Case{"Of48", {2, 192, 14, 14}, 192, {.padding = 1, .groups = 4}},
                                         Case{"Of56", {1, 168, 14, 14}, 168, {.padding = 1, .groups = 3}},
                                         Case{"Of128", {1, 896, 14, 14}, 896, {.padding = 1, .groups = 7}},
                                         Case{"Of232", {1, 696, 15, 14}, 696, {.padding = 1, .groups = 3}},
                                         Case{"Narrowing", {1, 96, 14, 14}, 48, {.padding = 1, .groups = 2}},
                                         Case{"Widening", {1, 48, 14, 14}, 96, {.padding = 1, .groups = 2}},
                                         Case{"OfAnOddWidth", {1, 60, 14, 14}, 60, {.padding = 1, .groups = 3}}),
                         kName);

/// x (1, 48, 28, 28) with one value that is not finite, and a weight of groups of 24.
class NotFinite : public testing::TestWithParam<float> {
 protected:
  NotFinite() {
    core::manual_seed(4);
    core::set_num_threads(1);
    x = core::randn({1, 48, 28, 28});
    w = core::randn({48, 24, 3, 3}) * 0.1;
    right = conv(x);
    right.raw_data();
    x.slice(1, 3, 4).slice(2, 8, 9).slice(3, 8, 9).fill_(GetParam());
  }
  Tensor conv(const Tensor& image) const { return core::conv2d(image, w, {}, {.padding = 1, .groups = 2}); }

  Tensor x, w, right;
};

TEST_P(NotFinite, ReachesAtMostThreePixelsMore) {
  const Tensor y = conv(x);
  EXPECT_FALSE(core::isfinite(y.slice(1, 0, 24).slice(2, 7, 10).slice(3, 7, 10)).any().item<bool>());
  for (const std::int64_t dim : {2, 3}) {
    EXPECT_TRUE(y.slice(dim, 0, 4).equal(right.slice(dim, 0, 4)));
    EXPECT_TRUE(y.slice(dim, 13, 28).equal(right.slice(dim, 13, 28)));
  }
}

TEST_P(NotFinite, StaysInItsGroup) {
  EXPECT_TRUE(conv(x).slice(1, 24, 48).equal(right.slice(1, 24, 48)));
}

TEST_P(NotFinite, IsNotCutOff) {
  EXPECT_FALSE(core::isfinite(core::relu(conv(x))).all().item<bool>());
}

/// By oneDNN's kernels, in whose relu NaN is 0.
TEST_P(NotFinite, IsNotCutOffInALaterImage) {
  const Tensor images = core::cat({core::ones_like(x), x}, 0).slice(1, 0, 16);
  const Tensor y = core::relu(core::conv2d(images, core::ones({16, 16, 3, 3}), {}, {.stride = 2, .padding = 1}));
  EXPECT_TRUE(core::isfinite(y.slice(0, 0, 1)).all().item<bool>());
  if (!std::isnan(GetParam())) return;
  EXPECT_FALSE(core::isfinite(y.slice(0, 1, 2)).all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Values, NotFinite, testing::Values(kInfinity, -kInfinity, std::nanf("")));

}  // namespace
