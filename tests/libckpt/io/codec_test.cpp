#include "libckpt/io/codec.h"

#include <gtest/gtest.h>

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
