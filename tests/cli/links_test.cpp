// Symbolic links that lie where ckpt reads and writes: what nobody named is not followed to another place.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/cli/files.h"

namespace {

using namespace test;
using testing::HasSubstr;
namespace fs = std::filesystem;

const char* const kIndex = R"({"weight_map": {"a": "one.safetensors"}})";

/// A model of one shard that is a link to a file outside of its folder.
void make_linked_shard(const TempDir& dir) {
  fs::create_directory(dir.path() / "model");
  write_model(dir, "private.safetensors", {"a"});
  write_file(dir.path() / "model" / "model.safetensors.index.json", kIndex);
  fs::create_symlink("../private.safetensors", dir.path() / "model" / "one.safetensors");
}

TEST(Links, AShardThatLeadsOutOfItsFolderIsNotCopiedFromElsewhere) {
  TempDir dir;
  make_linked_shard(dir);
  const std::string said = "leads out of its folder; --allow-symlinks";
  expect_refused(dir, {"convert", "model", "leak.pth"}, 3, "one.safetensors", said);
  expect_refused(dir, {"ls", "model"}, 3, "one.safetensors", said);
  expect_refused(dir, {"verify", "model"}, 3, "one.safetensors", said);
  EXPECT_EQ(run_ckpt(dir.path(), {"convert", "--allow-symlinks", "model", "asked.pth"}).code, 0);
  EXPECT_EQ(names_in(dir.path() / "asked.pth"), std::vector<std::string>{"a"});
}

TEST(Links, AnIndexThatLeadsOutOfTheNamedFolderIsNotRead) {
  TempDir dir;
  fs::create_directory(dir.path() / "model");
  write_file(dir.path() / "elsewhere.json", kIndex);
  fs::create_symlink("../elsewhere.json", dir.path() / "model" / "model.safetensors.index.json");
  expect_refused(dir, {"ls", "model"}, 3, "model.safetensors.index.json", "leads out of its folder");
}

TEST(Links, AFileThatTheUserNamesMayBeALink) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a"});
  fs::create_symlink("net.pth", dir.path() / "link.pth");
  EXPECT_EQ(run_ckpt(dir.path(), {"ls", "link.pth"}).code, 0);
}

TEST(Links, TheDefaultOutputDoesNotWriteThroughADanglingLink) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a"});
  fs::create_symlink("victim", dir.path() / "net.plain.pth");
  expect_refused(dir, {"strip-prefix", "net.pth"}, 4, "net.plain.pth", "is a symbolic link; name the file itself");
  expect_refused(dir, {"strip-prefix", "-f", "net.pth"}, 4, "net.plain.pth", "is a symbolic link");
  EXPECT_FALSE(fs::exists(dir.path() / "victim"));
}

TEST(Links, AFolderOfOutputsDoesNotHoldTrapsEither) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a"});
  fs::create_directory(dir.path() / "out");
  fs::create_symlink("../victim", dir.path() / "out" / "net.pth");
  expect_refused(dir, {"strip-prefix", "net.pth", "-o", "out/"}, 4, "out/net.pth", "is a symbolic link");
}

TEST(Links, AnOutputThatTheUserNamesMayBeALink) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a"});
  fs::create_symlink("real.pth", dir.path() / "out.pth");
  EXPECT_EQ(run_ckpt(dir.path(), {"strip-prefix", "net.pth", "-o", "out.pth"}).code, 0);
  EXPECT_EQ(names_in(dir.path() / "real.pth"), std::vector<std::string>{"a"});
}

TEST(Links, GitInstallDoesNotWriteThroughALinkedGitattributes) {
  if (std::system("git --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "git is not installed";
  TempDir dir;
  ASSERT_EQ(std::system(("git -C '" + dir.path().string() + "' init -q .").c_str()), 0);
  write_file(dir.path() / "victim", "export KEEP=1\n");
  fs::create_symlink("victim", dir.path() / ".gitattributes");
  Outcome done = run_ckpt(dir.path(), {"git", "install"});
  EXPECT_EQ(done.code, 3);
  EXPECT_THAT(done.err, HasSubstr("is a symbolic link, which git does not read"));
  EXPECT_EQ(read_file(dir.path() / "victim"), "export KEEP=1\n");
  EXPECT_EQ(run_ckpt(dir.path(), {"git", "status"}).code, 1);
}

TEST(Links, AProgramThatOthersMayWriteIsNotStarted) {
  TempDir dir;
  write_model(dir, "net.pth", {"a"});
  write_file(dir.path() / "ckpt-run", "#!/bin/sh\ntouch started\n");
  ASSERT_EQ(::chmod((dir.path() / "ckpt-run").c_str(), 0777), 0);
  RunOptions options;
  options.in_child = [] { ::setenv("CKPT_RUN", "./ckpt-run", 1); };
  Outcome done = run_ckpt(dir.path(), {"devices"}, options);
  EXPECT_EQ(done.code, 3);
  EXPECT_THAT(done.err, HasSubstr("may be written by others"));
  EXPECT_FALSE(fs::exists(dir.path() / "started"));
}

}  // namespace
