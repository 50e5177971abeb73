// ckpt quantize and convert --dequantize: float matrices as quantised blocks, and back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"

using testing::HasSubstr;
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

}  // namespace
