// Layers of GPTQ, AWQ and compressed-tensors whose parts are missing or fit several readings are refused. Equal to
// their own code: golden_quantized_layers.

#include "libckpt/transform/quantized_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/transform/quantize.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/message_of.h"

using core::DType;
using testing::HasSubstr;
using namespace test;

namespace {

/// All bytes alike.
ckpt::Value filled(DType dtype, core::Shape shape, int byte = 0) {
  auto entry = std::make_shared<ckpt::Entry>();
  entry->dtype = dtype;
  entry->shape = std::move(shape);
  const std::size_t size = entry->numel() * static_cast<std::size_t>(core::bit_width(dtype)) / 8;
  entry->bytes = ckpt::memory_source(core::ByteVector(size, static_cast<std::byte>(byte)));
  return ckpt::Value::tensor(entry);
}

ckpt::Value floats(const std::vector<float>& values, core::Shape shape) {
  auto entry = std::make_shared<ckpt::Entry>(float_entry(values));
  entry->shape = std::move(shape);
  return ckpt::Value::tensor(entry);
}

using Parts = std::vector<std::pair<std::string, ckpt::Value>>;

std::string fault(Parts parts) {
  return message_of([&] { ckpt::dequantize(checkpoint(dict(std::move(parts)))); });
}

std::vector<float> weight(Parts parts) {
  const ckpt::Checkpoint made = ckpt::dequantize(checkpoint(dict(std::move(parts))));
  const core::ByteVector bytes = ckpt::read_all(*ckpt::list_entries(made.root).at(0).entry->bytes);
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

Parts gptq(int zeros) {
  return {{"qweight", filled(DType::i32, {1, 8}, 0x33)},
          {"scales", floats(std::vector<float>(8, 1), {1, 8})},
          {"qzeros", filled(DType::i32, {1, 1}, zeros)}};
}

Parts nvfp4() {
  return {{"weight_packed", filled(DType::u8, {1, 8}, 0x22)},
          {"weight_scale", filled(DType::f8_e4m3fn, {1, 1}, 0x38)},
          {"weight_global_scale", floats({4}, {1})}};
}

Parts packed(std::int32_t in) {
  core::ByteVector sizes;
  core::append_le(sizes, std::int32_t{1});
  core::append_le(sizes, in);
  auto shape = std::make_shared<ckpt::Entry>();
  shape->dtype = DType::i32;
  shape->shape = {2};
  shape->bytes = ckpt::memory_source(std::move(sizes));
  return {{"weight_packed", filled(DType::i32, {1, (in + 7) / 8}, 0x99)},
          {"weight_scale", floats({1}, {1, 1})},
          {"weight_shape", ckpt::Value::tensor(shape)}};
}

TEST(QuantizedLayers, WithoutAPartAreRefused) {
  EXPECT_EQ(weight(gptq(0)).at(0), 2);
  Parts symmetric = gptq(0);
  symmetric.pop_back();
  EXPECT_THAT(fault(symmetric), HasSubstr("lacks a part"));
  symmetric[0].second = filled(DType::i32, {8, 1});  // as AWQ has it
  EXPECT_THAT(fault(symmetric), HasSubstr("lacks a part"));
  EXPECT_EQ(weight(nvfp4()).at(0), 0.25F);
  Parts unscaled = nvfp4();
  unscaled.pop_back();
  EXPECT_THAT(fault(unscaled), HasSubstr("has no weight_global_scale"));
  Parts powers = nvfp4();
  powers[1].second = filled(DType::u8, {1, 1}, 127);
  EXPECT_THAT(fault(powers), HasSubstr("has a weight_global_scale beside scales that are powers of two"));
  powers.pop_back();
  EXPECT_EQ(weight(powers).at(0), 1);
}

TEST(QuantizedLayers, HaveZeroPointsThatWrap) {
  EXPECT_EQ(weight(gptq(0xff)).at(0), 3);  // 15 + 1 is 0 of 4 bits
}

TEST(QuantizedLayers, OfBitsThatTheSizesDoNotTellAreRefused) {
  EXPECT_EQ(weight(packed(32)).at(31), 1);
  EXPECT_THAT(fault(packed(5)), HasSubstr("has weight_packed [1, 1] for a weight of [1, 5]"));
  Parts ragged = {{"qweight", filled(DType::i32, {4, 32})},
                  {"scales", floats(std::vector<float>(32, 1), {1, 32})},
                  {"qzeros", filled(DType::i32, {1, 3})}};  // 128 bits are no whole number of 3-bit inputs
  EXPECT_THAT(fault(ragged), HasSubstr("which no layout of GPTQ or AWQ has"));
}

TEST(QuantizedLayers, HaveScalesOfSquareBlocks) {
  auto layer = [](std::int64_t size, const std::vector<float>& scales, core::Shape shape) {
    return Parts{{"weight", filled(DType::f8_e4m3fn, {size, size}, 0x38)}, {"weight_scale", floats(scales, shape)}};
  };
  // 384 values are one block of 256 and a part of another, not two of 192.
  const std::vector<float> values = weight(layer(384, {1, 2, 3, 4}, {2, 2}));
  EXPECT_EQ(values.at(250 * 384 + 250), 1);
  EXPECT_EQ(values.at(250 * 384 + 256), 2);
  EXPECT_EQ(values.at(256 * 384), 3);
  EXPECT_THAT(fault(layer(64, std::vector<float>(64, 1), {1, 64})), HasSubstr("has scales [1, 64]"));
}

}  // namespace
