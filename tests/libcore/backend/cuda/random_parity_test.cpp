// Random fills of CUDA devices, run on the host, against the numbers that the host makes for logical devices.
#include <gtest/gtest.h>

#include <iostream>

#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/random_stream.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/random_fill.h"
#include "tests/libcore/backend/cuda/emulation.h"
#include "tests/libcore/backend/cuda/parity.h"

namespace {

using core::DType;
using core::RandomOp;
using core::RandomParams;
using test::Buffer;

const core::RandomTable& device() {
  static const auto* table = [] {
    auto* filled = new core::RandomTable;
    core::emulated_kernels::fill_random(*filled);
    return filled;
  }();
  return *table;
}

constexpr RandomParams kNumbers{nullptr, 0, 0, 0, 0.25, 2, -3, 10};
constexpr std::uint64_t kSeed = 12345678901;

void compare_fill(RandomOp op, DType dtype, std::int64_t count, const RandomParams& numbers) {
  SCOPED_TRACE(std::to_string(count) + " elements");
  core::Generator generator(core::Device("cuda:0"));
  generator.manual_seed(kSeed);
  Buffer expected(dtype, count + 1), actual(dtype, count + 1);
  const std::int64_t before = 300;  // another fill came first
  Buffer first(DType::f32, before);
  core::detail::fill_buffer(generator, {first.at(0), DType::f32, before}, {RandomOp::uniform, 0, 1});
  RandomParams p = numbers;
  p.out = actual.at(0);
  p.count = count;
  p.seed = kSeed;
  p.offset = core::random_offset_step(before, 4);
  ASSERT_EQ(generator.stream().offset, p.offset);
  core::detail::fill_buffer(generator, {expected.at(0), dtype, count}, {op, p.a, p.b, p.from, p.size});
  device().fill.at(op, dtype)(p);
  EXPECT_EQ(test::difference(expected, actual, {}), "");
}

TEST(CudaRandom, EveryFillHasTheBitsOfTheHosts) {
  int slots = 0;
  for (int i = 0; i < static_cast<int>(RandomOp::bernoulli_each); ++i) {
    for (int k = 0; k < core::kDTypeCount; ++k) {
      const auto op = static_cast<RandomOp>(i);
      const auto dtype = static_cast<DType>(k);
      if (device().fill.at(op, dtype) == nullptr) continue;
      ++slots;
      SCOPED_TRACE(std::to_string(i) + " of " + std::string(core::name(dtype)));
      for (std::int64_t count : {0, 1, 5, 255, 257, 4000}) compare_fill(op, dtype, count, kNumbers);
    }
  }
  std::cout << "random fills: " << slots << " slots\n";
}

TEST(CudaRandom, GoesOnWithFurtherWordsInLargeTensors) {
  const std::int64_t wave = 132 * 2048;
  compare_fill(RandomOp::uniform, DType::f32, 5 * wave + 3, kNumbers);
  compare_fill(RandomOp::normal, DType::f64, 2 * wave + 1, kNumbers);
}

TEST(CudaRandom, WideRangesTakeTwoWords) {
  RandomParams p = kNumbers;
  p.size = 1ULL << 40;
  compare_fill(RandomOp::integers, DType::i64, 1000, p);
  p.size = (1ULL << 28) - 1;
  compare_fill(RandomOp::integers, DType::i32, 1000, p);
}

TEST(CudaRandom, OffsetStepsAreTheHosts) {
  for (std::int64_t count : {0, 1, 256, 257, 132 * 2048 * 4, 132 * 2048 * 4 + 1, 3000000}) {
    core::Generator generator(core::Device("cuda:0"));
    generator.manual_seed(1);
    Buffer out(DType::f32, count);
    core::detail::fill_buffer(generator, {out.at(0), DType::f32, count}, {RandomOp::uniform, 0, 1});
    EXPECT_EQ(generator.stream().offset, core::random_offset_step(count, 4)) << count;
  }
}

/// 2 GiB of f32 and more, which PyTorch fills in halves.
TEST(CudaRandom, FillsWhatDoesNotFit31BitsInHalves) {
  const std::int64_t most = (0x7fffffff - 1) / 4 + 1;
  EXPECT_EQ(core::random_launches(most, 4, 4).parts.size(), 1U);
  const core::RandomLaunches two = core::random_launches(most + 1, 4, 4);
  ASSERT_EQ(two.parts.size(), 2U);
  EXPECT_EQ(two.parts[0].offset, core::random_offset_step(most + 1, 4));  // the whole was counted first
  EXPECT_EQ(two.parts[1].first, (most + 1) / 2);
  EXPECT_EQ(two.parts[1].offset, two.parts[0].offset + core::random_offset_step(two.parts[0].count, 4));
  EXPECT_EQ(two.used, two.parts[1].offset + core::random_offset_step(two.parts[1].count, 4));
  EXPECT_EQ(core::random_launches(3 * most, 4, 4).parts.size(), 4U);
}

TEST(CudaRandom, DropoutTakesAsManyNeighboursAsAddressAndCountAllow) {
  EXPECT_EQ(core::dropout_width(512, 4096, 4), 4);
  EXPECT_EQ(core::dropout_width(512, 4098, 4), 2);
  EXPECT_EQ(core::dropout_width(512, 4097, 4), 1);
  EXPECT_EQ(core::dropout_width(520, 4096, 4), 2);
  EXPECT_EQ(core::dropout_width(516, 4096, 4), 1);
  EXPECT_EQ(core::dropout_width(512, 4096, 2), 8);
  EXPECT_EQ(core::dropout_width(512, 4096, 8), 2);
}

}  // namespace
