// A checkpoint packed in another file or lying in a folder: the printed lines name what can be opened.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/cli/files.h"

using testing::HasSubstr;
using namespace test;

namespace {

RunOptions with_program_in_path() {
  return {.in_child = [] {
    std::filesystem::path folder = std::filesystem::absolute(built_program("")).parent_path();
    ::setenv("PATH", (folder.string() + ":/usr/bin:/bin").c_str(), 1);
  }};
}

bool is_installed(const std::string& program) {
  return std::filesystem::exists("/usr/bin/" + program) || std::filesystem::exists("/bin/" + program);
}

struct Packed {
  std::string pack;  ///< shell line that packs net.pth
  std::string file;
  std::string program;  ///< that unpacks it
};

class PackedFiles : public testing::TestWithParam<Packed> {};

TEST_P(PackedFiles, EndInALineThatUnpacksThem) {
  const Packed& packed = GetParam();
  if (!is_installed(packed.program) || !is_installed("python3")) GTEST_SKIP() << packed.program << " is not installed";
  TempDir dir;
  write_model(dir, "net.pth", {"a", "b"});
  Outcome made = run_program("/bin/sh", dir.path(), {"-c", packed.pack}, with_program_in_path());
  ASSERT_EQ(made.code, 0) << made.err;
  Outcome why = run_ckpt(dir.path(), {"why", "--", packed.file});
  EXPECT_EQ(why.code, 3);
  const std::string heading = "\nfix\n  ";
  std::size_t at = why.out.find(heading);
  ASSERT_NE(at, std::string::npos) << why.out;
  std::size_t start = at + heading.size();
  std::string line = why.out.substr(start, why.out.find('\n', start) - start);
  Outcome pasted = run_program("/bin/sh", dir.path(), {"-c", line}, with_program_in_path());
  EXPECT_EQ(pasted.code, 0) << line << "\n" << pasted.err << pasted.out;
  EXPECT_THAT(pasted.out, HasSubstr("2 tensors")) << line;
}

INSTANTIATE_TEST_SUITE_P(
    All, PackedFiles,
    testing::Values(Packed{"gzip net.pth", "net.pth.gz", "gunzip"},
                    Packed{"gzip net.pth; mv net.pth.gz net.pth", "net.pth", "gunzip"},
                    Packed{"gzip net.pth; mv net.pth.gz ./-net.pth.gz", "-net.pth.gz", "gunzip"},
                    Packed{"bzip2 net.pth", "net.pth.bz2", "bunzip2"}, Packed{"xz net.pth", "net.pth.xz", "unxz"},
                    Packed{"zstd -q --rm net.pth", "net.pth.zst", "unzstd"},
                    Packed{"tar cf net.tar net.pth; rm net.pth", "net.tar", "tar"},
                    Packed{"mkdir w; mv net.pth 'w/my net.pth'; tar cf ./-net.tar w; rm -r w", "-net.tar", "tar"},
                    Packed{"python3 -m zipfile -c net.zip net.pth; rm net.pth", "net.zip", "unzip"},
                    Packed{"mv net.pth in.pth; python3 -m zipfile -c net.pth in.pth; rm in.pth", "net.pth", "unzip"}));

/// Commands open what is packed as a whole as if it was not, and never write over it.
struct Packing {
  std::string program;
  std::string extension;
};

class PackedCheckpoint : public testing::TestWithParam<Packing> {
 protected:
  void SetUp() override {
    if (!is_installed(GetParam().program)) GTEST_SKIP() << GetParam().program << " is not installed";
  }
  void shell(const std::string& line) const {
    Outcome made = run_program("/bin/sh", dir_.path(), {"-c", line});
    ASSERT_EQ(made.code, 0) << made.err;
  }
  std::string packed(const std::string& name) const {
    shell(GetParam().program + " -q -f -k " + name);
    return name + GetParam().extension;
  }
  Outcome run(const std::vector<std::string>& words) const { return run_ckpt(dir_.path(), words); }
  TempDir dir_;
};

TEST_P(PackedCheckpoint, OfEveryFormIsOpened) {
  write_model(dir_, "net.pth", {"module.a", "module.b"});
  for (const char* name : {"net.pth", "net.safetensors", "net.npz", "net.gguf", "net.ckpt", "net.h5"}) {
    run({"convert", "net.pth", name});
    const std::string file = packed(name);
    EXPECT_EQ(run({"ls", file}).out, run({"ls", name}).out) << file;
    EXPECT_EQ(run({"diff", file, "net.pth"}).code, 0) << file;
    EXPECT_EQ(run({"verify", file}).code, 0) << file;
    EXPECT_EQ(run({"scan", file}).code, 0) << file;
    EXPECT_EQ(run({"strip-prefix", "-f", file, "-o", "out.pth"}).code, 0) << file;
    EXPECT_THAT(run({"ls", "out.pth"}).out, HasSubstr("2 tensors")) << file;
  }
  EXPECT_THAT(run({"ls", "net.pth" + GetParam().extension}).err,
              HasSubstr(GetParam().program + " file, which was unpacked"));
}

TEST_P(PackedCheckpoint, IsNeverWritten) {
  write_model(dir_, "net.pth", {"module.a", "module.b"});
  const std::string file = packed("net.pth");
  expect_refused(dir_, {"strip-prefix", "-q", "--in-place", file}, 3, file, "are only read");
  expect_refused(dir_, {"strip-prefix", "-q", "-n", "--in-place", file}, 3, file, "are only read");
  expect_refused(dir_, {"convert", "-q", "--format", "torch-zip", "net.pth", "other.pth" + GetParam().extension}, 3,
                 "other.pth", "are only read");
  shell("mv " + file + " plain.pth");
  expect_refused(dir_, {"strip-prefix", "-q", "--in-place", "plain.pth"}, 3, "plain.pth", "and only read");
  shell("mkdir hf; mv plain.pth hf/pytorch_model.bin");
  expect_refused(dir_, {"strip-prefix", "-q", "--in-place", "hf"}, 3, "pytorch_model.bin", "and only read");
  run({"convert", "net.pth", "net.safetensors"});
  expect_refused(dir_, {"publish", "-q", packed("net.safetensors")}, 3, "net", "are only read");
}

TEST_P(PackedCheckpoint, ThatIsDamagedIsRefusedAtEachByte) {
  write_model(dir_, "net.pth", {"a", "b"});
  const std::string file = packed("net.pth");
  const std::string whole = read_file(dir_.path() / file);
  for (std::size_t size = whole.size() - 1; size > 16; size -= whole.size() / 12) {
    write_file(dir_.path() / "cut.pth", whole.substr(0, size));
    Outcome outcome = run({"ls", "cut.pth"});
    EXPECT_EQ(outcome.code, 3) << size << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("the packed data are damaged or cut off")) << size;
  }
  std::string flipped = whole;
  flipped[whole.size() - 3] ^= 1;  // of the checksum
  write_file(dir_.path() / "flipped.pth", flipped);
  EXPECT_EQ(run({"ls", "flipped.pth"}).code, 3);
  write_file(dir_.path() / "more.pth", whole + "more");
  EXPECT_EQ(run({"ls", "more.pth"}).code, 3);
}

TEST_P(PackedCheckpoint, AroundADamagedFileSaysWhatIsSaidOfThatFile) {
  write_model(dir_, "net.pth", {"a", "b", "c", "d", "e", "f", "g", "h"});
  for (const std::string name : {"net.pth", "net.safetensors", "net.npz", "net.gguf", "net.ckpt", "net.h5"}) {
    run({"convert", "-q", "net.pth", name});
    const std::string whole = read_file(dir_.path() / name), cut = "cut-" + name;
    write_file(dir_.path() / cut, whole.substr(0, whole.size() * 2 / 3));
    const Outcome plain = run({"ls", cut});
    ASSERT_EQ(plain.code, 3) << name << plain.err;
    const Outcome outcome = run({"ls", packed(cut)});
    EXPECT_EQ(outcome.code, 3) << name;
    const std::string heading = "ckpt: " + cut;
    ASSERT_TRUE(plain.err.starts_with(heading + ": ")) << plain.err;
    EXPECT_EQ(outcome.err, heading + GetParam().extension + plain.err.substr(heading.size()));
  }
}

TEST_P(PackedCheckpoint, HasItsPlainValuesChangedInAnotherFileAlone) {
  write_checkpoint(dir_.path() / "run.pth", dict({{"epoch", ckpt::Value::integer(3)}, {"model", state_dict({"a"})}}));
  const std::string file = packed("run.pth");
  expect_refused(dir_, {"set", "-q", file, "epoch=4", "--in-place"}, 3, file, "are only read");
  ASSERT_EQ(run({"set", "-q", file, "epoch=4", "-o", "out.pth"}).code, 0);
  EXPECT_THAT(run({"ls", "--values", "out.pth"}).out, HasSubstr("4"));
}

TEST_P(PackedCheckpoint, SeveralPackedFilesInOneAreOneFile) {
  write_model(dir_, "net.pth", {"a", "b"});
  shell("head -c 300 net.pth | " + GetParam().program + " -q > two.pth; tail -c +301 net.pth | " + GetParam().program +
        " -q >> two.pth");
  EXPECT_EQ(run({"diff", "two.pth", "net.pth"}).code, 0);
}

TEST_P(PackedCheckpoint, ThatUnpacksToAThousandTimesItsSizeIsRefused) {
  shell("head -c 270M /dev/zero | " + GetParam().program + " -q > zeros" + GetParam().extension);
  Outcome outcome = run({"ls", "zeros" + GetParam().extension});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("it unpacks to more than 256 MiB"));
  EXPECT_THAT(outcome.err, HasSubstr("--max-expansion"));
}

INSTANTIATE_TEST_SUITE_P(All, PackedCheckpoint, testing::Values(Packing{"gzip", ".gz"}, Packing{"zstd", ".zst"}));

TEST(ModelFolder, CommandAndPythonNameTheFileInIt) {
  TempDir dir;
  std::filesystem::create_directory(dir.path() / "hf");
  write_model(dir, "hf/model.safetensors", {"module.a", "module.b"});
  write_model(dir, "want.pth", {"a", "b"});
  Outcome why = run_ckpt(dir.path(), {"why", "hf", "--for", "want.pth"});
  EXPECT_THAT(why.out,
              HasSubstr("ckpt strip-prefix --prefix module. hf/model.safetensors -o hf/model.fixed.safetensors"));
  EXPECT_THAT(why.out, HasSubstr("load_file('hf/model.safetensors')"));
  EXPECT_EQ(run_ckpt(dir.path(), {"ls", "hf"}).code, 0);
  EXPECT_EQ(run_ckpt(dir.path(), {"convert", "hf", "hf.pth"}).code, 0);
}

TEST(ModelFolder, AnAdapterSaysWhichModelItBelongsTo) {
  TempDir dir;
  std::filesystem::create_directory(dir.path() / "lora");
  write_model(dir, "lora/adapter_model.safetensors", {"base_model.model.a.lora_A.weight"});
  write_file(dir.path() / "lora/adapter_config.json", R"({"base_model_name_or_path": "some/base"})");
  EXPECT_THAT(run_ckpt(dir.path(), {"why", "lora"}).out, HasSubstr("this is a PEFT adapter of 'some/base'"));
}

TEST(OutputName, HasAnExtensionThatTheCommandWrites) {
  for (const char* name :
       {"net.pth.tar", "net.tar", "net.pkl", "net.t7", "net", "net.pt.tar", "net.pt2", "net.msgpack"}) {
    TempDir dir;
    write_checkpoint(dir.path() / "x.pth",
                     dict({{"epoch", ckpt::Value::integer(3)}, {"model", state_dict({"a", "b"})}}));
    write_model(dir, "want.pth", {"a", "b"});
    std::filesystem::rename(dir.path() / "x.pth", dir.path() / name);
    Outcome why = run_ckpt(dir.path(), {"why", "-q", name, "--for", "want.pth"});
    Outcome pasted = run_program("/bin/sh", dir.path(), {"-c", why.out}, with_program_in_path());
    EXPECT_EQ(pasted.code, 0) << why.out << pasted.err;
    std::string fixed = std::string(name) == "net.pth.tar" ? "net.fixed.pth.tar" : "net.fixed.pth";
    EXPECT_EQ(run_ckpt(dir.path(), {"why", fixed, "--for", "want.pth"}).code, 0) << why.out;
  }
}

}  // namespace
