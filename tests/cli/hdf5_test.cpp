// HDF5 files of other programs, and native files that those edited, as a user meets them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/cli/program.h"
#include "tests/libckpt/hdf5/hdf5_maker.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class CliHdf5 : public ::testing::Test {
 protected:
  test::Outcome run(const std::vector<std::string>& arguments) const { return test::run_ckpt(dir_.path(), arguments); }
  /// Two tensors as a native file.
  void make_native() const {
    test::Hdf5Maker maker(dir_.path() / "a.h5");
    maker.floats("fc/weight", {2, 3});
    maker.floats("fc/bias", {2}, 10);
    maker.close();
    ASSERT_EQ(run({"convert", "a.h5", "a.ckpt"}).code, 0);
  }
  test::TempDir dir_;
};

TEST_F(CliHdf5, FilesOfOthersAreListedAndConverted) {
  make_native();
  EXPECT_THAT(run({"ls", "a.h5"}).out, HasSubstr("fc.weight"));
  EXPECT_EQ(run({"convert", "a.ckpt", "b.h5"}).code, 0);
  EXPECT_EQ(run({"diff", "a.h5", "b.h5"}).code, 0);
  EXPECT_EQ(run({"verify", "b.h5"}).code, 0);
}

TEST_F(CliHdf5, SaysHowKerasSpellsBfloat16) {
  std::optional<std::filesystem::path> file = test::golden_file("checkpoints/hdf5/keras3.weights.h5");
  if (!file) GTEST_SKIP() << "no golden data";
  EXPECT_THAT(run({"ls", "--json", file->string()}).out, HasSubstr(R"("dtype":"void16","read_as":"bfloat16")"));
  EXPECT_THAT(run({"ls", file->string()}).out, HasSubstr("bfloat16"));
}

TEST_F(CliHdf5, OneLineWhenTheHelperIsMissing) {
  make_native();
  test::RunOptions no_helper{.in_child = [] { ::setenv("CKPT_HDF5_HELPER", "/nonexistent/ckpt-hdf5", 1); }};
  test::Outcome done = test::run_ckpt(dir_.path(), {"ls", "a.h5"}, no_helper);
  EXPECT_EQ(done.code, 3);
  EXPECT_THAT(done.err, StartsWith("ckpt: a.h5: HDF5 files of other programs are read by a helper program"));
  // Native files need none; verify says what it could not do.
  EXPECT_EQ(test::run_ckpt(dir_.path(), {"ls", "a.ckpt"}, no_helper).code, 0);
  done = test::run_ckpt(dir_.path(), {"verify", "a.ckpt"}, no_helper);
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.out, HasSubstr("note: HDF5 part: not compared with the index"));
}

TEST_F(CliHdf5, ContentOutsideTheFileIsRefusedInOneLine) {
  test::Hdf5Maker maker(dir_.path() / "a.h5");
  maker.external_link("x", "/etc/passwd", "/y");
  maker.close();
  test::Outcome done = run({"convert", "a.h5", "b.safetensors"});
  EXPECT_EQ(done.code, 3);
  EXPECT_EQ(
      done.err,
      "ckpt: a.h5: the file refers to content outside the file, which is never opened: 'x' is an external link\n");
  EXPECT_FALSE(std::filesystem::exists(dir_.path() / "b.safetensors"));
}

TEST_F(CliHdf5, PlainH5CannotHoldEverythingAndSaysSo) {
  make_native();
  test::Outcome done = run({"convert", "--max-shard-size", "1K", "a.ckpt", "b.h5"});
  EXPECT_EQ(done.code, 3);
  EXPECT_THAT(done.err, HasSubstr("the format 'hdf5' is not split into shards"));
}

TEST_F(CliHdf5, ReindexTakesOverWhatAnotherProgramDid) {
  make_native();
  {
    test::Hdf5Maker maker(dir_.path() / "a.ckpt", test::Hdf5Maker::Mode::edit);
    maker.move("/data/fc/weight", "/data/fc/kernel");
    maker.overwrite("/data/fc/bias", 5);
  }
  test::Outcome stale = run({"ls", "a.ckpt"});
  EXPECT_EQ(stale.code, 3);
  EXPECT_THAT(stale.err, HasSubstr("'ckpt reindex'"));
  std::string expected =
      "  changed  fc.bias\n"
      "  renamed  fc.weight -> fc.kernel\n";
  EXPECT_EQ(run({"reindex", "--dry-run", "a.ckpt"}).out,
            expected + "a.ckpt: the index would be written anew; 2 tensors\n");
  EXPECT_EQ(run({"reindex", "a.ckpt"}).out, expected + "a.ckpt: the index was written anew; 2 tensors\n");
  EXPECT_EQ(run({"verify", "a.ckpt"}).code, 0);
  EXPECT_EQ(run({"reindex", "a.ckpt"}).out, "a.ckpt: the index is up to date; 2 tensors\n");
}

TEST_F(CliHdf5, ReindexAnswersInJsonAndMindsItsOptions) {
  make_native();
  test::Outcome done = run({"reindex", "--json", "a.ckpt"});
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.out, HasSubstr("\"needed\": false"));
  EXPECT_EQ(run({"reindex", "--in-place", "-o", "b.ckpt", "a.ckpt"}).code, 2);
  EXPECT_EQ(run({"reindex", "a.h5"}).code, 3);
  EXPECT_EQ(run({"reindex", "-o", "b.ckpt", "a.ckpt"}).code, 0);
  EXPECT_EQ(run({"reindex", "-o", "b.ckpt", "a.ckpt"}).code, 4);
  EXPECT_EQ(run({"reindex", "-f", "-o", "b.ckpt", "a.ckpt"}).code, 0);
}

}  // namespace
