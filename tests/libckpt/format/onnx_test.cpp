#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/ckpt.h"
#include "libckpt/scan.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/one_file.h"
#include "tests/libckpt/format/proto_maker.h"

namespace {

using core::DType;
using core::Error;
using core::ErrorCode;
using test::proto_bytes;
using test::proto_number;
using test::varint;
using testing::HasSubstr;

constexpr std::uint64_t kFloat = 1;
constexpr std::uint64_t kInt32 = 6;
constexpr std::uint64_t kBool = 9;

std::string head(const std::string& name, std::uint64_t type, std::initializer_list<std::uint64_t> dims) {
  std::string packed;
  for (std::uint64_t dim : dims) packed += varint(dim);
  return proto_bytes(1, packed) + proto_number(2, type) + proto_bytes(8, name);
}
std::string raw(const std::string& bytes) {
  return proto_bytes(9, bytes);
}
std::string place(const std::string& key, const std::string& text) {
  return proto_bytes(13, proto_bytes(1, key) + proto_bytes(2, text));
}
std::string model(const std::string& graph) {
  return proto_number(1, 10) + proto_bytes(2, "by hand") + proto_bytes(7, proto_bytes(2, "g") + graph);
}
std::string with(const std::string& tensor) {
  return model(proto_bytes(5, tensor));
}

struct Onnx : test::OneFile {
  Onnx() : OneFile("a.onnx") {}
};

TEST_F(Onnx, RawValuesLieWhereTheFileHasThem) {
  ckpt::Checkpoint read = open(with(head("w", kFloat, {2}) + raw("abcdefgh")));
  EXPECT_EQ(read.format, "onnx");
  EXPECT_EQ(values(read, "w"), "abcdefgh");
  EXPECT_TRUE(read.root.find("w")->as_entry().bytes->file_range()) << "no byte is copied to memory";
}

TEST_F(Onnx, NumbersMayComeOneByOneOrInRuns) {
  std::string numbers = proto_number(5, 1) + proto_bytes(5, varint(2) + varint(static_cast<std::uint64_t>(-3)));
  std::string read = values(open(with(head("n", kInt32, {3}) + numbers)), "n");
  EXPECT_EQ(read, std::string("\x01\0\0\0\x02\0\0\0\xfd\xff\xff\xff", 12));
}

TEST_F(Onnx, FourBitsAreReadFromTheLowOnesOn) {
  ckpt::Checkpoint read = open(with(head("n", 22, {3}) + raw("\x71\x0f")));
  EXPECT_EQ(values(read, "n"), std::string("\x01\x07\xff"));
  EXPECT_EQ(read.root.find("n")->as_entry().stored_type, "int4");
}

TEST_F(Onnx, ShapeAndValuesMustAgree) {
  EXPECT_THAT(refusal(with(head("w", kFloat, {3}) + raw("abcdefgh"))),
              HasSubstr("'w': its shape [3] of float32 needs 12 bytes where 8 are there"));
  EXPECT_THAT(refusal(with(head("w", kFloat, {1ULL << 62, 1ULL << 62}) + raw("ab"))), HasSubstr("impossible shape"));
  EXPECT_THAT(refusal(with(head("w", kFloat, {~0ULL}) + raw("ab"))), HasSubstr("a dimension of -1"));
  EXPECT_THAT(refusal(with(head("w", kInt32, {2}) + proto_number(5, 1))), HasSubstr("2 numbers where 1 are there"));
  EXPECT_THAT(refusal(with(head("w", kFloat, {1}))), HasSubstr("needs 4 bytes where 0 are there"));
  EXPECT_THAT(refusal(with(head("w", kFloat, {1}) + raw("abcd") + proto_bytes(4, "abcd"))),
              HasSubstr("more than once"));
  EXPECT_THAT(refusal(with(head("w", kFloat, {1}) + proto_number(5, 1))), HasSubstr("field of another type"));
}

TEST_F(Onnx, ValuesMustFitTheirType) {
  EXPECT_THAT(refusal(with(head("w", kBool, {1}) + proto_number(5, 2))), HasSubstr("is 2, which no bool is"));
  EXPECT_THAT(refusal(with(head("w", 2, {1}) + proto_number(5, 256))), HasSubstr("is 256, which no uint8 is"));
  EXPECT_THAT(refusal(with(head("w", 99, {1}) + raw("a")), ErrorCode::unsupported), HasSubstr("the number 99"));
  EXPECT_THAT(refusal(with(head("w", 0, {1}) + raw("a"))), HasSubstr("no element type"));
}

TEST_F(Onnx, NamesAreThereOnce) {
  std::string one = proto_bytes(5, head("w", kFloat, {0}));
  EXPECT_THAT(refusal(model(one + one)), HasSubstr("'w' is there twice"));
  EXPECT_THAT(refusal(with(head("", kFloat, {0}))), HasSubstr("has no name"));
}

TEST_F(Onnx, EveryBeginningOfAFileIsRefused) {
  const std::string whole = with(head("w", kFloat, {2}) + raw("abcdefgh"));
  expect_every_beginning_refused(whole);
  EXPECT_THAT(refusal(whole.substr(0, whole.size() - 1)), HasSubstr("cut off or damaged"));
}

TEST_F(Onnx, ValuesInFilesBesideIt) {
  test::write_file(dir_.path() / "w.data", "....abcd");
  std::string tensor = head("w", kFloat, {1}) + proto_number(14, 1) + place("location", "w.data");
  EXPECT_EQ(values(open(with(tensor + place("offset", "4") + place("length", "4"))), "w"), "abcd");
  EXPECT_EQ(values(open(with(tensor + place("offset", "4"))), "w"), "abcd");
  EXPECT_THAT(refusal(with(tensor + place("offset", "6") + place("length", "4"))), HasSubstr("it has 8 bytes"));
  EXPECT_THAT(refusal(with(tensor + place("length", "5"))), HasSubstr("needs 4 bytes where 5 are there"));
  EXPECT_THAT(refusal(with(tensor + place("offset", "-1"))), HasSubstr("'-1', which is no number"));
  EXPECT_THAT(refusal(with(head("w", kFloat, {1}) + proto_number(14, 1))), HasSubstr("which is not named"));
}

TEST_F(Onnx, ValuesBesideItStayInTheFolder) {
  auto elsewhere = [](const std::string& name) {
    return with(head("w", kFloat, {1}) + proto_number(14, 1) + place("location", name) + place("length", "4"));
  };
  EXPECT_THAT(refusal(elsewhere("../w.data"), ErrorCode::refused), HasSubstr("leads out of the folder"));
  EXPECT_THAT(refusal(elsewhere("/etc/hostname"), ErrorCode::refused), HasSubstr("leads out of the folder"));
  EXPECT_THAT(refusal(elsewhere("gone.data")), HasSubstr("it is missing"));
  std::filesystem::create_symlink("/etc/hostname", dir_.path() / "link.data");
  EXPECT_THAT(refusal(elsewhere("link.data"), ErrorCode::refused), HasSubstr("leads out of its folder"));
}

TEST_F(Onnx, WhatIsNoTensorIsLeftOutAndNamed) {
  std::string text = proto_bytes(5, head("words", 8, {1}) + proto_bytes(6, "hi"));
  std::string sparse = proto_bytes(15, proto_bytes(1, head("few", kFloat, {1}) + raw("abcd")));
  ckpt::Report report;
  ckpt::Checkpoint read = open(model(text + sparse + proto_bytes(5, head("w", kFloat, {0}))), {.report = &report});
  EXPECT_EQ(ckpt::list_entries(read.root).size(), 1U);
  ASSERT_EQ(report.warnings.size(), 1U);
  EXPECT_THAT(report.warnings[0], HasSubstr("'few' (sparse), 'words' (text)"));
}

TEST_F(Onnx, OtherMessagesOfProtobufAreNone) {
  // A SavedModel of TensorFlow begins alike: a version and a message.
  EXPECT_THAT(refusal(proto_number(1, 1) + proto_bytes(2, "graph"), ErrorCode::unsupported),
              HasSubstr("no known checkpoint format"));
}

TEST_F(Onnx, IsKnownToTheScanner) {
  test::write_file(path_, with(head("w", kFloat, {1}) + raw("abcd")));
  ckpt::ScanResult result = ckpt::scan(path_);
  EXPECT_EQ(result.content, "onnx");
  EXPECT_EQ(result.verdict(), "clean");
}

TEST_F(Onnx, IsNotWritten) {
  ckpt::Checkpoint read = open(with(head("w", kFloat, {1}) + raw("abcd")));
  try {
    ckpt::save(read, path_);
    FAIL() << "was written";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("model file (ONNX) cannot be written"));
  }
}

}  // namespace
