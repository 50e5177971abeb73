#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/ckpt.h"
#include "libckpt/scan.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/one_file.h"

namespace {

using core::Error;
using core::ErrorCode;
using testing::HasSubstr;

std::string text(const std::string& text) {
  return std::string(1, static_cast<char>(0xa0 | text.size())) + text;
}
std::string map(std::size_t count, const std::string& items) {
  return std::string(1, static_cast<char>(0x80 | count)) + items;
}
std::string run(const std::string& bytes) {
  return std::string("\xc4") + static_cast<char>(bytes.size()) + bytes;
}
std::string extension(char type, const std::string& content) {
  return std::string("\xc7") + static_cast<char>(content.size()) + type + content;
}
/// `shape` as msgpack, such as "\x91\x02" for (2,).
std::string array(const std::string& shape, const std::string& type, const std::string& values) {
  return extension(1, "\x93" + shape + text(type) + run(values));
}
const std::string kOne = array("\x91\x02", "float32", "abcdefgh");

struct Flax : test::OneFile {
  Flax() : OneFile("a.msgpack") {}
};

TEST_F(Flax, ArraysStayInTheFile) {
  ckpt::Checkpoint read = open(map(1, text("w") + kOne));
  EXPECT_EQ(read.format, "flax");
  EXPECT_EQ(values(*read.root.find("w")), "abcdefgh");
  EXPECT_TRUE(read.root.find("w")->as_entry().bytes->file_range()) << "no byte is copied to memory";
}

TEST_F(Flax, PlainValuesOfEveryKind) {
  std::string items = text("w") + kOne + text("n") + "\xc0" + text("t") + "\xc3" + text("i") +
                      std::string("\xd1\xff\0", 3) + text("u") +
                      std::string("\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9) + text("f") +
                      std::string("\xcb\x3f\xf8\0\0\0\0\0\0", 9) + text("z") +
                      extension(2, std::string("\x92\xca\x3f\x80\0\0\x02", 7)) + text("l") + "\x92\x01\xff";
  ckpt::Value root = open(map(8, items)).root;
  EXPECT_TRUE(root.find("n")->is_null());
  EXPECT_TRUE(root.find("t")->as_boolean());
  EXPECT_EQ(root.find("f")->as_real(), 1.5);
  EXPECT_EQ(root.find("u")->kind(), ckpt::Value::Kind::big_integer);
  EXPECT_EQ(root.find("z")->as_complex(), std::make_pair(1.0, 2.0));
  EXPECT_EQ(root.find("i")->as_integer(), -256);
  EXPECT_EQ(root.find("l")->as_list()[1].as_integer(), -1);
}

TEST_F(Flax, ShapeAndValuesMustAgree) {
  EXPECT_THAT(refusal(map(1, text("w") + array("\x91\x03", "float32", "abcdefgh"))),
              HasSubstr("'w': an array of shape [3] and type float32 has 8 bytes of values"));
  EXPECT_THAT(refusal(map(1, text("w") + array("\x91\xff", "float32", ""))), HasSubstr("dimension that is no size"));
  EXPECT_THAT(refusal(map(1, text("w") + array("\x91\x01", "str32", "a")), ErrorCode::unsupported),
              HasSubstr("an array of type 'str32' is not a tensor"));
  EXPECT_THAT(refusal(map(1, text("w") + extension(1, "\x93\x90"))), HasSubstr("cut off"));
}

TEST_F(Flax, ChunksMustMakeOneArray) {
  auto chunked = [](const std::string& shape, const std::string& second) {
    return map(1, text("w") + map(3, std::string("\xb9__msgpack_chunked_array__\xc3") + text("shape") +
                                         map(1, text("0") + shape) + text("chunks") +
                                         map(2, text("0") + kOne + text("1") + second)));
  };
  ckpt::Checkpoint read = open(chunked("\x03", array("\x91\x01", "float32", "ijkl")));
  EXPECT_EQ(values(*read.root.find("w")), "abcdefghijkl");
  EXPECT_THAT(refusal(chunked("\x04", array("\x91\x01", "float32", "ijkl"))), HasSubstr("shape [4] have 12 bytes"));
  EXPECT_THAT(refusal(chunked("\x03", array("\x91\x01", "int32", "ijkl"))), HasSubstr("different types"));
  EXPECT_THAT(refusal(chunked("\x03", "\x01")), HasSubstr("a chunk of an array is none"));
}

TEST_F(Flax, WhatContradictsItselfIsRefused) {
  EXPECT_THAT(refusal(map(2, text("w") + kOne + text("w") + kOne)), HasSubstr("'w' is there twice"));
  EXPECT_THAT(refusal(map(1, text("w") + kOne) + "x"), HasSubstr("1 bytes behind the value"));
  EXPECT_THAT(refusal(map(2, text("w") + kOne + text("x") + extension(9, "abc")), ErrorCode::unsupported),
              HasSubstr("extension type 9"));
  std::string deep(300, '\x91');
  EXPECT_THAT(refusal(map(2, text("w") + kOne + text("x") + deep + "\x01"), ErrorCode::refused),
              HasSubstr("nested more than 256 deep"));
  EXPECT_THAT(refusal(map(2, text("w") + kOne + text("x") + std::string("\xdd\xff\xff\xff\xff", 5))),
              HasSubstr("4,294,967,295 values should follow"));
}

TEST_F(Flax, EveryBeginningOfAFileIsRefused) {
  const std::string whole = map(2, text("w") + kOne + text("step") + "\x07");
  expect_every_beginning_refused(whole);
  EXPECT_THAT(refusal(whole.substr(0, whole.size() - 8)), HasSubstr("cut off"));
}

TEST_F(Flax, IsKnownToTheScanner) {
  test::write_file(path_, map(1, text("w") + kOne));
  ckpt::ScanResult result = ckpt::scan(path_);
  EXPECT_EQ(result.content, "flax");
  EXPECT_EQ(result.verdict(), "clean");
}

TEST_F(Flax, OtherFilesOfMsgpackAreNone) {
  EXPECT_THAT(refusal(map(1, text("w") + "\x01"), ErrorCode::unsupported), HasSubstr("no known checkpoint format"));
}

}  // namespace
