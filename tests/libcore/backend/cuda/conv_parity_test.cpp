// The emulated CUDA convolutions against the CPU's.
#include "tests/libcore/backend/cuda/nn_parity.h"

namespace core::parity {
namespace {

template <class Kind>
class ConvParity : public Parity<Kind> {};
using ConvTypes = testing::Types<On<float, 1>, On<double, 1>, On<Half, 1>, On<BFloat16, 1>, On<float, 4>, On<Half, 4>>;
TYPED_TEST_SUITE(ConvParity, ConvTypes);

/// Sizes whose output is worked out.
Conv2dSizes sized(Conv2dSizes s) {
  s.out_h = (s.in_h + s.pad_top + s.pad_bottom - s.dilation_h * (s.kernel_h - 1) - 1) / s.stride_h + 1;
  s.out_w = (s.in_w + s.pad_left + s.pad_right - s.dilation_w * (s.kernel_w - 1) - 1) / s.stride_w + 1;
  return s;
}

/// batch, channels, height, width -> channels, kernel; the rest as usual.
Conv2dSizes plain(std::int64_t n, std::int64_t in, std::int64_t h, std::int64_t w, std::int64_t out, std::int64_t k) {
  return {n, in, h, w, out, 0, 0, k, k, 1, 1, k / 2, k / 2, k / 2, k / 2, 1, 1, 1};
}

/// Each tells something apart that the others do not.
std::vector<Conv2dSizes> shapes() {
  std::vector<Conv2dSizes> all{plain(2, 3, 7, 9, 5, 3), plain(2, 70, 9, 9, 66, 1), plain(1, 3, 1, 1, 2, 3)};
  Conv2dSizes strided = plain(2, 4, 8, 11, 6, 3);
  strided.stride_h = 2, strided.stride_w = 3;
  all.push_back(strided);
  Conv2dSizes lopsided = plain(1, 2, 6, 5, 3, 2);
  lopsided.kernel_h = 3, lopsided.pad_top = 2, lopsided.pad_bottom = 0, lopsided.pad_left = 0, lopsided.pad_right = 3;
  all.push_back(lopsided);
  Conv2dSizes dilated = plain(1, 3, 12, 13, 4, 3);
  dilated.dilation_h = 2, dilated.dilation_w = 3;
  all.push_back(dilated);
  Conv2dSizes grouped = plain(2, 36, 5, 6, 40, 3);
  grouped.groups = 2;
  all.push_back(grouped);
  Conv2dSizes depthwise = plain(2, 6, 9, 8, 12, 3);
  depthwise.groups = 6, depthwise.stride_h = 2;
  all.push_back(depthwise);
  all.push_back(plain(4, 2, 20, 20, 3, 3));  // so many pixels that the weight's gradient is summed in parts
  for (Conv2dSizes& s : all) s = sized(s);
  return all;
}

std::int64_t input_count(const Conv2dSizes& s) {
  return s.batch * s.in_channels * s.in_h * s.in_w;
}
std::int64_t output_count(const Conv2dSizes& s) {
  return s.batch * s.out_channels * s.out_h * s.out_w;
}
std::int64_t weight_count(const Conv2dSizes& s) {
  return s.out_channels * (s.in_channels / s.groups) * s.kernel_h * s.kernel_w;
}

TYPED_TEST(ConvParity, ForwardWithBias) {
  using T = typename TypeParam::Element;
  for (const Conv2dSizes& s : some<TypeParam>(shapes())) {
    SCOPED_TRACE(testing::PrintToString(std::vector{s.in_channels, s.in_h, s.kernel_h, s.groups}));
    const auto x = random_array<T>(input_count(s)), w = random_array<T>(weight_count(s), 0.3);
    const auto b = random_array<T>(s.out_channels);
    auto y = garbage<T>(output_count(s));
    run_both<T>(&NnTable::conv2d, Conv2dParams{s, x.device.data(), w.device.data(), b.device.data(), y.device.data()},
                Conv2dParams{s, x.host.data(), w.host.data(), b.host.data(), y.host.data()});
    EXPECT_TRUE(is_near(y, 1e-4));
  }
}

TYPED_TEST(ConvParity, ForwardWithoutBias) {
  using T = typename TypeParam::Element;
  const Conv2dSizes s = shapes()[0];
  const auto x = random_array<T>(input_count(s)), w = random_array<T>(weight_count(s), 0.3);
  auto y = garbage<T>(output_count(s));
  run_both<T>(&NnTable::conv2d, Conv2dParams{s, x.device.data(), w.device.data(), nullptr, y.device.data()},
              Conv2dParams{s, x.host.data(), w.host.data(), nullptr, y.host.data()});
  EXPECT_TRUE(is_near(y, 1e-4));
}

TYPED_TEST(ConvParity, InputGrad) {
  using T = typename TypeParam::Element;
  for (const Conv2dSizes& s : some<TypeParam>(shapes())) {
    SCOPED_TRACE(testing::PrintToString(std::vector{s.in_channels, s.in_h, s.kernel_h, s.groups}));
    const auto g = random_array<T>(output_count(s)), w = random_array<T>(weight_count(s), 0.3);
    auto x = garbage<T>(input_count(s));
    run_both<T>(&NnTable::conv2d_input_grad,
                Conv2dInputGradParams{s, g.device.data(), w.device.data(), x.device.data()},
                Conv2dInputGradParams{s, g.host.data(), w.host.data(), x.host.data()});
    EXPECT_TRUE(is_near(x, 1e-4));
  }
}

TYPED_TEST(ConvParity, WeightAndBiasGrad) {
  using T = typename TypeParam::Element;
  for (const Conv2dSizes& s : some<TypeParam>(shapes())) {
    SCOPED_TRACE(testing::PrintToString(std::vector{s.in_channels, s.in_h, s.kernel_h, s.groups}));
    const auto g = random_array<T>(output_count(s), 0.3), x = random_array<T>(input_count(s), 0.3);
    auto w = garbage<T>(weight_count(s)), b = garbage<T>(s.out_channels);
    run_both<T>(&NnTable::conv2d_weight_grad,
                Conv2dWeightGradParams{s, g.device.data(), x.device.data(), w.device.data(), b.device.data()},
                Conv2dWeightGradParams{s, g.host.data(), x.host.data(), w.host.data(), b.host.data()});
    EXPECT_TRUE(is_near(w, 1e-4));
    EXPECT_TRUE(is_near(b, 1e-4));
  }
}

TYPED_TEST(ConvParity, LeavesBiasGradAlone) {
  using T = typename TypeParam::Element;
  const Conv2dSizes s = shapes()[0];
  const auto g = random_array<T>(output_count(s), 0.3), x = random_array<T>(input_count(s), 0.3);
  auto w = garbage<T>(weight_count(s));
  run_both<T>(&NnTable::conv2d_weight_grad,
              Conv2dWeightGradParams{s, g.device.data(), x.device.data(), w.device.data(), nullptr},
              Conv2dWeightGradParams{s, g.host.data(), x.host.data(), w.host.data(), nullptr});
  EXPECT_TRUE(is_near(w, 1e-4));
}

TYPED_TEST(ConvParity, NothingOfAnEmptyBatch) {
  using T = typename TypeParam::Element;
  Conv2dSizes s = shapes()[0];
  s.batch = 0;
  auto y = garbage<T>(1);
  emulated_nn().conv2d[slot<T>()]({s, nullptr, nullptr, nullptr, y.device.data()});
  EXPECT_TRUE(is_near(y, 0));
}

}  // namespace
}  // namespace core::parity
