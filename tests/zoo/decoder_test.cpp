#include "zoo/decoder.h"

#include <gtest/gtest.h>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "zoo/gpt2.h"
#include "zoo/lenet.h"
#include "zoo/llama.h"
#include "zoo/nanogpt.h"
#include "zoo/recurrent.h"
#include "zoo/t5.h"
#include "zoo/zoo.h"

namespace {

using core::Tensor;

constexpr std::int64_t kTokens = 20, kPositions = 12;

std::shared_ptr<core::Module> small_model(const std::string& name) {
  if (name == "nanogpt") {
    return std::make_shared<zoo::NanoGPT>(
        zoo::NanoGPTOptions{.block_size = kPositions, .vocab_size = kTokens, .n_layer = 2, .n_head = 2, .n_embd = 16});
  }
  if (name == "gpt2") {
    return std::make_shared<zoo::GPT2LMHeadModel>(zoo::GPT2Model::Options{
        .vocab_size = kTokens, .n_positions = kPositions, .n_embd = 16, .n_layer = 2, .n_head = 2});
  }
  if (name == "llama") {
    return std::make_shared<zoo::LlamaForCausalLM>(zoo::LlamaOptions{.vocab_size = kTokens,
                                                                     .hidden_size = 16,
                                                                     .intermediate_size = 24,
                                                                     .num_hidden_layers = 2,
                                                                     .num_attention_heads = 4,
                                                                     .num_key_value_heads = 2});
  }
  const std::string sizes =
      R"("vocab_size": 20, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4)";
  if (name == "mistral") {
    return zoo::make("MistralForCausalLM",
                     zoo::Config::parse("{" + sizes + R"(, "num_key_value_heads": 2, "sliding_window": 5})"));
  }
  if (name == "gemma2") {
    return zoo::make(
        "Gemma2ForCausalLM",
        zoo::Config::parse("{" + sizes + R"(, "num_key_value_heads": 2, "head_dim": 4, "sliding_window": 5})"));
  }
  if (name == "t5") {
    return zoo::make("T5ForConditionalGeneration", zoo::Config::parse(R"({"vocab_size": 20, "d_model": 16, "d_kv": 4,
                     "d_ff": 24, "num_layers": 2, "num_heads": 4, "relative_attention_num_buckets": 8})"));
  }
  if (name == "whisper") {
    return zoo::make("WhisperForConditionalGeneration",
                     zoo::Config::parse(R"({"vocab_size": 20, "d_model": 16, "num_mel_bins": 4, "encoder_layers": 1,
                     "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 2, "pad_token_id": 0,
                     "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_source_positions": 6})"));
  }
  if (name == "phi3") return zoo::make("Phi3ForCausalLM", zoo::Config::parse("{" + sizes + R"(, "pad_token_id": 0})"));
  if (name == "gpt_neox") return zoo::make("GPTNeoXForCausalLM", zoo::Config::parse("{" + sizes + "}"));
  const zoo::CharOptions options{.vocabulary = kTokens, .embedding = 8, .hidden = 12, .layers = 2};
  if (name == "lstm") return std::make_shared<zoo::CharLSTM>(options);
  return std::make_shared<zoo::CharGRU>(options);
}

class DecoderOf : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    core::manual_seed(0);
    model_ = small_model(GetParam());
    model_->eval();
    for (const Tensor& parameter : model_->parameters()) parameter.detach().mul_(8);  // far from equal shares
    model_->to_double();
    tokens_ = core::randint(0, kTokens, {2, 40});
    if (dynamic_cast<zoo::T5ForConditionalGeneration*>(model_.get()) != nullptr) {
      source_ = core::randint(0, kTokens, {2, 9});
    } else if (dynamic_cast<zoo::TwoInputs*>(model_.get()) != nullptr) {
      source_ = core::randn({2, 4, 12}).to(core::DType::f64);
    }
  }
  /// Logits behind the first `count` tokens, all of them read anew.
  Tensor whole(std::int64_t count) const {
    if (auto* pair = dynamic_cast<zoo::TwoInputs*>(model_.get())) {
      return pair->with_second(source_, tokens_.slice(1, 0, count)).select(1, -1);
    }
    const bool has_table = zoo::Decoder(*model_).positions() > 0;
    return model_->call(tokens_.slice(1, has_table ? std::max<std::int64_t>(0, count - kPositions) : 0, count))
        .select(1, -1);
  }
  void expect_same(zoo::Decoder& decoder, std::int64_t count) const {
    EXPECT_TRUE(core::allclose(decoder.next(tokens_.slice(1, 0, count)), whole(count), {.rtol = 1e-4, .atol = 1e-4}))
        << count << " tokens";
  }
  core::NoGradGuard no_grad_;
  std::shared_ptr<core::Module> model_;
  Tensor tokens_;
  Tensor source_;  ///< of a model that writes about one
};

TEST_P(DecoderOf, TokenByTokenItGivesWhatTheWholeTextGives) {
  zoo::Decoder decoder(*model_, source_);
  for (std::int64_t count = 5; count < 40; ++count) expect_same(decoder, count);
}

TEST_P(DecoderOf, SeveralTokensAtOnceSeeEachOtherInOrder) {
  zoo::Decoder decoder(*model_, source_);
  for (std::int64_t count : {2, 6, 7, 11}) expect_same(decoder, count);
}

TEST_P(DecoderOf, GoesOnFromRowsThatAreChosen) {
  zoo::Decoder decoder(*model_, source_);
  expect_same(decoder, 4);
  decoder.select_rows({1, 0, 1});
  for (Tensor* rows : {&tokens_, &source_}) {
    if (rows->defined()) *rows = core::cat({rows->slice(0, 1, 2), rows->slice(0, 0, 1), rows->slice(0, 1, 2)}, 0);
  }
  for (std::int64_t count : {5, 6, 20, 21}) expect_same(decoder, count);
}

TEST_P(DecoderOf, NothingNewIsAnError) {
  zoo::Decoder decoder(*model_, source_);
  decoder.next(tokens_.slice(1, 0, 3));
  EXPECT_THROW(decoder.next(tokens_.slice(1, 0, 3)), core::Error);
}

INSTANTIATE_TEST_SUITE_P(Models, DecoderOf,
                         testing::Values("nanogpt", "gpt2", "llama", "mistral", "gemma2", "t5", "whisper", "phi3",
                                         "gpt_neox", "lstm", "gru"));

TEST(Decoder, WantsASourceWhereTheModelWritesAboutOne) {
  const auto writer = small_model("t5"), goer = small_model("llama");
  EXPECT_THROW(zoo::Decoder{*writer}, core::Error);
  EXPECT_THROW((zoo::Decoder{*goer, core::zeros({1, 3}, {.dtype = core::DType::i64})}), core::Error);
}

TEST(Decoder, KnowsHowMuchAModelSees) {
  EXPECT_EQ(zoo::Decoder(*small_model("gpt2")).positions(), kPositions);
  EXPECT_EQ(zoo::Decoder(*small_model("llama")).positions(), 0);
}

TEST(Decoder, RefusesAModelThatContinuesNoTexts) {
  zoo::LeNet5 net;
  EXPECT_THROW(zoo::Decoder{net}, core::Error);
}

}  // namespace
