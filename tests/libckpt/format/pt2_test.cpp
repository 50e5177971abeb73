#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/ckpt.h"
#include "libckpt/scan.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/one_file.h"
#include "tests/libckpt/format/pickle_maker.h"
#include "tests/libckpt/format/zip_maker.h"

namespace {

using core::Error;
using core::ErrorCode;
using testing::HasSubstr;

std::string sizes(std::initializer_list<int> sizes) {
  std::string out;
  for (int size : sizes) out += std::string(out.empty() ? "" : ",") + "{\"as_int\":" + std::to_string(size) + "}";
  return "[" + out + "]";
}
std::string weight(const std::string& name, const std::string& shape, const std::string& strides, int offset = 0,
                   int type = 1, const std::string& record = "weight_0") {
  return "\"" + name + "\":{\"path_name\":\"" + record +
         "\",\"is_param\":true,\"use_pickle\":false,\"tensor_meta\":" + "{\"dtype\":" + std::to_string(type) +
         ",\"sizes\":" + shape +
         ",\"requires_grad\":true,\"device\":" + "{\"type\":\"cuda\",\"index\":1},\"strides\":" + strides +
         ",\"storage_offset\":{\"as_int\":" + std::to_string(offset) + "},\"layout\":7}}";
}

class Pt2 : public test::OneFile {
 protected:
  Pt2() : OneFile("a.pt2") {}
  void write(const std::string& weights, const std::string& values = "abcdef") {
    test::ZipSpec zip;
    zip.add("a/data/weights/weight_0", values);
    zip.add("a/data/weights/model_weights_config.json", "{\"config\":{" + weights + "}}");
    zip.add("a/archive_format", "pt2");
    test::write_file(path_, zip.bytes());
  }
};

TEST_F(Pt2, WindowsIntoOneRecordShareIt) {
  write(weight("w", sizes({2, 3}), sizes({3, 1})) + "," + weight("turned", sizes({3, 2}), sizes({1, 3})) + "," +
        weight("part", sizes({2}), sizes({1}), 4) + "," + weight("tied", sizes({2, 3}), sizes({3, 1})) + "," +
        weight("begin", sizes({2}), sizes({1})));
  ckpt::Checkpoint read = ckpt::open(path_);
  EXPECT_EQ(read.format, "pt2");
  EXPECT_EQ(values(read, "w"), "abcdef");
  EXPECT_EQ(values(read, "turned"), "adbecf");
  EXPECT_EQ(values(read, "part"), "ef");
  EXPECT_EQ(values(read, "begin"), "ab");
  const ckpt::Entry& w = read.root.find("w")->as_entry();
  EXPECT_TRUE(ckpt::same_view(w, read.root.find("tied")->as_entry()));
  EXPECT_EQ(w.location, "cuda:1");
  EXPECT_TRUE(w.parameter && w.requires_grad);
}

TEST_F(Pt2, WhatReachesPastItsRecordIsRefused) {
  write(weight("w", sizes({7}), sizes({1})));
  EXPECT_THAT(refusal(), HasSubstr("'w'"));
  write(weight("w", sizes({2}), sizes({1}), 5));
  refusal();
  write(weight("w", sizes({2}), sizes({2000000000, 1})));
  EXPECT_THAT(refusal(), HasSubstr("more sizes than strides, or fewer"));
  write(weight("w", sizes({-1}), sizes({1})));
  EXPECT_THAT(refusal(), HasSubstr("a size of it is no number"));
  write(weight("w", sizes({6}), sizes({1}), 0, 1, "weight_9"));
  EXPECT_THAT(refusal(), HasSubstr("'a/data/weights/weight_9' is missing"));
  write(weight("w", sizes({6}), sizes({1}), 0, 99));
  EXPECT_THAT(refusal(ErrorCode::unsupported), HasSubstr("has the number 99"));
}

TEST_F(Pt2, DamageIsFound) {
  write(weight("w", sizes({6}), sizes({1})));
  std::string bytes = test::read_file(path_);
  bytes[bytes.find("abcdef")] ^= 1;
  test::write_file(path_, bytes);
  EXPECT_FALSE(ckpt::verify(path_).damage.empty());
  ckpt::Checkpoint read = ckpt::open(path_);
  EXPECT_THROW(values(read, "w"), Error);
}

TEST_F(Pt2, RawValuesAreNoPicklesToTheScanner) {
  write(weight("w", sizes({6}), sizes({1})), std::string("\x80\x02X\1\2\3", 6));
  EXPECT_EQ(ckpt::scan(path_).verdict(), "clean");
  // A list that says that it is one is believed.
  std::string pickled = weight("w", sizes({6}), sizes({1}));
  pickled.replace(pickled.find("false"), 5, "true");
  write(pickled, test::pickle(test::call(test::symbol("os", "system"), {test::text("x")})));
  EXPECT_EQ(ckpt::scan(path_).verdict(), "dangerous");
  refusal(ErrorCode::unsupported);
}

}  // namespace
