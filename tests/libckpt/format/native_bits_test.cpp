// Single bits of a native file: whichever one decays, verify says so, and what opening refuses verifying refuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "libckpt/format/format.h"
#include "libckpt/format/native/layout.h"
#include "libckpt/io/parallel_io.h"
#include "libckpt/scan.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Reading without the helper program: none of what is looked for here is found by it, and starting it takes
/// milliseconds.
class NativeBits : public ::testing::Test {
 protected:
  void SetUp() override {
    save(test::small_checkpoint(), path(), {.durable = false});
    ::setenv("CKPT_HDF5_HELPER", "/nonexistent/ckpt-hdf5", 1);
    content_ = test::read_file(path());
    header_ = detail::parse_header(core::as_bytes(content_).first(detail::kHeaderBytes));
  }
  void TearDown() override { ::unsetenv("CKPT_HDF5_HELPER"); }

  std::filesystem::path path() const { return dir_.path() / "a.ckpt"; }

  static Input input_of(std::string_view content) {
    core::Bytes bytes = core::as_bytes(content);
    Input input;
    input.file = memory_source({bytes.begin(), bytes.end()});
    input.head.assign(bytes.begin(),
                      bytes.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(4096, bytes.size())));
    return input;
  }
  /// What verify says of these bytes: "" when they are good.
  static std::string verdict(std::string_view content) {
    return test::error_of([&] {
      Input input = input_of(content);
      VerifyResult result = detect_format(input).verify(input, {}, {});
      if (!result.damage.empty()) throw core::Error(core::ErrorCode::value, result.damage[0].text);
    });
  }
  /// How many of the bits from byte `begin` to `end` can flip without a finding.
  std::size_t unnoticed(std::size_t begin, std::size_t end) const {
    std::vector<char> missed((end - begin) * 8);
    parallel_for(missed.size(), 0, [&](std::size_t bit) {
      std::string flipped = content_;
      flipped[begin + bit / 8] = static_cast<char>(flipped[begin + bit / 8] ^ (1 << bit % 8));
      missed[bit] = static_cast<char>(verdict(flipped).empty());
    });
    return static_cast<std::size_t>(std::count(missed.begin(), missed.end(), 1));
  }

  /// What the first finding is of, or what the refusal says.
  static std::string named_part(std::string_view content) {
    std::string part;
    std::string refusal = test::error_of([&] {
      Input input = input_of(content);
      VerifyResult result = detect_format(input).verify(input, {}, {});
      if (!result.damage.empty()) part = result.damage[0].subject;
    });
    return refusal.empty() ? part : refusal;
  }
  /// What a finding on this byte has to name: a tensor's payload, or the region of the file.
  bool is_named_rightly(std::size_t at, const std::string& part) const {
    if (at < detail::kHeaderBytes) return !part.empty();  // the refusal says which of its fields makes no sense
    if (at < detail::kHeaderBytes + header_.index_size) return part.find("index") != std::string::npos;
    if (at < header_.user_block) return part == "user block";
    std::uint64_t in_body = at - header_.user_block;
    for (std::size_t i = 0; i < payloads_.size(); ++i) {
      const detail::Payload& payload = payloads_[i];
      if (in_body >= payload.offset && in_body < payload.offset + payload.stored) return part == names_[i];
    }
    return part.find("HDF5 part") != std::string::npos || part == "padding";
  }
  void read_layout() {
    content_ = test::read_file(path());
    header_ = detail::parse_header(core::as_bytes(content_).first(detail::kHeaderBytes));
    core::Bytes index = core::as_bytes(content_).subspan(detail::kHeaderBytes, header_.index_size);
    detail::SharedBytes packed(core::ByteVector(index.begin(), index.end()));
    payloads_ = detail::parse_index(packed, header_, Limits()).payloads;
    names_.clear();
    for (const NamedEntry& named : list_entries(open(path()).root)) names_.push_back(named.name);
  }

  test::TempDir dir_;
  std::string content_;
  detail::NativeHeader header_;
  detail::LargeVector<detail::Payload> payloads_;
  std::vector<std::string> names_;
};

TEST_F(NativeBits, AFindingNamesTheTensorOrElseTheRegion) {
  read_layout();
  ASSERT_EQ(payloads_.size(), 2U);
  std::vector<std::string> wrong(content_.size());
  parallel_for(content_.size(), 0, [&](std::size_t at) {
    std::string flipped = content_;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    std::string part = named_part(flipped);
    if (!is_named_rightly(at, part)) wrong[at] = std::to_string(at) + ": " + part;
  });
  for (const std::string& text : wrong) ASSERT_EQ(text, "");
}

/// Each bit of a file of 1 MiB and 60 tensors, chosen at random.
TEST_F(NativeBits, TenThousandBitsOfALargerFileAreAllFoundAndNamed) {
  constexpr std::size_t kFlips = 10'000;
  test::Items items;
  for (unsigned i = 0; i < 60; ++i) {
    items.emplace_back("layer" + std::to_string(i) + ".weight",
                       test::tensor(core::DType::f32, {64 + static_cast<int>(i), 47}, i + 1));
  }
  ::unsetenv("CKPT_HDF5_HELPER");
  save(test::checkpoint(items), path(), {.durable = false, .codec = Codec::none});
  ::setenv("CKPT_HDF5_HELPER", "/nonexistent/ckpt-hdf5", 1);
  read_layout();
  ASSERT_EQ(payloads_.size(), items.size());
  std::mt19937_64 random(17);
  std::vector<std::uint64_t> bits(kFlips);
  for (std::uint64_t& bit : bits) bit = random() % (content_.size() * 8);
  std::vector<std::string> wrong(kFlips);
  parallel_for(kFlips, 0, [&](std::size_t i) {
    std::string flipped = content_;
    std::size_t at = bits[i] / 8;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << bits[i] % 8));
    std::string part = named_part(flipped);
    if (!is_named_rightly(at, part)) wrong[i] = "bit " + std::to_string(bits[i]) + ": " + part;
  });
  for (const std::string& text : wrong) ASSERT_EQ(text, "");
}

TEST_F(NativeBits, NoBitOfTheHeaderIsMissed) {
  ASSERT_EQ(verdict(content_), "");
  EXPECT_EQ(unnoticed(0, detail::kHeaderBytes), 0U);
}

TEST_F(NativeBits, NoBitOfTheUserBlockIsMissed) {
  EXPECT_EQ(unnoticed(detail::kHeaderBytes, header_.user_block), 0U);
}

TEST_F(NativeBits, NoBitOfTheWholeFileIsMissed) {
  EXPECT_EQ(unnoticed(header_.user_block, content_.size()), 0U);
}

TEST_F(NativeBits, DamagedMagicIsRefusedByWhateverReadsAndVerifies) {
  test::overwrite(path(), 3, "!");
  std::string sentence =
      "corrupt: the first 8 bytes are damaged; it is a native checkpoint, and the rest of its header fits";
  EXPECT_EQ(test::error_of([&] { open(path()); }), sentence);
  EXPECT_EQ(test::error_of([&] { open(path(), {.lenient = true}); }), sentence);
  EXPECT_EQ(test::error_of([&] { verify(path()); }), sentence);
  ScanResult scanned = scan(path());
  EXPECT_FALSE(scanned.complete());
}

TEST_F(NativeBits, DamagedHeaderWithoutMagicIsStillOurs) {
  std::string damaged = content_;
  damaged[0] = 'x';
  damaged[24] = 'x';  // the generation
  EXPECT_THAT(verdict(damaged), StartsWith("corrupt: the header is damaged; it is a native checkpoint"));
  damaged.replace(0, detail::kHeaderBytes, detail::kHeaderBytes, '\0');
  EXPECT_THAT(verdict(damaged), StartsWith("corrupt: the header is damaged; it is a native checkpoint"));
}

TEST_F(NativeBits, UserBlockOfSomebodyElseIsAFinding) {
  ::unsetenv("CKPT_HDF5_HELPER");
  test::overwrite(path(), 0, std::string(header_.user_block, 'x'));
  Report report;
  Checkpoint read = open(path(), {.report = &report});
  EXPECT_EQ(read.format, "hdf5");
  EXPECT_THAT(report.warnings, ::testing::Contains(StartsWith("4,096 bytes of user block before the HDF5 data")));
  VerifyResult result = verify(path());
  ASSERT_EQ(result.damage.size(), 1U);
  EXPECT_EQ(result.damage[0].subject, "user block");
  EXPECT_THAT(result.damage[0].text,
              StartsWith("the index of a native checkpoint was overwritten: its 4,096 bytes hold something else"));
  EXPECT_FALSE(scan(path()).clean());
}

TEST_F(NativeBits, EmptyUserBlockIsReadAndSaid) {
  ::unsetenv("CKPT_HDF5_HELPER");
  test::overwrite(path(), 0, std::string(header_.user_block, '\0'));
  Report report;
  Checkpoint read = open(path(), {.report = &report});
  EXPECT_EQ(read.format, "hdf5");
  EXPECT_NE(read.root.find("data.fc.weight"), nullptr);
  EXPECT_THAT(report.warnings,
              ::testing::Contains("4,096 bytes of user block before the HDF5 data; they are not part of it"));
}

/// The index with some bytes changed and every checksum made right again.
std::string with_index(const std::string& content, const detail::NativeHeader& old, core::ByteVector index) {
  detail::NativeHeader header = old;
  header.index_size = index.size();
  header.index_hash = hash128(index);
  core::ByteVector head = detail::encode_header(header);
  core::append(head, index);
  std::string made = content;
  return made.replace(0, head.size(), core::as_text(head));
}

class ContradictoryIndex : public NativeBits {
 protected:
  core::ByteVector index() const {
    core::Bytes all = core::as_bytes(content_).subspan(detail::kHeaderBytes, header_.index_size);
    return {all.begin(), all.end()};
  }
  static std::string open_error(const std::string& content) {
    return test::error_of([&] {
      Input input = input_of(content);
      detect_format(input).read(input, {});
    });
  }
};

TEST_F(ContradictoryIndex, PayloadThatIsNotThereIsRefusedByVerifyAsByLs) {
  detail::NativeIndex made = detail::parse_index(detail::SharedBytes(index()), header_, Limits());
  bool found = false;
  core::ByteVector tree(made.tree.bytes().begin(), made.tree.bytes().end());
  for (std::byte& byte : tree) {
    // The window of the second tensor: flags, dtype, rank, size 2, "cpu", payload 1, offset 0.
    std::size_t at = static_cast<std::size_t>(&byte - tree.data());
    if (byte != std::byte{1} || at + 1 >= tree.size() || at < 4) continue;
    if (core::as_text(core::Bytes(tree).subspan(at - 3, 3)) != "cpu") continue;
    byte = std::byte{77};
    found = true;
    break;
  }
  ASSERT_TRUE(found);
  made.tree = detail::SharedBytes(std::move(tree));
  std::string content = with_index(content_, header_, detail::encode_index(made));
  EXPECT_EQ(open_error(content), "corrupt: the index contradicts itself: a tensor names a payload that is not there");
  EXPECT_EQ(verdict(content), open_error(content));
}

TEST_F(ContradictoryIndex, PayloadsThatOverlapAreRefusedInWhateverOrderTheyAreListed) {
  detail::NativeIndex made = detail::parse_index(detail::SharedBytes(index()), header_, Limits());
  ASSERT_EQ(made.payloads.size(), 2U);
  std::swap(made.payloads[0], made.payloads[1]);
  EXPECT_NO_THROW(detail::parse_index(detail::SharedBytes(detail::encode_index(made)), header_, Limits()));
  made.payloads[0].offset = made.payloads[1].offset;
  std::string refused =
      test::error_of([&] { detail::parse_index(detail::SharedBytes(detail::encode_index(made)), header_, Limits()); });
  EXPECT_THAT(refused, HasSubstr("two parts of the file overlap at byte"));
}

/// Bytes of the index are changed at random. REQUIRES of verify: it refuses what opening refuses, with the same words,
/// and ends with nothing but an Error.
TEST_F(ContradictoryIndex, VerifyRefusesWhateverOpenRefuses) {
  constexpr std::size_t kRounds = 20'000;
  std::vector<std::string> wrong(kRounds);
  core::ByteVector good = index();
  parallel_for(kRounds, 0, [&](std::size_t round) {
    core::ByteVector random = test::noise(9, static_cast<unsigned>(round) + 1);
    core::ByteVector bad = good;
    for (std::size_t i = 0; i < 3; i += 1 + round % 3) {
      std::size_t at =
          (std::to_integer<std::size_t>(random[3 * i]) * 256 + std::to_integer<std::size_t>(random[3 * i + 1]));
      bad[at % bad.size()] = random[3 * i + 2];
    }
    std::string content = with_index(content_, header_, std::move(bad));
    std::string opened = open_error(content);
    std::string verified = verdict(content);
    if (!opened.empty() && verified != opened && verified.substr(7) != opened.substr(9)) {
      wrong[round] = opened + " | " + verified;
    }
  });
  for (const std::string& text : wrong) EXPECT_EQ(text, "");
}

TEST_F(ContradictoryIndex, StaleRangeIsNoCompleteAnswer) {
  test::overwrite(path(), content_.size() - 100, "!!");
  std::string refused = test::error_of([&] { open(path()); });
  VerifyResult result = verify(path());
  EXPECT_FALSE(result.complete);
  ASSERT_FALSE(result.damage.empty());
  EXPECT_EQ("corrupt: " + result.damage[0].text, refused);
  EXPECT_EQ(result.tensors_checked, 2U);  // which of them are whole is said all the same
}

}  // namespace
}  // namespace ckpt
