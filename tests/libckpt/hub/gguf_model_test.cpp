// Models between Hugging Face and llama.cpp: what does not fit is said, and nothing of a folder is believed unseen.
// Equal to llama.cpp's converter: golden_gguf_models.

#include "libckpt/hub/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/hub/sentence_pieces.h"
#include "libckpt/open_save.h"
#include "libckpt/transform/quantize.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_dir.h"

using ckpt::Checkpoint;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using namespace test;

namespace {

constexpr const char* kConfig =
    R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 4, "intermediate_size": 2, "num_hidden_layers": 1,
        "num_attention_heads": 1, "vocab_size": 3, "tie_word_embeddings": true, "rms_norm_eps": 1e-5})";

ckpt::Value matrix(std::int64_t rows, std::int64_t columns) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * columns; ++i) values.push_back(static_cast<float>(i));
  auto entry = std::make_shared<ckpt::Entry>(float_entry(values));
  entry->shape = {rows, columns};
  return ckpt::Value::tensor(entry);
}

class GgufModel : public testing::Test {
 protected:
  GgufModel() { write("config.json", kConfig); }

  void write(const std::string& name, std::string_view text) const { write_file(dir_.path() / name, text); }
  void write_config(std::string_view from, std::string_view to) const {
    std::string text = kConfig;
    text.replace(text.find(from), from.size(), to);
    write("config.json", text);
  }

  static std::vector<std::pair<std::string, ckpt::Value>> tensors() {
    std::vector<std::pair<std::string, ckpt::Value>> out = {{"model.embed_tokens.weight", matrix(3, 4)},
                                                            {"model.norm.weight", tensor({1, 1, 1, 1})}};
    const std::string layer = "model.layers.0.";
    for (const char* name : {"q", "k", "v", "o"}) {
      out.emplace_back(layer + "self_attn." + name + "_proj.weight", matrix(4, 4));
    }
    out.emplace_back(layer + "mlp.gate_proj.weight", matrix(2, 4));
    out.emplace_back(layer + "mlp.up_proj.weight", matrix(2, 4));
    out.emplace_back(layer + "mlp.down_proj.weight", matrix(4, 2));
    out.emplace_back(layer + "input_layernorm.weight", tensor({1, 1, 1, 1}));
    out.emplace_back(layer + "post_attention_layernorm.weight", tensor({1, 1, 1, 1}));
    return out;
  }

  Checkpoint model(std::vector<std::pair<std::string, ckpt::Value>> tensors,
                   const ckpt::GgufModelOptions& options = {}) {
    return ckpt::to_gguf_model(checkpoint(dict(std::move(tensors))), dir_.path(), options, &report_);
  }
  std::string fault(std::vector<std::pair<std::string, ckpt::Value>> tensors) {
    try {
      model(std::move(tensors));
    } catch (const core::Error& error) {
      return error.what();
    }
    return "no error";
  }

  static std::vector<float> values(const Checkpoint& checkpoint, const std::string& name) {
    for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) {
      if (named.name != name) continue;
      const core::ByteVector bytes = ckpt::read_all(*named.entry->bytes);
      std::vector<float> out(bytes.size() / sizeof(float));
      std::memcpy(out.data(), bytes.data(), bytes.size());
      return out;
    }
    return {};
  }

  TempDir dir_;
  ckpt::GgufModelReport report_;
};

TEST_F(GgufModel, HasTheNamesAndTheOrderOfRowsOfLlamaCpp) {
  const Checkpoint made = model(tensors());
  EXPECT_EQ(report_.architecture, "llama");
  EXPECT_THAT(names(made), Contains("blk.0.attn_q.weight"));
  EXPECT_THAT(names(made), Contains("token_embd.weight"));
  // One head of four rows: the halves are put between each other, 0 2 1 3.
  EXPECT_THAT(values(made, "blk.0.attn_q.weight"), ElementsAre(0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15));
  EXPECT_THAT(values(made, "blk.0.attn_v.weight"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(made.metadata, Contains(Pair("general.architecture", "llama")));
  EXPECT_THAT(made.metadata, Contains(Pair("llama.attention.layer_norm_rms_epsilon", "1e-05")));
  EXPECT_THAT(report_.notes, ElementsAre(HasSubstr("has no tokenizer.json")));
}

TEST_F(GgufModel, ComesBackAsItWas) {
  ckpt::save(model(tensors()), dir_.path() / "m.gguf");
  const ckpt::HubModel back = ckpt::from_gguf_model(ckpt::open(dir_.path() / "m.gguf"));
  EXPECT_EQ(values(back.weights, "model.layers.0.self_attn.q_proj.weight").at(4), 4);
  EXPECT_EQ(ckpt::list_entries(back.weights.root).size(), tensors().size());
  ASSERT_EQ(back.files.at(0).first, "config.json");
  EXPECT_THAT(std::string(core::as_text(back.files[0].second)), HasSubstr("\"tie_word_embeddings\": true"));
}

TEST_F(GgufModel, CountsLayersAndHeads) {
  write_config("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2");
  EXPECT_THAT(fault(tensors()), HasSubstr("config.json says 2 layers, and there are tensors of 1"));
  write_config("\"num_attention_heads\": 1", "\"num_attention_heads\": 0");
  EXPECT_THAT(fault(tensors()), HasSubstr("a model cannot have 0 attention heads"));
  write_config("\"num_attention_heads\": 1", "\"num_attention_heads\": 2, \"num_key_value_heads\": 3");
  EXPECT_THAT(fault(tensors()), HasSubstr("2 attention heads cannot share 3 key-value heads"));
  write_config("\"hidden_size\": 4", "\"hidden_size\": 8");
  EXPECT_THAT(fault(tensors()), HasSubstr("blk.0.attn_q.weight"));
  write_config("\"hidden_size\": 4,", "");
  EXPECT_THAT(fault(tensors()), HasSubstr("hidden_size"));
}

TEST_F(GgufModel, NamesWhatLlamaCppHasNoPlaceFor) {
  auto more = tensors();
  more.emplace_back("model.layers.0.gate_of_its_own.weight", tensor({1}));
  EXPECT_THAT(fault(more), HasSubstr("'model.layers.0.gate_of_its_own.weight' has no place in such a model"));
  write_config("\"rms_norm_eps\"", "\"hidden_act\": \"relu\", \"rms_norm_eps\"");
  EXPECT_THAT(fault(tensors()), HasSubstr("'hidden_act' is \"relu\"; llama.cpp computes llama models with \"silu\""));
  write_config("\"rms_norm_eps\"", "\"rope_scaling\": {\"rope_type\": \"ntk\", \"factor\": 2}, \"rms_norm_eps\"");
  EXPECT_THAT(fault(tensors()), HasSubstr("'rope_type' is 'ntk'"));
  write_config("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
  EXPECT_THAT(fault(tensors()), HasSubstr("no head of their own"));
  write_config("\"rms_norm_eps\"", "\"quantization_config\": {\"bits\": 4}, \"rms_norm_eps\"");
  EXPECT_THAT(fault(tensors()), HasSubstr("'quantization_config' says that the weights are quantized"));
}

class GgufGemma : public GgufModel {
 protected:
  void config(const std::string& more) const {
    write("config.json", R"({"architectures": ["Gemma2ForCausalLM"], "hidden_size": 4, "intermediate_size": 2,
        "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 3)" +
                             more + "}");
  }
  static std::vector<std::pair<std::string, ckpt::Value>> gemma() {
    auto out = tensors();
    out.emplace_back("model.layers.0.pre_feedforward_layernorm.weight", tensor({0.5, 0, -1, 2}));
    out.emplace_back("model.layers.0.post_feedforward_layernorm.weight", tensor({1, 1, 1, 1}));
    return out;
  }
};

TEST_F(GgufGemma, AddsOneToNormsAndTakesItAwayAgain) {
  config("");
  const Checkpoint made = model(gemma());
  EXPECT_EQ(report_.architecture, "gemma2");
  EXPECT_THAT(values(made, "blk.0.ffn_norm.weight"), ElementsAre(1.5, 1, 0, 3));
  EXPECT_THAT(made.metadata, Contains(Pair("gemma2.attn_logit_softcapping", "50")));
  ckpt::save(made, dir_.path() / "m.gguf");
  const ckpt::HubModel back = ckpt::from_gguf_model(ckpt::open(dir_.path() / "m.gguf"));
  EXPECT_THAT(values(back.weights, "model.layers.0.pre_feedforward_layernorm.weight"), ElementsAre(0.5, 0, -1, 2));
  EXPECT_THAT(std::string(core::as_text(back.files[0].second)), HasSubstr("\"query_pre_attn_scalar\": 4"));
}

TEST_F(GgufGemma, NamesWhatLlamaCppComputesOtherwise) {
  config(R"(, "attn_logit_softcapping": null)");
  EXPECT_THAT(fault(gemma()), HasSubstr("'attn_logit_softcapping' is null; llama.cpp computes gemma2 models with one"));
  config(R"(, "query_pre_attn_scalar": 16)");
  EXPECT_THAT(fault(gemma()),
              HasSubstr("'query_pre_attn_scalar' is 16.0; llama.cpp computes such a gemma2 model with 4.0"));
  config(R"(, "rope_theta": 1000000)");
  EXPECT_THAT(fault(gemma()), HasSubstr("'rope_theta' is 1000000.0"));
  config(R"(, "layer_types": ["full_attention"])");
  EXPECT_THAT(fault(gemma()), HasSubstr("'layer_types' does not begin with"));
  config(R"(, "tie_word_embeddings": false)");
  EXPECT_THAT(fault(gemma()), HasSubstr("'tie_word_embeddings' is false"));
  config(R"(, "rope_scaling": {"rope_type": "linear", "factor": 2})");
  EXPECT_THAT(fault(gemma()), HasSubstr("'rope_type' is 'linear', which is not written for gemma2 models"));
}

TEST_F(GgufModel, PositionsOfRobertaBeginBehindThoseThatItLacks) {
  write("config.json", R"({"architectures": ["RobertaModel"], "hidden_size": 4, "intermediate_size": 2,
      "num_hidden_layers": 1, "num_attention_heads": 1, "pad_token_id": 1, "max_position_embeddings": 3})");
  EXPECT_THAT(fault({{"embeddings.position_embeddings.weight", matrix(2, 4)}}),
              HasSubstr("has the shape [2, 4], and the first 2 rows of it are for no position"));
  write("config.json", R"({"architectures": ["RobertaModel"], "hidden_size": 4, "intermediate_size": 2,
      "num_hidden_layers": 1, "num_attention_heads": 1, "pad_token_id": 4000000000})");
  EXPECT_THAT(fault({{"embeddings.position_embeddings.weight", matrix(2, 4)}}), HasSubstr("'pad_token_id' is"));
}

TEST_F(GgufModel, HasMatricesOfTheWidthThatTheConfigSays) {
  auto turned = tensors();
  for (auto& [name, value] : turned) {
    if (name.ends_with("up_proj.weight")) value = matrix(4, 2);
  }
  EXPECT_THAT(fault(turned), HasSubstr("'blk.0.ffn_up.weight' has the shape [4, 2] where config.json says 4 inputs"));
}

TEST_F(GgufModel, LeavesOutBiasesThatGptqWritesForEveryLayer) {
  auto more = tensors();
  more.emplace_back("model.layers.0.mlp.up_proj.bias", tensor({0, 0}));
  more.emplace_back("model.layers.0.mlp.gate_proj.bias", tensor({0, 1}));
  EXPECT_THAT(names(model(more)), Contains("blk.0.ffn_up.bias"));
  const std::vector<std::string> made = names(model(more, {.dequantized = true}));
  EXPECT_THAT(made, testing::Not(Contains("blk.0.ffn_up.bias")));
  EXPECT_THAT(made, Contains("blk.0.ffn_gate.bias"));
  EXPECT_THAT(report_.notes, Contains(HasSubstr("biases of zeros")));
}

TEST_F(GgufModel, TakesNoQuantizedWeightWithoutItsScale) {
  auto more = tensors();
  for (auto& [name, value] : more) {
    if (!name.ends_with("up_proj.weight")) continue;
    ckpt::Entry entry;
    entry.dtype = core::DType::f8_e4m3fn;
    entry.shape = {2, 4};
    entry.bytes = ckpt::memory_source(core::ByteVector(8));
    value = ckpt::Value::tensor(std::make_shared<ckpt::Entry>(entry));
  }
  EXPECT_THAT(names(model(more)), Contains("blk.0.ffn_up.weight"));
  write_config("\"rms_norm_eps\"", "\"quantization_config\": {\"quant_method\": \"fp8\"}, \"rms_norm_eps\"");
  EXPECT_THAT(message_of([&] { model(more, {.dequantized = true}); }), HasSubstr("has no scale"));
}

TEST_F(GgufModel, SaysWhichFileIsDamaged) {
  write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []})");
  EXPECT_THAT(fault(tensors()), HasSubstr("tokenizer.json"));
  write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 7}, "merges": []}})");
  EXPECT_THAT(fault(tensors()), HasSubstr("the tokenizer has 8 tokens, and the model 3"));
  write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]}})");
  EXPECT_THAT(fault(tensors()), HasSubstr("a merge that is no pair"));
  write("tokenizer.json", R"({"model": {"type": "Unigram", "vocab": []}})");
  model(tensors());
  EXPECT_THAT(report_.notes, ElementsAre(HasSubstr("of type 'Unigram'")));
  write("tokenizer.model", "not a model");
  EXPECT_THAT(fault(tensors()), HasSubstr("SentencePiece model"));
}

TEST_F(GgufModel, UnknownModelsAreNone) {
  EXPECT_EQ(ckpt::gguf_architecture(dir_.path()), "llama");
  write_config("LlamaForCausalLM", "SomethingElse");
  EXPECT_EQ(ckpt::gguf_architecture(dir_.path()), "");
  EXPECT_EQ(ckpt::hub_class(dir_.path()), "SomethingElse");
  EXPECT_THAT(fault(tensors()), HasSubstr("config.json names 'SomethingElse', and only models of these architectures "
                                          "become files of llama.cpp: llama, "));
  write_config("[\"LlamaForCausalLM\"]", "[\"LlamaForCausalLM\", \"Qwen2ForCausalLM\"]");
  EXPECT_EQ(ckpt::hub_class(dir_.path()), "");
  EXPECT_THAT(fault(tensors()), HasSubstr("config.json names no one model"));
  std::filesystem::remove(dir_.path() / "config.json");
  EXPECT_EQ(ckpt::gguf_architecture(dir_.path()), "");
  EXPECT_THAT(message_of([] { ckpt::from_gguf_model(checkpoint(state_dict({"a"}))); }),
              HasSubstr("is not a GGUF file"));
}

TEST_F(GgufModel, BackFromFilesThatContradictThemselves) {
  Checkpoint made = model(tensors());
  for (auto& [key, text] : made.metadata) {
    if (key == "llama.block_count") text = "7";
  }
  ckpt::save(made, dir_.path() / "m.gguf");
  const Checkpoint stored = ckpt::open(dir_.path() / "m.gguf");
  EXPECT_THAT(message_of([&] { ckpt::from_gguf_model(stored); }), HasSubstr("the metadata says 7 layers"));
}

TEST(SentencePieces, AreReadAsTheyWereWritten) {
  using ckpt::detail::SentencePiece;
  using ckpt::detail::TokenType;
  const std::vector<SentencePiece> pieces = {{"<unk>", 0, TokenType::unknown}, {"\xe2\x96\x81the", -3.5F}};
  core::ByteVector bytes = ckpt::detail::write_sentence_model({.pieces = pieces, .unigram = false});
  const std::vector<SentencePiece> back = ckpt::detail::read_sentence_model(bytes).pieces;
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[0].type, TokenType::unknown);
  EXPECT_EQ(back[1].text, pieces[1].text);
  EXPECT_EQ(back[1].score, -3.5F);
  // Cut anywhere it is refused or has fewer pieces, and nothing is read behind its end.
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const core::ByteVector cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    message_of([&] { EXPECT_LE(ckpt::detail::read_sentence_model(cut).pieces.size(), 2U); });
  }
}

TEST(SentencePieces, KeepWhatTextsAreBroughtTo) {
  ckpt::detail::SentenceModel model{.pieces = {{"<unk>", 0, ckpt::detail::TokenType::unknown}, {"a", -1.5F}}};
  model.add_space = model.remove_blanks = false;
  model.charsmap = {std::byte{0}, std::byte{200}};
  const ckpt::detail::SentenceModel back = ckpt::detail::read_sentence_model(ckpt::detail::write_sentence_model(model));
  EXPECT_TRUE(back.unigram);
  EXPECT_FALSE(back.add_space);
  EXPECT_FALSE(back.remove_blanks);
  EXPECT_EQ(back.charsmap, model.charsmap);
  EXPECT_EQ(back.pieces.at(1).score, -1.5F);
  model.unigram = false;
  EXPECT_FALSE(ckpt::detail::read_sentence_model(ckpt::detail::write_sentence_model(model)).unigram);
}

/// T5 with one layer that reads and one that writes.
class GgufT5 : public GgufModel {
 protected:
  void config(const std::string& more) const {
    write("config.json", R"({"architectures": ["T5ForConditionalGeneration"], "d_model": 4, "d_ff": 2, "d_kv": 2,
        "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0, "vocab_size": 3)" +
                             more + "}");
  }
  static std::vector<std::pair<std::string, ckpt::Value>> t5() {
    return {{"shared.weight", matrix(3, 4)},
            {"encoder.embed_tokens.weight", matrix(3, 4)},
            {"encoder.block.0.layer.0.SelfAttention.q.weight", matrix(4, 4)},
            {"encoder.block.0.layer.1.DenseReluDense.wi.weight", matrix(2, 4)},
            {"decoder.block.0.layer.1.EncDecAttention.o.weight", matrix(4, 4)},
            {"decoder.final_layer_norm.weight", tensor({1, 1, 1, 1})}};
  }
};

TEST_F(GgufT5, HasTheNamesOfItsTwoStacks) {
  config("");
  EXPECT_THAT(names(model(t5())),
              testing::UnorderedElementsAre("token_embd.weight", "enc.blk.0.attn_q.weight", "enc.blk.0.ffn_up.weight",
                                            "dec.blk.0.cross_attn_o.weight", "dec.output_norm.weight"));
  EXPECT_THAT(report_.left_out, ElementsAre("encoder.embed_tokens.weight"));
}

TEST_F(GgufT5, IsRefusedWhereLlamaCppComputesAnotherModel) {
  config(R"(, "relative_attention_max_distance": 64)");
  EXPECT_THAT(fault(t5()),
              HasSubstr("'relative_attention_max_distance' is 64.0; llama.cpp computes t5 models with 128"));
  config(R"(, "feed_forward_proj": "gated-silu")");
  EXPECT_THAT(fault(t5()), HasSubstr("'feed_forward_proj' is \"gated-silu\""));
  config(R"(, "feed_forward_proj": "gated-gelu")");
  EXPECT_THAT(fault(t5()),
              HasSubstr("'encoder.block.0.layer.1.DenseReluDense.wi.weight' has no place in such a model"));
  config(R"(, "num_decoder_layers": 2)");
  EXPECT_THAT(fault(t5()), HasSubstr("config.json says 2 layers that write, and there are tensors of 1"));
  auto wide = t5();
  wide.emplace_back("decoder.block.0.layer.1.EncDecAttention.k.weight", matrix(4, 3));
  config("");
  EXPECT_THAT(fault(wide), HasSubstr("'dec.blk.0.cross_attn_k.weight' has the shape [4, 3]"));
}

/// Which transformers then scales, also where the first release's files have the table twice.
TEST_F(GgufT5, SaysOfAHeadWhetherItIsTheTableOfTokens) {
  config("");
  const auto said = [&](const ckpt::Value& head) {
    auto with_head = t5();
    with_head.emplace_back("lm_head.weight", head);
    ckpt::save(model(with_head), dir_.path() / "m.gguf", {.overwrite = true});
    const ckpt::HubModel back = ckpt::from_gguf_model(ckpt::open(dir_.path() / "m.gguf"));
    const core::ByteVector& text = back.files.front().second;
    return std::string(reinterpret_cast<const char*>(text.data()), text.size());
  };
  EXPECT_THAT(said(matrix(3, 4)), HasSubstr("\"tie_word_embeddings\": true"));
  auto other = std::make_shared<ckpt::Entry>(float_entry(std::vector<float>(12, 2)));
  other->shape = {3, 4};
  EXPECT_THAT(said(ckpt::Value::tensor(other)), HasSubstr("\"tie_word_embeddings\": false"));
}

TEST_F(GgufModel, RefusesClassesThatHaveNoNumbers) {
  write("config.json", R"({"architectures": ["BertForSequenceClassification"], "hidden_size": 4, "intermediate_size": 2,
        "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 3, "id2label": {"good": 0}})");
  EXPECT_THAT(fault(tensors()), HasSubstr("'id2label' does not name classes by their numbers"));
}

}  // namespace
