#include "zoo/zoo.h"

#include <algorithm>
#include <string>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/beit.h"
#include "zoo/dinov2.h"
#include "zoo/family.h"
#include "zoo/hf_vit.h"

namespace zoo {
namespace {

struct Row {
  std::string_view name, about, family, config;
};

// clang-format off
constexpr Row kRows[] = {
    {"lenet5", "LeNet-5, grey images of 28 x 28", "LeNet5", "{}"},
    {"mlp", "perceptron 784-256-10", "MLP", "{}"},
    {"mnist_net", "PyTorch's MNIST example, log-probabilities", "MnistNet", "{}"},
    {"cifar_net", "PyTorch's beginners' tutorial, images of 32 x 32", "CifarNet", "{}"},
    {"batchnorm_net", "two convolutions with batch norm", "BatchNormNet", "{}"},
    {"simple_rnn", "RNN whose last state is read", "SimpleRNN", "{}"},
    {"step_rnn", "RNN whose every step is read", "StepRNN", "{}"},
    {"char_lstm", "characters, one LSTM layer", "CharLSTM", "{}"},
    {"char_lstm_2_layers", "characters, two LSTM layers", "CharLSTM", R"({"vocabulary": 40, "embedding": 16, "hidden": 24, "layers": 2})"},
    {"char_gru", "characters, two GRU layers", "CharGRU", "{}"},
    {"bilstm_classifier", "sequences, two bidirectional LSTM layers", "BiLSTMClassifier", "{}"},
    {"encoder_classifier", "sequences, transformer encoder", "EncoderClassifier", "{}"},
    {"encoder_classifier_prenorm", "the same, normalised first", "EncoderClassifier", R"({"norm_first": true, "activation": "gelu"})"},
    {"autoencoder", "autoencoder 784-400-20", "Autoencoder", "{}"},
    {"vae", "variational autoencoder 784-400-20", "VAE", "{}"},
    {"word2vec", "skip-gram word vectors", "Word2Vec", "{}"},
    {"capsnet", "capsule network with reconstruction", "CapsNet", "{}"},
    {"capsnet_small", "the same, small", "CapsNet", R"({"channels": 16, "types": 4, "hidden": [32, 64]})"},
    {"alexnet", "AlexNet", "AlexNet", "{}"},
    {"vgg11", "VGG, 11 layers", "VGG", R"({"cfg": "A"})"},
    {"vgg11_bn", "VGG, 11 layers, batch norm", "VGG", R"({"cfg": "A", "batch_norm": true})"},
    {"vgg13", "VGG, 13 layers", "VGG", R"({"cfg": "B"})"},
    {"vgg13_bn", "VGG, 13 layers, batch norm", "VGG", R"({"cfg": "B", "batch_norm": true})"},
    {"vgg16", "VGG, 16 layers", "VGG", R"({"cfg": "D"})"},
    {"vgg16_bn", "VGG, 16 layers, batch norm", "VGG", R"({"cfg": "D", "batch_norm": true})"},
    {"vgg19", "VGG, 19 layers", "VGG", R"({"cfg": "E"})"},
    {"vgg19_bn", "VGG, 19 layers, batch norm", "VGG", R"({"cfg": "E", "batch_norm": true})"},
    {"resnet18", "ResNet, 18 layers", "ResNet", R"({"block": "BasicBlock", "layers": [2, 2, 2, 2]})"},
    {"resnet34", "ResNet, 34 layers", "ResNet", R"({"block": "BasicBlock", "layers": [3, 4, 6, 3]})"},
    {"resnet50", "ResNet, 50 layers", "ResNet", R"({"block": "Bottleneck", "layers": [3, 4, 6, 3]})"},
    {"resnet101", "ResNet, 101 layers", "ResNet", R"({"block": "Bottleneck", "layers": [3, 4, 23, 3]})"},
    {"resnet152", "ResNet, 152 layers", "ResNet", R"({"block": "Bottleneck", "layers": [3, 8, 36, 3]})"},
    {"resnext50_32x4d", "ResNeXt, 50 layers, 32 groups of 4", "ResNet", R"({"block": "Bottleneck", "layers": [3, 4, 6, 3], "groups": 32, "width_per_group": 4})"},
    {"resnext101_32x8d", "ResNeXt, 101 layers, 32 groups of 8", "ResNet", R"({"block": "Bottleneck", "layers": [3, 4, 23, 3], "groups": 32, "width_per_group": 8})"},
    {"resnext101_64x4d", "ResNeXt, 101 layers, 64 groups of 4", "ResNet", R"({"block": "Bottleneck", "layers": [3, 4, 23, 3], "groups": 64, "width_per_group": 4})"},
    {"wide_resnet50_2", "ResNet, 50 layers, bottlenecks twice as wide", "ResNet", R"({"block": "Bottleneck", "layers": [3, 4, 6, 3], "width_per_group": 128})"},
    {"wide_resnet101_2", "ResNet, 101 layers, bottlenecks twice as wide", "ResNet", R"({"block": "Bottleneck", "layers": [3, 4, 23, 3], "width_per_group": 128})"},
    {"squeezenet1_0", "SqueezeNet 1.0", "SqueezeNet", R"({"version": "1_0"})"},
    {"squeezenet1_1", "SqueezeNet 1.1", "SqueezeNet", R"({"version": "1_1"})"},
    {"densenet121", "DenseNet, 121 layers", "DenseNet", R"({"growth_rate": 32, "block_config": [6, 12, 24, 16], "num_init_features": 64})"},
    {"densenet161", "DenseNet, 161 layers", "DenseNet", R"({"growth_rate": 48, "block_config": [6, 12, 36, 24], "num_init_features": 96})"},
    {"densenet169", "DenseNet, 169 layers", "DenseNet", R"({"growth_rate": 32, "block_config": [6, 12, 32, 32], "num_init_features": 64})"},
    {"densenet201", "DenseNet, 201 layers", "DenseNet", R"({"growth_rate": 32, "block_config": [6, 12, 48, 32], "num_init_features": 64})"},
    {"googlenet", "GoogLeNet with auxiliary heads", "GoogLeNet", "{}"},
    {"googlenet_no_aux", "GoogLeNet", "GoogLeNet", R"({"aux_logits": false})"},
    {"inception_v3", "Inception v3 with its auxiliary head", "Inception3", "{}"},
    {"inception_v3_no_aux", "Inception v3", "Inception3", R"({"aux_logits": false})"},
    {"mobilenet_v2", "MobileNet v2", "MobileNetV2", "{}"},
    {"mobilenet_v3_small", "MobileNet v3, small", "MobileNetV3", R"({"arch": "small"})"},
    {"mobilenet_v3_large", "MobileNet v3, large", "MobileNetV3", R"({"arch": "large"})"},
    {"shufflenet_v2_x0_5", "ShuffleNet v2, half width", "ShuffleNetV2", R"({"stages_out_channels": [24, 48, 96, 192, 1024]})"},
    {"shufflenet_v2_x1_0", "ShuffleNet v2", "ShuffleNetV2", R"({"stages_out_channels": [24, 116, 232, 464, 1024]})"},
    {"shufflenet_v2_x1_5", "ShuffleNet v2, width 1.5", "ShuffleNetV2", R"({"stages_out_channels": [24, 176, 352, 704, 1024]})"},
    {"shufflenet_v2_x2_0", "ShuffleNet v2, double width", "ShuffleNetV2", R"({"stages_out_channels": [24, 244, 488, 976, 2048]})"},
    {"efficientnet_b0", "EfficientNet B0", "EfficientNet", R"({"width_mult": 1.0, "depth_mult": 1.0, "dropout": 0.2})"},
    {"efficientnet_b1", "EfficientNet B1", "EfficientNet", R"({"width_mult": 1.0, "depth_mult": 1.1, "dropout": 0.2})"},
    {"efficientnet_b2", "EfficientNet B2", "EfficientNet", R"({"width_mult": 1.1, "depth_mult": 1.2, "dropout": 0.3})"},
    {"efficientnet_b3", "EfficientNet B3", "EfficientNet", R"({"width_mult": 1.2, "depth_mult": 1.4, "dropout": 0.3})"},
    {"efficientnet_b4", "EfficientNet B4", "EfficientNet", R"({"width_mult": 1.4, "depth_mult": 1.8, "dropout": 0.4})"},
    {"efficientnet_b5", "EfficientNet B5", "EfficientNet", R"({"width_mult": 1.6, "depth_mult": 2.2, "dropout": 0.4, "norm_eps": 0.001, "norm_momentum": 0.01})"},
    {"efficientnet_b6", "EfficientNet B6", "EfficientNet", R"({"width_mult": 1.8, "depth_mult": 2.6, "dropout": 0.5, "norm_eps": 0.001, "norm_momentum": 0.01})"},
    {"efficientnet_b7", "EfficientNet B7", "EfficientNet", R"({"width_mult": 2.0, "depth_mult": 3.1, "dropout": 0.5, "norm_eps": 0.001, "norm_momentum": 0.01})"},
    {"efficientnet_v2_s", "EfficientNet v2, small", "EfficientNet", R"({"inverted_residual_setting": [["FusedMBConv", 1, 3, 1, 24, 24, 2], ["FusedMBConv", 4, 3, 2, 24, 48, 4], ["FusedMBConv", 4, 3, 2, 48, 64, 4], ["MBConv", 4, 3, 2, 64, 128, 6], ["MBConv", 6, 3, 1, 128, 160, 9], ["MBConv", 6, 3, 2, 160, 256, 15]], "last_channel": 1280, "dropout": 0.2, "norm_eps": 0.001})"},
    {"efficientnet_v2_m", "EfficientNet v2, medium", "EfficientNet", R"({"inverted_residual_setting": [["FusedMBConv", 1, 3, 1, 24, 24, 3], ["FusedMBConv", 4, 3, 2, 24, 48, 5], ["FusedMBConv", 4, 3, 2, 48, 80, 5], ["MBConv", 4, 3, 2, 80, 160, 7], ["MBConv", 6, 3, 1, 160, 176, 14], ["MBConv", 6, 3, 2, 176, 304, 18], ["MBConv", 6, 3, 1, 304, 512, 5]], "last_channel": 1280, "dropout": 0.3, "norm_eps": 0.001})"},
    {"efficientnet_v2_l", "EfficientNet v2, large", "EfficientNet", R"({"inverted_residual_setting": [["FusedMBConv", 1, 3, 1, 32, 32, 4], ["FusedMBConv", 4, 3, 2, 32, 64, 7], ["FusedMBConv", 4, 3, 2, 64, 96, 7], ["MBConv", 4, 3, 2, 96, 192, 10], ["MBConv", 6, 3, 1, 192, 224, 19], ["MBConv", 6, 3, 2, 224, 384, 25], ["MBConv", 6, 3, 1, 384, 640, 7]], "last_channel": 1280, "dropout": 0.4, "norm_eps": 0.001})"},
    {"regnet_y_400mf", "RegNet Y, 0.4 GF", "RegNet", R"({"depth": 16, "w_0": 48, "w_a": 27.89, "w_m": 2.09, "group_width": 8, "se_ratio": 0.25})"},
    {"regnet_y_800mf", "RegNet Y, 0.8 GF", "RegNet", R"({"depth": 14, "w_0": 56, "w_a": 38.84, "w_m": 2.4, "group_width": 16, "se_ratio": 0.25})"},
    {"regnet_y_1_6gf", "RegNet Y, 1.6 GF", "RegNet", R"({"depth": 27, "w_0": 48, "w_a": 20.71, "w_m": 2.65, "group_width": 24, "se_ratio": 0.25})"},
    {"regnet_y_3_2gf", "RegNet Y, 3.2 GF", "RegNet", R"({"depth": 21, "w_0": 80, "w_a": 42.63, "w_m": 2.66, "group_width": 24, "se_ratio": 0.25})"},
    {"regnet_y_8gf", "RegNet Y, 8 GF", "RegNet", R"({"depth": 17, "w_0": 192, "w_a": 76.82, "w_m": 2.19, "group_width": 56, "se_ratio": 0.25})"},
    {"regnet_y_16gf", "RegNet Y, 16 GF", "RegNet", R"({"depth": 18, "w_0": 200, "w_a": 106.23, "w_m": 2.48, "group_width": 112, "se_ratio": 0.25})"},
    {"regnet_y_32gf", "RegNet Y, 32 GF", "RegNet", R"({"depth": 20, "w_0": 232, "w_a": 115.89, "w_m": 2.53, "group_width": 232, "se_ratio": 0.25})"},
    {"regnet_y_128gf", "RegNet Y, 128 GF", "RegNet", R"({"depth": 27, "w_0": 456, "w_a": 160.83, "w_m": 2.52, "group_width": 264, "se_ratio": 0.25})"},
    {"regnet_x_400mf", "RegNet X, 0.4 GF", "RegNet", R"({"depth": 22, "w_0": 24, "w_a": 24.48, "w_m": 2.54, "group_width": 16})"},
    {"regnet_x_800mf", "RegNet X, 0.8 GF", "RegNet", R"({"depth": 16, "w_0": 56, "w_a": 35.73, "w_m": 2.28, "group_width": 16})"},
    {"regnet_x_1_6gf", "RegNet X, 1.6 GF", "RegNet", R"({"depth": 18, "w_0": 80, "w_a": 34.01, "w_m": 2.25, "group_width": 24})"},
    {"regnet_x_3_2gf", "RegNet X, 3.2 GF", "RegNet", R"({"depth": 25, "w_0": 88, "w_a": 26.31, "w_m": 2.25, "group_width": 48})"},
    {"regnet_x_8gf", "RegNet X, 8 GF", "RegNet", R"({"depth": 23, "w_0": 80, "w_a": 49.56, "w_m": 2.88, "group_width": 120})"},
    {"regnet_x_16gf", "RegNet X, 16 GF", "RegNet", R"({"depth": 22, "w_0": 216, "w_a": 55.59, "w_m": 2.1, "group_width": 128})"},
    {"regnet_x_32gf", "RegNet X, 32 GF", "RegNet", R"({"depth": 23, "w_0": 320, "w_a": 69.86, "w_m": 2.0, "group_width": 168})"},
    {"convnext_tiny", "ConvNeXt, tiny", "ConvNeXt", R"({"block_setting": [[96, 192, 3], [192, 384, 3], [384, 768, 9], [768, null, 3]], "stochastic_depth_prob": 0.1})"},
    {"convnext_small", "ConvNeXt, small", "ConvNeXt", R"({"block_setting": [[96, 192, 3], [192, 384, 3], [384, 768, 27], [768, null, 3]], "stochastic_depth_prob": 0.4})"},
    {"convnext_base", "ConvNeXt, base", "ConvNeXt", R"({"block_setting": [[128, 256, 3], [256, 512, 3], [512, 1024, 27], [1024, null, 3]], "stochastic_depth_prob": 0.5})"},
    {"convnext_large", "ConvNeXt, large", "ConvNeXt", R"({"block_setting": [[192, 384, 3], [384, 768, 3], [768, 1536, 27], [1536, null, 3]], "stochastic_depth_prob": 0.5})"},
    {"vit_b_16", "vision transformer, base, patches of 16", "VisionTransformer", R"({"patch_size": 16, "num_layers": 12, "num_heads": 12, "hidden_dim": 768, "mlp_dim": 3072})"},
    {"vit_b_32", "vision transformer, base, patches of 32", "VisionTransformer", R"({"patch_size": 32, "num_layers": 12, "num_heads": 12, "hidden_dim": 768, "mlp_dim": 3072})"},
    {"vit_l_16", "vision transformer, large, patches of 16", "VisionTransformer", R"({"patch_size": 16, "num_layers": 24, "num_heads": 16, "hidden_dim": 1024, "mlp_dim": 4096})"},
    {"vit_l_32", "vision transformer, large, patches of 32", "VisionTransformer", R"({"patch_size": 32, "num_layers": 24, "num_heads": 16, "hidden_dim": 1024, "mlp_dim": 4096})"},
    {"vit_h_14", "vision transformer, huge, patches of 14", "VisionTransformer", R"({"patch_size": 14, "num_layers": 32, "num_heads": 16, "hidden_dim": 1280, "mlp_dim": 5120})"},
    {"swin_t", "Swin transformer, tiny", "SwinTransformer", R"({"stochastic_depth_prob": 0.2})"},
    {"swin_s", "Swin transformer, small", "SwinTransformer", R"({"depths": [2, 2, 18, 2], "stochastic_depth_prob": 0.3})"},
    {"swin_b", "Swin transformer, base", "SwinTransformer", R"({"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32], "stochastic_depth_prob": 0.5})"},
    {"fcn_resnet50", "segmentation, FCN on ResNet-50", "FCN", R"({"backbone": "resnet50"})"},
    {"fcn_resnet101", "segmentation, FCN on ResNet-101", "FCN", R"({"backbone": "resnet101"})"},
    {"deeplabv3_resnet50", "segmentation, DeepLab v3 on ResNet-50", "DeepLabV3", R"({"backbone": "resnet50"})"},
    {"deeplabv3_resnet101", "segmentation, DeepLab v3 on ResNet-101", "DeepLabV3", R"({"backbone": "resnet101"})"},
    {"gpt2", "GPT-2, 124 M, Hugging Face's names", "GPT2LMHeadModel", R"({"n_layer": 12, "n_head": 12, "n_embd": 768})"},
    {"gpt2_medium", "GPT-2, 355 M", "GPT2LMHeadModel", R"({"n_layer": 24, "n_head": 16, "n_embd": 1024})"},
    {"gpt2_large", "GPT-2, 774 M", "GPT2LMHeadModel", R"({"n_layer": 36, "n_head": 20, "n_embd": 1280})"},
    {"gpt2_xl", "GPT-2, 1.6 G", "GPT2LMHeadModel", R"({"n_layer": 48, "n_head": 25, "n_embd": 1600})"},
    {"distilgpt2", "GPT-2 of six layers", "GPT2LMHeadModel", R"({"n_layer": 6, "n_head": 12, "n_embd": 768})"},
    {"nanogpt_gpt2", "GPT-2, 124 M, nanoGPT's names", "GPT", R"({"vocab_size": 50257})"},
    {"nanogpt_shakespeare_char", "nanoGPT's character model", "GPT", R"({"block_size": 256, "vocab_size": 65, "n_layer": 6, "n_head": 6, "n_embd": 384, "dropout": 0.2, "bias": false})"},
    {"bert_base", "BERT, base", "BertModel", "{}"},
    {"bert_large", "BERT, large", "BertModel", R"({"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096})"},
    {"bert_base_masked_lm", "BERT, base, predicts hidden tokens", "BertForMaskedLM", "{}"},
    {"bert_base_pretraining", "BERT, base, both heads of its training", "BertForPreTraining", "{}"},
    {"bert_base_classifier", "BERT, base, classifies texts", "BertForSequenceClassification", "{}"},
    {"roberta_base", "RoBERTa, base", "RobertaModel", R"({"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1})"},
    {"distilbert_base", "DistilBERT, base", "DistilBertModel", "{}"},
    {"llama_1b_shape", "Llama-style decoder, 1.1 G", "LlamaForCausalLM", R"({"num_hidden_layers": 22, "hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000})"},
    {"llama_7b_shape", "Llama-style decoder, 6.7 G", "LlamaForCausalLM", R"({"num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000})"},
    {"llama_3_1b_shape", "Llama 3, 1.2 G", "LlamaForCausalLM", R"({"vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": true})"},
    {"llama_3_8b_shape", "Llama 3, 8.0 G", "LlamaForCausalLM", R"({"vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8})"},
    {"mistral_7b_shape", "Mistral, 7.2 G", "MistralForCausalLM", "{}"},
    {"qwen2_half_b_shape", "Qwen2, 0.5 G", "Qwen2ForCausalLM", R"({"vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": true})"},
    {"gemma_2_2b_shape", "Gemma 2, 2.6 G", "Gemma2ForCausalLM", "{}"},
    {"t5_small", "T5, small, writes about a text", "T5ForConditionalGeneration", "{}"},
    {"whisper_tiny", "Whisper, tiny, writes what is said", "WhisperForConditionalGeneration", "{}"},
    {"clip_base_patch32", "CLIP, base, patches of 32, images beside texts", "CLIPModel", "{}"},
    {"beit_base", "BEiT, base", "BeitModel", R"({"use_relative_position_bias": true})"},
    {"dinov2_base", "DINOv2, base", "Dinov2Model", R"({"image_size": 518})"},
    {"hf_vit_base", "vision transformer, base, Hugging Face's names", "ViTModel", R"({"num_hidden_layers": 12, "num_attention_heads": 12, "hidden_size": 768, "intermediate_size": 3072})"},
    {"hf_vit_large", "vision transformer, large, Hugging Face's names", "ViTModel", R"({"num_hidden_layers": 24, "num_attention_heads": 16, "hidden_size": 1024, "intermediate_size": 4096})"},
};
// clang-format on

std::vector<Model> known_models() {
  std::vector<Model> models;
  for (const Row& row : kRows) {
    const Family* family = find_family(row.family);
    // A transformer of images has classes once it is made with a number of them.
    const Answer answer = family->with_classes.empty() ? family->answer : Answer::features;
    models.push_back({row.name, row.about, family, row.config, family->input, answer});
  }
  return models;
}

/// Names that share the most leading letters with `name`, of known models or of families.
std::string near(std::string_view name) {
  std::size_t best = 0;
  std::string names;
  auto consider = [&](std::string_view known) {
    const auto [a, b] = std::mismatch(known.begin(), known.end(), name.begin(), name.end());
    const auto common = static_cast<std::size_t>(a - known.begin());
    if (common > best) names.clear();
    if (common < best || common == 0) return;
    best = common;
    names += (names.empty() ? "" : ", ") + std::string(known);
  };
  for (const Model& model : list()) consider(model.name);
  for (const Family& family : families()) consider(family.name);
  return names;
}

[[noreturn]] void refuse_option(const char* option) {
  throw core::Error(core::ErrorCode::usage, std::string("this model has no ") + option + " to choose");
}

}  // namespace

std::span<const Family> families() {
  static const std::vector<Family> kAll = [] {
    std::vector<Family> all;
    for (auto part : {detail::small_families(), detail::image_families(), detail::language_families(),
                      detail::hf_image_families(), detail::pair_families()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return kAll;
}

const Family* find_family(std::string_view name) {
  for (const Family& family : families()) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

std::shared_ptr<core::Module> build(const Family& family, const Config& config) {
  Fields fields(family.name, config);
  return family.make(fields);
}

std::span<const Model> list() {
  static const std::vector<Model> kModels = known_models();
  return kModels;
}

const Model* find(std::string_view name) {
  for (const Model& model : list()) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

std::pair<const Family*, Config> resolve(std::string_view name, const Config& config) {
  if (const Model* model = find(name)) return {model->family, Config::parse(model->config).with(config)};
  if (const Family* family = find_family(name)) return {family, config};
  throw core::Error(core::ErrorCode::usage,
                    "no model is named " + core::quote(name) + "; " +
                        (near(name).empty() ? "zoo::list() has all" : "there are " + near(name)));
}

std::shared_ptr<core::Module> make(std::string_view name, const Config& config) {
  const auto [family, fields] = resolve(name, config);
  return build(*family, fields);
}

std::shared_ptr<core::Module> make(std::string_view name, const ModelOptions& options) {
  auto [family, config] = resolve(name, Config());
  if (options.num_classes != 0 && !family->with_classes.empty()) family = find_family(family->with_classes);
  auto set = [&](std::string_view field, std::int64_t value, const char* option) {
    if (value == 0) return;
    if (field.empty()) refuse_option(option);
    config.set(std::string(field), std::to_string(value));
  };
  set(family->channels, options.in_channels, "number of input channels");
  set(family->classes, options.num_classes, "number of classes");
  return build(*family, config);
}

core::Tensor main_output(const Model& model, core::Module& module, const core::Tensor& x) {
  return model.family->main_output != nullptr ? model.family->main_output(module, x) : module.call(x);
}

Answer answer_of(const Model& model, const core::Module& module) {
  if (model.answer != Answer::features) return model.answer;
  const bool classifies = dynamic_cast<const HFViTForImageClassification*>(&module) != nullptr ||
                          dynamic_cast<const BeitForImageClassification*>(&module) != nullptr ||
                          dynamic_cast<const Dinov2ForImageClassification*>(&module) != nullptr;
  return classifies ? Answer::classes : Answer::values;
}

}  // namespace zoo
