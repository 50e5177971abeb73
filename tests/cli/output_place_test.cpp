// Where commands write: standard output, folders that are not there yet, files with a link, and what they say of it.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

#include "tests/cli/files.h"

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace test;

namespace {

namespace fs = std::filesystem;

/// The smallest .npy file: three numbers.
void write_array(const fs::path& path) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  header.resize(117, ' ');
  write_file(path, std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + std::string(12, '\0'));
}

}  // namespace

TEST(StandardOutput, TakesACheckpointOfEveryFormatThatIsOneFile) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a", "module.b"});
  for (const char* format : {"safetensors", "torch-zip", "npz", "gguf", "native", "hdf5"}) {
    Outcome done = run_ckpt(dir.path(), {"convert", "net.pth", "-", "--format", format},
                            {.stdout_path = (dir.path() / ("sent." + std::string(format))).string()});
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_THAT(done.err, HasSubstr("standard output: 2 tensors from torch-zip")) << format;
    EXPECT_EQ(ckpt::open(dir.path() / ("sent." + std::string(format))).format, format);
  }
  EXPECT_THAT(list_folder(dir.path()), testing::SizeIs(7));
}

TEST(StandardOutput, OfAnEditKeepsTheFormatAndMakesNoFileCalledMinus) {
  TempDir dir;
  write_model(dir, "net.safetensors", {"module.a"});
  std::string sent = (dir.path() / "sent").string();
  EXPECT_EQ(run_ckpt(dir.path(), {"strip-prefix", "net.safetensors", "-o", "-"}, {.stdout_path = sent}).code, 0);
  EXPECT_THAT(names_in(sent), ElementsAre("a"));
  EXPECT_EQ(ckpt::open(sent).format, "safetensors");
  EXPECT_EQ(run_ckpt(dir.path(), {"avg", "sent", "sent", "-o", "-"}, {.stdout_path = sent + "2"}).code, 0);
  EXPECT_THAT(names_in(sent + "2"), ElementsAre("a"));
  EXPECT_FALSE(fs::exists(dir.path() / "-"));
}

TEST(StandardOutput, IsRefusedWhereItCannotBeWhatIsMeant) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a"});
  write_model(dir, "net.ckpt", {"module.a"});
  expect_refused(dir, {"convert", "net.pth", "-"}, 2, "standard output", "--format safetensors");
  expect_refused(dir, {"strip-prefix", "net.pth", "-o", "-", "--max-shard-size", "1M"}, 2, "standard output",
                 "one file");
  Outcome json = run_ckpt(dir.path(), {"strip-prefix", "net.pth", "-o", "-", "--json"});
  EXPECT_EQ(json.code, 2);
  EXPECT_THAT(json.err, HasSubstr("--json and '-o -' contradict each other"));
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"publish", "net.pth", "-o", "-"},
                                                    {"split", "net.pth", "--shards", "2", "-o", "-"},
                                                    {"join", "net.pth", "-o", "-"},
                                                    {"reshard", "net.pth", "--ranks", "2", "-o", "-"},
                                                    {"rescue", "net.pth", "-o", "-"},
                                                    {"reindex", "net.ckpt", "-o", "-"},
                                                    {"man", "--write", "-"}}) {
    expect_refused(dir, arguments, 2, "'ckpt " + arguments[0] + "'", "cannot write to standard output");
  }
}

TEST(StandardOutput, ThatIsATerminalGetsNoCheckpoint) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a"});
  int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) GTEST_SKIP() << "no pseudo-terminals here";
  std::string other_end = ::ptsname(terminal);
  RunOptions options;
  options.in_child = [&] { ::dup2(::open(other_end.c_str(), O_RDWR | O_NOCTTY), 1); };
  expect_refused(dir, {"strip-prefix", "net.pth", "-o", "-"}, 2, "standard output", "is a terminal", options);
  ::close(terminal);
}

TEST(OutputFolder, ThatEndsInASlashIsMade) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a"});
  EXPECT_EQ(run_ckpt(dir.path(), {"strip-prefix", "net.pth", "-o", "plain/new/"}).code, 0);
  EXPECT_THAT(names_in(dir.path() / "plain/new/net.pth"), ElementsAre("a"));
  EXPECT_EQ(run_ckpt(dir.path(), {"convert", "net.pth", "other/", "--format", "safetensors"}).code, 0);
  EXPECT_THAT(names_in(dir.path() / "other/net.safetensors"), ElementsAre("module.a"));
  EXPECT_EQ(run_ckpt(dir.path(), {"publish", "net.pth", "-o", "out/"}).code, 0);
  EXPECT_EQ(list_folder(dir.path() / "out").size(), 1U);
}

TEST(OutputFolder, IsNotLeftBehindWhenNothingCameIntoIt) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a"});
  expect_refused(dir, {"select", "net.pth", "--include", "no.such", "-o", "new/"}, 2, "no.such", "");
  expect_refused(dir, {"convert", "net.pth", "new/"}, 4, "new/", "--format safetensors");
  EXPECT_EQ(run_ckpt(dir.path(), {"strip-prefix", "net.pth", "-o", "new/", "--dry-run"}).code, 0);
  EXPECT_EQ(run_ckpt(dir.path(), {"cast", "--to", "f32", "net.pth", "-o", "new/"}).code, 1);
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("net.pth"));
}

TEST(Written, NamesTheFormatSinceOthersCallTheirPyTorchFilesCkpt) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a"});
  auto said = [&](const std::vector<std::string>& arguments) { return run_ckpt(dir.path(), arguments).out; };
  EXPECT_THAT(said({"convert", "net.pth", "net.ckpt"}), HasSubstr("written as native checkpoint (HDF5)"));
  EXPECT_THAT(said({"convert", "net.pth", "net.safetensors"}), HasSubstr("written as safetensors file"));
  EXPECT_THAT(said({"strip-prefix", "net.pth"}), HasSubstr("written as PyTorch zip checkpoint"));
  EXPECT_THAT(said({"avg", "net.pth", "net.pth", "-o", "mean.npz"}), HasSubstr("written as NumPy archive"));
  EXPECT_THAT(said({"publish", "net.pth"}), HasSubstr("written as PyTorch zip checkpoint"));
}

TEST(Cast, ThatChangesNothingWritesNothingAndExitsOne) {
  TempDir dir;
  write_model(dir, "net.pth", {"a", "b"});
  Outcome done = run_ckpt(dir.path(), {"cast", "--to", "f32", "net.pth"});
  EXPECT_EQ(done.code, 1);
  EXPECT_EQ(done.out, "net.f32.pth: nothing to cast: 0 of 2 tensors would change; nothing written\n");
  EXPECT_EQ(run_ckpt(dir.path(), {"cast", "--to", "f32", "net.pth", "-o", "-"}).out, "");
  EXPECT_EQ(run_ckpt(dir.path(), {"cast", "--to", "f32", "--in-place", "net.pth"}).code, 1);
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("net.pth"));
}

TEST(Cast, AndPublishTreatNormalizationLayersAlike) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.safetensors", dict({{"fc.weight", tensor({1, 2})}, {"norm.weight", tensor({1})}}));
  auto norm = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--to", "bf16", "net.safetensors", "-o", "out.safetensors", "-f"});
    EXPECT_EQ(run_ckpt(dir.path(), arguments).code, 0);
    ckpt::Checkpoint out = ckpt::open(dir.path() / "out.safetensors");
    return ckpt::value_at(out.root, "norm.weight").as_entry().dtype;
  };
  EXPECT_EQ(norm({"cast"}), core::DType::bf16);
  EXPECT_EQ(norm({"publish"}), core::DType::bf16);
  EXPECT_EQ(norm({"cast", "--keep-norms"}), core::DType::f32);
  EXPECT_EQ(norm({"publish", "--keep-norms"}), core::DType::f32);
}

TEST(InPlace, AsksBeforeItChangesAFileWithASecondNameOrWithoutWritePermission) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a"});
  fs::create_hard_link(dir.path() / "net.pth", dir.path() / "same.pth");
  expect_refused(dir, {"strip-prefix", "--in-place", "net.pth"}, 2, "net.pth", "one of 2 hard links to one file; -f");
  fs::remove(dir.path() / "same.pth");
  ::chmod((dir.path() / "net.pth").c_str(), 0444);
  expect_refused(dir, {"strip-prefix", "--in-place", "net.pth"}, 2, "net.pth", "is read-only; -f");
  EXPECT_EQ(run_ckpt(dir.path(), {"strip-prefix", "--in-place", "-f", "net.pth"}).code, 0);
  EXPECT_THAT(names_in(dir.path() / "net.pth"), ElementsAre("a"));
}

TEST(InPlace, OfRescueAndReindexAsksToo) {
  TempDir dir;
  write_model(dir, "net.ckpt", {"a"});
  fs::create_symlink("net.ckpt", dir.path() / "link.ckpt");
  expect_refused(dir, {"rescue", "--in-place", "link.ckpt"}, 2, "link.ckpt", "--follow");
  expect_refused(dir, {"reindex", "link.ckpt"}, 2, "link.ckpt", "--follow");
  EXPECT_EQ(run_ckpt(dir.path(), {"reindex", "--follow", "link.ckpt"}).code, 0);
}

TEST(Convert, NamesALoneTensorAfterItsFile) {
  TempDir dir;
  write_array(dir.path() / "embedding.npy");
  for (const char* name : {"out.safetensors", "out.ckpt", "out.npz", "out.gguf", "out.h5"}) {
    Outcome done = run_ckpt(dir.path(), {"convert", "embedding.npy", name});
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_THAT(names_in(dir.path() / name), ElementsAre("embedding")) << name;
  }
  EXPECT_EQ(run_ckpt(dir.path(), {"cast", "--to", "f16", "embedding.npy", "-o", "half.safetensors"}).code, 0);
  EXPECT_THAT(names_in(dir.path() / "half.safetensors"), ElementsAre("embedding"));
  EXPECT_EQ(run_ckpt(dir.path(), {"convert", "embedding.npy", "out.pth"}).code, 0);
  EXPECT_THAT(names_in(dir.path() / "out.pth"), ElementsAre("")) << "torch.load gives the tensor itself";
}
