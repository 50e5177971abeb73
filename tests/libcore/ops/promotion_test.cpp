// Type promotion over all pairs of dtypes, as PyTorch 2.15 has it: tensors with dimensions, 0-dim tensors, numbers.
#include <gtest/gtest.h>

#include <sstream>

#include "libcore/base/error.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/type_promotion.h"

namespace {

using core::DType;
using core::Tensor;

constexpr DType kAll[] = {DType::boolean, DType::u8,  DType::i8,   DType::i16, DType::i32,
                          DType::i64,     DType::f16, DType::bf16, DType::f32, DType::f64};

std::string word_of(DType dtype) {
  constexpr const char* kNames[] = {"b", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
  for (std::size_t i = 0; i < std::size(kAll); ++i) {
    if (kAll[i] == dtype) return kNames[i];
  }
  return "?";
}

Tensor sample(DType dtype, bool with_dims) {
  return core::ones(with_dims ? core::Shape{1} : core::Shape{}, {.dtype = dtype});
}

/// One row a first dtype, one word a second.
template <class F>
std::string table(F result) {
  std::string text;
  for (const DType a : kAll) {
    for (const DType b : kAll) text += word_of(result(a, b)) + (b == DType::f64 ? "\n" : " ");
  }
  return text;
}

TEST(Promotion, OfDtypes) {
  EXPECT_EQ(table(core::promote_types),
            "b u8 i8 i16 i32 i64 f16 bf16 f32 f64\n"
            "u8 u8 i16 i16 i32 i64 f16 bf16 f32 f64\n"
            "i8 i16 i8 i16 i32 i64 f16 bf16 f32 f64\n"
            "i16 i16 i16 i16 i32 i64 f16 bf16 f32 f64\n"
            "i32 i32 i32 i32 i32 i64 f16 bf16 f32 f64\n"
            "i64 i64 i64 i64 i64 i64 f16 bf16 f32 f64\n"
            "f16 f16 f16 f16 f16 f16 f16 f32 f32 f64\n"
            "bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64\n"
            "f32 f32 f32 f32 f32 f32 f32 f32 f32 f64\n"
            "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64\n");
}

TEST(Promotion, OfTensorsWithDimensions) {
  EXPECT_EQ(table([](DType a, DType b) { return (sample(a, true) + sample(b, true)).dtype(); }),
            "b u8 i8 i16 i32 i64 f16 bf16 f32 f64\n"
            "u8 u8 i16 i16 i32 i64 f16 bf16 f32 f64\n"
            "i8 i16 i8 i16 i32 i64 f16 bf16 f32 f64\n"
            "i16 i16 i16 i16 i32 i64 f16 bf16 f32 f64\n"
            "i32 i32 i32 i32 i32 i64 f16 bf16 f32 f64\n"
            "i64 i64 i64 i64 i64 i64 f16 bf16 f32 f64\n"
            "f16 f16 f16 f16 f16 f16 f16 f32 f32 f64\n"
            "bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64\n"
            "f32 f32 f32 f32 f32 f32 f32 f32 f32 f64\n"
            "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64\n");
}

TEST(Promotion, OfATensorAndAZeroDimTensor) {
  EXPECT_EQ(table([](DType a, DType b) { return (sample(a, true) * sample(b, false)).dtype(); }),
            "b u8 i8 i16 i32 i64 f16 bf16 f32 f64\n"
            "u8 u8 u8 u8 u8 u8 f16 bf16 f32 f64\n"
            "i8 i8 i8 i8 i8 i8 f16 bf16 f32 f64\n"
            "i16 i16 i16 i16 i16 i16 f16 bf16 f32 f64\n"
            "i32 i32 i32 i32 i32 i32 f16 bf16 f32 f64\n"
            "i64 i64 i64 i64 i64 i64 f16 bf16 f32 f64\n"
            "f16 f16 f16 f16 f16 f16 f16 f16 f16 f16\n"
            "bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16\n"
            "f32 f32 f32 f32 f32 f32 f32 f32 f32 f32\n"
            "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64\n");
}

TEST(Promotion, OfZeroDimTensors) {
  EXPECT_EQ(table([](DType a, DType b) { return core::result_type(sample(a, false), sample(b, false)); }),
            "b u8 i8 i16 i32 i64 f16 bf16 f32 f64\n"
            "u8 u8 i16 i16 i32 i64 f16 bf16 f32 f64\n"
            "i8 i16 i8 i16 i32 i64 f16 bf16 f32 f64\n"
            "i16 i16 i16 i16 i32 i64 f16 bf16 f32 f64\n"
            "i32 i32 i32 i32 i32 i64 f16 bf16 f32 f64\n"
            "i64 i64 i64 i64 i64 i64 f16 bf16 f32 f64\n"
            "f16 f16 f16 f16 f16 f16 f16 f32 f32 f64\n"
            "bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64\n"
            "f32 f32 f32 f32 f32 f32 f32 f32 f32 f64\n"
            "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64\n");
}

TEST(Promotion, OfDivision) {
  EXPECT_EQ(table([](DType a, DType b) { return (sample(a, true) / sample(b, true)).dtype(); }),
            "f32 f32 f32 f32 f32 f32 f16 bf16 f32 f64\n"
            "f32 f32 f32 f32 f32 f32 f16 bf16 f32 f64\n"
            "f32 f32 f32 f32 f32 f32 f16 bf16 f32 f64\n"
            "f32 f32 f32 f32 f32 f32 f16 bf16 f32 f64\n"
            "f32 f32 f32 f32 f32 f32 f16 bf16 f32 f64\n"
            "f32 f32 f32 f32 f32 f32 f16 bf16 f32 f64\n"
            "f16 f16 f16 f16 f16 f16 f16 f32 f32 f64\n"
            "bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64\n"
            "f32 f32 f32 f32 f32 f32 f32 f32 f32 f64\n"
            "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64\n");
}

TEST(Promotion, OfATensorAndANumber) {
  {
    std::string row;
    for (const DType a : kAll) row += word_of((sample(a, true) + core::Scalar(true)).dtype()) + " ";
    EXPECT_EQ(row, "b u8 i8 i16 i32 i64 f16 bf16 f32 f64 ");
  }
  {
    std::string row;
    for (const DType a : kAll) row += word_of((sample(a, true) + 2).dtype()) + " ";
    EXPECT_EQ(row, "i64 u8 i8 i16 i32 i64 f16 bf16 f32 f64 ");
  }
  {
    std::string row;
    for (const DType a : kAll) row += word_of((sample(a, true) + 2.5).dtype()) + " ";
    EXPECT_EQ(row, "f32 f32 f32 f32 f32 f32 f16 bf16 f32 f64 ");
  }
}

TEST(Promotion, OfWideUnsignedIntegersIsRefused) {
  const auto message = [](DType a, DType b) {
    try {
      core::promote_types(a, b);
    } catch (const core::Error& error) {
      return error.message();
    }
    return std::string("no error");
  };
  EXPECT_EQ(message(DType::u16, DType::i32),
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote UInt16 and Int");
  EXPECT_EQ(message(DType::u32, DType::i32),
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote UInt32 and Int");
  EXPECT_EQ(message(DType::u64, DType::i32),
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote UInt64 and Int");
  EXPECT_EQ(message(DType::u16, DType::f32), "no error");
}

TEST(Dtypes, WhatNeitherInt64NorFloat64HoldsIsRefused) {
  const auto message = [](const auto& function) {
    try {
      function();
    } catch (const core::Error& error) {
      return error.message();
    }
    return std::string("no error");
  };
  const Tensor wide = core::ones({2}, {.dtype = DType::u64});
  EXPECT_EQ(message([&] { core::unique(wide); }), "\"unique\" not implemented for 'UInt64'");
  EXPECT_EQ(message([&] { core::cummax(wide, 0); }), "\"sort\" not implemented for 'UInt64'");
  EXPECT_EQ(message([&] { core::searchsorted(wide, wide); }), "\"searchsorted_out_cpu\" not implemented for 'UInt64'");
}

TEST(Dtypes, ComplexHalvesAreAddedAndMultipliedButNotDivided) {
  const auto message = [](const auto& function) {
    try {
      function();
    } catch (const core::Error& error) {
      return error.message();
    }
    return std::string("no error");
  };
  const Tensor x = core::complex(core::ones({2}), core::ones({2})).chalf();
  EXPECT_EQ(x.dtype(), DType::c32);
  EXPECT_EQ((x * x + 1).to(DType::c64).to_vector<std::complex<float>>()[1], std::complex<float>(1, 2));
  EXPECT_EQ((x * core::ones({2})).dtype(), DType::c64);
  EXPECT_EQ(message([&] { x / x; }), "\"div_cpu\" not implemented for 'ComplexHalf'");
  EXPECT_EQ(message([&] { x.sum(); }), "\"sum_cpu\" not implemented for 'ComplexHalf'");
  EXPECT_EQ(message([&] { core::exp(x); }), "\"exp_vml_cpu\" not implemented for 'ComplexHalf'");
}

}  // namespace
