#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "libckpt/blocks/unpacked.h"
#include "libckpt/ckpt.h"
#include "libckpt/format/gguf/gguf_types.h"
#include "libcore/base/error.h"
#include "libcore/base/half.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_dir.h"

namespace {

using core::ByteVector;
using core::DType;
using testing::ElementsAre;
using testing::HasSubstr;

/// Values -1, -0.9, ... that no type holds exactly.
ckpt::EntryPtr matrix(std::int64_t rows, std::int64_t columns, std::vector<float> values = {}) {
  for (std::int64_t i = static_cast<std::int64_t>(values.size()); i < rows * columns; ++i) {
    values.push_back(static_cast<float>(i % 21) * 0.1F - 1);
  }
  auto entry = std::make_shared<ckpt::Entry>(test::float_entry(values));
  entry->shape = {rows, columns};
  return entry;
}

ckpt::Checkpoint model_of(std::vector<std::pair<std::string, ckpt::EntryPtr>> tensors) {
  ckpt::Checkpoint checkpoint;
  std::vector<std::pair<std::string, ckpt::Value>> items;
  for (auto& [name, entry] : tensors) items.emplace_back(name, ckpt::Value::tensor(entry));
  checkpoint.root = test::dict(std::move(items));
  return checkpoint;
}

ckpt::EntryPtr entry_of(const ckpt::Checkpoint& checkpoint, const std::string& name) {
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) {
    if (named.name == name) return named.entry;
  }
  return nullptr;
}

std::vector<float> floats_of(const ckpt::Entry& entry) {
  ByteVector bytes = ckpt::read_all(*entry.bytes);
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

/// A scale of two as the first number of a block, then `rest`.
ByteVector block(std::initializer_list<int> rest, std::size_t size, std::size_t scale_at = 0) {
  ByteVector bytes(size);
  std::size_t at = scale_at == 0 ? 2 : 0;
  for (int byte : rest) bytes[at++] = static_cast<std::byte>(byte);
  core::store_le(bytes.data() + scale_at, core::f32_to_f16(2));
  return bytes;
}

std::vector<float> unpack(const std::string& type, const ByteVector& bytes) {
  const ckpt::detail::BlockCodec* codec = ckpt::detail::find_block_codec(type);
  EXPECT_EQ(bytes.size(), codec->bytes);
  std::vector<float> values(codec->elements);
  codec->unpack(bytes.data(), values.data());
  return values;
}

TEST(BlockCodecs, AreAsLargeAsTheFormatSays) {
  for (const ckpt::detail::BlockCodec& codec : ckpt::detail::block_codecs()) {
    const ckpt::detail::GgmlType* type = ckpt::detail::find_ggml_type(codec.name);
    ASSERT_NE(type, nullptr) << codec.name;
    EXPECT_EQ(type->elements, codec.elements) << codec.name;
    EXPECT_EQ(type->bytes, codec.bytes) << codec.name;
  }
}

TEST(BlockCodecs, AreThereForEveryQuantisedTypeThatIsRead) {
  for (std::uint32_t id = 0; id < 64; ++id) {
    const ckpt::detail::GgmlType* type = ckpt::detail::find_ggml_type(id);
    if (type == nullptr || type->dtype) continue;
    EXPECT_NE(ckpt::detail::find_block_codec(type->name), nullptr) << type->name;
  }
}

// The types that gguf-py does not unpack, by their layouts.
TEST(BlockCodecs, OneBitIsASign) {
  std::vector<float> values = unpack("Q1_0", block({0b101}, 18));
  EXPECT_THAT(std::vector(values.begin(), values.begin() + 4), ElementsAre(2, -2, 2, -2));
}

TEST(BlockCodecs, TwoBitsAreOneLess) {
  std::vector<float> values = unpack("Q2_0", block({0b11100100}, 18));
  EXPECT_THAT(std::vector(values.begin(), values.begin() + 5), ElementsAre(-2, 0, 2, 4, -2));
}

TEST(BlockCodecs, EightBitsWithSumsAreEightBits) {
  std::vector<float> values = unpack("Q8_1", block({0, 0, 3, 0xff}, 36));
  EXPECT_THAT(std::vector(values.begin(), values.begin() + 3), ElementsAre(6, -2, 0));
  ByteVector wide(292);
  core::store_le(wide.data(), 0.5F);
  wide[4] = std::byte{0x80};
  EXPECT_EQ(unpack("Q8_K", wide)[0], -64);
}

TEST(Quantize, GivesBackWhatIsNearEnough) {
  ckpt::Checkpoint model = model_of({{"w", matrix(2, 256)}, {"b", matrix(1, 3)}});
  const std::vector<float> before = floats_of(*entry_of(model, "w"));
  for (const std::string& type : ckpt::quantized_types()) {
    ckpt::QuantizeReport report;
    ckpt::Checkpoint packed = ckpt::quantize(model, {.to = type}, &report);
    EXPECT_EQ(ckpt::type_name(*entry_of(packed, "w")), type);
    EXPECT_EQ(report.changed, 1U);
    std::vector<float> after = floats_of(*entry_of(ckpt::dequantize(packed), "w"));
    const float step = 2.F / static_cast<float>((1 << (type[1] - '0')) - 1);  // "Q4_K" has four bits
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(before[i], after[i], step) << type;
  }
}

TEST(Quantize, LeavesAloneWhatIsNoMatrixOfWholeBlocks) {
  ckpt::Checkpoint model = model_of({{"row", std::make_shared<ckpt::Entry>(test::float_entry(std::vector<float>(32)))},
                                     {"narrow", matrix(4, 31)},
                                     {"kept", matrix(1, 32)}});
  ckpt::QuantizeReport report;
  ckpt::Checkpoint packed = ckpt::quantize(model, {.to = "Q8_0", .keep = {.include = {"kept"}}}, &report);
  EXPECT_EQ(report.tensors, 3U);
  EXPECT_EQ(report.changed, 0U);
  EXPECT_EQ(report.kept, 1U);
  for (const ckpt::NamedEntry& named : ckpt::list_entries(packed.root)) EXPECT_FALSE(named.entry->blocks) << named.name;
}

TEST(Quantize, KeepsOneTensorUnderTwoNamesOne) {
  ckpt::EntryPtr tied = matrix(1, 32);
  ckpt::Checkpoint packed = ckpt::quantize(model_of({{"a", tied}, {"b", tied}}), {.to = "Q4_0"});
  EXPECT_EQ(entry_of(packed, "a")->bytes, entry_of(packed, "b")->bytes);
  ckpt::Checkpoint plain = ckpt::dequantize(packed);
  EXPECT_EQ(entry_of(plain, "a")->bytes, entry_of(plain, "b")->bytes);
}

TEST(Quantize, RefusesWhatIsNotFinite) {
  ckpt::Checkpoint model = model_of({{"w", matrix(1, 32, {1, std::numeric_limits<float>::infinity()})}});
  ckpt::Checkpoint packed = ckpt::quantize(model, {.to = "Q8_0"});
  EXPECT_EQ(test::message_of([&] { ckpt::read_all(*entry_of(packed, "w")->bytes); }),
            "'w' has a value that is not finite, which blocks of type Q8_0 cannot hold; keep the tensor as it is");
}

TEST(Quantize, RefusesATypeThatItCannotWrite) {
  EXPECT_THAT(test::message_of([] { ckpt::quantize({}, {.to = "IQ2_S"}); }), HasSubstr("'IQ2_S'; use Q4_0, Q4_1"));
}

TEST(Dequantize, RoundsToOtherFloatTypesOnly) {
  ckpt::Checkpoint packed = ckpt::quantize(model_of({{"w", matrix(1, 32)}}), {.to = "Q8_0"});
  ckpt::EntryPtr exact = entry_of(ckpt::dequantize(packed), "w");
  ckpt::EntryPtr half = entry_of(ckpt::dequantize(packed, {.to = DType::bf16}), "w");
  ASSERT_EQ(half->dtype, DType::bf16);
  ByteVector bytes = ckpt::read_all(*half->bytes);
  EXPECT_EQ(core::load_le<std::uint16_t>(bytes.data() + 2), core::f32_to_bf16(floats_of(*exact)[1]));
  EXPECT_THAT(test::message_of([&] { ckpt::dequantize(packed, {.to = DType::i32}); }), HasSubstr("not int32"));
}

TEST(Dequantize, NamesTheTensorOfATypeThatItDoesNotKnow) {
  auto entry = std::make_shared<ckpt::Entry>();
  entry->dtype = DType::u8;
  entry->shape = {4};
  entry->bytes = ckpt::memory_source(ByteVector(4));
  entry->blocks = ckpt::BlockType{"Q9_9", {32}};
  try {
    ckpt::dequantize(model_of({{"layer.w", entry}}));
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::unsupported);
    EXPECT_STREQ(error.what(), "'layer.w': quantised blocks of type Q9_9 cannot be unpacked");
  }
}

class QuantisedFile : public testing::Test {
 protected:
  void SetUp() override {
    ckpt::Checkpoint model = model_of({{"w", matrix(2, 32)}, {"b", matrix(1, 3)}});
    model.metadata = {{"general.architecture", "llama"}, {"general.file_type", "0"}};
    ckpt::save(model, plain_);
    ckpt::save(ckpt::quantize(ckpt::open(plain_), {.to = "Q8_0"}), packed_);
  }

  static std::string meta(const ckpt::Checkpoint& checkpoint, const std::string& key) {
    for (const auto& [name, text] : checkpoint.metadata) {
      if (name == key) return text;
    }
    return "none";
  }

  test::TempDir dir_;
  std::filesystem::path plain_ = dir_.path() / "plain.gguf";
  std::filesystem::path packed_ = dir_.path() / "packed.gguf";
};

TEST_F(QuantisedFile, SaysHowItIsQuantised) {
  ckpt::Checkpoint packed = ckpt::open(packed_);
  EXPECT_EQ(meta(packed, "general.file_type"), "7");
  EXPECT_EQ(meta(packed, "general.quantization_version"), "2");
  EXPECT_EQ(meta(packed, "general.architecture"), "llama");
  ckpt::Checkpoint plain = ckpt::dequantize(packed);
  EXPECT_EQ(meta(plain, "general.file_type"), "0");
  EXPECT_EQ(meta(plain, "general.quantization_version"), "none");
}

TEST_F(QuantisedFile, IsShownWithItsValues) {
  ckpt::Checkpoint packed = ckpt::open(packed_);
  std::string text = ckpt::tensor_text(*entry_of(packed, "w"));
  EXPECT_THAT(text, HasSubstr("tensor([[-0.9999"));
  EXPECT_THAT(text, testing::Not(HasSubstr("uint8")));
  ckpt::ModelStats stats = ckpt::stats(ckpt::list_entries(packed.root));
  EXPECT_EQ(stats.total.values, 67U);
  EXPECT_NEAR(stats.total.min, -1, 0.01);
}

TEST_F(QuantisedFile, IsComparedByItsValues) {
  ckpt::DiffResult diff = ckpt::diff(ckpt::open(plain_), ckpt::open(packed_), {});
  const ckpt::Difference* found = nullptr;
  for (const ckpt::Difference& one : diff.differences) {
    if (one.kind == ckpt::Difference::Kind::dtype) found = &one;
  }
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, "w");
  EXPECT_GT(found->max_difference, 0);
  EXPECT_LT(found->max_difference, 1.0 / 127);
  EXPECT_EQ(ckpt::diff(ckpt::open(packed_), ckpt::open(packed_), {}).tensors_equal, 2U);
}

TEST(QuantisedDiff, OfOneTypeSaysByHowMuch) {
  ckpt::Checkpoint a = ckpt::quantize(model_of({{"w", matrix(1, 32)}}), {.to = "Q8_0"});
  ckpt::Checkpoint b = ckpt::quantize(model_of({{"w", matrix(1, 32, {-1, -0.5F})}}), {.to = "Q8_0"});
  ckpt::DiffResult diff = ckpt::diff(a, b, {});
  ASSERT_EQ(diff.differences.size(), 1U);
  EXPECT_EQ(diff.differences[0].differing, 1U);
  EXPECT_NEAR(*diff.differences[0].max_difference, 0.4, 0.01);
  EXPECT_TRUE(ckpt::diff(a, b, {.atol = 0.5}).equal());
}

// A block of zeros says so with any numbers, where its scale is zero.
TEST(QuantisedDiff, OfOtherBytesForEqualValuesIsADifferenceWithoutTolerance) {
  auto zeros = [](std::uint8_t number) {
    auto entry = std::make_shared<ckpt::Entry>();
    ByteVector bytes(34, std::byte{number});
    bytes[0] = bytes[1] = std::byte{0};
    entry->dtype = DType::u8;
    entry->shape = {34};
    entry->bytes = ckpt::memory_source(bytes);
    entry->blocks = ckpt::BlockType{"Q8_0", {32}};
    return model_of({{"w", entry}});
  };
  EXPECT_FALSE(ckpt::diff(zeros(1), zeros(2), {}).equal());
  EXPECT_TRUE(ckpt::diff(zeros(1), zeros(2), {.atol = 0.5}).equal());
}

TEST_F(QuantisedFile, BecomesAnyFormatOnceItIsUnpacked) {
  std::filesystem::path target = dir_.path() / "model.safetensors";
  EXPECT_THAT(test::message_of([&] { ckpt::save(ckpt::open(packed_), target); }),
              HasSubstr("quantised blocks of type Q8_0"));
  ckpt::save(ckpt::dequantize(ckpt::open(packed_)), target);
  ckpt::Checkpoint saved = ckpt::open(target);
  EXPECT_EQ(floats_of(*entry_of(saved, "w")), floats_of(*entry_of(ckpt::dequantize(ckpt::open(packed_)), "w")));
}

}  // namespace
