#include "tests/support/golden_arrays.h"

#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace {

using core::Bytes;

TEST(GoldenArrays, ReadsHexWordsBothWays) {
  core::ByteVector bytes = test::bytes_from_hex_words("3f800000 0000abcd");
  EXPECT_EQ(core::load_le<float>(bytes.data()), 1.0F);
  EXPECT_EQ(test::hex_words(Bytes(bytes), 4), "3f800000 0000abcd");
  EXPECT_EQ(test::hex_word("3ff0000000000000"), 0x3ff0000000000000U);
}

TEST(GoldenArrays, ReadsBase64WithPadding) {
  EXPECT_EQ(core::as_text(Bytes(test::bytes_from_base64("aGVsbG8="))), "hello");
}

TEST(GoldenArrays, DigestsAsTheStandardSays) {  // FIPS 180-4 examples
  EXPECT_EQ(test::sha256(core::as_bytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(test::sha256(core::as_bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(test::sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(GoldenArrays, ReadsSafetensors) {
  test::TempDir dir;
  std::string header = R"({"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}})";
  core::ByteVector file;
  core::append_le<std::uint64_t>(file, header.size());
  core::append(file, core::as_bytes(header));
  core::append_le<std::int32_t>(file, 7);
  core::append_le<std::int32_t>(file, -1);
  test::write_file(dir.path() / "x", core::as_text(Bytes(file)));
  test::GoldenArrays arrays(dir.path() / "x");
  EXPECT_EQ(arrays.at("a").dtype, core::DType::i32);
  EXPECT_EQ(arrays.at("a").shape, core::Shape{2});
  EXPECT_EQ(core::load_le<std::int32_t>(arrays.at("a").bytes.data() + 4), -1);
  EXPECT_THROW(arrays.at("b"), std::out_of_range);
}

}  // namespace
