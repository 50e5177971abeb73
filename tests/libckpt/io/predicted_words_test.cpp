#include "libckpt/io/predicted_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <functional>
#include <random>

#include "libckpt/io/checksum.h"
#include "libckpt/io/miss_codes.h"
#include "libckpt/io/word_planes.h"
#include "libcore/base/error.h"

namespace {

using core::ByteVector;

constexpr std::size_t kChecksum = 8;
constexpr std::size_t kFixedHead = 24;
constexpr std::size_t kRankAt = 22;

struct Pair {
  ByteVector before;
  ByteVector after;
};

void append_bf16(ByteVector& out, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  core::append_le(out, static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
}

/// Numbers without a pattern from -1 to 1, by integers alone, so that they are the same everywhere.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  float next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<float>(static_cast<std::int32_t>(state_ >> 32)) * 0x1p-31F;
  }

 private:
  std::uint64_t state_;
};

/// A matrix and what training makes of it: it moves by a matrix of rank 2 and by noise.
Pair trained(std::size_t rows, std::size_t columns, float by) {
  Numbers numbers(rows * columns);
  std::vector<float> u(2 * rows), v(2 * columns);
  for (float& value : u) value = numbers.next();
  for (float& value : v) value = numbers.next();
  Pair pair;
  for (std::size_t i = 0; i < rows * columns; ++i) {
    const float before = numbers.next() * 0.03F;
    const std::size_t r = i / columns, c = i % columns;
    const float move = u[2 * r] * v[2 * c] + u[2 * r + 1] * v[2 * c + 1] + 0.3F * numbers.next();
    append_bf16(pair.before, before);
    append_bf16(pair.after, before + by * move);
  }
  return pair;
}

/// Any bits: infinities, subnormal numbers and no numbers are among them.
Pair noise(std::size_t count) {
  std::mt19937 random(7);
  Pair pair;
  for (ByteVector* of : {&pair.before, &pair.after}) {
    of->resize(2 * count);
    std::ranges::generate(*of, [&] { return static_cast<std::byte>(random()); });
  }
  return pair;
}

/// As they lie in a file, with other bytes around.
ckpt::SourcePtr source_of(const ByteVector& packed, std::size_t room) {
  ByteVector bytes(3, std::byte{0x77});
  core::append(bytes, packed);
  bytes.resize(3 + std::max(room, packed.size()));
  return ckpt::memory_source(std::move(bytes));
}

ByteVector restored(const ByteVector& packed, const Pair& pair) {
  const ckpt::SourcePtr source = source_of(packed, pair.after.size());
  const auto found = ckpt::PredictedWords::find(*source, 3, std::max(packed.size(), pair.after.size()));
  if (!found) return {};
  ByteVector words = pair.before;
  found->add(0, words);
  return words;
}

/// As one part of a matrix.
ByteVector packed_of(const Pair& pair, std::size_t columns) {
  return ckpt::pack_predicted(pair.before, pair.after, columns,
                              ckpt::common_directions(pair.before, pair.after, columns).get());
}

void expect_back(const Pair& pair, std::size_t columns, const std::string& what) {
  const ByteVector packed = packed_of(pair, columns);
  ASSERT_LE(packed.size(), pair.after.size()) << what;
  EXPECT_EQ(restored(packed, pair), pair.after) << what;
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::corrupt);
    return error.message();
  }
  return "";
}

void renew_checksum(ByteVector& packed) {
  const auto head = std::min<std::size_t>(core::load_le<std::uint32_t>(packed.data() + kChecksum), packed.size());
  if (head < kFixedHead) return;
  core::store_le(packed.data(), ckpt::hash128(core::Bytes(packed).first(head).subspan(kChecksum)).low);
}

TEST(PredictedWords, EveryMissHasACodeOfItsOwn) {
  for (unsigned miss = 0; miss <= UINT16_MAX; ++miss) {
    const auto word = static_cast<std::uint16_t>(miss);
    const std::uint8_t code = ckpt::detail::miss_code(word);
    const std::uint16_t rest = ckpt::detail::miss_rest(word, code);
    ASSERT_LT(rest, 1U << ckpt::detail::kMissRanges[code].bits) << miss;
    ASSERT_EQ(ckpt::detail::miss_of(code, rest), word);
    ASSERT_EQ(code >= ckpt::detail::kPlainMisses, miss >= ckpt::detail::kPlainMisses);
    ASSERT_EQ(ckpt::detail::miss_of(ckpt::detail::kAnyMiss, word), word);
  }
}

TEST(PredictedWords, WordsOfEveryCountComeBack) {
  for (std::size_t count : {2047U, 2048U, 2049U, 4097U, 131'071U, 131'072U, 131'073U, 300'003U}) {
    expect_back(trained(1, count, 1e-3F), count, "one row of " + std::to_string(count));
    expect_back(trained(count, 1, 1e-3F), 1, "rows of one, " + std::to_string(count));
  }
}

TEST(PredictedWords, MatricesComeBackWithAndWithoutFactors) {
  for (float by : {1e-5F, 1e-3F, 1.0F}) {
    for (std::size_t columns : {127U, 128U, 500U, 1031U}) {
      const Pair pair = trained(301, columns, by);
      expect_back(pair, columns, std::to_string(columns) + " columns by " + std::to_string(by));
    }
  }
}

TEST(PredictedWords, AnyBitsComeBack) {
  Pair pair = trained(400, 300, 1e-3F);
  const Pair any = noise(4000);
  std::ranges::copy(any.before, pair.before.begin() + 20'000);
  std::ranges::copy(any.after, pair.after.begin() + 50'000);
  expect_back(pair, 300, "noise within");
  // Every word where there is a sum, and where there is none.
  for (unsigned i = 0; i <= UINT16_MAX; ++i) core::store_le(pair.before.data() + 2 * i, static_cast<std::uint16_t>(i));
  expect_back(pair, 300, "every word");
}

TEST(PredictedWords, NearlyNothingIsStoredOfWhatDidNotChange) {
  const Pair pair = trained(512, 512, 0);
  EXPECT_LT(packed_of(pair, 512).size(), pair.after.size() / 14);
}

TEST(PredictedWords, FactorsAndContextsSaveRoom) {
  const Pair pair = trained(1024, 1024, 1e-3F);
  const ByteVector packed = packed_of(pair, 1024);
  EXPECT_NE(packed[kRankAt], std::byte{0});
  ByteVector differences = pair.before;
  ckpt::subtract_words(pair.after, 2, differences);
  EXPECT_LT(packed.size(), ckpt::pack_words(differences, 2).size() * 4 / 5);
  EXPECT_EQ(packed_of(pair, 1024 * 1024)[kRankAt], std::byte{0});
  EXPECT_TRUE(ckpt::prediction_pays(pair.before, pair.after));
  EXPECT_FALSE(ckpt::prediction_pays(pair.before, pair.before));
}

TEST(PredictedWords, WholeBlocksAreAddedAlone) {
  const Pair pair = trained(900, 700, 1e-3F);
  const ByteVector packed = packed_of(pair, 700);
  const ckpt::SourcePtr source = source_of(packed, pair.after.size());
  const auto found = ckpt::PredictedWords::find(*source, 3, pair.after.size());
  ASSERT_TRUE(found);
  for (std::uint64_t at = 0; at < pair.after.size(); at += ckpt::kPredictedBlock) {
    const std::size_t size = std::min<std::size_t>(ckpt::kPredictedBlock, pair.after.size() - at);
    ByteVector part(pair.before.begin() + static_cast<std::ptrdiff_t>(at),
                    pair.before.begin() + static_cast<std::ptrdiff_t>(at + size));
    found->add(at, part);
    ASSERT_TRUE(std::ranges::equal(part, core::Bytes(pair.after).subspan(at, size))) << at;
  }
}

TEST(PredictedWords, EveryFlippedBitAndEveryCutIsFound) {
  const Pair pair = trained(130, 130, 1e-4F);
  ByteVector packed = packed_of(pair, 130);
  ASSERT_EQ(restored(packed, pair), pair.after);
  for (std::size_t bit = 0; bit < packed.size() * 8; bit += bit < 4000 ? 1 : 7) {
    packed[bit / 8] ^= std::byte{1} << bit % 8;
    ByteVector words;
    const std::string message = message_of([&] { words = restored(packed, pair); });
    ASSERT_TRUE(words.empty()) << bit;  // either no such words begin there, or an error
    packed[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

/// Whatever stands behind checksums that fit, nothing is read or written outside (the build with sanitizers says so).
TEST(PredictedWords, NoBytesBehindARightChecksumDoHarm) {
  const Pair pair = trained(200, 200, 1e-3F);
  const ByteVector packed = packed_of(pair, 200);
  const auto head = core::load_le<std::uint32_t>(packed.data() + kChecksum);
  std::mt19937 random(5);
  for (int round = 0; round < 600; ++round) {
    ByteVector changed = packed;
    for (int i = 0; i < 3; ++i) {
      const std::size_t from = round % 3 == 0 ? 12 : kFixedHead;
      changed[from + random() % ((round % 3 == 0 ? 2 * kFixedHead : head) - from)] = static_cast<std::byte>(random());
    }
    renew_checksum(changed);
    message_of([&] { restored(changed, pair); });
  }
  // The same for blocks: their checksums stand at the end of the head.
  for (int round = 0; round < 300; ++round) {
    ByteVector changed = packed;
    const std::size_t blocks = (pair.after.size() + ckpt::kPredictedBlock - 1) / ckpt::kPredictedBlock;
    for (int i = 0; i < 4; ++i) {
      const std::size_t within = round % 2 == 0 ? 64 : changed.size() - head;
      changed[head + random() % within] = static_cast<std::byte>(random());
    }
    std::size_t at = head;
    for (std::size_t b = 0; b < blocks; ++b) {
      std::byte* entry = changed.data() + head - 12 * (blocks - b);
      const auto size = core::load_le<std::uint32_t>(entry);
      core::store_le(entry + 4, ckpt::hash128(core::Bytes(changed).subspan(at, size)).low);
      at += size;
    }
    renew_checksum(changed);
    message_of([&] { restored(changed, pair); });
  }
}

TEST(PredictedWords, SaysWhatIsWrongWithThem) {
  const Pair pair = trained(200, 200, 1e-3F);
  const ByteVector packed = packed_of(pair, 200);
  const auto with = [&](std::size_t at, unsigned value) {
    ByteVector changed = packed;
    changed[at] = static_cast<std::byte>(value);
    renew_checksum(changed);
    return message_of([&] { restored(changed, pair); });
  };
  EXPECT_EQ(with(20, 0), "packed words are damaged: their contexts are none or too many");
  EXPECT_EQ(with(20, 17), "packed words are damaged: their contexts are none or too many");
  EXPECT_EQ(with(kRankAt, 17), "packed words are damaged: their rank is 17 where 16 is the most");
  EXPECT_EQ(with(23, 101), "packed words are damaged: their shift is 101 where 100 is the most");
  EXPECT_EQ(with(18, 0x10), "packed words are damaged: their number of columns is 1048776 where 40000 is the most");
  EXPECT_EQ(with(packed.size() - 1, 0x99), "packed words are damaged: the checksum of block 0 of 1 is another one");
}

/// Whatever the caller's floats are rounded to, what is foretold is the same.
TEST(PredictedWords, RoundingOfTheCallerChangesNothing) {
  const Pair pair = trained(256, 384, 1e-3F);
  const ByteVector packed = packed_of(pair, 384);
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    const ByteVector again = packed_of(pair, 384), back = restored(packed, pair);
    EXPECT_EQ(std::fegetround(), mode);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(again, packed) << mode;
    EXPECT_EQ(back, pair.after) << mode;
  }
}

/// Factors of other rows of the matrix help as its own do, and those of no use are left out.
TEST(PredictedWords, DirectionsOfSomeRowsServeAll) {
  const Pair pair = trained(1024, 512, 1e-3F);
  const auto half = [](const ByteVector& of) { return core::Bytes(of).first(of.size() / 2); };
  const auto directions = ckpt::common_directions(half(pair.before), half(pair.after), 512);
  ASSERT_NE(directions, nullptr);
  const ByteVector packed = ckpt::pack_predicted(pair.before, pair.after, 512, directions.get());
  EXPECT_EQ(packed[kRankAt], std::byte{8});
  EXPECT_LT(packed.size(), packed_of(pair, 512).size() * 102 / 100);
  EXPECT_EQ(restored(packed, pair), pair.after);
  EXPECT_EQ(ckpt::pack_predicted(pair.before, pair.after, 512, nullptr)[kRankAt], std::byte{0});
  EXPECT_EQ(ckpt::common_directions(half(pair.before), half(pair.after), 127), nullptr);
}

/// The same bytes come of the same words on every processor, and what was packed before is read by every later version.
TEST(PredictedWords, TheFormStaysAsItIs) {
  const Pair pair = trained(256, 384, 1e-3F);
  const ByteVector packed = packed_of(pair, 384);
  EXPECT_EQ(packed[kRankAt], std::byte{8});
  EXPECT_EQ(ckpt::to_hex(ckpt::hash128(packed)), "8a8ce585a030d4d150fe4338a5adad7e");
  const ByteVector without = packed_of(pair, 256 * 384);
  EXPECT_EQ(ckpt::to_hex(ckpt::hash128(without)), "7add17c4b1b173f7d4f05aeebf71673e");
}

}  // namespace
