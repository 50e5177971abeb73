// Parity data of native files: whatever decays within the promised share comes back byte for byte; what is more than
// that is said, and the tensors that are whole are kept.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "libckpt/format/native/layout.h"
#include "libckpt/io/erasure_code.h"
#include "libckpt/reindex.h"
#include "libckpt/rescue.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/libckpt/hdf5/hdf5_maker.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using core::DType;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Checkpoint model(std::int64_t elements) {
  return test::checkpoint({{"a.weight", test::tensor(DType::f32, {elements})},
                           {"a.bias", test::tensor(DType::f32, {7}, 2)},
                           {"epoch", Value::integer(4)},
                           {"b.weight", test::tensor(DType::bf16, {elements, 2}, 3)}});
}

class Parity : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return dir_.path() / "a.ckpt"; }
  std::filesystem::path saved() const { return dir_.path() / "saved.ckpt"; }

  void write(const Checkpoint& checkpoint, double share) {
    save(checkpoint, path(), {.durable = false, .parity = share});
    content_ = test::read_file(path());
    detail::NativeHeader header = detail::parse_header(core::as_bytes(content_).first(detail::kHeaderBytes));
    core::Bytes index = core::as_bytes(content_).subspan(detail::kHeaderBytes, header.index_size);
    detail::SharedBytes packed(core::ByteVector(index.begin(), index.end()));
    layout_ = *detail::parse_index(packed, header, Limits()).parity;
  }

  RescueReport rescue_of(const std::string& damaged) const {
    test::write_file(path(), damaged);
    return rescue(path(), saved(), {.overwrite = true, .durable = false});
  }

  /// "" when the damaged file comes back byte for byte.
  std::string restore(const std::string& damaged) const {
    std::filesystem::remove(saved());
    return test::error_of([&] {
      RescueReport report = rescue_of(damaged);
      bool same = report.whole && report.written && test::read_file(saved()) == content_;
      if (!same) throw core::Error(core::ErrorCode::value, std::to_string(report.blocks_lost) + " blocks lost");
    });
  }

  std::string overwritten(std::uint64_t at, std::uint64_t length) const {
    std::string damaged = content_;
    for (std::uint64_t i = at; i < std::min<std::uint64_t>(at + length, damaged.size()); ++i) {
      damaged[i] = static_cast<char>(damaged[i] ^ static_cast<char>(1 + (i * 7) % 255));
    }
    return damaged;
  }

  test::TempDir dir_;
  std::string content_;
  detail::ParityLayout layout_;
};

TEST(ErasureCode, AnyLossWithinTheParityRowsComesBack) {
  constexpr std::size_t kLength = 512;
  ErasureCode code(11, 4);
  core::ByteVector all = test::noise(15 * kLength);
  std::vector<std::byte*> rows;
  for (std::size_t i = 0; i < 15; ++i) rows.push_back(all.data() + i * kLength);
  code.encode(std::span(rows).first(11), std::span(rows).subspan(11), kLength);
  core::ByteVector good = all;
  for (unsigned lost = 0; lost < 1U << 15; ++lost) {
    if (std::popcount(lost) != 4) continue;
    std::vector<unsigned> gone;
    for (unsigned row = 0; row < 15; ++row) {
      if ((lost >> row & 1U) == 0) continue;
      gone.push_back(row);
      std::fill_n(rows[row], kLength, std::byte{0x5a});
    }
    code.restore(rows, gone, kLength);
    ASSERT_EQ(all, good) << lost;
  }
}

TEST(ParityLayout, EveryBurstOfTheShareHitsNoGroupTooOften) {
  for (double share : {0.001, 0.01, 0.05, 0.3, 1.0}) {
    for (std::uint64_t end : {4097ULL, 50'000ULL, 3'000'000ULL, 1'000'000'000ULL}) {
      detail::ParityLayout layout = detail::plan_parity(end, share);
      EXPECT_TRUE(is_possible(layout)) << share << " " << end;
      EXPECT_GE(layout.covered, end);
      EXPECT_LE(layout.data_rows() + layout.parity, ErasureCode::kMaxRows);
      // A run of blocks hits a group once in `groups` blocks.
      auto burst = static_cast<std::uint64_t>(share * static_cast<double>(layout.covered));
      std::uint64_t touched = burst / layout.block + 2;
      if (burst % layout.block <= 1) --touched;
      EXPECT_LE((touched + layout.groups - 1) / layout.groups, layout.parity) << share << " " << end;
      // Rows and numbers are two names of one thing.
      for (std::uint64_t number = 0; number < layout.blocks(); number += 1 + layout.blocks() / 1000) {
        EXPECT_EQ(layout.number_of(layout.row_of(number), number % layout.groups), number);
      }
    }
  }
}

TEST_F(Parity, FileIsReadAndVerifiedAndCarriesItsShareOver) {
  write(model(5000), 0.05);
  EXPECT_EQ(layout_.end(), content_.size());
  VerifyResult result = verify(path());
  EXPECT_TRUE(result.damage.empty()) << result.damage[0].text;
  Report report;
  save(open(path()), saved(), {.durable = false, .report = &report});
  EXPECT_EQ(test::read_file(saved()), content_);
  EXPECT_THAT(report.warnings, ::testing::Contains(HasSubstr("5 % of the file, was rebuilt")));
  save(open(path()), saved(), {.durable = false, .parity = -1});
  EXPECT_LT(test::read_file(saved()).size(), layout_.covered + 1);
  EXPECT_EQ(test::error_of([&] { save(model(1), saved(), {.parity = 1.5}); }),
            "usage: the share of parity data is at most 1");
  EXPECT_THAT(test::error_of([&] { save(model(1), dir_.path() / "a.pth", {.parity = 0.1}); }),
              StartsWith("usage: the format 'torch-zip' has no place for parity data"));
}

TEST_F(Parity, SameBytesWhateverThreadsAndMemory) {
  write(model(200'000), 0.05);
  save(model(200'000), saved(), {.durable = false, .parity = 0.05, .max_memory = 1 << 20, .threads = 1});
  EXPECT_EQ(test::read_file(saved()), content_);
}

TEST_F(Parity, EveryBitOfTheParityDataIsVerified) {
  write(test::small_checkpoint(), 0.05);
  ::setenv("CKPT_HDF5_HELPER", "/nonexistent/ckpt-hdf5", 1);
  for (std::uint64_t at = layout_.covered; at < content_.size(); at += 3) {
    std::string damaged = content_;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    test::write_file(path(), damaged);
    EXPECT_FALSE(verify(path()).damage.empty()) << at;
  }
  ::unsetenv("CKPT_HDF5_HELPER");
}

TEST_F(Parity, FlipInEveryBlockOfASmallFileComesBack) {
  write(test::small_checkpoint(), 0.05);
  for (std::uint64_t at = 100; at < content_.size(); at += 256) {
    std::string damaged = content_;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    EXPECT_EQ(restore(damaged), "") << at;
  }
}

TEST_F(Parity, BurstsUpToTheShareComeBackWhereverTheyBegin) {
  for (std::int64_t elements : {500, 100'000, 700'000}) {
    for (double share : {0.02, 0.2}) {
      write(model(elements), share);
      auto length = static_cast<std::uint64_t>(share * static_cast<double>(layout_.covered));
      std::uint64_t last = content_.size() - length;
      for (std::uint64_t at : {std::uint64_t{0}, std::uint64_t{1}, last / 3, layout_.covered - length / 2,
                               layout_.covered - 1, layout_.first_parity() - 1, layout_.second_table() - 1, last}) {
        EXPECT_EQ(restore(overwritten(at, length)), "") << elements << " " << share << " " << at;
      }
    }
  }
}

TEST_F(Parity, RandomBlocksComeBack) {
  std::mt19937_64 random(1);
  write(model(100'000), 0.1);
  for (int round = 0; round < 5; ++round) {
    std::string damaged = content_;
    std::map<std::uint64_t, unsigned> in_group;
    for (int i = 0; i < 200; ++i) {
      std::uint64_t number = random() % layout_.blocks();
      if (++in_group[number % layout_.groups] > layout_.parity) continue;
      damaged[layout_.offset_of(number) + random() % layout_.block] ^= 1;
    }
    EXPECT_EQ(restore(damaged), "") << round;
  }
}

TEST_F(Parity, HeaderIndexAndParityHeadersComeBack) {
  write(model(20'000), 0.1);
  EXPECT_EQ(restore(overwritten(0, detail::kHeaderBytes)), "");
  EXPECT_EQ(restore(overwritten(detail::kHeaderBytes, 3000)), "");
  EXPECT_EQ(restore(overwritten(layout_.covered, detail::kParityHeaderBytes)), "");
  EXPECT_EQ(restore(overwritten(layout_.second_header(), detail::kParityHeaderBytes)), "");
  // Both headers of the parity data at once: the index says the same.
  std::string damaged = overwritten(layout_.covered, detail::kParityHeaderBytes);
  damaged.replace(layout_.second_header(), 16, 16, 'x');
  EXPECT_EQ(restore(damaged), "");
  // The head and the footer at once: the other header is looked for.
  damaged = overwritten(0, 4096);
  damaged.replace(layout_.second_header(), 16, 16, 'x');
  EXPECT_EQ(restore(damaged), "");
}

TEST_F(Parity, CutTailsComeBack) {
  write(model(50'000), 0.1);
  for (std::uint64_t cut :
       {std::uint64_t{1}, std::uint64_t{64}, detail::kParityHeaderBytes,
        detail::kParityHeaderBytes + layout_.table_bytes(), std::uint64_t{layout_.parity} * layout_.block}) {
    std::string damaged = content_.substr(0, content_.size() - cut);
    EXPECT_EQ(restore(damaged), "") << cut;
    // The tensors are there without any of it.
    test::write_file(path(), damaged);
    Report report;
    EXPECT_EQ(test::difference(open(path(), {.report = &report}).root, model(50'000).root), "");
    EXPECT_EQ(report.warnings.size(), 1U);
    EXPECT_FALSE(verify(path()).damage.empty());
  }
}

TEST_F(Parity, TheHeadOfAFileWithParityDataIsNotTakenForAnythingElse) {
  write(model(3000), 0.3);
  test::write_file(path(), overwritten(0, 4096 + 4096));
  std::string sentence =
      "corrupt: the head of the file is damaged; it is a native checkpoint with parity data at its end";
  EXPECT_EQ(test::error_of([&] { open(path()); }), sentence);
  EXPECT_EQ(test::error_of([&] { verify(path()); }), sentence);
}

TEST_F(Parity, MoreThanTheShareIsSaidAndWholeTensorsAreKept) {
  write(model(100'000), 0.02);
  // In the middle of b.weight, the last payload.
  std::uint64_t at = layout_.covered - layout_.covered / 4;
  RescueReport report = rescue_of(overwritten(at, layout_.covered / 10));
  EXPECT_FALSE(report.whole);
  EXPECT_GT(report.blocks_lost, 0U);
  ASSERT_EQ(report.lost.size(), 1U);
  EXPECT_EQ(report.lost[0].subject, "b.weight");
  EXPECT_EQ(report.tensors, 2U);
  Checkpoint kept = open(saved());
  EXPECT_EQ(test::difference(*kept.root.find("a.weight"), *model(100'000).root.find("a.weight")), "");
  EXPECT_EQ(kept.root.find("b.weight"), nullptr);
  EXPECT_TRUE(verify(saved()).damage.empty());
}

TEST_F(Parity, RestoredPartsAreNamed) {
  write(model(100'000), 0.1);
  std::string damaged = content_;
  damaged[10] ^= 1;
  damaged[layout_.covered / 4 * 3] ^= 1;
  damaged[layout_.first_parity() + 5] ^= 1;
  RescueReport report = rescue_of(damaged);
  std::vector<std::string> names;
  for (const RestoredPart& part : report.restored) names.push_back(part.subject);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"header", "index", "b.weight", "parity data"}));
  EXPECT_EQ(report.blocks_restored, 3U);
}

/// An edit of the index that did not make the parity data anew must not be undone.
TEST_F(Parity, ParityDataOfAnotherStateRestoresNothing) {
  write(model(3000), 0.2);
  test::edit_index(path(), [](core::ByteVector& index) {
    // The key "epoch" becomes "epocH".
    std::string text(core::as_text(index));
    index[text.find("epoch") + 4] = std::byte{'H'};
  });
  EXPECT_EQ(test::error_of([&] { rescue(path(), saved(), {.durable = false}); }),
            "corrupt: the parity data belongs to an earlier state of the file and restores nothing of it");
  EXPECT_FALSE(verify(path()).damage.empty());
  EXPECT_NE(open(path()).root.find("epocH"), nullptr);
}

TEST_F(Parity, InPlaceReplacesOnlyWhatCameBackWhole) {
  write(model(100'000), 0.02);
  std::string damaged = overwritten(5000, 10);
  test::write_file(path(), damaged);
  RescueReport report = rescue(path(), path(), {.durable = false, .in_place = true});
  EXPECT_TRUE(report.whole);
  EXPECT_EQ(test::read_file(path()), content_);
  report = rescue(path(), path(), {.durable = false, .in_place = true});
  EXPECT_FALSE(report.damaged);
  EXPECT_FALSE(report.written);
  damaged = overwritten(layout_.covered / 4 * 3, layout_.covered / 10);
  test::write_file(path(), damaged);
  EXPECT_THAT(test::error_of([&] { rescue(path(), path(), {.durable = false, .in_place = true}); }),
              HasSubstr("cannot be restored, the first of them 'b.weight'"));
  EXPECT_EQ(test::read_file(path()), damaged);
}

TEST_F(Parity, WhatAnotherProgramWroteIsNeverUndoneInPlace) {
  write(test::small_checkpoint(), 1);
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);  // opening and closing changes nothing
  }
  EXPECT_EQ(test::read_file(path()), content_);
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.overwrite("/data/fc/bias", 5);
  }
  std::string edited = test::read_file(path());
  EXPECT_EQ(edited.size(), content_.size());
  EXPECT_THAT(test::error_of([&] { rescue(path(), path(), {.durable = false, .in_place = true}); }),
              StartsWith("refused: 'fc.bias': it looks as if another program had changed it on purpose"));
  EXPECT_EQ(test::read_file(path()), edited);
  RescueReport report = rescue(path(), saved(), {.durable = false});
  EXPECT_EQ(report.notes.size(), 1U);
  EXPECT_TRUE(reindex(path(), {.durable = false}).needed);
  EXPECT_TRUE(verify(path()).damage.empty());
  EXPECT_FALSE(rescue(path(), saved(), {.overwrite = true, .durable = false}).damaged);  // parity data was rebuilt
}

TEST_F(Parity, RenameByAnotherProgramIsNotUndone) {
  write(test::small_checkpoint(), 1);
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.move("/data/fc/weight", "/data/fc/kernel");
  }
  std::string edited = test::read_file(path());
  EXPECT_NE(test::error_of([&] { rescue(path(), path(), {.durable = false, .in_place = true}); }), "");
  EXPECT_EQ(test::read_file(path()), edited);
  reindex(path(), {.durable = false});
  EXPECT_NE(open(path()).root.find("fc.kernel"), nullptr);
  EXPECT_TRUE(verify(path()).damage.empty());
}

TEST(Rescue, DamagedMagicComesBackWithoutParityData) {
  test::TempDir dir;
  std::filesystem::path path = dir.path() / "a.ckpt";
  save(model(100), path, {.durable = false});
  std::string content = test::read_file(path);
  test::overwrite(path, 0, "xxxxxxxx");
  RescueReport report = rescue(path, dir.path() / "b.ckpt", {.durable = false});
  EXPECT_TRUE(report.whole);
  EXPECT_EQ(test::read_file(dir.path() / "b.ckpt"), content);
  test::overwrite(path, 0, std::string(128, '\0'));  // all of the header: it is made anew, and says so
  report = rescue(path, dir.path() / "c.ckpt", {.durable = false});
  EXPECT_TRUE(report.whole);
  EXPECT_FALSE(report.proven);
  EXPECT_EQ(report.notes.size(), 1U);
  EXPECT_EQ(test::difference(open(dir.path() / "c.ckpt").root, model(100).root), "");
}

TEST(Rescue, NativeTensorsWithoutParityDataAreKeptByTheirHashes) {
  test::TempDir dir;
  std::filesystem::path path = dir.path() / "a.ckpt";
  save(model(100'000), path, {.durable = false});
  std::string content = test::read_file(path);
  test::write_file(path, content.substr(0, content.size() - 100'000));  // the HDF5 structure and the last payload
  RescueReport report = rescue(path, dir.path() / "b.ckpt", {.durable = false});
  ASSERT_EQ(report.lost.size(), 1U);
  EXPECT_EQ(report.lost[0].subject, "b.weight");
  EXPECT_THAT(report.lost[0].text, HasSubstr("cut"));
  EXPECT_EQ(report.tensors, 2U);
  EXPECT_TRUE(verify(dir.path() / "b.ckpt").damage.empty());
}

TEST(Rescue, TensorsOfAFileWithoutItsIndexComeFromTheHdf5PartUnproved) {
  test::TempDir dir;
  std::filesystem::path path = dir.path() / "a.ckpt";
  save(model(100), path, {.durable = false});
  test::overwrite(path, 128, std::string(300, 'x'));
  RescueReport report = rescue(path, dir.path() / "b.ckpt", {.durable = false});
  EXPECT_FALSE(report.proven);
  EXPECT_TRUE(report.damaged);
  EXPECT_EQ(report.tensors, 3U);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_THAT(report.notes[0].text, HasSubstr("come from the HDF5 part"));
  EXPECT_EQ(test::difference(*open(dir.path() / "b.ckpt").root.find("b.weight"), *model(100).root.find("b.weight")),
            "");
}

/// A file may claim what it likes of its parity data: nothing is allocated for it, and nothing ends but with an Error.
TEST_F(Parity, HeadersThatClaimMuchAreRefusedOrIgnored) {
  write(test::small_checkpoint(), 0.5);
  for (unsigned round = 1; round < 400; ++round) {
    core::ByteVector random = test::noise(32, round);
    detail::ParityHeader header{layout_, {1, 2}};
    std::memcpy(&header.layout.groups, random.data(), 1 + round % 8);
    std::memcpy(&header.layout.block, random.data() + 8, round % 5);
    std::memcpy(&header.layout.parity, random.data() + 12, round % 3);
    if (round % 2 == 0) std::memcpy(&header.layout.covered, random.data() + 16, round % 8);
    std::string damaged = content_;
    core::ByteVector head = detail::encode_parity_header(header);
    damaged.replace(layout_.covered, head.size(), core::as_text(head));
    damaged.replace(damaged.size() - head.size(), head.size(), core::as_text(head));
    damaged.replace(0, round % 3 == 0 ? 4200 : 100, round % 3 == 0 ? 4200 : 100, 'x');
    std::string error = test::error_of([&] { rescue_of(damaged); });
    EXPECT_EQ(error.find("another code"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace ckpt
