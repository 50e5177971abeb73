#include "libckpt/io/inflate_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "libckpt/io/byte_swap.h"
#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"

namespace {

using core::ByteVector;
using core::Error;
using testing::HasSubstr;

/// Bytes that deflate somewhat: each is a small step from the one before.
ByteVector text_like(std::size_t size) {
  ByteVector out(size);
  std::uint32_t state = 1;
  for (std::byte& byte : out) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>('a' + (state >> 29));
  }
  return out;
}

ByteVector deflated(const ByteVector& bytes) {
  z_stream stream = {};
  deflateInit2(&stream, 1, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  ByteVector out(deflateBound(&stream, bytes.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

ckpt::SourcePtr source_of(const ByteVector& plain) {
  return ckpt::inflated(ckpt::memory_source(deflated(plain)), {.size = plain.size(), .crc32 = ckpt::crc32(plain)});
}

std::string error_of(const ckpt::SourcePtr& source) {
  try {
    ckpt::read_all(*source);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::corrupt);
    return error.what();
  }
  ADD_FAILURE() << "was read";
  return "";
}

TEST(InflateSource, GivesAllBytesAgainAndAgain) {
  ByteVector plain = text_like(1'000'000);
  ckpt::SourcePtr source = source_of(plain);
  EXPECT_EQ(source->size(), plain.size());
  EXPECT_EQ(ckpt::read_all(*source), plain);
  EXPECT_EQ(ckpt::read_all(*source), plain);
}

TEST(InflateSource, ReadsForwardsAndBackwards) {
  ByteVector plain = text_like(3'000'000);
  ckpt::SourcePtr source = source_of(plain);
  for (std::uint64_t offset : {2'999'990U, 0U, 1'500'000U, 700'000U, 2'000'000U, 5U}) {
    ByteVector part(10);
    source->read(offset, part);
    auto begin = plain.begin() + static_cast<std::ptrdiff_t>(offset);
    EXPECT_EQ(part, ByteVector(begin, begin + 10)) << offset;
  }
  ByteVector past(2);
  EXPECT_THROW(source->read(2'999'999, past), Error);
}

/// More than is kept at hand: a jump back begins again.
TEST(InflateSource, KeepsABoundedPart) {
  ByteVector plain = text_like(100'000'000);
  ckpt::SourcePtr source = source_of(plain);
  ByteVector part(1000);
  source->read(99'000'000, part);
  EXPECT_EQ(part[0], plain[99'000'000]);
  source->read(50'000, part);
  EXPECT_EQ(part[999], plain[50'999]);
}

TEST(InflateSource, NothingIsHandedOutThatIsWrong) {
  ByteVector plain = text_like(10'000);
  ByteVector packed = deflated(plain);
  auto with = [&](const ByteVector& bytes, std::uint64_t size, std::uint32_t crc) {
    return ckpt::inflated(ckpt::memory_source(bytes), {.size = size, .crc32 = crc, .what = "record 'x'"});
  };
  std::uint32_t crc = ckpt::crc32(plain);
  EXPECT_THAT(error_of(with(packed, 10'001, crc)), HasSubstr("record 'x' inflates to fewer bytes"));
  EXPECT_THAT(error_of(with(packed, 9'999, crc)), HasSubstr("more bytes than the 9999"));
  EXPECT_THAT(error_of(with(packed, 10'000, crc ^ 1)), HasSubstr("CRC-32"));
  ByteVector cut(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(packed.size() / 2));
  EXPECT_THAT(error_of(with(cut, 10'000, crc)), HasSubstr("end early"));
  ByteVector longer = packed;
  longer.push_back(std::byte{0});
  EXPECT_THAT(error_of(with(longer, 10'000, crc)), HasSubstr("belong to nothing"));
  EXPECT_THAT(error_of(with(ByteVector(100, std::byte{0xff}), 10'000, crc)), HasSubstr("does not inflate"));
}

TEST(ByteSwap, TurnsEveryElement) {
  ByteVector bytes = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  ckpt::SourcePtr turned = ckpt::byte_swapped(ckpt::memory_source(bytes), 2);
  EXPECT_EQ(ckpt::read_all(*turned), (ByteVector{std::byte{2}, std::byte{1}, std::byte{4}, std::byte{3}}));
  ByteVector part(2);
  turned->read(1, part);
  EXPECT_EQ(part, (ByteVector{std::byte{1}, std::byte{4}}));
  EXPECT_EQ(ckpt::swap_width(core::DType::c64), 4U) << "the halves of a complex number are turned on their own";
}

}  // namespace
