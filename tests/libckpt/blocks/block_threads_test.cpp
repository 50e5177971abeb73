// What several threads and the instructions of this processor make is what one thread makes with plain ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "libckpt/blocks/part_fits.h"
#include "libckpt/blocks/unpacked.h"
#include "libckpt/ckpt.h"
#include "libcore/backend/cpu/isa.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/message_of.h"

namespace {

using core::ByteVector;
using core::MutableBytes;

/// Values of many sizes and signs, with zeros, runs of one value and the smallest and largest floats among them.
std::vector<float> mixed_values(std::size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t kind = i / 16 % 12;  // from 9 on plain
    const float value = normal(random);
    values[i] = kind == 0   ? 0
                : kind == 1 ? -0.F
                : kind == 2 ? 1
                : kind == 3 ? -1
                : kind == 4 ? std::round(3 * value)
                : kind == 5 ? value * 1e-42F
                : kind == 6 ? std::copysign(3e38F, value)
                : kind == 7 ? std::abs(value)
                : kind == 8 ? std::exp(20 * value)
                            : value;
  }
  return values;
}

/// 3 rows of 512 KiB: no whole number of what a thread takes, so that reads begin and end within a block.
ckpt::EntryPtr mixed_entry() {
  auto entry = std::make_shared<ckpt::Entry>(test::float_entry(mixed_values(3 * 131072 + 3 * 256)));
  entry->shape = {3, 131072 + 256};
  return entry;
}

/// All of it in reads of 777,777 bytes.
ByteVector read_in_parts(const ckpt::ByteSource& source) {
  ByteVector out(source.size());
  for (std::uint64_t at = 0; at < out.size(); at += 777777) {
    source.read(at, MutableBytes(out).subspan(at, std::min<std::uint64_t>(777777, out.size() - at)));
  }
  return out;
}

TEST(BlockThreads, MakeTheBytesOfOne) {
  const ckpt::EntryPtr values = mixed_entry();
  for (const std::string& type : ckpt::quantized_types()) {
    const ckpt::detail::BlockCodec& codec = *ckpt::detail::find_block_codec(type);
    const ckpt::EntryPtr by_one = ckpt::detail::packed(*values, codec, "w", 1);
    const ckpt::EntryPtr by_three = ckpt::detail::packed(*values, codec, "w", 3);
    const ByteVector blocks = ckpt::read_all(*by_one->bytes);
    EXPECT_EQ(ckpt::read_all(*by_three->bytes), blocks) << type;
    EXPECT_EQ(read_in_parts(*by_three->bytes), blocks) << type;
    const ByteVector back = ckpt::read_all(*ckpt::detail::unpacked(*by_one, 1)->bytes);
    EXPECT_EQ(ckpt::read_all(*ckpt::detail::unpacked(*by_one, 3)->bytes), back) << type;
    EXPECT_EQ(read_in_parts(*ckpt::detail::unpacked(*by_one, 3)->bytes), back) << type;
  }
}

TEST(BlockThreads, RefuseWhatOneRefuses) {
  std::vector<float> values = mixed_values(1 << 20);
  values[900000] = std::numeric_limits<float>::quiet_NaN();
  auto entry = std::make_shared<ckpt::Entry>(test::float_entry(values));
  entry->shape = {4, 1 << 18};
  const ckpt::EntryPtr packed = ckpt::detail::packed(*entry, *ckpt::detail::find_block_codec("Q6_K"), "layer.w", 3);
  EXPECT_EQ(
      test::message_of([&] { ckpt::read_all(*packed->bytes); }),
      "'layer.w' has a value that is not finite, which blocks of type Q6_K cannot hold; keep the tensor as it is");
}

/// What the functions of one table find for eight parts.
struct Found {
  ckpt::detail::PartLines lines{};
  float scales[8] = {};
  float improved[8] = {};
  std::vector<int> numbers = std::vector<int>(256 + 128 + 128);

  Found(const ckpt::detail::PartFits& fits, const float* values, const float* weights, bool large) {
    fits.lines(values, weights, large ? 32 : 16, {large ? 15 : 3, -0.5F, 15, !large}, lines, numbers.data());
    fits.scales(values, 32, scales, numbers.data() + 256);
    fits.improved_scales(values, 4, improved, numbers.data() + 384);
  }
};

TEST(PartFits, AreTheSameByOtherInstructions) {
#if defined(__x86_64__)
  if (core::cpu::isa() < core::cpu::Isa::avx2) GTEST_SKIP() << "no AVX2 here";
  const std::vector<float> values = mixed_values(256 * 300);
  for (std::size_t at = 0; at < values.size(); at += 256) {
    std::vector<float> weights(256);
    for (std::size_t i = 0; i < 256; ++i) weights[i] = std::abs(values[at + i]) + static_cast<float>(i % 3);
    for (bool large : {false, true}) {
      const Found plain(ckpt::detail::kPartFitsPlain, &values[at], weights.data(), large);
      const Found here(ckpt::detail::kPartFitsAvx2, &values[at], weights.data(), large);
      EXPECT_EQ(plain.numbers, here.numbers) << at;
      EXPECT_EQ(std::memcmp(&plain.lines, &here.lines, sizeof(plain.lines)), 0) << at;
      EXPECT_EQ(std::memcmp(plain.scales, here.scales, sizeof(plain.scales)), 0) << at;
      EXPECT_EQ(std::memcmp(plain.improved, here.improved, sizeof(plain.improved)), 0) << at;
    }
  }
#endif
}

}  // namespace
