#include "libckpt/io/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"

namespace {

core::ByteVector bytes_of(std::string_view text) {
  core::Bytes bytes = core::as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

TEST(Checksum, MatchesTheReferenceTools) {
  // xxh128sum and crc32 of the text.
  EXPECT_EQ(ckpt::to_hex(ckpt::hash128(core::as_bytes("abc"))), "06b05ab6733a618578af5f94892f3950");
  EXPECT_EQ(ckpt::to_hex(ckpt::hash128(core::Bytes())), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(ckpt::crc32(core::as_bytes("123456789")), 0xcbf43926U);
}

TEST(Checksum, PartsGiveTheSameAsTheWhole) {
  core::ByteVector bytes(3'000'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31 >> 3);
  EXPECT_EQ(ckpt::hash128(*ckpt::memory_source(bytes)), ckpt::hash128(bytes));
  EXPECT_EQ(ckpt::crc32(*ckpt::memory_source(bytes)), ckpt::crc32(bytes));
  ckpt::Hasher128 hasher;
  hasher.update(core::Bytes(bytes).first(7));
  hasher.update(core::Bytes(bytes).subspan(7));
  EXPECT_EQ(hasher.finish(), ckpt::hash128(bytes));
}

TEST(Zstd, RoundTripWithContentSize) {
  core::ByteVector bytes = bytes_of(std::string(100'000, 'a'));
  core::ByteVector frame = ckpt::zstd_compress(bytes);
  EXPECT_LT(frame.size(), 200U);
  EXPECT_EQ(ckpt::zstd_content_size(frame), bytes.size());
  EXPECT_EQ(ckpt::zstd_decompress(frame, bytes.size()), bytes);
  EXPECT_TRUE(ckpt::zstd_decompress(ckpt::zstd_compress({}), 0).empty());
}

TEST(Zstd, WrongSizesAndDamageAreCorrupt) {
  core::ByteVector bytes = bytes_of("some text that is long enough to be a block of its own");
  core::ByteVector frame = ckpt::zstd_compress(bytes);
  EXPECT_THROW(ckpt::zstd_decompress(frame, bytes.size() - 1), core::Error);
  EXPECT_THROW(ckpt::zstd_decompress(frame, bytes.size() + 1), core::Error);
  core::ByteVector cut(frame.begin(), frame.end() - 1);
  EXPECT_THROW(ckpt::zstd_decompress(cut, bytes.size()), core::Error);
  core::ByteVector longer = frame;
  longer.push_back(std::byte{0});
  EXPECT_THROW(ckpt::zstd_decompress(longer, bytes.size()), core::Error);
  EXPECT_THROW(ckpt::zstd_decompress(bytes_of("no frame at all"), 10), core::Error);
  EXPECT_EQ(ckpt::zstd_content_size(bytes_of("no frame at all")), std::nullopt);
}

TEST(Shuffle, PutsEqualBytesTogetherAndBack) {
  core::ByteVector in = bytes_of("a1b2c3d4X");
  core::ByteVector out(in.size());
  ckpt::shuffle(in, 2, out);
  EXPECT_EQ(core::as_text(out), "abcd1234X");
  for (std::uint32_t width : {1U, 2U, 3U, 4U, 8U, 16U}) {
    core::ByteVector shuffled(in.size());
    core::ByteVector back(in.size());
    ckpt::shuffle(in, width, shuffled);
    ckpt::unshuffle(shuffled, width, back);
    EXPECT_EQ(back, in) << width;
  }
}

/// Weights of a normal distribution in the upper bytes of f32, the first `width` of them: 2 is bf16.
core::ByteVector weights(std::size_t count, std::size_t width, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.02F);
  core::ByteVector bytes(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    float value = normal(random);
    std::memcpy(&bytes[i * width], reinterpret_cast<const char*>(&value) + sizeof value - width, width);
  }
  return bytes;
}

core::ByteVector planes_of(const core::ByteVector& bytes, std::uint32_t width) {
  core::ByteVector planes(bytes.size());
  ckpt::shuffle(bytes, width, planes);
  return planes;
}

std::size_t packed_size(const core::ByteVector& bytes, std::uint32_t width) {
  return ckpt::zstd_compress_planes(planes_of(bytes, width), width, 1).size();
}

TEST(Shuffle, VectorsGiveWhatSingleElementsGive) {
  for (std::uint32_t width : {1U, 2U, 3U, 4U, 8U, 16U}) {
    for (std::size_t count : {0U, 1U, 15U, 16U, 17U, 100U}) {
      core::ByteVector in = weights(count * width / 2 + 1, 2);
      core::ByteVector planes = planes_of(in, width);
      std::size_t whole = in.size() / width;
      for (std::size_t i = 0; i < in.size(); ++i) {
        std::size_t at = i < whole * width ? i % width * whole + i / width : i;
        ASSERT_EQ(planes[at], in[i]) << width << " " << count << " " << i;
      }
      core::ByteVector back(in.size());
      ckpt::unshuffle(planes, width, back);
      EXPECT_EQ(back, in) << width << " " << count;
    }
  }
}

TEST(ZstdPlanes, WeightsShrinkToAboutTheEntropyOfTheirExponents) {
  core::ByteVector bf16 = weights(500'000, 2);
  EXPECT_LT(static_cast<double>(packed_size(bf16, 2)), 0.671 * static_cast<double>(bf16.size()));
  core::ByteVector f32 = weights(250'000, 4);
  EXPECT_LT(static_cast<double>(packed_size(f32, 4)), 0.845 * static_cast<double>(f32.size()));
}

TEST(ZstdPlanes, NoiseGrowsByFewBytesAndRepetitionIsFound) {
  core::ByteVector noise(1 << 20);
  std::mt19937 random(3);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
  EXPECT_LT(packed_size(noise, 4), noise.size() + 50);
  EXPECT_LT(packed_size(core::ByteVector(1 << 20), 4), 200U);
  core::ByteVector mask(1 << 20);  // as causal masks of attention are: codes alone would leave an eighth
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = std::byte(i % 1024 <= i / 1024);
  EXPECT_LT(packed_size(mask, 1), mask.size() / 50);
}

TEST(ZstdPlanes, EveryMixtureOfPlanesComesBack) {
  std::mt19937 random(5);
  auto plane = [&](unsigned kind, std::size_t count) {
    core::ByteVector bytes(count, static_cast<std::byte>(random()));
    if (kind == 1) std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
    if (kind == 2) std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random() % 7 * (random() % 5)); });
    if (kind == 3) bytes.back() ^= std::byte{1};
    return bytes;
  };
  for (std::size_t count : {1U, 3U, 64U, 255U, 256U, 5000U, 131'071U, 131'072U, 131'073U, 300'001U}) {
    for (unsigned kinds = 0; kinds<64; kinds += count> 5000 ? 5 : 1) {
      core::ByteVector planes;
      for (unsigned i = 0; i < 3; ++i) core::append(planes, plane(kinds >> 2 * i & 3, count));
      for (unsigned tail = kinds % 3; tail > 0; --tail) planes.push_back(std::byte{9});
      core::ByteVector frame = ckpt::zstd_compress_planes(planes, 3, 1);
      ASSERT_LE(frame.size(), ckpt::zstd_bound(planes.size())) << count << " " << kinds;
      ASSERT_EQ(ckpt::zstd_content_size(frame), planes.size()) << count << " " << kinds;
      ASSERT_EQ(ckpt::zstd_decompress(frame, planes.size()), planes) << count << " " << kinds;
      ASSERT_EQ(ckpt::zstd_compress_planes(planes, 3, 1), frame) << count << " " << kinds;
    }
  }
}

TEST(ZstdPlanes, SpecialValuesComeBack) {
  core::ByteVector bytes = weights(40'000, 4);
  const std::uint32_t special[] = {0x7fc00001, 0xffc12345, 0x7f800000, 0xff800000, 0x80000000, 1, 0x807fffff};
  for (std::size_t i = 0; i < std::size(special); ++i) std::memcpy(&bytes[i * 20'004], &special[i], 4);
  for (std::uint32_t width : {2U, 4U, 8U}) {
    core::ByteVector frame = ckpt::zstd_compress_planes(planes_of(bytes, width), width, 1);
    core::ByteVector back(bytes.size());
    ckpt::unshuffle(ckpt::zstd_decompress(frame, bytes.size()), width, back);
    EXPECT_EQ(back, bytes) << width;
  }
}

TEST(ZstdPlanes, DamageNeverPassesForAnotherSize) {
  core::ByteVector bytes = weights(2000, 2);
  core::ByteVector frame = ckpt::zstd_compress_planes(planes_of(bytes, 2), 2, 1);
  core::ByteVector out(bytes.size());
  for (std::size_t cut = 0; cut < frame.size(); ++cut) {
    EXPECT_THROW(ckpt::zstd_decompress(core::Bytes(frame).first(cut), out), core::Error) << cut;
  }
  for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
    core::ByteVector damaged = frame;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    try {
      ckpt::zstd_decompress(damaged, out);  // what still decodes, the hash of the payload finds
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), core::ErrorCode::corrupt);
    }
  }
}

TEST(Deflate, RoundTripAndTheRecordedSize) {
  core::ByteVector bytes = weights(50'000, 2);
  core::ByteVector stream = ckpt::deflate_zlib(bytes, 4);
  EXPECT_LT(stream.size(), bytes.size());
  core::ByteVector back(bytes.size());
  ckpt::inflate_zlib(stream, back);
  EXPECT_EQ(back, bytes);
  core::ByteVector less(bytes.size() - 1);
  EXPECT_THROW(ckpt::inflate_zlib(stream, less), core::Error);
  core::ByteVector none;
  ckpt::inflate_zlib(ckpt::deflate_zlib({}, 4), none);
}

TEST(Inflate, ExactlyTheRecordedSize) {
  // Raw deflate of "hello hello hello hello".
  const unsigned char packed[] = {0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x27, 0x01};
  core::Bytes in = std::as_bytes(std::span(packed));
  core::ByteVector out(23);
  ckpt::inflate(in, out);
  EXPECT_EQ(core::as_text(out), "hello hello hello hello");
  core::ByteVector small(22);
  core::ByteVector large(24);
  EXPECT_THROW(ckpt::inflate(in, small), core::Error);
  EXPECT_THROW(ckpt::inflate(in, large), core::Error);
  EXPECT_THROW(ckpt::inflate(in.first(6), out), core::Error);
}

}  // namespace
