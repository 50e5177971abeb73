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
  for (const char* name : {"net.pth.tar", "net.tar", "net.pkl", "net.t7", "net", "net.pt.tar"}) {
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
