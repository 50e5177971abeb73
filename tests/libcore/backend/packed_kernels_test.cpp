// Convolutions with packed weights: every kernel of our own for sizes that it can do, whether it is the fastest for
// them or not, with every epilogue.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "libcore/backend/cpu/conv/packed_kernel.h"
#include "libcore/backend/host_memory.h"
#include "libcore/backend/threads.h"

namespace {

using core::Conv2dSizes;
using core::ImageActivation;
using core::ImageEpilogue;
using core::cpu::PackedKernel;

constexpr float kUnwritten = 1e30F;

/// Numbers as kernels get them: aligned.
class Floats {
 public:
  Floats(std::int64_t count, float value) : count_(count), data_(static_cast<float*>(core::host_allocate(bytes()))) {
    std::fill_n(data_, count, value);
  }
  ~Floats() { core::host_free(data_, bytes()); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* data() const { return data_; }
  float& operator[](std::int64_t i) const { return data_[i]; }
  std::vector<float> values() const { return {data_, data_ + count_}; }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(float); }
  std::int64_t count_;
  float* data_;
};

std::int64_t padded(std::int64_t channels) {
  return (channels + 15) / 16 * 16;
}
/// Where a pixel of a channel lies in an array in blocks.
std::int64_t at(std::int64_t channels, std::int64_t plane, std::int64_t n, std::int64_t c, std::int64_t pixel) {
  return ((n * padded(channels) / 16 + c / 16) * plane + pixel) * 16 + c % 16;
}

struct Case {
  std::int64_t batch, in, out, h, w, kernel_h = 1, kernel_w = 1;
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  std::string kernel = "implicit gemm";

  Conv2dSizes sizes() const {
    Conv2dSizes s{};
    s.batch = batch, s.in_channels = in, s.in_h = h, s.in_w = w, s.out_channels = out, s.groups = groups;
    s.kernel_h = kernel_h, s.kernel_w = kernel_w, s.stride_h = s.stride_w = stride;
    s.dilation_h = s.dilation_w = dilation;
    s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = padding;
    s.out_h = (h + 2 * padding - dilation * (kernel_h - 1) - 1) / stride + 1;
    s.out_w = (w + 2 * padding - dilation * (kernel_w - 1) - 1) / stride + 1;
    return s;
  }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  out << c.batch << 'x' << c.in << 'x' << c.h << 'x' << c.w << "_to_" << c.out << "_by_" << c.kernel_h << 'x'
      << c.kernel_w;
  return out << "_groups_" << c.groups << "_stride_" << c.stride << "_padding_" << c.padding << "_dilation_"
             << c.dilation;
}

class PackedKernelOf : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    for (const PackedKernel& offered : core::cpu::packed_kernels()) {
      if (offered.form(s).form.starts_with(GetParam().kernel)) kernel = offered;
    }
    if (!kernel) GTEST_SKIP() << "this processor has no AVX-512";
  }

  PackedKernelOf() {
    fill(
        image,
        [&](std::int64_t i) { return i / 16 / plane % (padded(s.in_channels) / 16) * 16 + i % 16 < s.in_channels; },
        s.batch * padded(s.in_channels) * plane, 1);
    const auto all = [](std::int64_t) { return true; };
    fill(weight, all, weights, 2);
    fill(bias, all, s.out_channels, 3);
    fill(addend, all, outputs, 4);
    fill(
        scale, [&](std::int64_t i) { return i < s.out_channels; }, padded(s.out_channels), 5);
    fill(
        shift, [&](std::int64_t i) { return i < s.out_channels; }, padded(s.out_channels), 6);
  }

  template <class There>
  static void fill(const Floats& to, There there, std::int64_t count, unsigned seed) {
    unsigned state = seed * 2654435761U;
    for (std::int64_t i = 0; i < count; ++i) {
      state = state * 1664525U + 1013904223U;
      to[i] = there(i) ? static_cast<float>(state >> 16) / 32768.0F - 1.0F : 0.0F;
    }
  }

  /// The sum by the definition, in double.
  double sum(std::int64_t n, std::int64_t c, std::int64_t y, std::int64_t x) const {
    double result = 0;
    for (std::int64_t kh = 0; kh < s.kernel_h; ++kh) {
      for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
        const std::int64_t h = y * s.stride_h - s.pad_top + kh * s.dilation_h;
        const std::int64_t w = x * s.stride_w - s.pad_left + kw * s.dilation_w;
        if (h < 0 || h >= s.in_h || w < 0 || w >= s.in_w) continue;
        for (std::int64_t i = 0; i < width; ++i) {
          const std::int64_t seen = c / (s.out_channels / s.groups) * width + i;
          result += static_cast<double>(image[at(s.in_channels, plane, n, seen, h * s.in_w + w)]) *
                    static_cast<double>(weight[((c * width + i) * s.kernel_h + kh) * s.kernel_w + kw]);
        }
      }
    }
    return result;
  }

  std::vector<float> run(bool with_bias, const ImageEpilogue& epilogue, int threads = 1) const {
    const core::ThreadLimitGuard limit(threads);
    const Floats packed(static_cast<std::int64_t>(kernel->form(s).bytes / sizeof(float)), kUnwritten);
    kernel->pack({s, with_bias, weight.data(), packed.data()});
    const Floats out(outputs, kUnwritten);
    kernel->conv({s, image.data(), nullptr, packed.data(), with_bias ? bias.data() : nullptr, out.data(), epilogue});
    return out.values();
  }

  void expect_right(bool with_bias, const ImageEpilogue& epilogue) const {
    const std::vector<float> found = run(with_bias, epilogue);
    double worst = 0;
    for (std::int64_t n = 0; n < s.batch; ++n) {
      for (std::int64_t c = 0; c < s.out_channels; ++c) {
        for (std::int64_t pixel = 0; pixel < out_plane; ++pixel) {
          const std::int64_t place = at(s.out_channels, out_plane, n, c, pixel);
          double wanted = sum(n, c, pixel / s.out_w, pixel % s.out_w) + (with_bias ? bias[c] : 0);
          if (epilogue.scale != nullptr) wanted = wanted * scale[c] + shift[c];
          if (epilogue.addend != nullptr) wanted += addend[place];
          wanted = activated(wanted, epilogue.activation);
          worst = std::max(worst, std::abs(wanted - found[static_cast<std::size_t>(place)]) /
                                      (1 + std::sqrt(double(width * s.kernel_h * s.kernel_w))));
        }
      }
    }
    EXPECT_LT(worst, GetParam().kernel == "winograd" ? 1e-5 : 2e-6);
  }

  static double activated(double x, ImageActivation activation) {
    switch (activation) {
      case ImageActivation::none:
        return x;
      case ImageActivation::relu:
        return std::max(x, 0.0);
      case ImageActivation::relu6:
        return std::clamp(x, 0.0, 6.0);
      case ImageActivation::hardswish:
        return x * std::clamp(x + 3, 0.0, 6.0) / 6;
      case ImageActivation::silu:
        return x / (1 + std::exp(-x));
    }
    return 0;
  }

  std::optional<PackedKernel> kernel;
  const Conv2dSizes s = GetParam().sizes();
  const std::int64_t plane = s.in_h * s.in_w, out_plane = s.out_h * s.out_w;
  const std::int64_t width = s.in_channels / s.groups;  // of a group
  const std::int64_t weights = s.out_channels * width * s.kernel_h * s.kernel_w;
  const std::int64_t outputs = s.batch * padded(s.out_channels) * out_plane;
  const Floats image{s.batch * padded(s.in_channels) * plane, 0}, weight{weights, 0}, bias{s.out_channels, 0};
  const Floats addend{outputs, 0}, scale{padded(s.out_channels), 0}, shift{padded(s.out_channels), 0};
};

TEST_P(PackedKernelOf, IsTheSumOfProducts) {
  expect_right(false, {});
}

TEST_P(PackedKernelOf, AddsABias) {
  expect_right(true, {});
}

TEST_P(PackedKernelOf, MapsAddsAndCutsOff) {
  const float *factor = scale.data(), *more = shift.data(), *added = addend.data();
  expect_right(true, {.scale = factor, .shift = more, .activation = ImageActivation::relu6});
  expect_right(false, {.scale = factor, .shift = more, .addend = added, .activation = ImageActivation::relu});
}

TEST_P(PackedKernelOf, ActivatesSmoothly) {
  expect_right(true, {.activation = ImageActivation::hardswish});
  expect_right(false, {.addend = addend.data(), .activation = ImageActivation::silu});
}

TEST_P(PackedKernelOf, LeavesZerosInChannelsThatAreMissing) {
  const std::vector<float> found = run(true, {.scale = scale.data(), .shift = shift.data()});
  for (std::int64_t n = 0; n < s.batch; ++n) {
    for (std::int64_t c = s.out_channels; c < padded(s.out_channels); ++c) {
      for (std::int64_t pixel = 0; pixel < out_plane; ++pixel) {
        ASSERT_EQ(found[static_cast<std::size_t>(at(s.out_channels, out_plane, n, c, pixel))], 0);
      }
    }
  }
}

TEST_P(PackedKernelOf, GivesTheSameBitsOnSeveralThreads) {
  const std::vector<float> alone = run(true, {}, 1);
  EXPECT_EQ(run(true, {}, 2), alone);
  EXPECT_EQ(run(true, {}, 3), alone);
}

INSTANTIATE_TEST_SUITE_P(ImplicitGemm, PackedKernelOf,
                         testing::Values(Case{1, 32, 32, 7, 7}, Case{2, 24, 40, 3, 5}, Case{1, 16, 16, 1, 2},
                                         Case{3, 48, 96, 14, 13}, Case{1, 272, 80, 5, 5}, Case{1, 1056, 64, 4, 4},
                                         Case{2, 64, 48, 9, 8, 1, 1, 2}, Case{1, 32, 32, 8, 8, 1, 1, 1, 1},
                                         Case{1, 32, 32, 30, 29}, Case{1, 24, 28, 6, 7, 3, 3, 1, 1},
                                         Case{2, 16, 48, 11, 10, 5, 3, 2, 2}, Case{1, 32, 32, 9, 9, 3, 3, 1, 4, 4},
                                         Case{1, 16, 32, 9, 31, 3, 3, 1, 8, 8}, Case{1, 16, 32, 5, 5, 3, 3, 1, 12, 12},
                                         Case{1, 288, 32, 4, 3, 3, 3, 1, 1}, Case{1, 32, 32, 4, 4, 2, 2, 1, 7, 4}));

INSTANTIATE_TEST_SUITE_P(Direct, PackedKernelOf,
                         testing::Values(Case{1, 32, 32, 9, 9, 3, 3, 1, 1, 1, 16, "direct"},
                                         Case{2, 40, 40, 8, 7, 3, 3, 2, 1, 1, 10, "direct"},
                                         Case{1, 48, 48, 15, 6, 3, 3, 1, 1, 1, 6, "direct"},
                                         Case{1, 72, 72, 16, 20, 3, 3, 1, 1, 1, 3, "direct"}));

INSTANTIATE_TEST_SUITE_P(Winograd, PackedKernelOf,
                         testing::Values(Case{1, 64, 64, 28, 27, 3, 3, 1, 1, 1, 1, "winograd"},
                                         Case{1, 128, 112, 9, 10, 3, 3, 1, 1, 1, 1, "winograd"}));

}  // namespace
