#include "libcore/base/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "libcore/base/error.h"

namespace {

using core::DType;

TEST(DType, EveryTypeIsFoundByBothItsNames) {
  std::set<std::string_view> names;
  for (int i = 0; i < core::kDTypeCount; ++i) {
    auto dtype = static_cast<DType>(i);
    EXPECT_EQ(core::try_parse_dtype(name(dtype)), dtype);
    EXPECT_EQ(core::try_parse_dtype(short_name(dtype)), dtype);
    EXPECT_TRUE(names.insert(name(dtype)).second);
  }
}

TEST(DType, WidthsInBits) {
  EXPECT_EQ(bit_width(DType::boolean), 8);
  EXPECT_EQ(bit_width(DType::bf16), 16);
  EXPECT_EQ(bit_width(DType::c128), 128);
  EXPECT_EQ(bit_width(DType::f8_e4m3fn), 8);
  EXPECT_EQ(bit_width(DType::f6_e2m3), 6);
  EXPECT_EQ(bit_width(DType::quint4x2), 4);
}

TEST(DType, ByteSizeRefusesPartsOfBytesAndOverflow) {
  EXPECT_EQ(byte_size(DType::f32, 3), 12U);
  EXPECT_EQ(byte_size(DType::f6_e2m3, 4), 3U);
  EXPECT_EQ(byte_size(DType::f6_e2m3, 3), std::nullopt);
  EXPECT_EQ(byte_size(DType::f32, UINT64_MAX / 4), UINT64_MAX / 4 * 4);
  EXPECT_EQ(byte_size(DType::f32, UINT64_MAX / 4 + 1), std::nullopt);
}

TEST(DType, ParsesSynonymsAndTorchPrefix) {
  EXPECT_EQ(core::parse_dtype("torch.float32"), DType::f32);
  EXPECT_EQ(core::parse_dtype("BF16"), DType::bf16);
  EXPECT_EQ(core::parse_dtype("long"), DType::i64);
  EXPECT_THROW(core::parse_dtype("float31"), core::Error);
}

TEST(DType, PrintsAsTorch) {
  std::ostringstream out;
  out << DType::bf16;
  EXPECT_EQ(out.str(), "torch.bfloat16");
}

}  // namespace
