// ckpt convert between folders of Hugging Face and GGUF files of llama.cpp.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using namespace test;

namespace {

constexpr const char* kConfig =
    R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 4})";

ckpt::Value matrix(std::int64_t rows, std::int64_t columns) {
  auto entry =
      std::make_shared<ckpt::Entry>(float_entry(std::vector<float>(static_cast<std::size_t>(rows * columns), 0.5F)));
  entry->shape = {rows, columns};
  return ckpt::Value::tensor(entry);
}

ckpt::Value vector(std::size_t size) {
  return tensor(std::vector<float>(size, 1));
}

class HubModels : public testing::Test {
 protected:
  HubModels() {
    std::filesystem::create_directory(dir_.path() / "gpt");
    write_file(dir_.path() / "gpt/config.json", kConfig);
    std::vector<std::pair<std::string, ckpt::Value>> all = {{"wte.weight", matrix(5, 32)},
                                                            {"wpe.weight", matrix(4, 32)},
                                                            {"ln_f.weight", vector(32)},
                                                            {"ln_f.bias", vector(32)},
                                                            {"h.0.attn.bias", matrix(4, 4)}};
    const std::pair<const char*, std::pair<std::int64_t, std::int64_t>> parts[] = {
        {"attn.c_attn", {32, 96}}, {"attn.c_proj", {32, 32}}, {"mlp.c_fc", {32, 128}}, {"mlp.c_proj", {128, 32}}};
    for (const auto& [name, shape] : parts) {
      all.emplace_back("h.0." + std::string(name) + ".weight", matrix(shape.first, shape.second));
      all.emplace_back("h.0." + std::string(name) + ".bias", vector(static_cast<std::size_t>(shape.second)));
    }
    for (const char* name : {"h.0.ln_1.", "h.0.ln_2."}) {
      all.emplace_back(std::string(name) + "weight", vector(32));
      all.emplace_back(std::string(name) + "bias", vector(32));
    }
    write_checkpoint(dir_.path() / "gpt/model.safetensors", dict(std::move(all)));
  }

  Outcome run(const std::vector<std::string>& words) const { return run_ckpt(dir_.path(), words); }
  bool exists(const std::string& name) const { return std::filesystem::exists(dir_.path() / name); }

  TempDir dir_;
};

TEST_F(HubModels, BecomeFilesOfLlamaCppAndFoldersAgain) {
  const Outcome made = run({"convert", "gpt", "gpt.gguf"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("16 tensors of a gpt2 model as llama.cpp names them"));
  EXPECT_THAT(made.err, HasSubstr("llama.cpp has no place for 1 tensor, left out: 'h.0.attn.bias'"));
  EXPECT_THAT(run({"ls", "gpt.gguf"}).out, HasSubstr("blk.0.attn_qkv.weight"));
  const Outcome back = run({"convert", "gpt.gguf", "back/"});
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_THAT(back.out, HasSubstr("16 tensors of a gpt2 model as transformers names them"));
  EXPECT_TRUE(exists("back/config.json"));
  EXPECT_THAT(run({"ls", "back"}).out, HasSubstr("transformer.h.0.attn.c_attn.weight"));
}

TEST_F(HubModels, TakeTheTypeOfTheirMatricesFromTheLine) {
  ASSERT_EQ(run({"convert", "gpt", "small.gguf", "--dtype", "Q8_0"}).code, 0);
  const std::vector<std::string> types = types_in(dir_.path() / "small.gguf");
  EXPECT_THAT(types, Contains("blk.0.ffn_up.weight Q8_0"));
  EXPECT_THAT(types, Contains("position_embd.weight float32"));
  EXPECT_THAT(run({"convert", "gpt", "rows.gguf", "--dtype", "Q4_K"}).err,
              HasSubstr("no whole number of blocks of Q4_K keep their type: 0 of 5 matrices are packed"));
  ASSERT_EQ(run({"convert", "gpt", "half.gguf", "--dtype", "bf16"}).code, 0);
  EXPECT_THAT(types_in(dir_.path() / "half.gguf"), Contains("blk.0.ffn_up.weight bfloat16"));
  EXPECT_THAT(types_in(dir_.path() / "half.gguf"), Contains("blk.0.attn_norm.weight float32"));
  const Outcome refused = run({"convert", "small.gguf", "back/"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("in quantized blocks of type Q8_0"));
  EXPECT_FALSE(exists("back"));
  EXPECT_EQ(run({"convert", "small.gguf", "back/", "--dequantize"}).code, 0);
}

TEST_F(HubModels, ThatAreOnlyQuantizedSayThatTheyKeepTheirNames) {
  for (const char* source : {"gpt", "gpt/model.safetensors"}) {
    const Outcome made = run({"quantize", source, "--to", "Q8_0", "-o", "q.gguf", "-f"});
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_THAT(made.err, HasSubstr("of this gpt2 model keep their names, by which llama.cpp does not know them"));
    EXPECT_THAT(made.err, HasSubstr("ckpt convert gpt OUT.gguf --dtype Q8_0"));
  }
  ASSERT_EQ(run({"convert", "gpt", "gpt/whole.gguf"}).code, 0);
  EXPECT_EQ(run({"quantize", "gpt/whole.gguf", "--to", "Q8_0", "-o", "q.gguf", "-f"}).err, "");
  write_file(dir_.path() / "gpt/config.json", "{\"architectures\": ");
  EXPECT_EQ(run({"quantize", "gpt/model.safetensors", "--to", "Q8_0", "-o", "q.gguf", "-f"}).code, 0);
}

TEST_F(HubModels, KeepTheirNamesWhereNobodyKnowsThem) {
  write_file(dir_.path() / "gpt/config.json", R"({"architectures": ["NewForCausalLM"]})");
  const Outcome made = run({"convert", "gpt", "gpt.gguf"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("config.json names 'NewForCausalLM', which has no names of llama.cpp here"));
  EXPECT_THAT(run({"ls", "gpt.gguf"}).out, HasSubstr("h.0.attn.c_attn.weight"));
  const Outcome back = run({"convert", "gpt.gguf", "back/"});
  EXPECT_EQ(back.code, 3);
  EXPECT_THAT(back.err, HasSubstr("general.architecture"));
}

TEST_F(HubModels, ThatNobodyKnowsAreRefusedWhereTheirNamesAreTooLong) {
  const std::string name = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
  std::filesystem::create_directory(dir_.path() / "t5");
  write_file(dir_.path() / "t5/config.json", R"({"architectures": ["MT5ForConditionalGeneration"]})");
  write_checkpoint(dir_.path() / "t5/model.safetensors", dict({{name, matrix(4, 4)}}));
  expect_refused(dir_, {"convert", "t5", "t5.gguf"}, 3, "names 'MT5ForConditionalGeneration'",
                 "'" + name + "' has 68 bytes where at most 63 are allowed");
  EXPECT_FALSE(exists("t5.gguf"));
}

TEST_F(HubModels, OfAnArchitectureThatHasNoRulesStayFilesOfLlamaCpp) {
  ASSERT_EQ(run({"convert", "gpt", "gpt.gguf"}).code, 0);
  ASSERT_EQ(run({"meta", "gpt.gguf", "--set", "general.architecture=mamba", "-o", "other.gguf"}).code, 0);
  expect_refused(dir_, {"convert", "other.gguf", "back/"}, 3, "other.gguf",
                 "models of the architecture 'mamba' have no rules here");
  EXPECT_FALSE(exists("back"));
  EXPECT_EQ(run({"ls", "other.gguf"}).code, 0);
}

TEST_F(HubModels, AreNotWrittenOverWhatIsThere) {
  ASSERT_EQ(run({"convert", "gpt", "gpt.gguf"}).code, 0);
  const Outcome dry = run({"convert", "gpt.gguf", "back/", "--dry-run"});
  EXPECT_EQ(dry.code, 0);
  EXPECT_FALSE(exists("back"));
  ASSERT_EQ(run({"convert", "gpt.gguf", "back/"}).code, 0);
  EXPECT_THAT(run({"convert", "gpt.gguf", "back/"}).err, HasSubstr("exists already; use -f"));
  EXPECT_EQ(run({"convert", "gpt.gguf", "back/", "-f"}).code, 0);
  write_file(dir_.path() / "back/mine.txt", "keep");
  EXPECT_NE(run({"convert", "gpt.gguf", "back/", "-f"}).code, 0);
  EXPECT_TRUE(exists("back/mine.txt"));
}

TEST_F(HubModels, SayWhatIsWrongWithTheLineAndTheFolder) {
  EXPECT_THAT(run({"convert", "gpt", "x.gguf", "--dtype", "q9"}).err, HasSubstr("'q9' is no type of matrices"));
  EXPECT_EQ(run({"convert", "gpt", "x.safetensors", "--dtype", "f16"}).code, 2);
  EXPECT_THAT(run({"convert", "x.gguf", "x/", "--in-place"}).err, HasSubstr("OUT and --in-place contradict"));
  EXPECT_THAT(run({"convert", "x.gguf", "x/", "-o", "y/"}).err, HasSubstr("the output is named twice"));
  write_file(dir_.path() / "gpt/config.json", "{\"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 32}");
  EXPECT_THAT(run({"convert", "gpt", "x.gguf"}).err, HasSubstr("config.json has no 'n_ctx'"));
  write_file(dir_.path() / "gpt/config.json", "{\"architectures\": ");
  EXPECT_EQ(run({"convert", "gpt", "x.gguf"}).code, 3);
  EXPECT_FALSE(exists("x.gguf"));
}

TEST_F(HubModels, CountForPrograms) {
  const ckpt::JsonDocument made = ckpt::JsonDocument::parse(run({"convert", "gpt", "gpt.gguf", "--json"}).out);
  EXPECT_EQ(made.root().at("architecture").as_text(), "gpt2");
  EXPECT_EQ(made.root().at("left_out").items().size(), 1U);
  const ckpt::JsonDocument back = ckpt::JsonDocument::parse(run({"convert", "gpt.gguf", "back/", "--json"}).out);
  EXPECT_EQ(back.root().at("tensors").as_integer(), 16);
}

}  // namespace
