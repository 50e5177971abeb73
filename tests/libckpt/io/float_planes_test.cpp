#include "libckpt/io/float_planes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"
#include "libcore/base/half.h"

namespace {

using ckpt::FloatKind;
using core::ByteVector;

constexpr FloatKind kKinds[] = {FloatKind::f16, FloatKind::bf16, FloatKind::f32};
constexpr std::size_t kHead = 8;

void append_float(ByteVector& to, float value, FloatKind kind) {
  if (kind == FloatKind::f32) return core::append_le(to, value);
  std::uint16_t bits = kind == FloatKind::f16 ? core::f32_to_f16(value) : core::f32_to_bf16(value);
  core::append_le(to, bits);
}

ByteVector weights(std::size_t count, FloatKind kind, float sigma = 0.02F) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0, sigma);
  ByteVector bytes;
  for (std::size_t i = 0; i < count; ++i) append_float(bytes, normal(random), kind);
  return bytes;
}

ByteVector noise(std::size_t size) {
  std::mt19937 random(3);
  ByteVector bytes(size);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

void expect_back(const ByteVector& floats, FloatKind kind, std::size_t at_most, const std::string& what) {
  ByteVector packed = ckpt::pack_floats(floats, kind);
  EXPECT_LE(packed.size(), std::min<std::size_t>(at_most, ckpt::packed_floats_bound(floats.size()))) << what;
  ByteVector back(floats.size(), std::byte{0x55});
  ckpt::unpack_floats(packed, kind, back);
  EXPECT_EQ(back, floats) << what;
}

std::string message_of(core::Bytes packed, FloatKind kind, std::size_t size) {
  ByteVector out(size);
  try {
    ckpt::unpack_floats(packed, kind, out);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::corrupt);
    return error.message();
  }
  return "";
}

TEST(FloatPlanes, WeightsOfEveryCountComeBack) {
  for (FloatKind kind : kKinds) {
    for (std::size_t count = 0; count <= 200; ++count) {
      expect_back(weights(count, kind), kind, SIZE_MAX, std::to_string(count));
      expect_back(noise(count * ckpt::float_width(kind)), kind, SIZE_MAX, std::to_string(count));
    }
    for (std::size_t count : {4095U, 4096U, 4097U, 8191U, 20'011U}) {
      expect_back(weights(count, kind), kind, SIZE_MAX, std::to_string(count));
    }
  }
}

TEST(FloatPlanes, WeightsShrink) {
  expect_back(weights(500'000, FloatKind::bf16), FloatKind::bf16, 705'000, "bf16");
  expect_back(weights(500'000, FloatKind::f16), FloatKind::f16, 895'000, "f16");
  expect_back(weights(500'000, FloatKind::f32), FloatKind::f32, 1'705'000, "f32");
}

TEST(FloatPlanes, NoiseAndOtherExponentsEverywhereStandAsTheyAre) {
  for (FloatKind kind : kKinds) {
    expect_back(noise(100'000), kind, 100'000 + kHead, "noise");
    ByteVector spread;  // every exponent as often as any other
    for (std::size_t i = 0; i < 50'000; ++i)
      append_float(spread, std::ldexp(1.0F, static_cast<int>(i % 30) - 14), kind);
    expect_back(spread, kind, spread.size() + kHead, "spread");
  }
}

TEST(FloatPlanes, ValuesThatAreNoNumbersAndTheSmallestComeBack) {
  const std::uint32_t special[] = {0x7fc00001, 0xffc12345, 0x7f800000, 0xff800000, 0x80000000, 1, 0x807fffff, 0};
  for (FloatKind kind : kKinds) {
    std::size_t width = ckpt::float_width(kind);
    ByteVector floats = weights(40'000, kind);
    for (std::size_t i = 0; i < std::size(special); ++i) {
      for (std::size_t at : {i * 37, i * 4999 + 4090, floats.size() / width - 1 - i}) {
        std::uint32_t bits = width == 4 ? special[i] : special[i] >> 16 | (special[i] & 3);
        std::memcpy(&floats[at * width], &bits, width);
      }
    }
    expect_back(floats, kind, floats.size() * 9 / 10, "special");
    expect_back(ByteVector(floats.size()), kind, floats.size() * 9 / 10, "zeros");
    expect_back(ByteVector(floats.size(), std::byte{0xff}), kind, floats.size() * 9 / 10, "ones");
  }
}

// Distances of 254 to 512 floats, which take one or two bytes, and the last float of all.
TEST(FloatPlanes, RareExponentsFarApartComeBack) {
  for (FloatKind kind : kKinds) {
    std::size_t width = ckpt::float_width(kind);
    for (std::size_t distance : {1U, 31U, 32U, 254U, 255U, 256U, 509U, 510U, 511U, 512U, 9999U}) {
      ByteVector floats;
      for (std::size_t i = 0; i < 10'000; ++i) append_float(floats, (i + 1) % distance == 0 ? 1e-5F : 1.5F, kind);
      std::size_t listed = distance < 100 ? SIZE_MAX : floats.size() * 9 / 10;
      expect_back(floats, kind, listed, std::to_string(distance));
      append_float(floats, 1e-5F, kind);
      expect_back(floats, kind, listed, std::to_string(distance));
      expect_back({floats.begin() + static_cast<std::ptrdiff_t>(width), floats.end()}, kind, listed, "from the second");
    }
  }
}

// What a processor with other instructions makes, and what files hold.
TEST(FloatPlanes, TheBytesAreTheSameEverywhere) {
  const std::pair<FloatKind, const char*> expected[] = {
      {FloatKind::f16, "b3ca4021ffbb74ca2ace63c51e1b7511"},
      {FloatKind::bf16, "4a9d797b1669b579ef2ba26f864161c6"},
      {FloatKind::f32, "804eb032a2e88372e5b84f602fbc8f38"},
  };
  for (auto [kind, hash] : expected) {
    ByteVector floats;  // without the standard library's random numbers, which are its own
    std::uint32_t state = 1;
    for (int i = 0; i < 30'000; ++i) {
      state = state * 1'664'525 + 1'013'904'223;
      append_float(floats, std::ldexp(static_cast<float>(state >> 8) * 0x1p-24F - 0.5F, -static_cast<int>(state % 4)),
                   kind);
    }
    EXPECT_EQ(ckpt::to_hex(ckpt::hash128(ckpt::pack_floats(floats, kind))), hash);
  }
}

// FORMAT_NATIVE.md: head, words of codes, low bytes, list.
TEST(FloatPlanes, TheFormIsThatOfTheSpecification) {
  ByteVector floats;
  for (int i = 0; i < 64; ++i) append_float(floats, i == 33 ? -0.0F : 1.0F, FloatKind::bf16);
  ByteVector packed = ckpt::pack_floats(floats, FloatKind::bf16);
  ByteVector expected = {std::byte{1}, std::byte{120}, {}, {}, std::byte{1}, {}, {}, {}};  // 120 + 7 = 127: 1.0
  for (int word = 0; word < 3; ++word) core::append_le<std::uint32_t>(expected, 0xffffffff);
  // Float 33 has exponent 0, whose code is the low bits of 0 - 120.
  for (int word = 0; word < 3; ++word) core::append_le<std::uint32_t>(expected, ~(1U << 1));
  for (int i = 0; i < 64; ++i) expected.push_back(std::byte{i == 33});  // the sign, below seven bits of fraction
  expected.push_back(std::byte{33});
  expected.push_back(std::byte{0});
  EXPECT_EQ(packed, expected);
}

TEST(FloatPlanes, CutAndLengthenedChunksAreCorrupt) {
  for (FloatKind kind : kKinds) {
    for (const ByteVector& floats : {weights(100, kind), noise(100 * ckpt::float_width(kind))}) {
      ByteVector packed = ckpt::pack_floats(floats, kind);
      for (std::size_t cut = 0; cut < packed.size(); ++cut) {
        EXPECT_NE(message_of(core::Bytes(packed).first(cut), kind, floats.size()), "") << cut;
      }
      for (std::size_t size : {std::size_t{0}, floats.size() - ckpt::float_width(kind), floats.size() - 1,
                               floats.size() + 1, floats.size() + ckpt::float_width(kind), 2 * floats.size()}) {
        EXPECT_NE(message_of(packed, kind, size), "") << size;
      }
      packed.push_back(std::byte{0});
      EXPECT_NE(message_of(packed, kind, floats.size()), "");
    }
  }
}

TEST(FloatPlanes, HostileNumbersAreCorrupt) {
  ByteVector floats = weights(300, FloatKind::bf16);
  ByteVector packed = ckpt::pack_floats(floats, FloatKind::bf16);
  ASSERT_EQ(packed[0], std::byte{1});
  auto changed = [&](std::size_t at, int value) {
    ByteVector made = packed;
    made[at] = static_cast<std::byte>(value);
    return message_of(made, FloatKind::bf16, floats.size());
  };
  EXPECT_EQ(changed(0, 2), "packed floats are damaged: their head is none that this version knows");
  EXPECT_EQ(changed(0, 0), "packed floats are damaged: their head is none that this version knows");
  EXPECT_EQ(changed(2, 1), "packed floats are damaged: their head is none that this version knows");
  for (int value : {0, 255}) EXPECT_NE(changed(4, value), "") << value;
  EXPECT_NE(changed(7, 255), "");
  ByteVector far = packed;  // every distance as large as it can be
  for (std::size_t at = kHead + 10 * 12 + 300; at < far.size(); at += 2) far[at] = std::byte{255};
  EXPECT_EQ(message_of(far, FloatKind::bf16, floats.size()),
            "packed floats are damaged: an exponent is for a float behind the last one, number 300");
}

}  // namespace
