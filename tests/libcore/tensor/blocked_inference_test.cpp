// Blocked images without gradients: a convolution waits for what comes behind it and does it along.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <vector>

#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/threads.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/join.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/blocked_layout.h"
#include "libcore/tensor/random.h"

namespace {

using core::Tensor;
using core::blocked::is_blocked;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Within the rounding of single precision of what the ordinary path gives in double.
void expect_close(const Tensor& found, const Tensor& wanted) {
  ASSERT_EQ(found.sizes(), wanted.sizes());
  const double largest = std::max(1.0, wanted.abs().max().item<double>());
  EXPECT_LT((found.to_double() - wanted).abs().max().item<double>(), 2e-5 * largest);
}

struct Seeded {
  Seeded() {
    core::manual_seed(11);
    core::set_num_threads(1);
  }
};

/// A pending convolution of 24 channels (2, 40, 9, 7), and what it is in double.
class PendingConvolution : private Seeded, public testing::Test {
 protected:
  Tensor x = core::randn({2, 24, 9, 7});
  Tensor weight = core::randn({40, 24, 1, 1}) * 0.2;
  Tensor bias = core::randn({40});
  Tensor wanted = core::conv2d(x.to_double(), weight.to_double(), bias.to_double());
  Tensor y = core::conv2d(x, weight, bias);
  core::BatchNormArguments norm() const {
    return {.running_mean = core::arange(40).to_float() * 0.01,
            .running_var = core::arange(40).to_float() * 0.1 + 0.5,
            .weight = core::arange(40).to_float() * 0.05 - 0.4,
            .bias = core::arange(40).to_float() * 0.02};
  }
  Tensor normalised() const {
    core::BatchNormArguments wide = norm();
    for (Tensor* t : {&wide.running_mean, &wide.running_var, &wide.weight, &wide.bias}) *t = t->to_double();
    return core::batch_norm(wanted, wide);
  }
};

TEST_F(PendingConvolution, DoesNotSeeLaterWritesToItsInputs) {
  for (const Tensor* t : {&x, &weight, &bias}) t->fill_(100);
  expect_close(y, wanted);
}

TEST_F(PendingConvolution, OfAnImageInOrdinaryOrderDoesNotSeeLaterWrites) {
  const Tensor photo = core::randn({1, 3, 8, 8}), w = core::randn({16, 3, 3, 3});
  const Tensor right = core::conv2d(photo.to_double(), w.to_double());
  const Tensor out = core::conv2d(photo, w);
  photo.fill_(9);
  w.fill_(9);
  expect_close(out, right);
}

TEST_F(PendingConvolution, GivesEachOfItsUsersItsOwn) {
  const Tensor a = core::relu(y), b = core::hardswish(y), c = y + a;
  expect_close(a, core::relu(wanted));
  expect_close(b, core::hardswish(wanted));
  expect_close(c, wanted + core::relu(wanted));
  expect_close(y, wanted);
}

TEST_F(PendingConvolution, NormalisesAndActivatesAlong) {
  expect_close(core::relu(core::batch_norm(y, norm())), core::relu(normalised()));
  expect_close(core::relu6(core::batch_norm(y, norm())), core::relu6(normalised()));
  expect_close(core::hardswish(core::batch_norm(y, norm())), core::hardswish(normalised()));
  expect_close(core::silu(core::batch_norm(y, norm())), core::silu(normalised()));
}

TEST_F(PendingConvolution, AddsAlong) {
  const Tensor other = core::relu(core::conv2d(x, weight * 0.5, bias));
  const Tensor other_wanted = core::relu(core::conv2d(x.to_double(), weight.to_double() * 0.5, bias.to_double()));
  expect_close(core::relu(core::batch_norm(y, norm()) + other), core::relu(normalised() + other_wanted));
  expect_close(other + core::batch_norm(y, norm()), normalised() + other_wanted);
}

TEST_F(PendingConvolution, ActivatesTwice) {
  expect_close(core::silu(core::relu6(y)), core::silu(core::relu6(wanted)));
  const Tensor z = core::hardswish(y);
  z.relu_();
  expect_close(z, core::relu(core::hardswish(wanted)));
}

TEST_F(PendingConvolution, ScalesChannelsOfEachImage) {
  const Tensor gate = core::sigmoid(core::randn({2, 40, 1, 1}));
  const bool blocked = is_blocked(y);
  const Tensor product = gate * core::silu(y);
  EXPECT_EQ(is_blocked(product), blocked);
  expect_close(product, gate.to_double() * core::silu(wanted));
  expect_close(core::conv2d(product, core::ones({16, 40, 1, 1})),
               core::conv2d(gate.to_double() * core::silu(wanted), core::ones({16, 40, 1, 1}).to_double()));
}

TEST_F(PendingConvolution, KeepsNaNOfTheImageThroughRelu) {
  x.flatten().slice(0, 30, 31).fill_(kNaN);
  EXPECT_TRUE(core::isnan(core::relu(core::conv2d(x, weight, bias))).any().item<bool>());
  EXPECT_TRUE(core::isnan(core::relu6(core::conv2d(x, weight, bias))).any().item<bool>());
  const Tensor deep = core::relu(core::conv2d(core::relu(core::conv2d(x, weight, bias)), core::ones({16, 40, 1, 1})));
  EXPECT_TRUE(core::isnan(deep).any().item<bool>());
}

TEST_F(PendingConvolution, KeepsNaNOfParametersThroughRelu) {
  core::BatchNormArguments broken = norm();
  broken.weight.slice(0, 3, 4).fill_(kNaN);
  EXPECT_TRUE(core::isnan(core::relu(core::batch_norm(y, broken))).any().item<bool>());
  bias.slice(0, 3, 4).fill_(kNaN);
  EXPECT_TRUE(core::isnan(core::relu(core::conv2d(x, weight, bias))).any().item<bool>());
  weight.flatten().slice(0, 3, 4).fill_(kNaN);
  EXPECT_TRUE(core::isnan(core::relu(core::conv2d(x, weight))).any().item<bool>());
}

TEST_F(PendingConvolution, AveragesAndJoins) {
  expect_close(core::adaptive_avg_pool2d(y, {1, 1}), wanted.mean(core::Shape{2, 3}).view({2, 40, 1, 1}));
  const Tensor whole = core::conv2d(x, core::ones({32, 24, 1, 1}));
  const Tensor joined = core::cat({whole, y}, 1);
  const Tensor right = core::cat({core::conv2d(x.to_double(), core::ones({32, 24, 1, 1}).to_double()), wanted}, 1);
  expect_close(joined, right);
  expect_close(core::cat({y, whole}, 1), core::cat({wanted, right.slice(1, 0, 32)}, 1));
}

TEST_F(PendingConvolution, JoinedPartsAreNormalisedOnTheWay) {
  const Tensor whole = core::conv2d(x, core::ones({32, 24, 1, 1}) * 0.1);
  const Tensor whole_wanted = core::conv2d(x.to_double(), core::ones({32, 24, 1, 1}).to_double() * 0.1);
  const core::BatchNormArguments part = norm();
  core::BatchNormArguments all, wide;
  for (auto member : {&core::BatchNormArguments::running_mean, &core::BatchNormArguments::running_var,
                      &core::BatchNormArguments::weight, &core::BatchNormArguments::bias}) {
    all.*member = core::cat({(part.*member).slice(0, 0, 32) + 0.3, part.*member}, 0);
    wide.*member = (all.*member).to_double();
  }
  const Tensor joined = core::cat({whole, y}, 1), right = core::cat({whole_wanted, wanted}, 1);
  expect_close(core::relu(core::batch_norm(joined, all)), core::relu(core::batch_norm(right, wide)));
  expect_close(core::relu(core::batch_norm(joined, all) + joined), core::relu(core::batch_norm(right, wide) + right));
  expect_close(joined, right);
}

TEST_F(PendingConvolution, IsAveragedInWindows) {
  const Tensor z = core::relu(y);
  const core::AvgPool2dOptions around{.stride = 1, .padding = 1},
      inside{.stride = 2, .padding = 1, .count_include_pad = false};
  const bool blocked = is_blocked(y);
  EXPECT_EQ(is_blocked(core::avg_pool2d(z, 3, around)), blocked);
  expect_close(core::avg_pool2d(z, 3, around), core::avg_pool2d(core::relu(wanted), 3, around));
  expect_close(core::avg_pool2d(z, 3, inside), core::avg_pool2d(core::relu(wanted), 3, inside));
  expect_close(core::avg_pool2d(z, 2), core::avg_pool2d(core::relu(wanted), 2));
}

/// Groups of so many channels, and how they are taken.
struct Narrow {
  std::int64_t width;
  core::Shape image;
  core::Conv2dOptions options;
  std::int64_t kernel = 3;
};

std::ostream& operator<<(std::ostream& out, const Narrow& p) {
  out << "groups_of_" << p.width << "_of_" << p.image[1] << "_at_" << p.image[2] << 'x' << p.image[3];
  return out << "_batch_" << p.image[0] << "_by_" << p.kernel;
}

class NarrowGroups : private Seeded, public testing::TestWithParam<Narrow> {
 protected:
  const Narrow& p = GetParam();
  std::int64_t channels = p.image[1];
  core::Conv2dOptions options = [this] {
    core::Conv2dOptions with_groups = p.options;
    with_groups.groups = channels / p.width;
    return with_groups;
  }();
  Tensor x = core::randn(p.image), w = core::randn({channels, p.width, p.kernel, p.kernel}) * 0.3;
  Tensor b = core::randn({channels});
  Tensor in_double() const { return core::conv2d(x.to_double(), w.to_double(), b.to_double(), options); }
};

TEST_P(NarrowGroups, AgreeWithDouble) {
  const Tensor y = core::conv2d(x, w, b, options);
  expect_close(core::relu(y), core::relu(in_double()));
  expect_close(core::silu(y), core::silu(in_double()));
  expect_close(y, in_double());
  expect_close(core::conv2d(x, w, {}, options), core::conv2d(x.to_double(), w.to_double(), {}, options));
}

TEST_P(NarrowGroups, AreNormalisedAddedToAndCutOffAlong) {
  core::BatchNormArguments norm{.running_mean = core::randn({channels}),
                                .running_var = core::rand({channels}) + 0.5,
                                .weight = core::randn({channels}),
                                .bias = core::randn({channels})};
  const Tensor y = core::batch_norm(core::conv2d(x, w, b, options), norm);
  const Tensor other = core::conv2d(x, w * 2, {}, options);
  for (Tensor* t : {&norm.running_mean, &norm.running_var, &norm.weight, &norm.bias}) *t = t->to_double();
  const Tensor wanted = core::batch_norm(in_double(), norm);
  const Tensor added = core::conv2d(x.to_double(), w.to_double() * 2, {}, options);
  expect_close(core::relu6(y), core::relu6(wanted));
  expect_close(core::relu(y + other), core::relu(wanted + added));
}

TEST_P(NarrowGroups, GiveTheSameBitsOnSeveralThreads) {
  if (core::cpu::isa() < core::cpu::Isa::avx512) {
    GTEST_SKIP() << "below AVX-512 oneDNN convolves, whose sums depend on the number of threads";
  }
  const Tensor alone = core::conv2d(x, w, b, options).contiguous();
  alone.raw_data();
  const core::ThreadLimitGuard three(3);
  EXPECT_TRUE(core::conv2d(x, w, b, options).equal(alone));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, NarrowGroups,
    testing::Values(
        Narrow{2, {2, 24, 9, 8}, {.stride = 2, .padding = 1}}, Narrow{4, {2, 24, 9, 8}, {.stride = 2, .padding = 1}},
        Narrow{8, {2, 24, 9, 8}, {.stride = 2, .padding = 1}}, Narrow{2, {1, 32, 37, 11}, {.padding = {2, 0}}},
        Narrow{4, {3, 48, 30, 23}, {.padding = 1}}, Narrow{8, {1, 40, 16, 14}, {.padding = 1}},
        Narrow{4, {1, 32, 33, 19}, {.stride = 2}}, Narrow{4, {1, 32, 9, 9}, {.stride = {1, 2}, .padding = 1}},
        Narrow{4, {1, 32, 9, 9}, {.padding = 2, .dilation = 2}}, Narrow{4, {1, 32, 9, 9}, {.padding = 2}, 5},
        Narrow{24, {2, 96, 16, 15}, {.padding = 1}}, Narrow{24, {1, 72, 17, 30}, {.stride = 2, .padding = 1}},
        Narrow{56, {1, 112, 9, 11}, {.padding = 1}}, Narrow{72, {2, 144, 9, 7}, {.padding = 1}}));

/// Dilated so far that most taps, or all but one, never meet the image; and with strides.
TEST(ConvolutionOfFewTaps, AgreesWithDouble) {
  core::manual_seed(4);
  const Tensor x = core::randn({1, 48, 9, 20}), w = core::randn({40, 48, 3, 3}), b = core::randn({40});
  for (const core::Conv2dOptions& options : {core::Conv2dOptions{.padding = 30, .dilation = 30},
                                             {.padding = 12, .dilation = 12},
                                             {.padding = 5, .dilation = 3},
                                             {.stride = 3, .padding = 1}}) {
    const Tensor wanted = core::conv2d(x.to_double(), w.to_double(), b.to_double(), options);
    expect_close(core::relu(core::conv2d(x, w, b, options)), core::relu(wanted));
    expect_close(core::silu(core::conv2d(x, w, b, options)), core::silu(wanted));
  }
}

TEST(ConvolutionOfPixels, AgreesWithDouble) {
  core::manual_seed(2);
  const Tensor x = core::randn({3, 20, 1, 1}), w = core::randn({7, 20, 1, 1}), b = core::randn({7});
  expect_close(core::conv2d(x, w, b), core::conv2d(x.to_double(), w.to_double(), b.to_double()));
  expect_close(core::conv2d(x, w), core::conv2d(x.to_double(), w.to_double()));
}

}  // namespace
