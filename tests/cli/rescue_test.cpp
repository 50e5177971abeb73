// ckpt rescue and --parity as a user meets them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/cli/program.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/support/temp_dir.h"

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using namespace test;

namespace {

std::vector<std::string> names_in(const std::filesystem::path& path) {
  std::vector<std::string> names;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(ckpt::open(path).root)) names.push_back(named.name);
  return names;
}

class CliRescue : public testing::Test {
 protected:
  Outcome run(const std::vector<std::string>& arguments) const { return run_ckpt(dir_.path(), arguments); }
  std::filesystem::path path(const std::string& name) const { return dir_.path() / name; }

  /// a.pth with two tensors, and b.ckpt with parity data of it.
  void SetUp() override {
    ckpt::save(test::checkpoint({{"fc.weight", test::tensor(core::DType::f32, {3000})},
                                 {"fc.bias", test::tensor(core::DType::f32, {3000}, 2)}}),
               path("a.pth"), {.durable = false});
    Outcome done = run({"convert", "--parity", "10%", "a.pth", "b.ckpt"});
    ASSERT_EQ(done.code, 0) << done.err;
    content_ = read_file(path("b.ckpt"));
  }
  void damage(const std::string& name, std::size_t at, std::size_t length) const {
    std::string content = read_file(path(name));
    for (std::size_t i = at; i < at + length; ++i) content[i] = static_cast<char>(content[i] ^ 0x55);
    write_file(path(name), content);
  }

  TempDir dir_;
  std::string content_;
};

}  // namespace

TEST_F(CliRescue, RestoresAFileByteForByte) {
  damage("b.ckpt", 3, 1);
  Outcome refused = run({"ls", "b.ckpt"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("b.ckpt: the first 8 bytes are damaged; it is a native checkpoint"));
  EXPECT_EQ(run({"verify", "b.ckpt"}).code, 3);
  EXPECT_EQ(run({"scan", "b.ckpt"}).code, 3);
  damage("b.ckpt", 9000, 100);
  Outcome done = run({"rescue", "b.ckpt", "-o", "c.ckpt"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out,
              AllOf(HasSubstr("  restored  header (1 block)\n"), HasSubstr("  restored  fc.weight (1 block)\n"),
                    EndsWith("c.ckpt: restored byte for byte, 2 tensors\n")));
  EXPECT_EQ(read_file(path("c.ckpt")), content_);
  EXPECT_EQ(run({"rescue", "b.ckpt", "-o", "c.ckpt"}).code, 4);
  EXPECT_EQ(run({"rescue", "--in-place", "-o", "d.ckpt", "b.ckpt"}).code, 2);
  EXPECT_EQ(run({"rescue", "b.ckpt", "-o", "b.ckpt", "-f"}).code, 2);
  EXPECT_EQ(run({"rescue", "--in-place", "b.ckpt"}).code, 0);
  EXPECT_EQ(read_file(path("b.ckpt")), content_);
  EXPECT_EQ(run({"rescue", "--in-place", "b.ckpt"}).out, "b.ckpt: nothing is damaged, 2 tensors, nothing written\n");
}

TEST_F(CliRescue, SaysWhatIsLost) {
  damage("b.ckpt", 9000, 8000);
  Outcome done = run({"rescue", "--dry-run", "b.ckpt"});
  EXPECT_EQ(done.code, 1);
  EXPECT_THAT(done.out, AllOf(HasSubstr("  lost      fc.weight: the tensor's bytes are damaged"),
                              EndsWith("b.rescued.ckpt: 1 tensor kept, 1 lost, nothing written (dry run)\n")));
  EXPECT_FALSE(std::filesystem::exists(path("b.rescued.ckpt")));
  done = run({"rescue", "--json", "b.ckpt"});
  EXPECT_EQ(done.code, 1);
  EXPECT_THAT(done.out, AllOf(HasSubstr("\"whole\": false"), HasSubstr("\"subject\": \"fc.weight\"")));
  EXPECT_EQ(names_in(path("b.rescued.ckpt")), std::vector<std::string>{"fc.bias"});
  EXPECT_EQ(run({"rescue", "--in-place", "b.ckpt"}).code, 3);
}

TEST_F(CliRescue, KeepsWhatIsWholeOfACutPyTorchFile) {
  std::string content = read_file(path("a.pth"));
  write_file(path("cut.pth"), content.substr(0, content.size() - 9000));
  Outcome done = run({"rescue", "cut.pth", "-o", "saved.safetensors"});
  EXPECT_EQ(done.code, 1);
  EXPECT_THAT(done.out, HasSubstr("  lost      fc.bias: the record 'data/1' is"));
  EXPECT_EQ(names_in(path("saved.safetensors")), std::vector<std::string>{"fc.weight"});
  write_file(path("no.pth"), "nothing");
  EXPECT_EQ(run({"rescue", "no.pth", "-o", "x.pth"}).code, 3);
}

TEST_F(CliRescue, WhyNamesTheCommandThatKeepsWhatIsWhole) {
  std::string content = read_file(path("a.pth"));
  write_file(path("cut.pth"), content.substr(0, content.size() - 9000));
  damage("b.ckpt", 9000, 8000);
  for (const auto& [file, rescued] : {std::pair("cut.pth", "cut.rescued.pth"), {"b.ckpt", "b.rescued.ckpt"}}) {
    const std::vector<std::string> line{"rescue", file, "-o", rescued};
    EXPECT_THAT(run({"why", file}).out,
                EndsWith("to keep the tensor that is whole\n  ckpt rescue " + line[1] + " -o " + line[3] + "\n"));
    EXPECT_THAT(run({"why", "--json", file}).out,
                HasSubstr("\"rescue\": \"ckpt rescue " + line[1] + " -o " + line[3] + "\""));
    EXPECT_EQ(run(line).code, 1) << file;
    EXPECT_EQ(names_in(path(rescued)).size(), 1u) << file;
  }
  EXPECT_THAT(run({"why", "cut.pth"}).out, HasSubstr(" -o cut.rescued2.pth\n"));
  write_file(path("start.pth"), content.substr(0, 200));  // cut before the first tensor ends
  EXPECT_THAT(run({"why", "start.pth"}).out, Not(HasSubstr("ckpt rescue")));
  EXPECT_THAT(run({"why", "a.pth"}).out, Not(HasSubstr("rescue")));
}

TEST_F(CliRescue, WhyRestoresByParityData) {
  damage("b.ckpt", 9000, 100);
  EXPECT_THAT(run({"why", "b.ckpt"}).out,
              EndsWith("to restore it by its parity data\n  ckpt rescue b.ckpt -o b.rescued.ckpt\n"));
}

TEST_F(CliRescue, ParityIsCarriedOverAndCanBeLeftOut) {
  Outcome done = run({"add-prefix", "b.ckpt", "-o", "c.ckpt"});
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.err, HasSubstr("warning: the parity data of the input, for 10 % of the file, was rebuilt"));
  damage("c.ckpt", 9000, 100);
  EXPECT_EQ(run({"rescue", "--in-place", "c.ckpt"}).code, 0);
  EXPECT_EQ(run({"verify", "c.ckpt"}).code, 0);
  EXPECT_EQ(run({"add-prefix", "--parity", "0", "b.ckpt", "-o", "d.ckpt"}).err, "");
  EXPECT_LT(std::filesystem::file_size(path("d.ckpt")), std::filesystem::file_size(path("c.ckpt")));
  EXPECT_EQ(run({"convert", "--parity", "5", "a.pth", "e.ckpt"}).code, 2);
  EXPECT_EQ(run({"convert", "--parity", "5%", "a.pth", "e.safetensors"}).code, 2);
}

TEST_F(CliRescue, PayloadThatIsNotThereIsRefusedAlsoWithTheHelper) {
  test::edit_index(path("b.ckpt"), [](core::ByteVector& index) {
    // The window of the second tensor: payload 1, first byte 0, behind its location.
    std::string text(core::as_text(index));
    std::size_t at = text.rfind(std::string("cpu\x01", 4));
    ASSERT_NE(at, std::string::npos);
    index[at + 3] = std::byte{77};
  });
  Outcome listed = run({"ls", "b.ckpt"});
  Outcome verified = run({"verify", "b.ckpt"});
  EXPECT_EQ(listed.code, 3);
  EXPECT_EQ(verified.code, 3);
  EXPECT_EQ(verified.err, listed.err);
  EXPECT_THAT(verified.err, HasSubstr("a tensor names a payload that is not there"));
}

TEST_F(CliRescue, ToolsOfHdf5OpenAFileWithParityData) {
  if (std::system("command -v h5dump >/dev/null 2>&1") != 0) GTEST_SKIP() << "no HDF5 tools here";
  std::string file = path("b.ckpt").string();
  EXPECT_EQ(std::system(("h5dump -H '" + file + "' >/dev/null").c_str()), 0);
  EXPECT_EQ(std::system(("h5ls -r '" + file + "' >/dev/null").c_str()), 0);
}
