// One byte of a tensor is not what was written: no command may end with 0 and leave a file that verifies as good.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/files.h"
#include "tests/libckpt/format/pickle_maker.h"
#include "tests/libckpt/format/zip_maker.h"

using testing::HasSubstr;
using testing::Not;
using namespace test;

namespace {

constexpr float kMark = 1234.5F;  // no other value of a file has its bytes

std::string bytes_of(float value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

/// Two tensors, the second of which has one wrong byte.
void write_damaged(const TempDir& dir, const std::string& name) {
  write_checkpoint(dir.path() / name, dict({{"module.a", tensor({1, 2, 3})}, {"module.b", tensor({4, kMark, 6})}}));
  std::string bytes = read_file(dir.path() / name);
  std::size_t at = bytes.find(bytes_of(kMark));
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  write_file(dir.path() / name, bytes);
}

class Damage : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    write_damaged(dir_, input());
    for (const char* good : {"good.pth", "same.pth"}) {
      write_checkpoint(dir_.path() / good,
                       dict({{"module.a", tensor({1, 2, 3})}, {"module.b", tensor({4, kMark, 6})}}));
    }
  }
  std::string input() const { return std::string("in") + GetParam(); }
  TempDir dir_;
};

TEST_P(Damage, CommandsThatOnlyLookNameTheTensor) {
  for (std::vector<std::string> command : std::vector<std::vector<std::string>>{{"stat", input()},
                                                                                {"hash", input()},
                                                                                {"diff", input(), "good.pth"},
                                                                                {"diff", "good.pth", input()},
                                                                                {"align", "good.pth", input()}}) {
    Outcome outcome = run_ckpt(dir_.path(), command);
    EXPECT_EQ(outcome.code, 3) << command[0] << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("ckpt: " + input() + ": ")) << command[0];
    EXPECT_THAT(outcome.err, HasSubstr("module.b")) << command[0];
    EXPECT_THAT(outcome.err, HasSubstr("damaged")) << command[0];
  }
}

TEST_P(Damage, NoCommandWritesAFileThatVerifiesAsGood) {
  for (const char* extension : {".safetensors", ".pth", ".npz", ".ckpt", ".h5"}) {
    std::string out = std::string("out") + extension;
    for (std::vector<std::string> command :
         std::vector<std::vector<std::string>>{{"convert", input()},
                                               {"strip-prefix", input()},
                                               {"cast", input(), "--to", "f64"},
                                               {"publish", input()},
                                               {"avg", input(), "good.pth"},
                                               {"avg", "good.pth", input()},
                                               {"avg", "good.pth", input(), "same.pth"}}) {
      command.insert(command.end(), {"-o", out});
      Outcome outcome = run_ckpt(dir_.path(), command);
      if (outcome.code == 0) {
        EXPECT_NE(run_ckpt(dir_.path(), {"verify", out}).code, 0) << command[0] << " " << input() << " " << out;
        std::filesystem::remove(dir_.path() / out);
        continue;
      }
      EXPECT_EQ(outcome.code, 3) << command[0] << " " << out << " " << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr("b'")) << command[0] << " " << out;  // without its prefix where that goes
      EXPECT_THAT(outcome.err, HasSubstr(input())) << command[0] << " " << out;
      EXPECT_THAT(outcome.err, Not(HasSubstr("out."))) << command[0] << " " << out;
      EXPECT_FALSE(std::filesystem::exists(dir_.path() / out));
    }
  }
}

TEST_P(Damage, SplittingNamesTheInputAndLeavesNoShard) {
  Outcome outcome = run_ckpt(dir_.path(), {"split", "--max-shard-size", "16", input(), "-o", "parts/"});
  EXPECT_EQ(outcome.code, 3) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("ckpt: " + input() + ": "));
  EXPECT_THAT(outcome.err, Not(HasSubstr("parts")));
  std::filesystem::path parts = dir_.path() / "parts";
  EXPECT_TRUE(!std::filesystem::exists(parts) || list_folder(parts).empty());
}

TEST_P(Damage, LenientPassesItOnWithAWarningAndWithoutAGoodChecksum) {
  for (const char* extension : {".pth", ".npz", ".ckpt"}) {
    std::string out = std::string("out") + extension;
    Outcome outcome = run_ckpt(dir_.path(), {"cast", input(), "--to", "f64", "--lenient", "-o", out});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("'module.b' is damaged"));
    Outcome verified = run_ckpt(dir_.path(), {"verify", out});
    EXPECT_NE(verified.code, 0) << input() << " to " << out << verified.out;
  }
}

/// NumPy does not read a size with leading zeros, nor PyTorch an archive without records.
TEST(HostileFile, WhatItsOwnLibraryRefusesIsRefused) {
  TempDir dir;
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (002,), }";
  header += std::string(117 - header.size(), ' ') + "\n";
  write_file(dir.path() / "zeros.npy", std::string("\x93NUMPY\x01\0\x76\0", 10) + header + std::string(8, '\0'));
  expect_refused(dir, {"verify", "zeros.npy"}, 3, "zeros.npy", "leading zeros");
  std::string empty = std::string("PK\x05\x06") + std::string(18, '\0');
  write_file(dir.path() / "empty.pt", empty);
  expect_refused(dir, {"verify", "empty.pt"}, 3, "empty.pt", "empty zip archive");
  write_file(dir.path() / "empty.npz", empty);
  EXPECT_EQ(run_ckpt(dir.path(), {"verify", "empty.npz"}).code, 0);
}

/// torch.load unpacks exactly five; None as the sixth means nothing to old streams, and is one too many here.
TEST(HostileFile, APersistentIdOfSixPartsWasAcceptedInAZipFile) {
  TempDir dir;
  auto file = [](const std::string& view) {
    std::string weight = tensor(storage("FloatStorage", "0", 2, view), 0, {2}, {1});
    return torch_zip(pickle(dict({{text("w"), weight}})), {std::string(8, '\0')}).bytes();
  };
  write_file(dir.path() / "five.pth", file(""));
  EXPECT_EQ(run_ckpt(dir.path(), {"verify", "five.pth"}).code, 0);
  for (const std::string& sixth : {none(), tuple({text("view"), number(0), number(2)})}) {
    write_file(dir.path() / "six.pth", file(sixth));
    for (const char* command : {"ls", "verify", "stat"}) {
      expect_refused(dir, {command, "six.pth"}, 3, "six.pth", "has six parts where zip files have five");
    }
  }
}

/// It was converted into a pickle that nobody could read.
TEST(HostileFile, ANameOfGgufThatIsNotUtf8IsRefused) {
  TempDir dir;
  write_checkpoint(dir.path() / "name.gguf", dict({{"fc.weight", tensor({1, 2})}}));
  std::string bytes = read_file(dir.path() / "name.gguf");
  std::size_t at = bytes.find("fc.weight");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 4] = '\xff';
  write_file(dir.path() / "name.gguf", bytes);
  expect_refused(dir, {"ls", "name.gguf"}, 3, "name.gguf", "a tensor's name is not valid UTF-8: 'fc.w\\xffight'");
  expect_refused(dir, {"convert", "name.gguf", "new.pth"}, 3, "name.gguf", "is not valid UTF-8");
}

INSTANTIATE_TEST_SUITE_P(Formats, Damage, testing::Values(".pth", ".npz", ".ckpt"));

}  // namespace
