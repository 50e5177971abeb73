// What HDF5's own tools see in a native file. Skipped where they are not installed.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "tests/libckpt/format/native_support.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using core::DType;
using ::testing::HasSubstr;

std::string output_of(const std::string& command) {
  std::string out;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 4096> buffer{};
  while (std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), n);
  ::pclose(pipe);
  return out;
}

core::ByteVector bytes_of(std::string_view text) {
  core::Bytes bytes = core::as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

class NativeTools : public ::testing::Test {
 protected:
  void SetUp() override {
    if (output_of("h5dump --version").find("h5dump: Version") == std::string::npos) {
      GTEST_SKIP() << "h5dump is not installed (package hdf5-tools)";
    }
  }
  std::string dump(const test::Items& items, const std::string& options) const {
    save(test::checkpoint(items), path());
    return output_of("h5dump " + options + " " + path().string());
  }
  std::filesystem::path path() const { return dir_.path() / "a.ckpt"; }
  test::TempDir dir_;
};

TEST_F(NativeTools, ListGroupsByDottedName) {
  save(test::checkpoint(
           {{"module.fc.weight", test::tensor(DType::f32, {2, 3})}, {"module.n", test::tensor(DType::i64, {})}}),
       path());
  EXPECT_EQ(output_of("h5ls -r " + path().string()),
            "/                        Group\n"
            "/data                    Group\n"
            "/data/module             Group\n"
            "/data/module/fc          Group\n"
            "/data/module/fc/weight   Dataset {2, 3}\n"
            "/data/module/n           Dataset {SCALAR}\n");
}

TEST_F(NativeTools, HalfTypesPrintTheirValues) {
  auto bf16 = bytes_of(std::string_view("\xc0\x3f\x00\xc0", 4));  // 1.5, -2
  auto f16 = bytes_of(std::string_view("\x00\x3e\x00\xc0", 4));   // the same
  std::string out = dump({{"b", Value::tensor(test::entry(DType::bf16, {2}, bf16))},
                          {"h", Value::tensor(test::entry(DType::f16, {2}, f16))}},
                         "-d /data/b -d /data/h");
  std::size_t first = out.find("(0): 1.5, -2");
  ASSERT_NE(first, std::string::npos) << out;
  EXPECT_NE(out.find("(0): 1.5, -2", first + 1), std::string::npos) << out;
  EXPECT_THAT(out, HasSubstr("(0): \"bfloat16\""));
}

TEST_F(NativeTools, BooleansAreAnEnumAndComplexNumbersAPair) {
  auto flags = bytes_of(std::string_view("\x00\x01", 2));
  auto wave = bytes_of(std::string_view("\x00\x00\xc0\x3f\x00\x00\x00\xc0", 8));
  std::string out = dump({{"f", Value::tensor(test::entry(DType::boolean, {2}, flags))},
                          {"w", Value::tensor(test::entry(DType::c64, {1}, wave))}},
                         "-d /data/f -d /data/w");
  EXPECT_THAT(out, HasSubstr("(0): FALSE, TRUE"));
  EXPECT_THAT(out, HasSubstr("H5T_IEEE_F32LE \"r\";"));
  EXPECT_THAT(out, HasSubstr("1.5,"));
}

TEST_F(NativeTools, TypesThatHdf5LacksAreBytesWithAName) {
  auto bits = bytes_of(std::string_view("\x7e\x01", 2));
  std::string out = dump({{"q", Value::tensor(test::entry(DType::f8_e4m3fn, {2}, bits))}}, "-d /data/q");
  EXPECT_THAT(out, HasSubstr("H5T_STD_U8LE"));
  EXPECT_THAT(out, HasSubstr("(0): 126, 1"));
  EXPECT_THAT(out, HasSubstr("(0): \"float8_e4m3fn\""));
}

TEST_F(NativeTools, EscapedNamesAreSaidInAnAttribute) {
  std::string out = dump({{"a/b", test::tensor(DType::f32, {1})}}, "-A");
  EXPECT_THAT(out, HasSubstr("DATASET \"a%2Fb\""));
  EXPECT_THAT(out, HasSubstr("(0): \"a/b\""));
}

TEST_F(NativeTools, TiedTensorsAreAllThere) {
  Value weight = Value::tensor(test::entry(DType::u8, {3}, bytes_of("\x01\x02\x03")));
  std::string out = dump({{"a", weight}, {"b", weight}}, "-d /data/a -d /data/b");
  std::size_t first = out.find("(0): 1, 2, 3");
  ASSERT_NE(first, std::string::npos) << out;
  EXPECT_NE(out.find("(0): 1, 2, 3", first + 1), std::string::npos) << out;
}

TEST_F(NativeTools, CompressedTensorsNameTheirFilters) {
  Checkpoint made =
      test::checkpoint({{"w", Value::tensor(test::entry(DType::f32, {50, 100}, core::ByteVector(20'000)))}});
  save(made, path(), {.codec = Codec::zstd});
  std::string out = output_of("h5dump -pH " + path().string());
  EXPECT_THAT(out, HasSubstr("FILTER_ID 32015"));
  EXPECT_THAT(out, HasSubstr("CHUNKED ( 50, 100 )"));
}

TEST_F(NativeTools, TheCodecFastNamesItsFilterAndIsRefusedNotMisread) {
  Checkpoint made =
      test::checkpoint({{"w", Value::tensor(test::entry(DType::f32, {50, 100}, core::ByteVector(20'000)))}});
  save(made, path(), {.codec = Codec::fast});
  std::string out = output_of("h5dump -pH " + path().string());
  EXPECT_THAT(out, HasSubstr("FILTER_ID 444"));
  EXPECT_THAT(out, HasSubstr("PARAMS { 11 }"));
  EXPECT_THAT(out, HasSubstr("( 50, 100 )"));
  EXPECT_THAT(output_of("h5dump -d /data/w " + path().string() + " 2>&1; true"), HasSubstr("unable to print data"));
}

}  // namespace
}  // namespace ckpt
