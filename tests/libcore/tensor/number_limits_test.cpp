// finfo and iinfo print as PyTorch 2.15's do.
#include "libcore/tensor/number_limits.h"

#include <gtest/gtest.h>

#include <string>

#include "libcore/base/error.h"

namespace {

using core::DType;

TEST(NumberLimits, FinfoPrintsAsPyTorch) {
  const std::pair<DType, const char*> cases[] = {
      {DType::f32,
       "finfo(resolution=1e-06, min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07, smallest_normal=1.17549e-38, "
       "tiny=1.17549e-38, dtype=float32)"},
      {DType::f64,
       "finfo(resolution=1e-15, min=-1.79769e+308, max=1.79769e+308, eps=2.22045e-16, smallest_normal=2.22507e-308, "
       "tiny=2.22507e-308, dtype=float64)"},
      {DType::f16,
       "finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, smallest_normal=6.10352e-05, tiny=6.10352e-05, "
       "dtype=float16)"},
      {DType::bf16,
       "finfo(resolution=0.01, min=-3.38953e+38, max=3.38953e+38, eps=0.0078125, smallest_normal=1.17549e-38, "
       "tiny=1.17549e-38, dtype=bfloat16)"},
      {DType::f8_e4m3fn,
       "finfo(resolution=1, min=-448, max=448, eps=0.125, smallest_normal=0.015625, tiny=0.015625, "
       "dtype=float8_e4m3fn)"},
      {DType::f8_e5m2,
       "finfo(resolution=1, min=-57344, max=57344, eps=0.25, smallest_normal=6.10352e-05, tiny=6.10352e-05, "
       "dtype=float8_e5m2)"},
      {DType::f8_e8m0fnu,
       "finfo(resolution=1, min=5.87747e-39, max=1.70141e+38, eps=1, smallest_normal=5.87747e-39, tiny=5.87747e-39, "
       "dtype=float8_e8m0fnu)"},
      {DType::c32,
       "finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, smallest_normal=6.10352e-05, tiny=6.10352e-05, "
       "dtype=float16)"}};
  for (const auto& [dtype, text] : cases) EXPECT_EQ(core::finfo(dtype).str(), text);
  EXPECT_EQ(core::finfo().str(), core::finfo(DType::f32).str());
}

TEST(NumberLimits, IinfoPrintsAsPyTorch) {
  EXPECT_EQ(core::iinfo(DType::u8).str(), "iinfo(min=0, max=255, dtype=uint8)");
  EXPECT_EQ(core::iinfo(DType::i8).str(), "iinfo(min=-128, max=127, dtype=int8)");
  EXPECT_EQ(core::iinfo(DType::i32).str(), "iinfo(min=-2.14748e+09, max=2.14748e+09, dtype=int32)");
  EXPECT_EQ(core::iinfo(DType::i64).str(), "iinfo(min=-9.22337e+18, max=9.22337e+18, dtype=int64)");
  EXPECT_EQ(core::iinfo(DType::u64).str(), "iinfo(min=0, max=1.84467e+19, dtype=uint64)");
  EXPECT_EQ(core::iinfo(DType::i64).min, INT64_MIN);
}

TEST(NumberLimits, RefusesTheOtherKind) {
  const auto error_of = [](const auto& run) {
    try {
      run();
    } catch (const core::Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error_of([] { core::finfo info(DType::i32); }),
            "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'");
  EXPECT_EQ(error_of([] { core::iinfo info(DType::f32); }),
            "torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'");
  EXPECT_EQ(error_of([] { core::iinfo info(DType::boolean); }), "torch.bool is not supported by torch.iinfo");
}

}  // namespace
