#include "zoo/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/bridge.h"
#include "libcore/autograd/checkpoint.h"
#include "libcore/base/error.h"
#include "tests/support/temp_dir.h"
#include "zoo/adapt.h"
#include "zoo/nanogpt.h"
#include "zoo/recurrent.h"
#include "zoo/rules/rule_packs.h"
#include "zoo/small_images.h"

namespace {

using testing::HasSubstr;

class ZooFit : public ::testing::Test {
 protected:
  /// A file with the module's state under `prefix`.
  std::filesystem::path save(const core::Module& module, const std::string& prefix = "") const {
    core::StateDict state, own = module.state_dict();
    for (const std::string& key : own.keys()) state.set(prefix + key, own.at(key));
    const std::filesystem::path path = dir_.path() / "net.pth";
    ckpt::save(state, path);
    return path;
  }
  test::TempDir dir_;
};

TEST_F(ZooFit, TakesTheNumberOfClassesFromTheFile) {
  const auto file = save(zoo::CifarNet({.num_classes = 7}), "module.");
  zoo::Fit fit = zoo::fit("cifar_net", file);
  EXPECT_EQ(fit.text, "7 classes");
  EXPECT_EQ(fit.model->parameter("fc3.weight").sizes(), (core::Shape{7, 84}));
  zoo::load_into(*fit.model, "cifar_net", file);
}

TEST_F(ZooFit, TakesTheChannelsToo) {
  const auto file = save(zoo::CifarNet({.num_classes = 3, .in_channels = 1}));
  zoo::Fit fit = zoo::fit("cifar_net", file);
  EXPECT_EQ(fit.text, "3 classes, 1 channel");
  zoo::load_into(*fit.model, "cifar_net", file);
}

TEST_F(ZooFit, LeavesAModelThatFitsAlone) {
  EXPECT_EQ(zoo::fit("cifar_net", save(zoo::CifarNet())).text, "");
  EXPECT_EQ(zoo::fit("resnet18", save(*zoo::make("resnet18"), "model.")).text, "");
}

TEST_F(ZooFit, FindsTheClassesOfLargeModels) {
  EXPECT_EQ(zoo::fit("mobilenet_v3_small", save(*zoo::make("mobilenet_v3_small", {.num_classes = 37}))).text,
            "37 classes");
  EXPECT_EQ(zoo::fit("squeezenet1_1", save(*zoo::make("squeezenet1_1", {.num_classes = 5}))).text, "5 classes");
}

TEST_F(ZooFit, FindsTheClassesUnderTheNamesOfAnotherProject) {
  const ckpt::RulePack* pack = zoo::find_rule_pack("timm-mobilenet-v3-small");
  ASSERT_NE(pack, nullptr);
  ckpt::Checkpoint checkpoint;
  checkpoint.root = ckpt::to_value(zoo::make("mobilenet_v3_small", {.num_classes = 37})->state_dict());
  const auto file = dir_.path() / "timm.pth";
  ckpt::save(ckpt::apply_rules(checkpoint, ckpt::reversed(pack->rules)), file);
  zoo::Fit fit = zoo::fit("mobilenet_v3_small", file);
  EXPECT_EQ(fit.text, "37 classes");
  zoo::load_into(*fit.model, "mobilenet_v3_small", file);
}

TEST_F(ZooFit, KeepsWhatTheCallerChose) {
  zoo::FitOptions options;
  options.load.model.num_classes = 4;
  zoo::Fit fit = zoo::fit("cifar_net", save(zoo::CifarNet({.num_classes = 7})), options);
  EXPECT_EQ(fit.model->parameter("fc3.weight").size(0), 4);
}

TEST_F(ZooFit, BuildsCharacterModelsOfAnySize) {
  const auto file = save(zoo::CharLSTM({.vocabulary = 11, .embedding = 5, .hidden = 7, .layers = 3}), "net.");
  zoo::Fit fit = zoo::fit("char_lstm", file);
  EXPECT_EQ(fit.text, "3 layers of width 7, 11 characters");
  zoo::load_into(*fit.model, "char_lstm", file);
}

zoo::NanoGPT small_gpt() {
  return zoo::NanoGPT({.block_size = 8, .vocab_size = 11, .n_layer = 2, .n_head = 3, .n_embd = 12, .bias = false});
}

TEST_F(ZooFit, BuildsGptsOfAnySizeOnceTheHeadsAreKnown) {
  const auto file = save(small_gpt(), "_orig_mod.");
  zoo::Fit fit = zoo::fit("nanogpt_shakespeare_char", file, {.heads = 3});
  EXPECT_EQ(fit.text, "2 layers, 3 heads, width 12, 8 positions, 11 tokens");
  zoo::load_into(*fit.model, "nanogpt_shakespeare_char", file);
}

TEST_F(ZooFit, ReadsTheHeadsFromATrainingScriptsArguments) {
  ckpt::Dict arguments, root;
  arguments.items.emplace_back(ckpt::Value::text("n_head"), ckpt::Value::integer(4));
  root.items.emplace_back(ckpt::Value::text("model"), ckpt::to_value(small_gpt().state_dict()));
  root.items.emplace_back(ckpt::Value::text("model_args"), ckpt::Value::dict(std::move(arguments)));
  ckpt::Checkpoint checkpoint;
  checkpoint.root = ckpt::Value::dict(std::move(root));
  const auto file = dir_.path() / "ckpt.pt";
  ckpt::save(checkpoint, file);
  EXPECT_THAT(zoo::fit("nanogpt_gpt2", file).text, HasSubstr("4 heads"));
}

TEST_F(ZooFit, DoesNotGuessTheNumberOfHeads) {
  const auto file = save(small_gpt());
  auto error = [&](std::int64_t heads) {
    try {
      zoo::fit("nanogpt_gpt2", file, {.heads = heads});
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::ErrorCode::usage);
      return e.message();
    }
    return std::string("no error");
  };
  EXPECT_EQ(error(0), "the file does not say how many attention heads the model has");
  EXPECT_EQ(error(5), "5 attention heads do not divide its width of 12");
}

/// `family` built from `json`, as a file.
std::filesystem::path saved(const std::filesystem::path& folder, const std::string& family, const std::string& json) {
  const std::filesystem::path path = folder / "net.pth";
  core::StateDict state, own = zoo::make(family, zoo::Config::parse(json))->state_dict();
  for (const std::string& key : own.keys()) state.set("module." + key, own.at(key));
  ckpt::save(state, path);
  return path;
}

/// That fit() builds from the file of a model alone, and from what no shape says, what the model was built from.
void expect_fitted(const std::filesystem::path& folder, const std::string& family, const std::string& json) {
  const auto file = saved(folder, family, json);
  zoo::FitOptions options;
  options.heads = 2;
  if (family.ends_with("CausalLM")) {
    options.config = zoo::Config::parse(R"({"rms_norm_eps": 1e-5, "rope_theta": 10000.0})");
  }
  if (family.starts_with("Gemma2")) options.config.set("query_pre_attn_scalar", "6");
  if (family.starts_with("Whisper")) {
    options.config = zoo::Config::parse(R"({"decoder_attention_heads": 4, "pad_token_id": -1})");
  }
  zoo::Fit fit = zoo::fit(family, file, options);
  zoo::load_into(*fit.model, family, file);
  core::StateDict wanted = zoo::make(family, zoo::Config::parse(json))->state_dict();
  core::StateDict got = fit.model->state_dict();
  EXPECT_EQ(got.keys(), wanted.keys()) << family;
  for (const std::string& key : wanted.keys()) EXPECT_EQ(got.at(key).sizes(), wanted.at(key).sizes()) << key;
}

TEST_F(ZooFit, ReadsDepthAndWidthOffTheFile) {
  const std::pair<const char*, const char*> kCases[] = {
      {"ResNet",
       R"({"block": "Bottleneck", "layers": [1, 2, 1, 3], "groups": 2, "width_per_group": 8, "num_classes": 4})"},
      {"DenseNet", R"({"growth_rate": 6, "block_config": [1, 2, 3], "num_init_features": 8, "bn_size": 3})"},
      {"ConvNeXt", R"({"block_setting": [[6, 8, 1], [8, null, 2]], "num_classes": 3})"},
      {"SwinTransformer", R"({"patch_size": 2, "embed_dim": 12, "depths": [1, 3], "num_heads": [2, 4], "window_size": 3,
                             "mlp_ratio": 2.34, "num_classes": 3})"},
      {"VisionTransformer", R"({"image_size": 24, "patch_size": 6, "num_layers": 3, "num_heads": 2, "hidden_dim": 8,
                               "mlp_dim": 12, "representation_size": 5})"},
      {"GPT2LMHeadModel",
       R"({"vocab_size": 9, "n_positions": 7, "n_embd": 8, "n_layer": 3, "n_head": 2, "n_inner": 12})"},
      {"BertModel", R"({"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2,
                       "intermediate_size": 5, "max_position_embeddings": 6})"},
      {"LlamaForCausalLM", R"({"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2,
                              "num_key_value_heads": 1, "intermediate_size": 5, "mlp_bias": true})"},
      {"Qwen3ForCausalLM", R"({"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2,
                              "num_key_value_heads": 1, "intermediate_size": 5, "head_dim": 6})"},
      {"DeiTForImageClassification", R"({"image_size": 24, "patch_size": 6, "num_hidden_layers": 3,
                                        "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 12})"}};
  for (const auto& [family, json] : kCases) expect_fitted(dir_.path(), family, json);
}

TEST_F(ZooFit, ReadsDepthAndWidthOfNewerFamiliesOffTheFile) {
  const std::pair<const char*, const char*> kCases[] = {
      {"Gemma2ForCausalLM", R"({"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2,
                               "num_key_value_heads": 1, "intermediate_size": 5, "head_dim": 6})"},
      {"Dinov2Model", R"({"image_size": 24, "patch_size": 6, "num_hidden_layers": 3, "mlp_ratio": 3,
                         "num_attention_heads": 2, "hidden_size": 12, "use_swiglu_ffn": true, "num_channels": 1})"},
      {"Dinov2ForImageClassification", R"({"image_size": 36, "patch_size": 6, "num_hidden_layers": 1, "mlp_ratio": 2,
                                          "num_attention_heads": 2, "hidden_size": 8, "use_mask_token": false})"},
      {"T5ForConditionalGeneration", R"({"vocab_size": 9, "d_model": 8, "d_kv": 3, "d_ff": 12, "num_layers": 1,
                                        "num_decoder_layers": 2, "num_heads": 2, "own_lm_head": true,
                                        "relative_attention_num_buckets": 6, "feed_forward_proj": "gated-gelu"})"},
      {"BeitForImageClassification", R"({"image_size": 24, "patch_size": 6, "num_hidden_layers": 2, "num_labels": 5,
                                        "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 12,
                                        "use_relative_position_bias": true})"},
      {"BeitForMaskedImageModeling", R"({"image_size": 24, "patch_size": 6, "num_hidden_layers": 1, "vocab_size": 7,
                                        "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 12,
                                        "use_absolute_position_embeddings": true, "use_mask_token": true,
                                        "use_mean_pooling": false, "layer_scale_init_value": 0.0})"},
      {"CLIPTextModelWithProjection",
       R"({"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 3, "projection_dim": 6,
                                         "num_attention_heads": 2, "intermediate_size": 5,
                                         "max_position_embeddings": 7})"},
      {"CLIPVisionModel", R"({"image_size": 24, "patch_size": 6, "num_hidden_layers": 3, "num_channels": 1,
                             "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 12})"},
      {"UNet", R"({"width": 4, "n_channels": 1, "n_classes": 5, "bilinear": true, "conv_bias": true})"},
      {"WhisperForConditionalGeneration", R"({"vocab_size": 9, "d_model": 8, "num_mel_bins": 5, "encoder_layers": 1,
                                             "encoder_attention_heads": 2, "encoder_ffn_dim": 7, "decoder_layers": 2,
                                             "decoder_attention_heads": 4, "decoder_ffn_dim": 6, "pad_token_id": null,
                                             "max_source_positions": 11, "max_target_positions": 12})"}};
  for (const auto& [family, json] : kCases) expect_fitted(dir_.path(), family, json);
}

TEST_F(ZooFit, AsksForWhatNoShapeSays) {
  const auto file = saved(dir_.path(), "LlamaForCausalLM",
                          R"({"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
                             "intermediate_size": 5})");
  auto fault = [&](const zoo::FitOptions& options) {
    try {
      zoo::fit("LlamaForCausalLM", file, options);
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), core::ErrorCode::usage);
      return error.message();
    }
    return std::string();
  };
  EXPECT_EQ(fault({}),
            "no shape says what the field 'num_attention_heads' of LlamaForCausalLM is; FitOptions::heads says it");
  EXPECT_EQ(fault({.heads = 2}),
            "no shape says what the field 'rms_norm_eps' of LlamaForCausalLM is; set it in FitOptions::config");
}

TEST_F(ZooFit, KeepsTheNamedModelsHeadsAtItsWidth) {
  const auto file = saved(dir_.path(), "gpt2", R"({"n_layer": 1, "vocab_size": 11})");
  EXPECT_EQ(zoo::fit("gpt2", file).text, "vocab_size 11, n_layer 1");
}

TEST_F(ZooFit, NamesWhatIsNearAnUnknownModel) {
  EXPECT_THROW(zoo::fit("resnet19", dir_.path() / "none.pth"), core::Error);
}

}  // namespace
