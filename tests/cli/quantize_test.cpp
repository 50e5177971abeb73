// ckpt quantize and convert --dequantize: float matrices as quantised blocks, and back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"

using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;
using namespace test;

namespace {

/// A matrix of two blocks a row and a bias.
void write_float_model(const TempDir& dir, const std::string& name) {
  auto weight = std::make_shared<ckpt::Entry>(float_entry(std::vector<float>(128, 0.5F)));
  weight->shape = {2, 64};
  write_checkpoint(dir.path() / name, dict({{"fc.weight", ckpt::Value::tensor(weight)}, {"fc.bias", tensor({1, 2})}}));
}

TEST(QuantizeCommand, WritesAGgufFileBesideTheInput) {
  TempDir dir;
  write_float_model(dir, "net.safetensors");
  Outcome outcome = run_ckpt(dir.path(), {"quantize", "--to", "Q8_0", "net.safetensors"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 of 2 tensors quantized, 520 B -> 144 B"));
  EXPECT_THAT(types_in(dir.path() / "net.Q8_0.gguf"), UnorderedElementsAre("fc.weight Q8_0", "fc.bias float32"));
}

TEST(QuantizeCommand, CountsForPrograms) {
  TempDir dir;
  write_float_model(dir, "net.safetensors");
  Outcome outcome = run_ckpt(dir.path(), {"quantize", "--json", "--dry-run", "--to", "Q4_0", "net.safetensors"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  ckpt::JsonDocument json = ckpt::JsonDocument::parse(outcome.out);
  EXPECT_EQ(first_file(json).at("tensors_quantized").as_integer(), 1);
  EXPECT_EQ(first_file(json).at("types").items()[0].at("to").as_text(), "Q4_0");
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "net.Q4_0.gguf"));
}

TEST(QuantizeCommand, SaysWhatItCannotWriteAndWhatIsNotThere) {
  TempDir dir;
  write_float_model(dir, "net.safetensors");
  write_model(dir, "flat.safetensors", {"a"});
  EXPECT_THAT(run_ckpt(dir.path(), {"quantize", "--to", "IQ2_S", "net.safetensors"}).err, HasSubstr("use Q4_0, Q4_1"));
  Outcome nothing = run_ckpt(dir.path(), {"quantize", "--to", "Q8_0", "flat.safetensors"});
  EXPECT_EQ(nothing.code, 1);
  EXPECT_THAT(nothing.err + nothing.out, HasSubstr("nothing to quantize: none of 1 tensor is a float matrix"));
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "flat.Q8_0.gguf"));
}

TEST(QuantizeCommand, NamesTheTensorThatIsNotFiniteAndKeepsIt) {
  TempDir dir;
  std::vector<float> values(32, 1);
  values[3] = std::numeric_limits<float>::infinity();
  auto weight = std::make_shared<ckpt::Entry>(float_entry(values));
  weight->shape = {1, 32};
  auto other = std::make_shared<ckpt::Entry>(float_entry(std::vector<float>(32, 1)));
  other->shape = {1, 32};
  write_checkpoint(dir.path() / "net.safetensors",
                   dict({{"a.weight", ckpt::Value::tensor(other)}, {"b.weight", ckpt::Value::tensor(weight)}}));
  expect_refused(dir, {"quantize", "--to", "Q8_0", "net.safetensors"}, 3, "'b.weight'", "not finite");
  EXPECT_EQ(run_ckpt(dir.path(), {"quantize", "--to", "Q8_0", "--keep", "b.*", "net.safetensors"}).code, 0);
}

TEST(ConvertCommand, WritesTheValuesOfBlocks) {
  TempDir dir;
  write_float_model(dir, "net.safetensors");
  ASSERT_EQ(run_ckpt(dir.path(), {"quantize", "--to", "Q8_0", "net.safetensors"}).code, 0);
  Outcome refused = run_ckpt(dir.path(), {"convert", "net.Q8_0.gguf", "back.safetensors"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("write their values ('ckpt convert --dequantize')"));
  Outcome outcome = run_ckpt(dir.path(), {"convert", "--dequantize", "net.Q8_0.gguf", "back.safetensors"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 tensors from gguf, 1 of them dequantized"));
  EXPECT_EQ(run_ckpt(dir.path(), {"diff", "--atol", "0.01", "net.safetensors", "back.safetensors"}).code, 0);
}

/// "layer" as GPTQ packs it: 8 inputs in one group, one output, weights 0 to 7 less the zero point 0 + 1, times 2.
void write_gptq(const TempDir& dir, const std::string& name, std::uint32_t weights) {
  auto words = [](std::vector<std::uint32_t> numbers, core::Shape shape) {
    ckpt::Entry entry;
    entry.dtype = core::DType::i32;
    entry.shape = std::move(shape);
    core::ByteVector bytes;
    for (std::uint32_t number : numbers) core::append_le(bytes, number);
    entry.bytes = ckpt::memory_source(std::move(bytes));
    return ckpt::Value::tensor(std::make_shared<ckpt::Entry>(entry));
  };
  auto scales = std::make_shared<ckpt::Entry>(float_entry(std::vector<float>(8, 2)));
  scales->shape = {1, 8};
  write_checkpoint(dir.path() / name, dict({{"layer.qweight", words(std::vector<std::uint32_t>(8, weights), {1, 8})},
                                            {"layer.qzeros", words({0}, {1, 1})},
                                            {"layer.scales", ckpt::Value::tensor(scales)},
                                            {"layer.g_idx", words(std::vector<std::uint32_t>(8, 0), {8})},
                                            {"layer.bias", tensor({1})}}));
}

TEST(QuantizedLayers, AreSaidAndBecomeOneWeightEach) {
  TempDir dir;
  write_gptq(dir, "net.safetensors", 0x76543210);
  EXPECT_THAT(run_ckpt(dir.path(), {"ls", "net.safetensors"}).out,
              HasSubstr("1 quantized layer: GPTQ 4-bit, one scale a row"));
  EXPECT_THAT(run_ckpt(dir.path(), {"info", "net.safetensors"}).out, HasSubstr("GPTQ 4-bit, one scale a row (1)"));
  EXPECT_THAT(
      run_ckpt(dir.path(), {"why", "net.safetensors", "--for", "resnet18"}).out,
      HasSubstr("1 of the layers are quantized (GPTQ 4-bit, one scale a row), 'layer.qweight' among others in place"));
  const Outcome made = run_ckpt(dir.path(), {"convert", "net.safetensors", "plain.safetensors", "--dequantize"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("1 of them dequantized"));
  EXPECT_THAT(types_in(dir.path() / "plain.safetensors"),
              UnorderedElementsAre("layer.weight float32", "layer.bias float32"));
  EXPECT_THAT(run_ckpt(dir.path(), {"cat", "plain.safetensors", "layer.weight"}).out, HasSubstr("-2"));
}

TEST(QuantizedLayers, TakeTheSecondFormatFromTheFolder) {
  TempDir dir;
  write_gptq(dir, "net.safetensors", 0x11111111);
  auto first = [&](const std::string& name) {
    EXPECT_EQ(run_ckpt(dir.path(), {"convert", "net.safetensors", name, "--dequantize"}).code, 0);
    for (const ckpt::NamedEntry& named : ckpt::list_entries(ckpt::open(dir.path() / name).root)) {
      if (named.name == "layer.weight") return core::load_le<float>(ckpt::read_all(*named.entry->bytes).data());
    }
    return -1.0F;
  };
  EXPECT_EQ(first("a.safetensors"), 0);  // 2 (1 - (0 + 1))
  write_file(dir.path() / "config.json",
             R"({"quantization_config": {"quant_method": "gptq", "checkpoint_format": "gptq_v2"}})");
  EXPECT_EQ(first("b.safetensors"), 2);  // 2 (1 - 0)
}

TEST(QuantizedLayers, ThatTheFolderSaysArePackedInAnotherWayAreRefused) {
  TempDir dir;
  write_gptq(dir, "net.safetensors", 0x11111111);
  for (const char* config : {R"("gptq", "checkpoint_format": "gptq_p")", R"("awq", "version": "gemm")",
                             R"("auto-round", "packing_format": "auto_round:gptq")"}) {
    write_file(dir.path() / "config.json", R"({"quantization_config": {"quant_method": )" + std::string(config) + "}}");
    expect_refused(dir, {"convert", "net.safetensors", "x.safetensors", "--dequantize"}, 3, "net.safetensors",
                   "looks like GPTQ layers and is packed in another way");
    const std::string method = std::string(config).substr(1, std::string_view(config).find('"', 1) - 1);
    for (const char* command : {"ls", "info"}) {
      const std::string out = run_ckpt(dir.path(), {command, "net.safetensors"}).out;
      EXPECT_THAT(out, HasSubstr("unknown packing of " + method)) << command;
      EXPECT_THAT(out, Not(HasSubstr("GPTQ 4-bit"))) << command;
      EXPECT_THAT(out, Not(HasSubstr("--dequantize"))) << command;
    }
  }
}

TEST(QuantizedLayers, AreSeenAsTheirValuesWhereAsked) {
  TempDir dir;
  write_gptq(dir, "net.safetensors", 0x76543210);
  EXPECT_THAT(run_ckpt(dir.path(), {"cat", "--dequantize", "net.safetensors", "layer.weight"}).out,
              HasSubstr("[-2.,  0.,  2.,  4.,  6.,  8., 10., 12.]"));
  EXPECT_THAT(run_ckpt(dir.path(), {"stat", "--dequantize", "net.safetensors"}).out, HasSubstr("layer.weight"));
  ASSERT_EQ(run_ckpt(dir.path(), {"convert", "--dequantize", "net.safetensors", "plain.safetensors"}).code, 0);
  EXPECT_EQ(run_ckpt(dir.path(), {"diff", "--dequantize", "net.safetensors", "plain.safetensors"}).code, 0);
  EXPECT_EQ(run_ckpt(dir.path(), {"diff", "net.safetensors", "plain.safetensors"}).code, 1);
  EXPECT_THAT(run_ckpt(dir.path(), {"stat", "net.safetensors"}).out, HasSubstr("layer.qweight"));
}

TEST(QuantizedLayers, ThatDoNotFitAreRefusedByName) {
  TempDir dir;
  write_gptq(dir, "net.safetensors", 0);
  ckpt::Checkpoint odd = ckpt::open(dir.path() / "net.safetensors");
  ckpt::Dict parts = odd.root.as_dict();
  for (auto& [key, value] : parts.items) {
    if (key.as_text() == "layer.scales") value = tensor({1, 2, 3});
  }
  write_checkpoint(dir.path() / "odd.safetensors", ckpt::Value::dict(parts));
  expect_refused(dir, {"convert", "odd.safetensors", "x.safetensors", "--dequantize"}, 3, "odd.safetensors",
                 "the quantized layer 'layer.weight' lacks a part");
  write_file(dir.path() / "config.json", R"({"quantization_config": {"quant_method": "bitsandbytes"}})");
  write_float_model(dir, "plain.safetensors");
  EXPECT_THAT(run_ckpt(dir.path(), {"convert", "plain.safetensors", "y.safetensors", "--dequantize"}).err,
              HasSubstr("quantized as 'bitsandbytes', of which nothing is dequantized here"));
}

TEST(QuantizedLayers, InAGroupThatIsNotThereAreRefused) {
  TempDir dir;
  write_gptq(dir, "net.safetensors", 0);
  ckpt::Dict parts = ckpt::open(dir.path() / "net.safetensors").root.as_dict();
  for (auto& [key, value] : parts.items) {
    if (key.as_text() != "layer.g_idx") continue;
    auto entry = std::make_shared<ckpt::Entry>(value.as_entry());
    entry->bytes = ckpt::memory_source(core::ByteVector(32, std::byte{1}));
    value = ckpt::Value::tensor(entry);
  }
  write_checkpoint(dir.path() / "odd.safetensors", ckpt::Value::dict(parts));
  expect_refused(dir, {"convert", "odd.safetensors", "x.safetensors", "--dequantize"}, 3, "odd.safetensors",
                 "input 0 is in group 16843009 of 1");
}

}  // namespace
