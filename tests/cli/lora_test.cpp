// ckpt lora: what an adapter changes, its changes in the base's weights, and adapters that are of other models or
// kinds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using namespace test;

namespace {

constexpr const char* kConfig =
    R"({"peft_type": "LORA", "lora_alpha": 4, "base_model_name_or_path": "org/base", "use_rslora": false})";

ckpt::Value matrix(std::int64_t rows, const std::vector<float>& values) {
  auto entry = std::make_shared<ckpt::Entry>(float_entry(values));
  entry->shape = {rows, static_cast<std::int64_t>(values.size()) / rows};
  return ckpt::Value::tensor(entry);
}

class LoraCommand : public testing::Test {
 protected:
  LoraCommand() {
    std::filesystem::create_directory(dir_.path() / "adapter");
    write_file(dir_.path() / "adapter/adapter_config.json", kConfig);
    // scale 4 / 2; B A = [[1, 2, 3], [10, 20, 30]]
    write_checkpoint(dir_.path() / "adapter/adapter_model.safetensors",
                     dict({{"base_model.model.fc.lora_A.weight", matrix(2, {1, 2, 3, 0, 0, 0})},
                           {"base_model.model.fc.lora_B.weight", matrix(2, {1, 0, 10, 0})},
                           {"base_model.model.head.weight", tensor({7, 8})}}));
    write_base("base.safetensors", "");
  }

  void write_base(const std::string& name, const std::string& prefix) const {
    write_checkpoint(dir_.path() / name, dict({{prefix + "fc.weight", matrix(2, {1, 1, 1, 2, 2, 2})},
                                               {prefix + "fc.bias", tensor({5, 6})},
                                               {prefix + "head.weight", tensor({0, 0})}}));
  }

  Outcome run(const std::vector<std::string>& words) const { return run_ckpt(dir_.path(), words); }

  std::vector<float> values(const std::string& file, const std::string& name) const {
    const ckpt::Checkpoint checkpoint = ckpt::open(dir_.path() / file);
    for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) {
      if (named.name != name) continue;
      const core::ByteVector bytes = ckpt::read_all(*named.entry->bytes);
      std::vector<float> floats(bytes.size() / sizeof(float));
      std::memcpy(floats.data(), bytes.data(), bytes.size());
      return floats;
    }
    return {};
  }

  TempDir dir_;
};

TEST_F(LoraCommand, MergesIntoTheBase) {
  const Outcome outcome = run({"lora", "merge", "base.safetensors", "adapter"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 weight changed, 1 tensor of the adapter taken whole"));
  EXPECT_THAT(values("base.merged.safetensors", "fc.weight"), ElementsAre(3, 5, 7, 22, 42, 62));
  EXPECT_THAT(values("base.merged.safetensors", "fc.bias"), ElementsAre(5, 6));
  EXPECT_THAT(values("base.merged.safetensors", "head.weight"), ElementsAre(7, 8));
}

TEST_F(LoraCommand, FindsTheNamesBehindAPrefix) {
  write_base("wrapped.pth", "module.");
  const Outcome outcome = run({"lora", "merge", "wrapped.pth", "adapter", "-o", "out.safetensors"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(values("out.safetensors", "module.fc.weight"), ElementsAre(3, 5, 7, 22, 42, 62));
  EXPECT_THAT(values("out.safetensors", "module.head.weight"), ElementsAre(7, 8));
}

TEST_F(LoraCommand, MergesWithAStrength) {
  ASSERT_EQ(run({"lora", "merge", "--strength", "0.5", "base.safetensors", "adapter", "-o", "half.pth"}).code, 0);
  EXPECT_THAT(values("half.pth", "fc.weight"), ElementsAre(2, 3, 4, 12, 22, 32));
}

TEST_F(LoraCommand, KeepsTiedWeightsTied) {
  ckpt::Value shared = matrix(2, {1, 1, 1, 2, 2, 2});
  write_checkpoint(dir_.path() / "tied.pth", dict({{"fc.weight", shared}, {"out.weight", shared}}));
  ASSERT_EQ(run({"lora", "merge", "tied.pth", "adapter", "-o", "out.pth"}).code, 0);
  EXPECT_THAT(values("out.pth", "out.weight"), ElementsAre(3, 5, 7, 22, 42, 62));
  EXPECT_THAT(run({"info", "out.pth"}).out, HasSubstr("tied"));
}

TEST_F(LoraCommand, ShowsWhatItChanges) {
  const Outcome outcome = run({"lora", "info", "adapter"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("LoRA of 'org/base', 1 weight, 10 values"));
  EXPECT_THAT(outcome.out, HasSubstr("whole: head.weight [2]"));
  const ckpt::JsonDocument json = ckpt::JsonDocument::parse(run({"lora", "info", "--json", "adapter"}).out);
  const ckpt::JsonView target = json.root().at("targets").items()[0];
  EXPECT_EQ(target.at("module").as_text(), "fc");
  EXPECT_EQ(target.at("rank").as_integer(), 2);
  EXPECT_EQ(target.at("scale").as_real(), 2);
  EXPECT_EQ(target.at("a").items()[1].as_integer(), 3);
}

TEST_F(LoraCommand, WritesNothingInADryRun) {
  const Outcome outcome = run({"lora", "merge", "--dry-run", "base.safetensors", "adapter"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(dir_.path() / "base.merged.safetensors"));
}

TEST_F(LoraCommand, RefusesAnAdapterOfAnotherModel) {
  write_checkpoint(dir_.path() / "other.pth", dict({{"conv.weight", tensor({1})}}));
  expect_refused(dir_, {"lora", "merge", "other.pth", "adapter", "-o", "out.pth"}, 2,
                 "lacks 1 of the 1 weights that the adapter changes ('fc.weight')", "belongs to another model");
  write_checkpoint(dir_.path() / "wide.pth", dict({{"fc.weight", matrix(2, {1, 2, 3, 4})}}));
  expect_refused(dir_, {"lora", "merge", "wide.pth", "adapter", "-o", "out.pth"}, 2, "'fc.weight'",
                 "changes a weight of 2 x 3, but the model has [2, 2] there");
}

TEST_F(LoraCommand, RefusesOtherKindsOfAdaptersByName) {
  const std::filesystem::path config = dir_.path() / "adapter/adapter_config.json";
  write_file(config, R"({"peft_type": "LOHA"})");
  expect_refused(dir_, {"lora", "info", "adapter"}, 3, "'LOHA'", "only LORA");
  write_file(config, R"({"peft_type": "LORA", "trainable_token_indices": [3]})");
  expect_refused(dir_, {"lora", "info", "adapter"}, 3, "'trainable_token_indices'", "cannot be merged");
  write_file(config, R"({"peft_type": "LORA", "init_lora_weights": "pissa_niter_4"})");
  expect_refused(dir_, {"lora", "info", "adapter"}, 3, "'pissa_niter_4'", "changes the base model too");
  write_file(config, R"({"model_type": "llama"})");
  expect_refused(dir_, {"lora", "info", "adapter"}, 3, "adapter_config.json", "no 'peft_type'");
  std::filesystem::remove(config);
  EXPECT_THAT(run({"lora", "info", "adapter"}).err, HasSubstr("adapter_config.json"));
}

TEST_F(LoraCommand, RefusesHalfAPair) {
  write_checkpoint(dir_.path() / "adapter/adapter_model.safetensors",
                   dict({{"base_model.model.fc.lora_A.weight", matrix(2, {1, 2, 3, 0, 0, 0})}}));
  expect_refused(dir_, {"lora", "info", "adapter"}, 3, "'fc'", "a matrix A without its B");
}

TEST_F(LoraCommand, RefusesMatricesOfTwoRanks) {
  write_checkpoint(dir_.path() / "adapter/adapter_model.safetensors",
                   dict({{"base_model.model.fc.lora_A.weight", matrix(2, {1, 2, 3, 0, 0, 0})},
                         {"base_model.model.fc.lora_B.weight", matrix(2, {1, 0, 2, 10, 0, 20})}}));
  for (const std::vector<std::string>& line :
       {std::vector<std::string>{"lora", "info", "adapter"}, {"lora", "merge", "base.safetensors", "adapter"}}) {
    expect_refused(dir_, line, 3, "'fc'", "has matrices A [2, 3] and B [2, 3], which do not share a rank");
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.path() / "base.merged.safetensors"));
}

TEST_F(LoraCommand, HoldsTheMatricesToTheRankThatTheConfigurationSays) {
  const std::filesystem::path config = dir_.path() / "adapter/adapter_config.json";
  write_file(config, R"({"peft_type": "LORA", "lora_alpha": 4, "r": 16})");
  expect_refused(dir_, {"lora", "merge", "base.safetensors", "adapter"}, 3, "'fc'",
                 "has matrices of rank 2 where adapter_config.json says 16");
  EXPECT_FALSE(std::filesystem::exists(dir_.path() / "base.merged.safetensors"));
  write_file(config, R"({"peft_type": "LORA", "lora_alpha": 4, "r": 16, "rank_pattern": {"other": 3, "fc": 2}})");
  EXPECT_EQ(run({"lora", "merge", "base.safetensors", "adapter"}).code, 0);
  write_file(config, R"({"peft_type": "LORA", "r": 2, "rank_pattern": {"f.": 3}})");
  expect_refused(dir_, {"lora", "info", "adapter"}, 3, "'fc'", "of rank 2 where adapter_config.json says 3");
  write_file(config, R"({"peft_type": "LORA", "r": 2.5})");
  expect_refused(dir_, {"lora", "info", "adapter"}, 3, "adapter_config.json", "'r' is not a whole number");
}

/// Of a base that is a folder of Hugging Face the result is one, with what is neither weights nor an adapter.
TEST_F(LoraCommand, MergesAFolderIntoAFolder) {
  std::filesystem::create_directory(dir_.path() / "base");
  std::filesystem::rename(dir_.path() / "base.safetensors", dir_.path() / "base/model.safetensors");
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "vocab.txt", "source.spm", "bpe.codes", "LICENSE",
        "adapter_config.json", "trainer_state.json", "model.safetensors.index.json", "notes.md"}) {
    write_file(dir_.path() / "base" / name, "{}");
  }
  std::filesystem::remove(dir_.path() / "base/model.safetensors.index.json");
  const Outcome dry = run({"lora", "merge", "base", "adapter", "-o", "tuned", "--dry-run"});
  EXPECT_THAT(dry.out, HasSubstr("tuned: 1 weight changed, 1 tensor of the adapter taken whole, nothing written"));
  EXPECT_FALSE(std::filesystem::exists(dir_.path() / "tuned"));
  const Outcome outcome = run({"lora", "merge", "base", "adapter", "-o", "tuned"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("of weights written, and 7 files beside them"));
  EXPECT_THAT(values("tuned/model.safetensors", "fc.weight"), ElementsAre(3, 5, 7, 22, 42, 62));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path() / "tuned")) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names,
              testing::UnorderedElementsAre("LICENSE", "config.json", "generation_config.json", "model.safetensors",
                                            "tokenizer.json", "vocab.txt", "source.spm", "bpe.codes"));
  expect_refused(dir_, {"lora", "merge", "base", "adapter", "-o", "tuned/"}, 4, "tuned", "exists already; use -f");
  EXPECT_EQ(run({"lora", "merge", "base", "adapter", "-o", "tuned", "-f"}).code, 0);
  const ckpt::JsonDocument json =
      ckpt::JsonDocument::parse(run({"lora", "merge", "base", "adapter", "-o", "tuned", "-f", "--json"}).out);
  EXPECT_EQ(json.root().at("merged").as_integer(), 1);
  EXPECT_EQ(json.root().at("files").items().size(), 7U);
  EXPECT_EQ(run({"lora", "merge", "base", "adapter", "-o", "alone.pth"}).code, 0);
  EXPECT_THAT(values("alone.pth", "fc.weight"), ElementsAre(3, 5, 7, 22, 42, 62));
}

/// An adapter that brings a table of tokens with more rows than config.json says.
TEST_F(LoraCommand, SaysHowManyTokensTheMergedModelHas) {
  std::filesystem::create_directory(dir_.path() / "base");
  write_checkpoint(dir_.path() / "base/model.safetensors",
                   dict({{"fc.weight", matrix(2, {1, 1, 1, 2, 2, 2})}, {"head.weight", matrix(1, {3, 4})}}));
  write_file(dir_.path() / "base/config.json", R"({"vocab_size" : 1, "n": {"vocab_size": 12}})");
  write_checkpoint(dir_.path() / "adapter/adapter_model.safetensors",
                   dict({{"base_model.model.fc.lora_A.weight", matrix(2, {1, 2, 3, 0, 0, 0})},
                         {"base_model.model.fc.lora_B.weight", matrix(2, {1, 0, 10, 0})},
                         {"base_model.model.head.weight", matrix(3, {7, 8, 9, 9, 9, 9})}}));
  const Outcome outcome = run({"lora", "merge", "base", "adapter", "-o", "tuned"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_file(dir_.path() / "tuned/config.json"), R"({"vocab_size" : 3, "n": {"vocab_size": 12}})");
}

TEST_F(LoraCommand, ExtractsWhatATunedModelHasLearnt) {
  ASSERT_EQ(run({"lora", "merge", "base.safetensors", "adapter", "-o", "tuned.safetensors"}).code, 0);
  const Outcome outcome =
      run({"lora", "extract", "--rank", "1", "base.safetensors", "tuned.safetensors", "-o", "learnt/"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("learnt: 1 weight by rank 1, "));
  EXPECT_THAT(outcome.err, HasSubstr("1 tensor differs between the two and is not in the adapter: 'head.weight'"));
  EXPECT_THAT(run({"lora", "info", "learnt"}).out, HasSubstr("LoRA of 'base.safetensors', 1 weight, 5 values"));
  ASSERT_EQ(run({"lora", "merge", "base.safetensors", "learnt", "-o", "back.safetensors"}).code, 0);
  const std::vector<float> back = values("back.safetensors", "fc.weight");
  const float expected[] = {3, 5, 7, 22, 42, 62};
  ASSERT_EQ(back.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(back[i], expected[i], 1e-4);
}

TEST_F(LoraCommand, ExtractsNothingWhereAFolderStandsOrInADryRun) {
  write_checkpoint(dir_.path() / "tuned.pth", dict({{"fc.weight", matrix(2, {9, 1, 1, 2, 2, 2})}}));
  expect_refused(dir_, {"lora", "extract", "base.safetensors", "tuned.pth", "-o", "adapter"}, 4, "adapter",
                 "exists already");
  const Outcome dry = run({"lora", "extract", "-n", "base.safetensors", "tuned.pth", "-o", "new", "--json"});
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_FALSE(std::filesystem::exists(dir_.path() / "new"));
  const ckpt::JsonDocument json = ckpt::JsonDocument::parse(dry.out);
  EXPECT_EQ(json.root().at("layers").items()[0].at("norm").as_real(), 8);
  EXPECT_EQ(json.root().at("left_out").items().size(), 2U);
  expect_refused(dir_, {"lora", "extract", "base.safetensors", "base.safetensors", "-o", "new"}, 2, "no layer differs",
                 "nothing to extract");
}

}  // namespace
