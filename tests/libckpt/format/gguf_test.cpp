#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/ckpt.h"
#include "libckpt/format/format.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/temp_dir.h"

namespace {

using core::ByteVector;
using core::DType;
using core::Error;
using core::ErrorCode;
using testing::HasSubstr;

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ4 = 2;
constexpr std::uint32_t kU8Value = 0;
constexpr std::uint32_t kU32Value = 4;
constexpr std::uint32_t kText = 8;
constexpr std::uint32_t kArray = 9;

void append_text(ByteVector& out, std::string_view text) {
  core::append_le<std::uint64_t>(out, text.size());
  core::append(out, core::as_bytes(text));
}

/// A file put together by hand, right or wrong.
struct Builder {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> tensor_count = {};
  std::optional<std::uint64_t> value_count = {};
  std::uint64_t tensors = 0;
  std::uint64_t values = 0;
  ByteVector value_bytes = {};
  ByteVector tensor_bytes = {};
  std::uint64_t alignment = 32;
  std::uint64_t data = 0;  ///< bytes of data

  Builder& value(std::string_view key, std::uint32_t type, const ByteVector& stored) {
    append_text(value_bytes, key);
    core::append_le(value_bytes, type);
    core::append(value_bytes, stored);
    ++values;
    return *this;
  }
  template <class T>
  Builder& number(std::string_view key, std::uint32_t type, T number) {
    ByteVector stored;
    core::append_le(stored, number);
    return value(key, type, stored);
  }
  Builder& tensor(std::string_view name, std::vector<std::int64_t> dims, std::uint32_t type, std::uint64_t offset) {
    append_text(tensor_bytes, name);
    core::append_le<std::uint32_t>(tensor_bytes, static_cast<std::uint32_t>(dims.size()));
    for (std::int64_t dim : dims) core::append_le(tensor_bytes, dim);
    core::append_le(tensor_bytes, type);
    core::append_le(tensor_bytes, offset);
    ++tensors;
    return *this;
  }
  std::string build() const {
    ByteVector out;
    core::append(out, core::as_bytes(magic));
    core::append_le(out, version);
    core::append_le(out, tensor_count.value_or(tensors));
    core::append_le(out, value_count.value_or(values));
    core::append(out, value_bytes);
    core::append(out, tensor_bytes);
    if (tensors > 0) out.resize((out.size() + alignment - 1) / alignment * alignment);
    for (std::uint64_t i = 0; i < data; ++i) out.push_back(static_cast<std::byte>(i + 1));
    return std::string(core::as_text(out));
  }
};

class GgufFile : public testing::Test {
 protected:
  ckpt::Checkpoint open(const Builder& builder, const ckpt::OpenOptions& options = {}) {
    test::write_file(path_, builder.build());
    return ckpt::open(path_, options);
  }
  std::string refusal(const Builder& builder, ErrorCode code = ErrorCode::corrupt) {
    try {
      open(builder);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "was read";
    return "";
  }
  test::TempDir dir_;
  std::filesystem::path path_ = dir_.path() / "a.gguf";
};

// What the format's own test suite demands: header, metadata, tensors, data.

TEST_F(GgufFile, HeadersThatAreRefused) {
  Builder bad_magic{.magic = "GGUX"};
  EXPECT_THAT(refusal(bad_magic, ErrorCode::unsupported), HasSubstr("no known checkpoint format"));
  EXPECT_THAT(refusal({.version = 0}, ErrorCode::unsupported), HasSubstr("version 0"));
  EXPECT_THAT(refusal({.version = 1}, ErrorCode::unsupported), HasSubstr("newer llama.cpp"));
  EXPECT_THAT(refusal({.version = 4}, ErrorCode::unsupported), HasSubstr("version 4"));
  EXPECT_THAT(refusal({.tensor_count = 1ULL << 60}), HasSubstr("tensors, more than the file has room for"));
  EXPECT_THAT(refusal({.value_count = 1ULL << 60}), HasSubstr("metadata values, more than"));
}

TEST_F(GgufFile, MetadataThatIsRefused) {
  Builder key_size;
  core::append_le<std::uint64_t>(key_size.value_bytes, 1ULL << 62);
  core::append(key_size.value_bytes, core::as_bytes("abcdefghijk"));
  key_size.values = 1;
  EXPECT_THAT(refusal(key_size), HasSubstr("metadata key of 4,611,686,018,427,387,904 bytes"));
  EXPECT_THAT(refusal(Builder().number("", kU32Value, 1U)), HasSubstr("key is empty"));
  EXPECT_THAT(refusal(Builder().number("a", 13, 1U)), HasSubstr("unknown type 13"));
  EXPECT_THAT(refusal(Builder().number("a", kU32Value, 1U).number("a", kU32Value, 2U)),
              HasSubstr("metadata key 'a' is there twice"));
  EXPECT_THAT(refusal(Builder().number("general.alignment", kU32Value, 13U)), HasSubstr("not a power of two"));
  EXPECT_THAT(refusal(Builder().number("general.alignment", kU32Value, 0U)), HasSubstr("not a power of two"));
  EXPECT_THAT(refusal(Builder().number("general.alignment", 10, std::uint64_t{32})), HasSubstr("UINT64, not UINT32"));
}

TEST_F(GgufFile, ArraysThatAreRefused) {
  ByteVector nested;
  core::append_le(nested, kArray);
  core::append_le<std::uint64_t>(nested, 0);
  EXPECT_THAT(refusal(Builder().value("a", kArray, nested), ErrorCode::unsupported), HasSubstr("array of arrays"));
  ByteVector huge;
  core::append_le(huge, kU8Value);
  core::append_le<std::uint64_t>(huge, 1ULL << 62);
  EXPECT_THAT(refusal(Builder().value("a", kArray, huge)), HasSubstr("has no room in the file"));
  ByteVector text;
  core::append_le<std::uint64_t>(text, 1ULL << 62);
  EXPECT_THAT(refusal(Builder().value("a", kText, text)), HasSubstr("reaches past the end"));
}

TEST_F(GgufFile, TruthIsZeroOrOne) {
  Builder builder;
  builder.number("a", 7, std::uint8_t{2});
  EXPECT_THAT(refusal(builder), HasSubstr("stored as 2"));
  ckpt::Report report;
  ckpt::Checkpoint lenient = open(builder, {.lenient = true, .report = &report});
  EXPECT_EQ(report.relaxations.size(), 1U);
  ckpt::save(lenient, path_);
  EXPECT_EQ(ckpt::open(path_).metadata[0].second, "true") << "what is written must be readable strictly";
}

TEST_F(GgufFile, TensorsThatAreRefused) {
  std::string long_name(64, 'n');
  EXPECT_THAT(refusal(Builder{.data = 32}.tensor(long_name, {1}, kF32, 0)), HasSubstr("64 bytes long"));
  EXPECT_THAT(refusal(Builder{.data = 32}.tensor("t", {1, 1, 1, 1, 1}, kF32, 0)), HasSubstr("5 dimensions"));
  EXPECT_THAT(refusal(Builder{.data = 32}.tensor("t", {-1}, kF32, 0)), HasSubstr("impossible"));
  EXPECT_THAT(refusal(Builder{.data = 32}.tensor("t", {1LL << 32, 1LL << 32}, kF32, 0)), HasSubstr("impossible"));
  EXPECT_THAT(refusal(Builder{.data = 32}.tensor("t", {1LL << 62}, kF32, 0)), HasSubstr("overflow"));
  EXPECT_THAT(refusal(Builder{.data = 32}.tensor("t", {1}, 4, 0), ErrorCode::unsupported), HasSubstr("type 4"));
  EXPECT_THAT(refusal(Builder{.data = 32}.tensor("t", {1}, 1000, 0), ErrorCode::unsupported), HasSubstr("type 1000"));
  EXPECT_THAT(refusal(Builder{.data = 32}.tensor("t", {33}, kQ4, 0)), HasSubstr("blocks of 32"));
  EXPECT_THAT(refusal(Builder{.data = 64}.tensor("t", {1}, kF32, 0).tensor("t", {1}, kF32, 32)),
              HasSubstr("the tensor 't' is there twice"));
}

TEST_F(GgufFile, DataLieOneBehindTheOther) {
  auto at = [](std::uint64_t second) {
    return Builder{.data = 128}.tensor("a", {1}, kF32, 0).tensor("b", {1}, kF32, second);
  };
  EXPECT_THAT(refusal(at(64)), HasSubstr("offset 64 where 32 follows"));
  EXPECT_THAT(refusal(at(0)), HasSubstr("offset 0 where 32 follows"));
  EXPECT_THAT(refusal(at(4)), HasSubstr("offset 4 where 32 follows"));
  EXPECT_THAT(refusal(Builder{.data = 8}.tensor("a", {3}, kF32, 0)), HasSubstr("cut off"));
  EXPECT_THAT(refusal(at(32)), HasSubstr("64 bytes after the last tensor"));
  EXPECT_THAT(refusal(Builder{.data = 0}.tensor("a", {1LL << 50}, kF32, 0)), HasSubstr("cut off"));
}

TEST_F(GgufFile, WhatMustLoad) {
  EXPECT_TRUE(open({}).root.as_dict().items.empty());
  EXPECT_EQ(open(Builder().number("a.b", kU32Value, 7U)).metadata[0].second, "7");
  ckpt::Checkpoint good = open(Builder{.data = 64}.tensor("a", {3, 2}, kF32, 0).tensor("b", {1}, kF32, 32));
  EXPECT_EQ(ckpt::list_entries(good.root)[0].entry->shape, (core::Shape{2, 3})) << "the file has dimensions reversed";
  EXPECT_EQ(ckpt::list_entries(open(Builder().tensor("zero", {0}, kF32, 0)).root)[0].entry->byte_size(), 0U);
  Builder aligned{.alignment = 64, .data = 64};
  aligned.number("general.alignment", kU32Value, 64U).tensor("a", {1}, kF32, 0);
  EXPECT_EQ(ckpt::read_all(*ckpt::list_entries(open(aligned).root)[0].entry->bytes)[0], std::byte{1});
  Builder two{.version = 2};
  EXPECT_NO_THROW(open(two));
}

TEST_F(GgufFile, BlocksAreCarried) {
  ckpt::Checkpoint checkpoint = open(Builder{.data = 64}.tensor("q", {32, 2}, kQ4, 0));
  const ckpt::Entry& entry = *ckpt::list_entries(checkpoint.root)[0].entry;
  EXPECT_EQ(ckpt::type_name(entry), "Q4_0");
  EXPECT_EQ(ckpt::value_shape(entry), (core::Shape{2, 32}));
  EXPECT_EQ(entry.shape, (core::Shape{2, 18}));
  EXPECT_EQ(entry.numel(), 64U);
  ckpt::save(checkpoint, path_);
  std::string before = test::read_file(path_);
  ckpt::save(ckpt::add_prefix(ckpt::open(path_), {.prefix = "m."}), path_);
  ckpt::save(ckpt::strip_prefix(ckpt::open(path_), {.prefix = "m."}), path_);
  EXPECT_EQ(test::read_file(path_), before);
}

TEST_F(GgufFile, OtherFormatsRefuseBlocks) {
  ckpt::Checkpoint checkpoint = open(Builder{.data = 96}.tensor("q", {32, 2}, kQ4, 0).tensor("w", {1}, kF32, 64));
  for (const ckpt::Format* format : ckpt::formats()) {
    if (format->write == nullptr || format->name == "gguf" || format->name == "npy") continue;
    std::filesystem::path target = dir_.path() / "out";
    ckpt::SaveOptions options;
    options.format = format->name;
    EXPECT_THROW(ckpt::save(checkpoint, target, options), Error) << format->name;
    EXPECT_FALSE(std::filesystem::exists(target));
    if (format->name == "safetensors-sharded") continue;
    options.drop_inexpressible = true;
    ckpt::save(checkpoint, target, options);
    EXPECT_THAT(test::names(ckpt::open(target)), testing::ElementsAre("w")) << format->name;
    std::filesystem::remove_all(target);
  }
}

/// One value of each type.
Builder all_types() {
  Builder builder;
  builder.number("u8", 0, std::uint8_t{200}).number("i8", 1, std::int8_t{-3}).number("u16", 2, std::uint16_t{60000});
  builder.number("i16", 3, std::int16_t{-300}).number("u32", 4, 4'000'000'000U).number("i32", 5, -5);
  builder.number("f32", 6, 0.1F).number("yes", 7, std::uint8_t{1}).number("u64", 10, UINT64_MAX);
  builder.number("i64", 11, INT64_MIN).number("f64", 12, 1e-300);
  ByteVector text;
  append_text(text, "llama");
  builder.value("text", kText, text);
  ByteVector list;
  core::append_le(list, kText);
  core::append_le<std::uint64_t>(list, 2);
  append_text(list, "<s>");
  append_text(list, "a\"b");
  return builder.value("list", kArray, list);
}

TEST_F(GgufFile, MetadataAreTextAndKeepTheirTypes) {
  ckpt::Checkpoint checkpoint = open(all_types());
  std::vector<std::string> texts;
  for (const auto& [key, text] : checkpoint.metadata) texts.push_back(text);
  EXPECT_THAT(texts, testing::ElementsAre("200", "-3", "60000", "-300", "4000000000", "-5", "0.1", "true",
                                          "18446744073709551615", "-9223372036854775808", "1e-300", "llama",
                                          "[\"<s>\", \"a\\\"b\"]"));
  std::string before = test::read_file(path_);
  ckpt::save(checkpoint, path_);
  EXPECT_EQ(test::read_file(path_), before);
}

TEST_F(GgufFile, EditedMetadataKeepTheirType) {
  ckpt::Checkpoint checkpoint = open(all_types());
  checkpoint.metadata[0].second = "201";
  checkpoint.metadata.emplace_back("note", "new");
  ckpt::save(checkpoint, path_);
  ckpt::Checkpoint again = ckpt::open(path_);
  EXPECT_EQ(again.metadata[0].second, "201");
  EXPECT_EQ(again.metadata.back().second, "new");
  EXPECT_EQ(std::filesystem::file_size(path_), all_types().build().size() + 8 + 4 + 4 + 8 + 3);
  checkpoint.metadata[0].second = "300";
  EXPECT_THROW(ckpt::save(checkpoint, path_), Error) << "300 is no UINT8";
}

TEST_F(GgufFile, SaysWhatItCannotHold) {
  ckpt::Value wide = test::tensor({1});
  ckpt::Entry five = test::float_entry({1});
  five.shape = core::Shape{1, 1, 1, 1, 1};
  ckpt::Entry bools = test::float_entry({1});
  bools.dtype = DType::boolean;
  bools.shape = core::Shape{4};
  ckpt::Checkpoint checkpoint =
      test::checkpoint(test::dict({{std::string(64, 'n'), wide},
                                   {"five", ckpt::Value::tensor(std::make_shared<ckpt::Entry>(five))},
                                   {"flags", ckpt::Value::tensor(std::make_shared<ckpt::Entry>(bools))}}));
  try {
    ckpt::save(checkpoint, path_);
    FAIL() << "was written";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a name of 64 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("5 dimensions"));
    EXPECT_THAT(error.what(), HasSubstr("'flags' (dtype bool)"));
  }
  EXPECT_TRUE(test::list_folder(dir_.path()).empty());
}

/// Two files of one model.
class SplitGguf : public GgufFile {
 protected:
  Builder part(std::uint16_t number, const std::string& name) {
    Builder builder{.data = 32};
    builder.number("split.no", 2, number).number("split.count", 2, std::uint16_t{2});
    builder.number("split.tensors.count", 5, 2);
    return builder.tensor(name, {1}, kF32, 0);
  }
  std::filesystem::path first_ = dir_.path() / "m-00001-of-00002.gguf";
  std::filesystem::path second_ = dir_.path() / "m-00002-of-00002.gguf";
};

TEST_F(SplitGguf, IsReadAsOne) {
  test::write_file(first_, part(0, "a").build());
  test::write_file(second_, part(1, "b").build());
  ckpt::Checkpoint checkpoint = ckpt::open(first_);
  EXPECT_THAT(test::names(checkpoint), testing::ElementsAre("a", "b"));
  EXPECT_TRUE(checkpoint.metadata.empty());
  ckpt::Report report;
  EXPECT_THAT(test::names(ckpt::open(second_, {.report = &report})), testing::ElementsAre("b"));
  EXPECT_EQ(report.warnings.size(), 1U);
}

TEST_F(SplitGguf, EveryPartIsMapped) {
  test::write_file(first_, part(0, "a").build());
  test::write_file(second_, part(1, "b").build());
  for (const ckpt::NamedEntry& named :
       ckpt::list_entries(ckpt::open(first_, {.residency = ckpt::Residency::mapped}).root))
    EXPECT_EQ(named.entry->bytes->memory().size(), 4U) << named.name;
}

TEST_F(SplitGguf, PartsMustFit) {
  test::write_file(first_, part(0, "a").build());
  EXPECT_THROW(ckpt::open(first_), Error);
  test::write_file(second_, part(0, "b").build());
  EXPECT_THROW(ckpt::open(first_), Error);
  test::write_file(second_, part(1, "a").build());
  EXPECT_THROW(ckpt::open(first_), Error);
}

}  // namespace
