#include "libckpt/io/word_planes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"

namespace {

using core::ByteVector;

constexpr std::uint32_t kWidths[] = {1, 2, 4, 8};
constexpr std::size_t kChecksum = 8;
constexpr std::size_t kHead = 12;

/// Words most of which are zero and the others small, and now and then any.
ByteVector differences(std::size_t count, std::uint32_t width, unsigned one_in = 5) {
  std::mt19937_64 random(count + width);
  ByteVector bytes(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    if (random() % one_in != 0) continue;
    std::uint64_t word = random() % 100 == 0 ? random() : std::uint64_t{1} << random() % 6;
    for (std::uint32_t b = 0; b < width; ++b, word >>= 8) bytes[i * width + b] = static_cast<std::byte>(word);
  }
  return bytes;
}

ByteVector noise(std::size_t size) {
  std::mt19937 random(3);
  ByteVector bytes(size);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

ByteVector repeated(const std::function<std::byte(std::size_t)>& of, std::size_t size) {
  ByteVector bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = of(i);
  return bytes;
}

void expect_back(const ByteVector& words, std::uint32_t width, const std::string& what,
                 std::size_t at_most = SIZE_MAX) {
  const ByteVector packed = ckpt::pack_words(words, width);
  EXPECT_LE(packed.size(), std::min<std::size_t>(at_most, ckpt::packed_words_bound(words.size(), width))) << what;
  ByteVector back(words.size(), std::byte{0x55});
  ckpt::unpack_words(packed, width, back);
  EXPECT_EQ(back, words) << what;
  ByteVector sums = noise(words.size());
  ByteVector expected = sums;
  ckpt::add_packed_words(packed, {width, words.size(), 0}, sums);
  ckpt::add_words(words, width, expected);
  EXPECT_EQ(sums, expected) << what;
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

/// What is wrong with them, unpacked or added.
std::string message_of(core::Bytes packed, std::uint32_t width, std::size_t size) {
  ByteVector out(size);
  const std::string message = message_of([&] { ckpt::unpack_words(packed, width, out); });
  EXPECT_EQ(message_of([&] { ckpt::add_packed_words(packed, {width, size, 0}, out); }), message);
  return message;
}

void renew_checksum(ByteVector& packed) {
  core::store_le(packed.data(), ckpt::hash128(core::Bytes(packed).subspan(kChecksum)).low);
}

TEST(WordPlanes, WordsOfEveryCountComeBack) {
  for (std::uint32_t width : kWidths) {
    for (std::size_t count = 0; count <= 300; ++count) {
      expect_back(differences(count, width), width, std::to_string(count));
      expect_back(noise(count * width), width, std::to_string(count));
    }
    for (std::size_t count : {16'383U, 16'384U, 16'385U, 32'768U, 50'011U}) {
      for (unsigned one_in : {1U, 2U, 20U, 1000U}) {
        expect_back(differences(count, width, one_in), width, std::to_string(count));
      }
    }
  }
}

TEST(WordPlanes, PlanesOfEveryKindComeBack) {
  for (std::uint32_t width : kWidths) {
    expect_back(ByteVector(100'000 * width), width, "zeros", 100);
    expect_back(repeated([](std::size_t) { return std::byte{7}; }, 100'000 * width), width, "one value",
                20'000 * width);
    expect_back(repeated([](std::size_t i) { return static_cast<std::byte>(i % 3); }, 30'000 * width), width, "three");
    // Counts that grow like Fibonacci's numbers ask for codes longer than there are.
    std::size_t next = 1;
    std::size_t before = 1;
    ByteVector deep;
    for (unsigned value = 0; deep.size() < 60'000; ++value) {
      deep.resize(deep.size() + next, static_cast<std::byte>(value));
      next += std::exchange(before, next);
    }
    deep.resize(60'000);
    std::ranges::shuffle(deep, std::mt19937(1));
    expect_back(deep, width, "deep", 45'000);
    expect_back(noise(80'000), width, "noise", 80'000 + 60);
  }
}

TEST(WordPlanes, AnyPartCanBeAdded) {
  for (std::uint32_t width : kWidths) {
    const ByteVector words = differences(70'000, width);
    const ByteVector packed = ckpt::pack_words(words, width);
    const ByteVector before = noise(words.size());
    ByteVector expected = before;
    ckpt::add_words(words, width, expected);
    for (std::size_t at = 0; at < 70'000; at += 8191) {
      for (std::size_t count : {1U, 8193U, 16'384U, 40'000U}) {
        count = std::min(count, 70'000 - at);
        ByteVector part(before.begin() + at * width, before.begin() + (at + count) * width);
        ckpt::add_packed_words(packed, {width, words.size(), at * width}, part);
        ASSERT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + at * width)) << at << " " << count;
      }
    }
  }
}

TEST(WordPlanes, DifferencesLeadFromAnyWordToAnyOther) {
  for (std::uint32_t width : kWidths) {
    const ByteVector from = noise(64'000);
    ByteVector to = from;
    std::ranges::shuffle(to, std::mt19937(2));
    ByteVector changes = to;
    ckpt::subtract_words(from, width, changes);
    ByteVector back = from;
    ckpt::add_words(changes, width, back);
    EXPECT_EQ(back, to) << width;
  }
}

TEST(WordPlanes, SmallDifferencesOfEitherSignAreSmallNumbers) {
  ByteVector to;
  for (std::uint16_t word : {5, 4, 6, 3, 0}) core::append_le(to, word);
  ByteVector from;
  for (std::uint16_t word : {5, 5, 5, 5, 65535}) core::append_le(from, word);
  ckpt::subtract_words(from, 2, to);
  ByteVector expected;
  for (std::uint16_t word : {0, 1, 2, 3, 2}) core::append_le(expected, word);
  EXPECT_EQ(to, expected);
}

TEST(WordPlanes, EveryFlippedBitAndEveryCutIsFound) {
  const ByteVector words = differences(3000, 2);
  ByteVector packed = ckpt::pack_words(words, 2);
  for (std::size_t bit = 0; bit < packed.size() * 8; ++bit) {
    packed[bit / 8] ^= std::byte{1} << bit % 8;
    ASSERT_NE(message_of(packed, 2, words.size()), "") << bit;
    packed[bit / 8] ^= std::byte{1} << bit % 8;
  }
  for (std::size_t size = 0; size < packed.size(); ++size) {
    ASSERT_NE(message_of(core::Bytes(packed).first(size), 2, words.size()), "") << size;
  }
  EXPECT_EQ(message_of(packed, 2, words.size() - 2),
            "packed words are damaged: they hold 6000 bytes where 5998 are recorded");
  EXPECT_EQ(message_of(packed, 2, words.size()), "");
}

/// Whatever stands behind a checksum that fits, nothing is read or written outside (the build with sanitizers says so).
TEST(WordPlanes, NoBytesBehindARightChecksumDoHarm) {
  std::mt19937 random(5);
  for (std::uint32_t width : kWidths) {
    const ByteVector words = differences(20'000, width, 3);
    const ByteVector packed = ckpt::pack_words(words, width);
    for (int round = 0; round < 400; ++round) {
      ByteVector changed = packed;
      for (int i = 0; i < 3; ++i) {
        const std::size_t most = round % 2 == 0 ? std::min<std::size_t>(400, changed.size()) : changed.size();
        changed[kChecksum + random() % (most - kChecksum)] = static_cast<std::byte>(random());
      }
      if (round % 5 == 0) changed.resize(kChecksum + random() % (changed.size() - kChecksum));
      renew_checksum(changed);
      message_of(changed, width, words.size());
    }
  }
}

TEST(WordPlanes, SaysWhatIsWrongWithThem) {
  const ByteVector words = differences(3000, 2);
  const ByteVector packed = ckpt::pack_words(words, 2);
  const auto with = [&](std::size_t at, unsigned value) {
    ByteVector changed = packed;
    changed[kHead + at] = static_cast<std::byte>(value);
    renew_checksum(changed);
    return message_of(changed, 2, words.size());
  };
  EXPECT_EQ(with(0, 9), "packed words are damaged: a plane has a form that this version does not know");
  EXPECT_EQ(with(2, 0xcc), "packed words are damaged: a code has 12 bits");
  EXPECT_EQ(with(2, 0x11), "packed words are damaged: their codes contradict each other");
  ByteVector longer = packed;
  longer.push_back(std::byte{0});
  renew_checksum(longer);
  EXPECT_EQ(message_of(longer, 2, words.size()), "packed words are damaged: 1 bytes follow their end");
}

/// Where 64 words are added at a time, a stored plane is read where it is packed.
TEST(WordPlanes, ABlockOfStoredPlanesHasTheirSize) {
  for (std::size_t count : {63U, 64U, 65U, 128U, 16'384U}) {
    const ByteVector words = noise(count * 2);
    const ByteVector packed = ckpt::pack_words(words, 2);
    const std::size_t size_at = kHead + 2;  // behind the forms of two planes
    ASSERT_EQ(packed.size(), size_at + 4 + words.size());
    const auto with_size = [&](std::size_t size) {
      ByteVector changed = packed;
      changed.resize(size_at + 4 + size);
      changed.shrink_to_fit();
      core::store_le(changed.data() + size_at, static_cast<std::uint32_t>(size));
      renew_checksum(changed);
      return message_of(changed, 2, words.size());
    };
    EXPECT_EQ(with_size(words.size()), "");
    for (std::size_t size : {std::size_t{0}, count - 1, count, words.size() - 1}) {
      EXPECT_EQ(with_size(size), "packed words are damaged: they end within a plane") << count << ' ' << size;
    }
    EXPECT_EQ(with_size(words.size() + 1), "packed words are damaged: 1 bytes of a block are left over") << count;
  }
}

/// What was packed before is read by every later version.
TEST(WordPlanes, TheFormStaysAsItIs) {
  ByteVector words;
  for (unsigned i = 0; i < 4000; ++i) core::append_le(words, static_cast<std::uint16_t>(i % 7 == 0 ? i % 5 : 0));
  const ByteVector packed = ckpt::pack_words(words, 2);
  EXPECT_EQ(ckpt::to_hex(ckpt::hash128(packed)), "04d16e7770b351df796d7fac13d40e7b");
  EXPECT_EQ(packed.size(), 420U);
}

}  // namespace
