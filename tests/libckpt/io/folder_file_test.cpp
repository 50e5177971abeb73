// What a symbolic link in a checkpoint folder may lead to.

#include "libckpt/io/folder_file.h"

#include <gmock/gmock.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>

#include "libckpt/format/dcp/data_files.h"
#include "libckpt/hint.h"
#include "libcore/base/error.h"
#include "tests/libckpt/io/fault.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::detail::Links;
using ckpt::detail::open_in_folder;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::string option_name(const ckpt::Hint::Use& use) {
  return use.option == ckpt::Hint::Option::allow_symlinks ? "allow_symlinks" : "another";
}

class FolderFile : public testing::Test {
 protected:
  FolderFile() {
    fs::create_directory(folder_);
    test::write_file(dir_.path() / "secret", "key");
    test::write_file(folder_ / "data", "bytes");
  }
  /// The text of the file, or "<code>: <message>".
  std::string read(const std::string& name, Links links = Links::inside) const { return read_in(folder_, name, links); }
  static std::string read_in(const fs::path& folder, const std::string& name, Links links = Links::inside) {
    try {
      core::ByteVector bytes = ckpt::read_all(*open_in_folder(folder, name, links, "the index"));
      return std::string(core::as_text(bytes));
    } catch (const core::Error& error) {
      std::string hint = ckpt::hint_of(error) ? " (" + ckpt::hint_of(error)->say(option_name) + ")" : "";
      return std::string(core::name(error.code())) + ": " + error.message() + hint;
    }
  }

  test::TempDir dir_;
  fs::path folder_ = dir_.path() / "model";
};

constexpr const char* kLeadsOut =
    "refused: it is a symbolic link that leads out of its folder (allow_symlinks reads what it leads to)";

TEST_F(FolderFile, ALinkToAFileElsewhereIsNotRead) {
  fs::create_symlink("../secret", folder_ / "up");
  fs::create_symlink(dir_.path() / "secret", folder_ / "absolute");
  fs::create_symlink("up", folder_ / "chain");
  fs::create_directory_symlink("..", folder_ / "parent");
  EXPECT_EQ(read("up"), kLeadsOut);
  EXPECT_EQ(read("absolute"), kLeadsOut);
  EXPECT_EQ(read("chain"), kLeadsOut);
  EXPECT_EQ(read("parent/secret"), kLeadsOut);
  EXPECT_EQ(read("../secret"), kLeadsOut);
}

TEST_F(FolderFile, ALinkWithinTheFolderIsRead) {
  fs::create_symlink("data", folder_ / "link");
  EXPECT_EQ(read("link"), "bytes");
  EXPECT_EQ(read("data"), "bytes");
}

TEST_F(FolderFile, WhoAsksForItGetsWhatALinkLeadsTo) {
  fs::create_symlink("../secret", folder_ / "up");
  EXPECT_EQ(read("up", Links::anywhere), "key");
}

TEST_F(FolderFile, TheCacheOfAHubIsOneFolder) {
  fs::path cache = dir_.path() / "models--a--b";
  fs::path revision = cache / "snapshots" / "0123";
  fs::create_directories(revision);
  fs::create_directory(cache / "blobs");
  test::write_file(cache / "blobs" / "abcd", "weights");
  fs::create_symlink("../../blobs/abcd", revision / "model.safetensors");
  fs::create_symlink("../../../secret", revision / "hostile");
  EXPECT_EQ(read_in(revision, "model.safetensors"), "weights");
  EXPECT_EQ(read_in(revision, "hostile"), kLeadsOut);
}

TEST_F(FolderFile, ACacheWhoseBlobsAreALinkIsNone) {
  fs::create_directories(folder_ / "snapshots" / "0123");
  fs::create_directory_symlink(dir_.path(), folder_ / "blobs");
  fs::create_symlink("../../blobs/secret", folder_ / "snapshots" / "0123" / "x");
  EXPECT_EQ(read_in(folder_ / "snapshots" / "0123", "x"), kLeadsOut);
}

TEST_F(FolderFile, SaysWhatIsMissingOrNoFile) {
  EXPECT_EQ(read("absent"), "corrupt: it is missing, although the index names it");
  fs::create_symlink("absent", folder_ / "dangling");
  EXPECT_EQ(read("dangling"), "corrupt: it is missing, although the index names it");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(read("pipe"), HasSubstr("io: cannot open: it is a device or pipe"));  // and does not wait for a writer
}

TEST_F(FolderFile, DataOfADistributedCheckpointAreNotTakenFromElsewhere) {
  fs::create_symlink("../secret", folder_ / "__0_0.distcp");
  ckpt::detail::DcpFiles files(folder_, "", ckpt::OpenOptions());
  try {
    files.range({"__0_0.distcp", 0, 3});
    FAIL() << "the file was read";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::refused);
    EXPECT_THAT(error.what(), HasSubstr("file '__0_0.distcp'"));
  }
}

/// From now on this process lives on a system without openat2.
bool forbid_openat2() {
  sock_filter filter[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_openat2},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  sock_fprog program{std::size(filter), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(FolderFile, ASystemWithoutOpenat2FollowsNoLinkAtAll) {
  fs::create_symlink("../secret", folder_ / "up");
  fs::create_directory_symlink("..", folder_ / "parent");
  int status = test::fault::run_child([&] {
    if (!forbid_openat2()) ::_exit(77);
    bool good = read("data") == "bytes" && read("up") == kLeadsOut && read("parent/secret") != "key" &&
                read("../secret") == kLeadsOut;
    ::_exit(good ? 0 : 1);
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no system call can be forbidden here";
  EXPECT_EQ(status, 0);
}

}  // namespace
