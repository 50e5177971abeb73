#include "zoo/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "libckpt/bridge.h"
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/tensor/random.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_dir.h"
#include "zoo/family.h"
#include "zoo/from_folder.h"
#include "zoo/image_processor.h"

namespace {

using testing::HasSubstr;
using zoo::Config;

/// What is said of building `family` from `json`; "" when it is built.
std::string fault(const std::string& family, const std::string& json) {
  try {
    zoo::make(family, Config::parse(json));
  } catch (const core::Error& error) {
    return error.message();
  }
  return "";
}

TEST(ZooConfig, FieldsOfTheCallerStandOverThoseOfAKnownModel) {
  auto net = zoo::make("resnet18", Config::parse(R"({"layers": [1, 1, 1, 1], "num_classes": 3})"));
  EXPECT_EQ(net->parameter("fc.weight").sizes(), (core::Shape{3, 512}));
  EXPECT_EQ(net->state_dict().keys().size(), 74U);
}

TEST(ZooConfig, RefusesAFieldByItsName) {
  EXPECT_EQ(fault("AlexNet", R"({"num_clases": 3})"), "field 'num_clases' of AlexNet is not known here");
  EXPECT_EQ(
      fault("LlamaForCausalLM", R"({"hidden_act": "relu2"})"),
      "field 'hidden_act' of LlamaForCausalLM is \"relu2\", and only \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", "
      "\"quick_gelu\", \"relu\", \"silu\", \"swish\" and \"tanh\" are here");
  EXPECT_EQ(fault("BertModel", R"({"is_decoder": true})"),
            "field 'is_decoder' of BertModel is true, and only false is here");
  EXPECT_EQ(fault("LlamaForCausalLM", R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}})"),
            "field 'rope_type' of LlamaForCausalLM's rope_scaling is \"yarn\", and only \"default\", \"linear\" and "
            "\"llama3\" are here");
}

TEST(ZooConfig, RefusesValuesThatCannotBe) {
  EXPECT_EQ(fault("MLP", R"({"hidden": "many"})"),
            "field 'hidden' of MLP has to be a whole number from 1 to 2147483647, not '\"many\"'");
  EXPECT_EQ(fault("GPT", R"({"n_layer": 100000000})"),
            "field 'n_layer' of GPT has to be a whole number from 1 to 10000, not '100000000'");
  EXPECT_EQ(fault("GPT2Model", R"({"n_embd": 10, "n_head": 3})"),
            "field 'n_head' of GPT2Model is 3, which does not divide 'n_embd', 10");
  EXPECT_EQ(fault("GPT2Model", R"({"resid_pdrop": 1.5})"),
            "field 'resid_pdrop' of GPT2Model has to be a number from 0 to 1, not '1.5'");
  EXPECT_EQ(fault("SwinTransformer", R"({"window_size": [7, 5]})"),
            "field 'window_size' of SwinTransformer has two different sides, and only squares are here");
}

TEST(ZooConfig, RefusesSizesOutOfBounds) {
  EXPECT_EQ(fault("RegNet", R"({"w_0": 1})"), "field 'w_0' of RegNet is no multiple of 8");
  EXPECT_EQ(fault("EfficientNet", R"({"width_mult": 1e300})"),
            "field 'width_mult' of EfficientNet has to be a number from 0 to 1000, not '1e300'");
  EXPECT_EQ(fault("ResNet", R"({"layers": [1, 1, 1, 20000]})"),
            "field 'layers' of ResNet has to be a list of whole numbers of at most 10000, not '[1, 1, 1, 20000]'");
  EXPECT_EQ(fault("MobileNetV2", R"({"inverted_residual_setting": [[1, 16, 20000, 1]]})"),
            "field 'inverted_residual_setting' of MobileNetV2 has a row of too many layers");
}

TEST(ZooConfig, TheOnlyBlockIsNeverLeftOut) {
  auto net = zoo::make("ConvNeXt", Config::parse(R"({"block_setting": [[8, null, 1]], "stochastic_depth_prob": 0.5})"));
  EXPECT_THAT(net->str(), HasSubstr("StochasticDepth(p=0.0"));
}

/// As their publishers wrote them, releases ago too, but for the sizes.
TEST(ZooConfig, TakesTheFieldsOfPublishedModels) {
  const std::string small = R"("hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 40,
                              "intermediate_size": 8, "model_type": "x", "torch_dtype": "bfloat16", "use_cache": true,
                              "transformers_version": "4.40.1", "initializer_range": 0.02, "architectures": ["X"], )";
  EXPECT_EQ(fault("Qwen2ForCausalLM", "{" + small + R"("use_mrope": false, "use_sliding_window": false,
      "sliding_window": 32768, "max_window_layers": 28, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2,
      "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "attention_dropout": 0.0, "max_position_embeddings": 32768})"),
            "");
  EXPECT_EQ(fault("Phi3ForCausalLM", "{" + small + R"("attention_bias": false, "auto_map": {"AutoConfig": "a.B"},
      "embd_pdrop": 0.0, "original_max_position_embeddings": 4096, "pad_token_id": 3, "resid_pdrop": 0.0,
      "rope_scaling": null, "num_key_value_heads": 2, "sliding_window": 2047})"),
            "");
  EXPECT_EQ(fault("GPTNeoXForCausalLM", "{" + small + R"("attention_probs_dropout_prob": 0, "hidden_dropout_prob": 0,
      "rotary_emb_base": 10000, "rotary_pct": 0.25, "use_parallel_residual": true, "layer_norm_eps": 1e-05})"),
            "");
  EXPECT_EQ(fault("LlamaForCausalLM", "{" + small + R"("pretraining_tp": 1, "eos_token_id": [7, 8], "head_dim": 8,
      "num_key_value_heads": 2, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
      "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0})"),
            "");
  EXPECT_EQ(fault("DistilBertModel", R"({"activation": "gelu", "dim": 16, "hidden_dim": 8, "n_heads": 2, "n_layers": 1,
      "vocab_size": 40, "sinusoidal_pos_embds": false, "tie_weights_": true, "output_past": true, "qa_dropout": 0.1})"),
            "");
  EXPECT_EQ(fault("GPT2LMHeadModel", R"({"n_ctx": 8, "n_positions": 8, "n_embd": 8, "n_head": 2, "n_layer": 1,
      "vocab_size": 9, "_num_labels": 1, "summary_type": "cls_index", "task_specific_params": {"a": {"b": 1}}})"),
            "");
  EXPECT_EQ(fault("Gemma2ForCausalLM", "{" + small + R"("attention_bias": false, "attn_logit_softcapping": 50.0,
      "cache_implementation": "hybrid", "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_act":
      "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 8192, "pad_token_id": 0,
      "num_key_value_heads": 2, "query_pre_attn_scalar": 224, "rope_theta": 10000.0, "sliding_window": 4096})"),
            "");
  EXPECT_EQ(fault("LlamaForCausalLM", "{" + small + R"("quantization_config": {"bits": 4}})"),
            "field 'quantization_config' of LlamaForCausalLM is not known here");
}

TEST(ZooConfig, TakesTheFieldsOfPublishedModelsOfImagesAndOfTwoInputs) {
  EXPECT_EQ(fault("Dinov2Model", R"({"apply_layernorm": true, "architectures": ["Dinov2Model"], "drop_path_rate": 0.0,
      "hidden_size": 16, "image_size": 28, "layerscale_value": 1.0, "mlp_ratio": 4, "num_attention_heads": 2,
      "num_hidden_layers": 1, "out_features": ["stage1"], "out_indices": [1], "patch_size": 14, "qkv_bias": true,
      "reshape_hidden_states": true, "stage_names": ["stem", "stage1"], "use_swiglu_ffn": false})"),
            "");
  EXPECT_EQ(fault("T5ForConditionalGeneration", R"({"d_ff": 8, "d_kv": 4, "d_model": 8, "decoder_start_token_id": 0,
      "dropout_rate": 0.1, "eos_token_id": 1, "feed_forward_proj": "gated-gelu", "initializer_factor": 1.0,
      "is_encoder_decoder": true, "layer_norm_epsilon": 1e-06, "n_positions": 512, "num_heads": 2, "num_layers": 1,
      "output_past": true, "pad_token_id": 0, "relative_attention_num_buckets": 32, "tie_word_embeddings": false,
      "task_specific_params": {"summarization": {"num_beams": 4}}, "vocab_size": 40, "num_decoder_layers": 1})"),
            "");
  EXPECT_EQ(fault("CLIPModel", R"({"architectures": ["CLIPModel"], "initializer_factor": 1.0, "logit_scale_init_value":
      2.6592, "model_type": "clip", "projection_dim": 6, "text_config": {"vocab_size": 40, "hidden_size": 8,
      "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "bos_token_id": 0, "eos_token_id": 2,
      "pad_token_id": 1, "hidden_act": "quick_gelu", "dropout": 0.0, "top_k": 50, "model_type": "clip_text_model"},
      "text_config_dict": null, "vision_config": {"image_size": 12, "patch_size": 6}, "vision_config_dict":
      {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}})"),
            "");
  EXPECT_EQ(fault("CLIPModel", R"({"text_config": {"hidden_size": 10, "num_attention_heads": 3}})"),
            "field 'num_attention_heads' of CLIPModel's text_config is 3, which does not divide 'hidden_size', 10");
  EXPECT_EQ(fault("BeitForImageClassification", R"({"image_size": 12, "patch_size": 6, "hidden_size": 8, "model_type":
      "beit", "num_attention_heads": 2, "num_hidden_layers": 1, "auxiliary_channels": 256, "auxiliary_concat_input":
      false, "auxiliary_loss_weight": 0.4, "auxiliary_num_convs": 1, "layer_scale_init_value": 0.1, "pool_scales": [1,
      2, 3, 6], "use_auxiliary_head": true, "use_shared_relative_position_bias": false, "vocab_size": 8192,
      "out_indices": [3, 5, 7, 11], "drop_path_rate": 0.1, "intermediate_size": 8, "semantic_loss_ignore_index": 255})"),
            "");
  EXPECT_EQ(fault("WhisperForConditionalGeneration", R"({"activation_dropout": 0.0, "activation_function": "gelu",
      "architectures": ["WhisperForConditionalGeneration"], "begin_suppress_tokens": [220, 9], "d_model": 8,
      "decoder_attention_heads": 2, "decoder_ffn_dim": 8, "decoder_layerdrop": 0.0, "decoder_layers": 1,
      "decoder_start_token_id": 7, "encoder_attention_heads": 2, "encoder_ffn_dim": 8, "encoder_layerdrop": 0.0,
      "encoder_layers": 1, "forced_decoder_ids": [[1, 8]], "init_std": 0.02, "is_encoder_decoder": true,
      "max_length": 448, "max_source_positions": 15, "max_target_positions": 4, "num_hidden_layers": 1,
      "num_mel_bins": 8, "pad_token_id": 9, "scale_embedding": false, "suppress_tokens": [1], "vocab_size": 10})"),
            "");
  EXPECT_EQ(fault("MobileViTForImageClassification", R"({"aspp_dropout_prob": 0.1, "aspp_out_channels": 256,
      "architectures": ["MobileViTForImageClassification"], "atrous_rates": [6, 12, 18], "classifier_dropout_prob": 0.1,
      "conv_kernel_size": 3, "expand_ratio": 2.0, "hidden_act": "silu", "hidden_sizes": [4, 8, 8], "image_size": 256,
      "mlp_ratio": 2.0, "neck_hidden_sizes": [2, 2, 3, 3, 4, 4, 5], "num_attention_heads": 4, "output_stride": 32,
      "patch_size": 2, "qkv_bias": true, "semantic_loss_ignore_index": 255, "layer_norm_eps": 1e-05})"),
            "");
  EXPECT_EQ(fault("MobileViTModel", R"({"output_stride": 4})"),
            "field 'output_stride' of MobileViTModel is none of 8, 16 and 32");
  EXPECT_EQ(fault("WhisperModel", R"({"encoder_layerdrop": 0.1})"),
            "field 'encoder_layerdrop' of WhisperModel is not 0, and no layer is left out in training here");
  EXPECT_THAT(fault("T5ForConditionalGeneration", R"({"feed_forward_proj": "gated-tanh"})"),
              HasSubstr("field 'feed_forward_proj' of T5ForConditionalGeneration is \"gated-tanh\", and only"));
  EXPECT_EQ(fault("Gemma2ForCausalLM", R"({"use_bidirectional_attention": true})"),
            "field 'use_bidirectional_attention' of Gemma2ForCausalLM is true, and only false is here");
}

TEST(ZooConfig, NullIsAsIfTheFieldWereNotThere) {
  EXPECT_EQ(fault("MLP", R"({"inputs": null, "anything": null})"), "");
}

TEST(ZooConfig, AFamilyThatIsNotHereNamesWhatIsNear) {
  EXPECT_THAT(fault("LlamaForSequenceClassification", "{}"), HasSubstr("there are LlamaForCausalLM"));
}

/// A folder as Hugging Face publishes them.
class ZooFolder : public ::testing::Test {
 protected:
  void config(const std::string& json) const { std::ofstream(dir_.path() / "config.json") << json; }
  std::string refusal() const {
    try {
      zoo::from_folder(dir_.path());
    } catch (const core::Error& error) {
      return error.message();
    }
    return "";
  }
  test::TempDir dir_;
  const std::string llama_ =
      R"("vocab_size": 19, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2)";
};

TEST_F(ZooFolder, HasItsModelWithItsWeights) {
  config(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32", )" + llama_ + "}");
  auto net = zoo::make("LlamaForCausalLM", Config::parse("{" + llama_ + "}"));
  ckpt::save(net->state_dict(), dir_.path() / "model.safetensors");
  zoo::FolderModel made = zoo::from_folder(dir_.path());
  EXPECT_EQ(made.family->name, "LlamaForCausalLM");
  EXPECT_EQ(made.dtype, core::DType::f32);
  core::Tensor tokens = core::randint(0, 19, {1, 5});
  EXPECT_TRUE(core::equal(made.model->call(tokens), net->call(tokens)));
}

TEST_F(ZooFolder, KeepsTheDTypeOfTheWeights) {
  config(R"({"model_type": "llama", )" + llama_ + "}");
  auto net = zoo::make("LlamaForCausalLM", Config::parse("{" + llama_ + "}"));
  net->to(core::DType::bf16);
  ckpt::save(net->state_dict(), dir_.path() / "model.safetensors");
  zoo::FolderModel made = zoo::from_folder(dir_.path());
  EXPECT_EQ(made.dtype, core::DType::bf16);
  for (const auto& [name, parameter] : made.model->named_parameters()) {
    EXPECT_EQ(parameter.dtype(), core::DType::bf16) << name;
  }
  EXPECT_EQ(made.model->buffer("model.rotary_emb.inv_freq").dtype(), core::DType::f32);
  EXPECT_EQ(made.model->call(core::randint(0, 19, {1, 5})).dtype(), core::DType::bf16);
  EXPECT_EQ(core::default_dtype(), core::DType::f32);
  EXPECT_EQ(zoo::from_folder(dir_.path(), {.dtype = core::DType::f32}).dtype, core::DType::f32);
}

TEST_F(ZooFolder, TakesTimmsNamesAndArguments) {
  config(R"({"architecture": "resnet18.a1_in1k", "num_classes": 5, "num_features": 512})");
  ckpt::save(zoo::make("resnet18", {.num_classes = 5})->state_dict(), dir_.path() / "model.safetensors");
  zoo::FolderModel made = zoo::from_folder(dir_.path());
  EXPECT_EQ(made.family->name, "ResNet");
  EXPECT_EQ(made.model->parameter("fc.weight").size(0), 5);
}

TEST_F(ZooFolder, TakesTimmsTransformersAtTheSizesOfTheirNamesAndArguments) {
  config(R"({"architecture": "vit_tiny_patch16_224.augreg", "num_classes": 5,
             "model_args": {"img_size": [32, 32], "patch_size": 8, "depth": 2, "in_chans": 1, "global_pool": "token"}})");
  const zoo::FolderConfig said = zoo::folder_config(dir_.path());
  auto net = zoo::build(*said.family, said.config);
  EXPECT_EQ(net->parameter("conv_proj.weight").sizes(), (core::Shape{192, 1, 8, 8}));
  EXPECT_EQ(net->parameter("encoder.pos_embedding").size(1), 17);
  EXPECT_EQ(net->parameter("heads.head.weight").size(0), 5);
  config(R"({"architecture": "vit_tiny_patch16_224", "model_args": {"qk_norm": true}})");
  EXPECT_EQ(refusal(), "field 'qk_norm' of timm's vit_tiny_patch16_224 is not known here");
  config(R"({"architecture": "vit_tiny_patch16_224", "model_args": {"global_pool": "map"}})");
  EXPECT_THAT(refusal(), HasSubstr("field 'global_pool'"));
}

TEST_F(ZooFolder, MayNameAFamilyOfTheZoo) {
  config(R"({"family": "CharLSTM", "vocabulary": 7, "layers": 2})");
  ckpt::save(zoo::make("CharLSTM", Config::parse(R"({"vocabulary": 7, "layers": 2})"))->state_dict(),
             dir_.path() / "net.pth");
  EXPECT_EQ(zoo::from_folder(dir_.path()).model->parameter("embedding.weight").size(0), 7);
}

TEST_F(ZooFolder, SaysWhatIsMissing) {
  EXPECT_EQ(refusal(), "the folder has no config.json, which says what model its weights are of");
  test::write_file(dir_.path() / "adapter_config.json", R"({"peft_type": "LORA"})");
  EXPECT_THAT(refusal(), HasSubstr("the folder holds an adapter, not a model: merge it into the folder of its base "
                                   "(ckpt lora merge BASE ADAPTER"));
  config("{}");
  EXPECT_THAT(refusal(), HasSubstr("config.json names no model"));
  config(R"({"architectures": ["BartForConditionalGeneration"]})");
  EXPECT_THAT(refusal(), HasSubstr("of the family 'BartForConditionalGeneration', which is not here"));
  config(R"({"model_type": "llama", )" + llama_ + "}");
  EXPECT_NE(refusal(), "");
}

TEST_F(ZooFolder, ImagesArePreparedByTheFamilyWhereTheFileNamesNoProcessor) {
  std::ofstream(dir_.path() / "preprocessor_config.json") << R"({"do_resize": true, "size": 384})";
  const auto described = [&] { return zoo::describe(zoo::folder_image_processor(dir_.path())); };
  config(R"({"model_type": "vit", "architectures": ["ViTForImageClassification"]})");
  EXPECT_EQ(described(), "to 384 x 384 (bilinear), mean 0.5 0.5 0.5, std 0.5 0.5 0.5");
  config(R"({"model_type": "deit", "architectures": ["DeiTForImageClassification"]})");
  EXPECT_EQ(described(), "to 384 x 384 (bicubic), middle 224 x 224, mean 0.5 0.5 0.5, std 0.5 0.5 0.5");
}

TEST_F(ZooFolder, NamesOfClassesAreThereForEachNumberOrNotAtAll) {
  const auto names = [](const char* json) { return zoo::class_names(Config::parse(json)); };
  EXPECT_THAT(names(R"({"id2label": {"1": "b", "0": "a", "2": "c"}})"), testing::ElementsAre("a", "b", "c"));
  for (const char* gap : {R"({"id2label": {"0": "a", "2": "c"}})", R"({"id2label": {"0": "a", "01": "b"}})",
                          R"({"id2label": {"0": "a", "1": 2}})", R"({"id2label": {"0": "a", "": "b"}})",
                          R"({"id2label": {"-1": "a", "1": "b"}})", R"({"id2label": ["a"]})", "{}"}) {
    EXPECT_THAT(names(gap), testing::IsEmpty()) << gap;
  }
}

TEST_F(ZooFolder, SaysHowMuchMemoryAModelNeeds) {
  config(R"({"model_type": "llama", "hidden_size": 65536, "intermediate_size": 262144, "num_hidden_layers": 1000})");
  ckpt::save(zoo::make("LlamaForCausalLM", Config::parse("{" + llama_ + "}"))->state_dict(),
             dir_.path() / "model.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("parameters need"));
  EXPECT_THAT(refusal(), HasSubstr("of memory are free"));
}

}  // namespace
