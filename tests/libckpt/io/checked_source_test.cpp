#include "libckpt/io/checked_source.h"

#include <gtest/gtest.h>

#include <atomic>

#include "libckpt/io/byte_sink.h"
#include "libcore/base/error.h"
#include "tests/support/message_of.h"

namespace {

constexpr std::uint64_t kSize = 3 << 20;

core::ByteVector numbers() {
  core::ByteVector bytes(kSize);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 1000);
  return bytes;
}

/// Like a file: its bytes are not in memory for its readers.
class Unseen final : public ckpt::ByteSource {
 public:
  explicit Unseen(core::ByteVector bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, ckpt::MutableBytes out) const override {
    taken += out.size();
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  }
  void require_unchanged() const override {}
  mutable std::uint64_t taken = 0;

 private:
  core::ByteVector bytes_;
};

ckpt::SourcePtr damaged(bool lenient = false) {
  core::ByteVector bytes = numbers();
  bytes[kSize / 2] ^= std::byte{1};
  return ckpt::checked(std::make_shared<Unseen>(std::move(bytes)), ckpt::crc32(numbers()),
                       {.subject = "the record 'a' is damaged", .lenient = lenient});
}

TEST(CheckedSource, GoodBytesAreReadOnceWhereTheyComeInOrder) {
  auto inner = std::make_shared<Unseen>(numbers());
  ckpt::SourcePtr source = ckpt::checked(inner, ckpt::hash128(numbers()), {.subject = "a"});
  EXPECT_EQ(ckpt::read_all(*source), numbers());
  EXPECT_EQ(inner->taken, kSize);
  EXPECT_FALSE(ckpt::awaits_check(*source));
}

// Unpacking a piece again, for its checksum alone, would cost as much as it did before.
TEST(CheckedSource, PiecesOfSeveralThreadsAreReadOnce) {
  auto inner = std::make_shared<Unseen>(numbers());
  ckpt::SourcePtr source = ckpt::checked(inner, ckpt::hash128(numbers()), {.subject = "a"});
  constexpr std::uint64_t kPiece = kSize / 6;
  core::ByteVector piece(kPiece);
  for (std::uint64_t i : {1U, 3U, 0U, 5U, 4U, 2U}) source->read(i * kPiece, piece);
  EXPECT_EQ(inner->taken, kSize);
  EXPECT_FALSE(ckpt::awaits_check(*source));
  source = ckpt::checked(inner, ckpt::hash128(numbers()), {.subject = "a"});
  core::ByteVector most(kSize - 1);
  source->read(1, most);  // overlaps what is read below
  source->read(0, piece);
  EXPECT_FALSE(ckpt::awaits_check(*source));
}

// The values of an .npy record stand behind its header.
TEST(CheckedSource, WhatStandsBehindAHeaderIsReadOnce) {
  auto inner = std::make_shared<Unseen>(numbers());
  ckpt::SourcePtr source = ckpt::checked(inner, ckpt::crc32(numbers()), {.subject = "a"});
  core::ByteVector values(kSize - 128);
  source->read(128, values);
  source->require_unchanged();
  EXPECT_EQ(inner->taken, kSize);
  EXPECT_FALSE(ckpt::awaits_check(*source));
}

TEST(CheckedSource, DamageIsFoundWithTheLastByte) {
  EXPECT_THROW(ckpt::read_all(*damaged()), core::Error);
  ckpt::SourcePtr source = damaged();
  EXPECT_THROW(ckpt::for_each_part(*source, [](ckpt::Bytes) {}), core::Error);
  core::ByteVector one(1);
  EXPECT_THROW(source->read(0, one), core::Error) << "known damage stays an error";
}

TEST(CheckedSource, DamageIsFoundWhenPiecesComeInAnyOrder) {
  ckpt::SourcePtr source = damaged();
  core::ByteVector third(kSize / 3);
  source->read(2 * kSize / 3, third);
  source->read(kSize / 3, third);
  EXPECT_THROW(source->read(0, third), core::Error);
}

TEST(CheckedSource, APartOfTheBytesIsCheckedBeforeAnybodyReliesOnIt) {
  ckpt::SourcePtr source = damaged();
  ckpt::SourcePtr part = ckpt::slice(source, 0, 100);
  core::ByteVector hundred(100);
  part->read(0, hundred);
  EXPECT_THROW(part->require_unchanged(), core::Error);
}

TEST(CheckedSource, LenientReadersGetTheBytesAndTheMark) {
  ckpt::SourcePtr source = damaged(true);
  EXPECT_FALSE(ckpt::is_damaged(*source));
  EXPECT_EQ(ckpt::read_all(*source).size(), kSize);
  EXPECT_TRUE(ckpt::is_damaged(*source));
  EXPECT_TRUE(ckpt::is_damaged(*ckpt::slice(source, 1, 2)));
}

/// Bytes that do not decode at all: a compressed chunk, say.
class Undecodable final : public ckpt::ByteSource {
 public:
  std::uint64_t size() const override { return kSize; }
  void read(std::uint64_t, ckpt::MutableBytes) const override {
    throw core::Error(core::ErrorCode::corrupt, "it does not decode");
  }
  void require_unchanged() const override {}
};

TEST(CheckedSource, WhatDoesNotDecodeIsDamagedAndStaysAnErrorForLenientReaders) {
  for (bool lenient : {false, true}) {
    ckpt::SourcePtr source =
        ckpt::checked(std::make_shared<Undecodable>(), std::uint32_t{0}, {.subject = "it", .lenient = lenient});
    core::ByteVector one(1);
    for (int time = 0; time < 2; ++time) {
      EXPECT_EQ(test::message_of([&] { source->read(0, one); }), "it does not decode");
      EXPECT_TRUE(ckpt::is_damaged(*source));
    }
  }
}

TEST(CheckedSource, ASourceThatComparesByItselfSaysWhatItLetPass) {
  auto seen = std::make_shared<std::atomic<bool>>(false);
  ckpt::SourcePtr source =
      ckpt::checked(ckpt::memory_source(core::ByteVector(3)), seen, {.subject = "it", .lenient = true});
  EXPECT_FALSE(ckpt::awaits_check(*source));
  EXPECT_EQ(ckpt::read_all(*source).size(), 3U);
  EXPECT_FALSE(ckpt::is_damaged(*source));
  *seen = true;
  EXPECT_TRUE(ckpt::is_damaged(*source));
  EXPECT_EQ(ckpt::read_all(*source).size(), 3U);
}

}  // namespace
