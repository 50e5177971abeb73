// HDF5 files of other programs, and native files that those edited, as a user meets them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>

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
  EXPECT_THAT(done.err, StartsWith("ckpt: a.h5: HDF5 (.ckpt, .h5, Keras) needs the helper program ckpt-hdf5"));
  // Native files need none; verify says what it could not do.
  EXPECT_EQ(test::run_ckpt(dir_.path(), {"ls", "a.ckpt"}, no_helper).code, 0);
  done = test::run_ckpt(dir_.path(), {"verify", "a.ckpt"}, no_helper);
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.out, HasSubstr("note: HDF5 part: not compared with the index"));
}

TEST_F(CliHdf5, SavingWithoutTheHelperIsOneLineAndWritesNothing) {
  make_native();
  test::RunOptions no_helper{.in_child = [] { ::setenv("CKPT_HDF5_HELPER", "/nonexistent/ckpt-hdf5", 1); }};
  for (const char* name : {"b.ckpt", "b.h5"}) {
    test::Outcome done = test::run_ckpt(dir_.path(), {"convert", "a.ckpt", name}, no_helper);
    EXPECT_EQ(done.code, 3);
    EXPECT_THAT(done.err, HasSubstr("needs the helper program ckpt-hdf5"));
    EXPECT_FALSE(std::filesystem::exists(dir_.path() / name));
  }
}

#if defined(__x86_64__) || defined(__aarch64__)
/// A system that has neither Landlock nor seccomp for its programs, as some containers do.
void refuse_sandboxes() {
  constexpr std::uint32_t kLandlock = 444;
  constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kLandlock, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_seccomp, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kRefuse),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kRefuse),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{std::size(filter), filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    ::_exit(99);
  }
}

TEST_F(CliHdf5, HelperThatCannotBeConfinedReadsNothingOfOthers) {
  make_native();
  test::RunOptions open_system{.in_child = refuse_sandboxes};
  for (const char* command : {"ls", "verify", "info"}) {
    test::Outcome done = test::run_ckpt(dir_.path(), {command, "a.h5"}, open_system);
    EXPECT_EQ(done.code, 3) << command;
    EXPECT_THAT(done.err, HasSubstr("a.h5: this system does not let the HDF5 helper be confined: it refuses Landlock "
                                    "(keeps it from other files), seccomp (keeps it from other programs and the "
                                    "network); "));
    EXPECT_THAT(done.err, HasSubstr("--unsandboxed"));
  }
}

TEST_F(CliHdf5, UnconfinedReadingIsAskedForAndWarnedOf) {
  make_native();
  test::Outcome done = test::run_ckpt(dir_.path(), {"ls", "--unsandboxed", "a.h5"}, {.in_child = refuse_sandboxes});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("fc.weight"));
  EXPECT_THAT(done.err, HasSubstr("warning: the HDF5 helper ran without Landlock"));
  EXPECT_THAT(done.err, HasSubstr("warning: the HDF5 helper ran without seccomp"));
  EXPECT_EQ(run({"ls", "--unsandboxed", "a.h5"}).err, "");  // nothing to warn of where it is confined
}

TEST_F(CliHdf5, WritingNeedsNoConfinement) {
  make_native();
  test::RunOptions open_system{.in_child = refuse_sandboxes};
  test::Outcome done = test::run_ckpt(dir_.path(), {"convert", "a.ckpt", "b.h5"}, open_system);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(run({"diff", "a.h5", "b.h5"}).code, 0);
  // The file is good as far as it was looked at, and verify says how far that is.
  done = test::run_ckpt(dir_.path(), {"verify", "a.ckpt"}, open_system);
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.out, HasSubstr("note: HDF5 part: not compared with the index: this system does not let"));
}
#endif

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

TEST_F(CliHdf5, UserBlockIsSaidAndNoFinding) {
  make_native();
  std::ifstream in(dir_.path() / "a.h5", std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(in), {}};
  std::string block = "hello block\n";
  block.resize(512);
  std::ofstream(dir_.path() / "user.h5", std::ios::binary) << block << content;
  test::Outcome done = run({"verify", "user.h5"});
  EXPECT_EQ(done.code, 0) << done.out;
  EXPECT_THAT(done.out, HasSubstr("note: user block: 512 bytes of user block before the HDF5 data; they are not part"));
  EXPECT_EQ(run({"diff", "a.h5", "user.h5"}).code, 0);
  EXPECT_EQ(run({"scan", "user.h5"}).code, 0);
}

TEST_F(CliHdf5, PlaceOfADeletedDatasetIsUnusedAndFreedByTheCommandThatIsNamed) {
  {
    test::Hdf5Maker maker(dir_.path() / "a.h5");
    maker.floats("kept", {100, 100});
    maker.floats("deleted", {200, 100});
    maker.floats("last", {10});
  }
  EXPECT_THAT(run({"info", "a.h5"}).out, ::testing::Not(HasSubstr("unused")));
  {
    test::Hdf5Maker maker(dir_.path() / "a.h5", test::Hdf5Maker::Mode::edit);
    maker.remove("/deleted");
  }
  test::Outcome done = run({"info", "a.h5"});
  EXPECT_THAT(done.out, HasSubstr("KiB that no tensor uses; to free them: ckpt compact a.h5"));
  EXPECT_THAT(run({"info", "--json", "a.h5"}).out, HasSubstr("\"unused_command\": \"ckpt compact a.h5\""));
  EXPECT_EQ(run({"compact", "a.h5"}).code, 0);
  std::uintmax_t before = std::filesystem::file_size(dir_.path() / "a.h5");
  EXPECT_LT(std::filesystem::file_size(dir_.path() / "a.compact.h5"), before - 70'000);
  EXPECT_EQ(run({"diff", "a.h5", "a.compact.h5"}).code, 0);
  EXPECT_THAT(run({"info", "a.compact.h5"}).out, ::testing::Not(HasSubstr("unused")));
}

TEST_F(CliHdf5, CompressedFileIsNotOfferedACommandThatMakesItLarger) {
  {
    test::Hdf5Maker maker(dir_.path() / "a.h5");
    maker.floats("deleted", {200, 100});
    maker.chunked("kept", {1000, 100}, {1000, 100}, {H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE});
  }
  {
    test::Hdf5Maker maker(dir_.path() / "a.h5", test::Hdf5Maker::Mode::edit);
    maker.remove("/deleted");
  }
  EXPECT_THAT(run({"info", "a.h5"}).out, ::testing::Not(HasSubstr("unused")));
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
            expected + "a.ckpt: the index would be rewritten; 2 tensors\n");
  EXPECT_EQ(run({"reindex", "a.ckpt"}).out, expected + "a.ckpt: the index was rewritten; 2 tensors\n");
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
