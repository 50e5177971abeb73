// What can go wrong with a file or a disk: one clear line, the right exit code, nothing left behind, input untouched.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/cli/files.h"
#include "tests/libckpt/format/proto_maker.h"
#include "tests/support/golden.h"

using ckpt::Value;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;

namespace {

/// Commands that read a file, each as it would be typed; none may write anything.
const std::vector<std::vector<std::string>> kReaders = {
    {"ls"}, {"info"}, {"verify"}, {"remap", "--to", "cpu"}, {"strip-prefix"}, {"add-prefix"}};

/// Refused by every command.
void expect_unreadable(const TempDir& dir, const std::string& name, int code, const std::string& text) {
  for (std::vector<std::string> arguments : kReaders) {
    arguments.push_back(name);
    expect_refused(dir, arguments, code, name, text);
  }
  expect_refused(dir, {"convert", name, "out.safetensors"}, code, name, text);
  expect_refused(dir, {"diff", name, name}, code, name, text);
}

std::string safetensors(const std::string& header, std::size_t payload) {
  std::uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + std::string(payload, '\0');
}

constexpr const char* kLfsPointer =
    "version https://git-lfs.github.com/spec/v1\noid sha256:"
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\nsize 4294967296\n";

}  // namespace

TEST(BadInput, CutFile) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"w", tensor(std::vector<float>(500))}}));
  std::string whole = read_file(dir.path() / "net.pth");
  write_file(dir.path() / "cut.pth", whole.substr(0, whole.size() * 6 / 10));
  expect_unreadable(dir, "cut.pth", 3, "");
  write_file(dir.path() / "cut.safetensors",
             safetensors(R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 7));
  expect_unreadable(dir, "cut.safetensors", 3, "");
}

TEST(BadInput, WrongMagic) {
  TempDir dir;
  write_file(dir.path() / "net.pth", std::string("\x13\x37garbage\x00\x01\x02\x03\x04", 14));
  expect_unreadable(dir, "net.pth", 3, "no known checkpoint format");
  write_file(dir.path() / "empty.pth", "");
  expect_unreadable(dir, "empty.pth", 3, "empty");
  write_file(dir.path() / "zip.gz", std::string("\x1f\x8b\x08\x00\x00\x00\x00\x00", 8));
  expect_unreadable(dir, "zip.gz", 3, "gzip");
}

TEST(BadInput, DuplicatedKey) {
  TempDir dir;
  write_file(dir.path() / "twice.safetensors", safetensors(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                                           R"("w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                                           8));
  expect_unreadable(dir, "twice.safetensors", 3, "'w'");
}

TEST(BadInput, Collision) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a", "a"});
  expect_refused(dir, {"strip-prefix", "net.pth"}, 3, "net.pth", "keys 'module.a' and 'a' would both become 'a'");
  expect_refused(dir, {"strip-prefix", "net.pth", "--in-place"}, 3, "net.pth", "would both become");
  expect_refused(dir, {"strip-prefix", "net.pth", "--dry-run"}, 3, "net.pth", "would both become");
  write_file(dir.path() / "names.json", R"({"a": "module.a"})");
  expect_refused(dir, {"rename", "--map", "names.json", "net.pth"}, 3, "net.pth", "would both become 'module.a'");
}

TEST(BadInput, MissingShard) {
  TempDir dir;
  write_file(dir.path() / "net.safetensors.index.json",
             R"({"metadata": {"total_size": 4}, "weight_map": {"w": "net-00001-of-00001.safetensors"}})");
  for (const char* command : {"ls", "strip-prefix", "verify"}) {
    Outcome outcome = run_ckpt(dir.path(), {command, "net.safetensors.index.json"});
    EXPECT_TRUE(outcome.code == 3 || outcome.code == 4) << outcome.code;
    EXPECT_THAT(outcome.err, HasSubstr("net-00001-of-00001.safetensors"));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
  }
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("net.safetensors.index.json"));
}

TEST(BadInput, LfsPointerAndWebPage) {
  TempDir dir;
  write_file(dir.path() / "lfs.safetensors", kLfsPointer);
  expect_unreadable(dir, "lfs.safetensors", 3, "git-LFS pointer to 4.0 GiB, not the weights; run 'git lfs pull'");
  write_file(dir.path() / "page.bin", "<!DOCTYPE html>\n<html><body>Sign in to continue</body></html>\n");
  expect_unreadable(dir, "page.bin", 3, "HTML page");
}

TEST(BadInput, ForeignGlobalsInAPickle) {
  auto hostile = golden_file("checkpoints/torch_2.15/hostile_reduce.pth");
  if (!hostile) GTEST_SKIP() << "no golden checkpoints here";
  TempDir dir;
  std::filesystem::copy_file(*hostile, dir.path() / "hostile.pth");
  std::filesystem::permissions(dir.path() / "hostile.pth", std::filesystem::perms::owner_all);
  for (std::vector<std::string> command : {std::vector<std::string>{"ls"}, {"info"}, {"strip-prefix"}}) {
    command.emplace_back("hostile.pth");
    expect_refused(dir, command, 3, "hostile.pth", "posix.mkdir");
  }
  for (const char* command : {"verify", "scan"}) {
    Outcome outcome = run_ckpt(dir.path(), {command, "hostile.pth"});
    EXPECT_EQ(outcome.code, 1) << command;
    EXPECT_THAT(outcome.out, HasSubstr("posix.mkdir"));
  }
  expect_refused(dir, {"ls", "--foreign-objects", "hostile.pth"}, 3, "hostile.pth", "posix.mkdir");
}

TEST(BadInput, AFolderOrNothingInPlaceOfAFile) {
  TempDir dir;
  std::filesystem::create_directory(dir.path() / "folder");
  expect_unreadable(dir, "folder", 3, "neither an index (*.index.json) nor the .metadata");
  expect_unreadable(dir, "absent.pth", 4, "no such file");
}

TEST(BadOutput, FullDisk) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"module.w", tensor(std::vector<float>(100'000))}}));
  RunOptions small;
  small.in_child = [] {
    rlimit limit{100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  expect_refused(dir, {"strip-prefix", "net.pth"}, 4, "net.plain.pth", "", small);
  expect_refused(dir, {"strip-prefix", "net.pth", "--in-place"}, 4, "net.pth", "", small);
  expect_refused(dir, {"convert", "net.pth", "net.safetensors"}, 4, "net.safetensors", "", small);
}

TEST(BadOutput, FullFileSystem) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"module.w", tensor(std::vector<float>(100'000))}}));
  std::filesystem::create_directory(dir.path() / "small");
  RunOptions mounted;
  std::string small = (dir.path() / "small").string();
  mounted.in_child = [small] {
    // A file system of 64 KiB that only this process sees; needs root.
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", small.c_str(), "tmpfs", 0, "size=64k") != 0) {
      ::_exit(99);
    }
  };
  if (run_ckpt(dir.path(), {"--version"}, mounted).code == 99) GTEST_SKIP() << "mounting is not allowed here";
  expect_refused(dir, {"strip-prefix", "net.pth", "-o", "small/out.pth"}, 4, "small/out.pth", "pace", mounted);
}

TEST(BadOutput, ReadOnlyFolder) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.w"});
  std::filesystem::permissions(dir.path(), static_cast<std::filesystem::perms>(0555));
  RunOptions nobody;
  nobody.in_child = [] {
    // The superuser may write everywhere, so become somebody else.
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(99);
  };
  if (run_ckpt(dir.path(), {"--version"}, nobody).code != 0) {
    GTEST_SKIP() << "the program cannot be run as another user here";
  }
  expect_refused(dir, {"strip-prefix", "net.pth"}, 4, "net.plain.pth", "", nobody);
  expect_refused(dir, {"strip-prefix", "net.pth", "--in-place"}, 4, "net.pth", "", nobody);
}

TEST(BadOutput, SameFileAsSourceAndTarget) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.w"});
  std::filesystem::create_symlink("net.pth", dir.path() / "link.pth");
  expect_refused(dir, {"strip-prefix", "net.pth", "-o", "net.pth"}, 2, "net.pth", "use --in-place");
  expect_refused(dir, {"strip-prefix", "net.pth", "-f", "-o", "./link.pth"}, 2, "link.pth", "use --in-place");
  expect_refused(dir, {"convert", "net.pth", "net.pth"}, 2, "net.pth", "use --in-place");
}

TEST(BadOutput, ExistingFileFolderAndMissingFolder) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.w"});
  write_file(dir.path() / "out.pth", "precious");
  std::filesystem::create_directory(dir.path() / "folder.pth");
  expect_refused(dir, {"strip-prefix", "net.pth", "-o", "out.pth"}, 4, "out.pth", "use -f to overwrite");
  expect_refused(dir, {"convert", "net.pth", "out.pth"}, 4, "out.pth", "use -f to overwrite");
  expect_refused(dir, {"convert", "net.pth", "folder.pth"}, 4, "folder.pth", "is a folder");
  expect_refused(dir, {"convert", "net.pth", "no/such/out.pth"}, 4, "no/such/out.pth", "");
  EXPECT_EQ(run_ckpt(dir.path(), {"strip-prefix", "net.pth", "-f", "-o", "out.pth"}).code, 0);
  EXPECT_THAT(names_in(dir.path() / "out.pth"), ElementsAre("w"));
}

TEST(BadOutput, NameWithoutAFormat) {
  TempDir dir;
  write_model(dir, "net.pth", {"w"});
  expect_refused(dir, {"convert", "net.pth", "out.xyz"}, 2, "out.xyz", "--format");
  expect_refused(dir, {"convert", "net.pth", "out.pth", "--format", "nope"}, 2, "'nope'", "torch-zip");
  EXPECT_EQ(run_ckpt(dir.path(), {"convert", "net.pth", "out.xyz", "--format", "torch-zip"}).code, 0);
}

/// What holds more than its tensors, or is of another program, is never written over by a file of another form.
TEST(BadOutput, FormsThatAreOnlyReadStayAsTheyAre) {
  TempDir dir;
  const std::string tensor =
      proto_bytes(1, "\x01") + proto_number(2, 1) + proto_bytes(8, "module.w") + proto_bytes(9, std::string(4, '\0'));
  write_file(dir.path() / "net.onnx",
             proto_number(1, 10) + proto_bytes(7, proto_bytes(2, "g") + proto_bytes(5, tensor)));
  const std::string array =
      "\x93\x91\x01\xa7"
      "float32\xc4\x04"
      "abcd";
  write_file(dir.path() / "net.msgpack",
             "\x81\xa8module.w\xc7" + std::string(1, static_cast<char>(array.size())) + "\x01" + array);
  for (const char* name : {"net.onnx", "net.msgpack"}) {
    expect_refused(dir, {"strip-prefix", "-q", "--in-place", name}, 3, name,
                   "can be read but not edited in place; name an output with -o");
    EXPECT_EQ(run_ckpt(dir.path(), {"strip-prefix", "-f", name, "-o", "out.safetensors"}).code, 0) << name;
    EXPECT_THAT(names_in(dir.path() / "out.safetensors"), ElementsAre("w")) << name;
  }
}

TEST(BadOutput, SymbolicLinkIsFollowedInPlaceWhenAsked) {
  TempDir dir;
  write_model(dir, "real.pth", {"module.w"});
  std::filesystem::create_symlink("real.pth", dir.path() / "link.pth");
  expect_refused(dir, {"strip-prefix", "--in-place", "link.pth"}, 2, "link.pth", "'real.pth'; --follow changes that");
  EXPECT_EQ(run_ckpt(dir.path(), {"strip-prefix", "--in-place", "--follow", "link.pth"}).code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(dir.path() / "link.pth"));
  EXPECT_THAT(names_in(dir.path() / "real.pth"), ElementsAre("w"));
}

TEST(BadOutput, InterruptedSaveLeavesNothing) {
  TempDir dir;
  constexpr std::uint64_t kSize = 1ULL << 30;
  std::string header = R"({"w":{"dtype":"U8","shape":[1073741824],"data_offsets":[0,1073741824]}})";
  write_file(dir.path() / "big.safetensors", safetensors(header, 0));
  std::filesystem::resize_file(dir.path() / "big.safetensors", 8 + header.size() + kSize);  // a hole, not a gigabyte
  RunOptions interrupt;
  interrupt.while_running = [&](int pid) {
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (list_folder(dir.path()).size() < 2 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::kill(pid, SIGINT);
  };
  Outcome outcome = run_ckpt(dir.path(), {"convert", "big.safetensors", "big.pth"}, interrupt);
  EXPECT_EQ(outcome.signal, SIGINT) << "exit " << outcome.code << " " << outcome.err;
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("big.safetensors"));
}
