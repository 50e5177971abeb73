#include "libcore/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace {

TEST(Half, EveryFiniteF16SurvivesTheRoundTrip) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    auto half = static_cast<std::uint16_t>(bits);
    float wide = core::f16_to_f32(half);
    if (std::isnan(wide)) continue;
    ASSERT_EQ(core::f32_to_f16(wide), half) << std::hex << bits;
  }
}

TEST(Half, AgreesWithTheCompilersF16) {
  for (unsigned i = 0; i < 4000; ++i) {
    double value = std::ldexp(1.0 + i / 4001.0, static_cast<int>(i % 45) - 27) * (i % 2 == 0 ? 1 : -1);
    auto expected = std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
    ASSERT_EQ(core::f64_to_f16(value), expected) << value;
  }
}

TEST(Half, F16OverflowsToInfinityAndKeepsNan) {
  EXPECT_EQ(core::f32_to_f16(65504.0F), 0x7bff);
  EXPECT_EQ(core::f32_to_f16(65519.0F), 0x7bff);
  EXPECT_EQ(core::f32_to_f16(65520.0F), 0x7c00);
  EXPECT_EQ(core::f32_to_f16(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_TRUE(std::isnan(core::f16_to_f32(core::f32_to_f16(std::nanf("")))));
}

TEST(Half, Bf16RoundsToNearestEven) {
  EXPECT_EQ(core::f32_to_bf16(1.0F), 0x3f80);
  EXPECT_EQ(core::f32_to_bf16(std::bit_cast<float>(0x3f808000U)), 0x3f80);
  EXPECT_EQ(core::f32_to_bf16(std::bit_cast<float>(0x3f818000U)), 0x3f82);
  EXPECT_EQ(core::f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(core::f32_to_bf16(std::nanf("")), 0x7fc0);
}

TEST(Half, EightBitFloatsHaveTheirLimits) {
  EXPECT_EQ(core::f8_to_f32(core::DType::f8_e4m3fn, 0x7e), 448.0F);
  EXPECT_TRUE(std::isnan(core::f8_to_f32(core::DType::f8_e4m3fn, 0x7f)));
  EXPECT_EQ(core::f8_to_f32(core::DType::f8_e5m2, 0x7b), 57344.0F);
  EXPECT_EQ(core::f8_to_f32(core::DType::f8_e5m2, 0x7c), std::numeric_limits<float>::infinity());
  EXPECT_EQ(core::f8_to_f32(core::DType::f8_e4m3fnuz, 0x7f), 240.0F);
  EXPECT_TRUE(std::isnan(core::f8_to_f32(core::DType::f8_e5m2fnuz, 0x80)));
  EXPECT_EQ(core::f8_to_f32(core::DType::f8_e8m0fnu, 127), 1.0F);
  EXPECT_EQ(core::f4_to_f32(0xf), -6.0F);
}

}  // namespace
