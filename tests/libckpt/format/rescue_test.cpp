// What is saved of damaged files of other formats: cut ones, and ones whose checksums do not fit.

#include "libckpt/rescue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using core::DType;
using ::testing::HasSubstr;

class RescueOf : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    save(made_, path(), {.durable = false});
    content_ = test::read_file(path());
  }
  std::filesystem::path path() const { return dir_.path() / (std::string("a") + GetParam()); }
  std::filesystem::path saved() const { return dir_.path() / (std::string("saved") + GetParam()); }

  RescueReport rescue_of(const std::string& damaged) const {
    test::write_file(path(), damaged);
    return rescue(path(), saved(), {.overwrite = true, .durable = false});
  }
  /// Each kept tensor is what it was; returns how many there are.
  std::size_t kept() const {
    std::size_t count = 0;
    for (const NamedEntry& named : list_entries(open(saved()).root)) {
      EXPECT_EQ(read_all(*named.entry->bytes), read_all(*made_.root.find(named.name)->as_entry().bytes)) << named.name;
      ++count;
    }
    return count;
  }
  /// Where the bytes of a tensor stand in the file.
  std::size_t place_of(const char* name) const {
    core::ByteVector bytes = read_all(*made_.root.find(name)->as_entry().bytes);
    return content_.find(std::string(core::as_text(bytes)));
  }

  Checkpoint made_ = test::checkpoint({{"first", test::tensor(DType::f32, {600}, 1)},
                                       {"second", test::tensor(DType::f32, {500}, 2)},
                                       {"third", test::tensor(DType::f32, {400}, 3)}});
  test::TempDir dir_;
  std::string content_;
};

TEST_P(RescueOf, WholeFileKeepsEverything) {
  RescueReport report = rescue_of(content_);
  EXPECT_FALSE(report.damaged);
  EXPECT_EQ(report.tensors, 3U);
  EXPECT_EQ(kept(), 3U);
}

TEST_P(RescueOf, CutAnywhereKeepsWhatIsWhole) {
  for (const char* name : {"second", "third"}) {
    std::size_t place = place_of(name);
    ASSERT_NE(place, std::string::npos);
    RescueReport report = rescue_of(content_.substr(0, place + 100));
    std::size_t expected = std::string(name) == "second" ? 1 : 2;
    EXPECT_EQ(report.tensors, expected);
    // The names of arrays stand beside them; what is behind the cut is not known.
    EXPECT_EQ(report.lost.size(), std::string(GetParam()) == ".npz" ? 2 : 3 - expected);
    EXPECT_TRUE(report.damaged);
    EXPECT_EQ(kept(), expected);
    EXPECT_EQ(report.proven, std::string(GetParam()) != ".safetensors");
  }
  for (std::size_t length = content_.size() - 1; length > 0; length -= std::min<std::size_t>(length, 97)) {
    std::string error = test::error_of([&] { rescue_of(content_.substr(0, length)); });
    EXPECT_EQ(error.find("internal"), std::string::npos) << error;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, RescueOf, ::testing::Values(".pth", ".npz", ".safetensors"));

class RescueOfChecked : public RescueOf {};

TEST_P(RescueOfChecked, TensorWithAnotherChecksumIsLostAndOnlyThat) {
  std::string damaged = content_;
  damaged[place_of("second") + 7] ^= 1;
  RescueReport report = rescue_of(damaged);
  ASSERT_EQ(report.lost.size(), 1U);
  EXPECT_EQ(report.lost[0].subject, "second");
  EXPECT_THAT(report.lost[0].text, HasSubstr("CRC-32"));
  EXPECT_EQ(kept(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Formats, RescueOfChecked, ::testing::Values(".pth", ".npz"));

TEST(RescueOfNothing, SaysThatNothingCanBeSaid) {
  test::TempDir dir;
  test::write_file(dir.path() / "a.pth", "no checkpoint at all");
  EXPECT_THAT(test::error_of([&] { rescue(dir.path() / "a.pth", dir.path() / "b.pth"); }),
              ::testing::StartsWith("unsupported: "));
  EXPECT_EQ(test::list_folder(dir.path()).size(), 1U);
}

}  // namespace
}  // namespace ckpt
