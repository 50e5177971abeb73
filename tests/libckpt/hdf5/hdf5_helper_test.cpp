// The helper program: where it is found, what may be started, what happens when it misbehaves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "libckpt/hdf5/find_helper.h"
#include "libckpt/io/trusted_program.h"
#include "libckpt/open_save.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/libckpt/hdf5/hdf5_maker.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Hdf5Helper : public ::testing::Test {
 protected:
  void SetUp() override {
    test::Hdf5Maker maker(path());
    maker.floats("x", {2});
  }
  void TearDown() override { ::unsetenv("CKPT_HDF5_HELPER"); }
  std::filesystem::path path() const { return dir_.path() / "a.h5"; }
  std::filesystem::path fake() const { return dir_.path() / "helper"; }
  void use(const std::filesystem::path& helper) const { ::setenv("CKPT_HDF5_HELPER", helper.c_str(), 1); }
  /// A helper that is a script.
  void use_script(const std::string& body) const {
    test::write_file(fake(), "#!/bin/sh\n" + body + "\n");
    ::chmod(fake().c_str(), 0755);
    use(fake());
  }
  std::string error(const OpenOptions& options = {}) const {
    return test::error_of([&] { open(path(), options); });
  }
  test::TempDir dir_;
};

TEST_F(Hdf5Helper, IsFoundBesideTheProgram) {
  EXPECT_EQ(find_hdf5_helper().filename(), "ckpt-hdf5");
  EXPECT_EQ(error(), "");
}

TEST_F(Hdf5Helper, IsTakenFromTheEnvironment) {
  std::filesystem::path real = find_hdf5_helper();
  std::filesystem::copy_file(real, fake());
  use(fake());
  EXPECT_EQ(find_hdf5_helper(), fake());
  EXPECT_EQ(error(), "");
}

TEST_F(Hdf5Helper, IsLookedForNearTheProgramOfThePath) {
  std::filesystem::create_directories(dir_.path() / "usr" / "bin");
  test::write_file(dir_.path() / "usr" / "bin" / "ckpt", "#!/bin/sh\n");
  ::chmod((dir_.path() / "usr" / "bin" / "ckpt").c_str(), 0755);
  std::string before = std::getenv("PATH");
  ::setenv("PATH", ((dir_.path() / "usr" / "bin").string() + ":relative:" + before).c_str(), 1);
  std::vector<std::filesystem::path> looked = detail::helper_candidates();
  ::setenv("PATH", before.c_str(), 1);
  std::filesystem::path expected = std::filesystem::canonical(dir_.path()) / "usr" / "libexec" / "ckpt" / "ckpt-hdf5";
  EXPECT_THAT(looked, ::testing::Contains(expected));
}

TEST_F(Hdf5Helper, MissingOneIsOneClearError) {
  use(dir_.path() / "absent");
  EXPECT_EQ(error(), "unsupported: HDF5 (.ckpt, .h5, Keras) needs the helper program ckpt-hdf5, and '" +
                         (dir_.path() / "absent").string() +
                         "', which CKPT_HDF5_HELPER names, cannot be it: it does not exist");
  EXPECT_FALSE(try_find_hdf5_helper().has_value());
}

TEST_F(Hdf5Helper, IsNotStartedWhenOthersCouldHaveWrittenIt) {
  use_script("exit 0");
  ::chmod(fake().c_str(), 0757);
  EXPECT_EQ(ckpt::program_fault(fake()), "it belongs to another user or may be written by others");
  ::chmod(fake().c_str(), 0644);
  EXPECT_EQ(ckpt::program_fault(fake()), "it may not be executed");
  ::chmod(fake().c_str(), 0755);
  ::chmod(dir_.path().c_str(), 0777);
  EXPECT_EQ(ckpt::program_fault(fake()), "its folder may be written by others");
  ::chmod(dir_.path().c_str(), 0755);
  EXPECT_EQ(ckpt::program_fault(fake()), "");
  EXPECT_EQ(ckpt::program_fault(dir_.path()), "it is not a regular file");
}

TEST_F(Hdf5Helper, DeathBySignalIsCorruptInputWithTheStage) {
  use_script("printf '\\002\\005\\000\\000\\000hello'; kill -SEGV $$");
  EXPECT_EQ(error(),
            "corrupt: libhdf5 crashed (signal 11) in the helper process on this file, which is damaged or hostile; it "
            "was at: hello");
}

TEST_F(Hdf5Helper, SilenceIsAnEarlyEnd) {
  use_script("exit 5");
  EXPECT_EQ(error(), "corrupt: the HDF5 helper ended early (status 5); it was at: starting");
}

TEST_F(Hdf5Helper, LingeringIsOverTheLimit) {
  use_script("exec sleep 20");
  EXPECT_THAT(error({.limits = {.max_helper_seconds = 1}}),
              StartsWith("refused: reading the structure of this HDF5 file takes more than the limit of 1 s"));
}

TEST_F(Hdf5Helper, AnotherVersionIsNamed) {
  use_script("printf '\\001\\004\\000\\000\\000\\143\\000\\000\\000\\006\\001\\000\\000\\000x'");
  EXPECT_EQ(error(), "unsupported: the HDF5 helper is of another version than this library; reinstall both");
}

TEST_F(Hdf5Helper, SandboxHolds) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer needs what the sandbox forbids";
#endif
  std::string command = find_hdf5_helper().string() + " probe";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char line[200] = {};
  char* got = std::fgets(line, sizeof line, pipe);
  int status = ::pclose(pipe);
  ASSERT_NE(got, nullptr);
  EXPECT_STREQ(line, "the sandbox holds\n");
  EXPECT_EQ(status, 0);
}

TEST_F(Hdf5Helper, SignalsThatTheHostIgnoresDoNotConfuseIt) {
  auto* before = ::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(error(), "");
  ::signal(SIGCHLD, before);
}

}  // namespace
}  // namespace ckpt
