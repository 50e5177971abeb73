// Writes models of the zoo as ONNX files, beside inputs and outputs of other sizes: onnx_models FOLDER [OPSET]. What
// check_onnx.py looks at.
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <string_view>

#include "libckpt/onnx.h"
#include "libcore/core.h"
#include "model_values.h"
#include "zoo/decoder.h"
#include "zoo/family.h"
#include "zoo/zoo.h"

namespace {

using core::Tensor;

struct Case {
  std::string_view name;
  std::string_view family;
  std::string_view config;
  std::int64_t size = 0;  ///< of images
  std::int64_t channels = 3;
};

constexpr std::string_view kBert =
    R"({"vocab_size": 70, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 50,
        "max_position_embeddings": 20})";
constexpr std::string_view kLlama =
    R"({"vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64, "head_dim": 6, "sliding_window": 5})";
constexpr std::string_view kPlainLlama =
    R"({"vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0})";
constexpr std::string_view kViT =
    R"({"image_size": 24, "patch_size": 6, "hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 3,
        "intermediate_size": 50})";

constexpr Case kCases[] = {
    {"lenet", "LeNet5", "{}", 28, 1},
    {"mlp", "MLP", R"({"inputs": 75, "hidden": 7, "classes": 4})", 5},
    {"mnist", "MnistNet", "{}", 28, 1},
    {"cifar", "CifarNet", "{}", 32},
    {"batchnorm", "BatchNormNet", R"({"channels": 4, "classes": 5})", 12, 1},
    {"alexnet", "AlexNet", R"({"num_classes": 7})", 128},
    {"vgg", "vgg11_bn", R"({"num_classes": 7})", 32},
    {"resnet", "ResNet", R"({"block": "BasicBlock", "layers": [1, 1, 1, 1], "num_classes": 4})", 64},
    {"resnet_grouped", "ResNet",
     R"({"block": "Bottleneck", "layers": [1, 1, 1, 1], "num_classes": 6, "width_per_group": 32, "groups": 2,
         "replace_stride_with_dilation": [false, true, true]})",
     64},
    {"densenet", "DenseNet", R"({"growth_rate": 12, "block_config": [2, 3, 4], "num_init_features": 24, "bn_size": 2})",
     64},
    {"mobilenet_v2", "MobileNetV2", R"({"width_mult": 0.5})", 64},
    {"mobilenet_v3", "mobilenet_v3_small", R"({"num_classes": 4})", 64},
    {"efficientnet", "efficientnet_b0", R"({"num_classes": 6})", 64},
    {"efficientnet_v2", "EfficientNet",
     R"({"inverted_residual_setting": [["FusedMBConv", 1, 3, 1, 16, 16, 1], ["MBConv", 4, 3, 2, 16, 24, 2]],
         "dropout": 0.2, "last_channel": 64, "num_classes": 3})",
     64},
    {"convnext", "ConvNeXt", R"({"block_setting": [[16, 24, 1], [24, 32, 2], [32, null, 1]], "num_classes": 4})", 64},
    {"convnext_v2", "ConvNextV2ForImageClassification",
     R"({"hidden_sizes": [8, 16], "depths": [1, 2], "num_stages": 2, "num_labels": 5})", 32},
    {"shufflenet", "ShuffleNetV2", R"({"stages_repeats": [2, 3, 2], "stages_out_channels": [24, 32, 64, 128, 256]})",
     64},
    {"squeezenet", "squeezenet1_1", R"({"num_classes": 3})", 64},
    {"googlenet", "googlenet", R"({"num_classes": 7})", 64},
    {"inception", "inception_v3", R"({"num_classes": 5})", 75},
    {"regnet", "RegNet",
     R"({"block_params": {"depth": 6, "w_0": 16, "w_a": 12.5, "w_m": 2.1, "group_width": 8, "se_ratio": 0.25}})", 64},
    {"vit", "VisionTransformer",
     R"({"image_size": 24, "patch_size": 6, "num_layers": 2, "num_heads": 3, "hidden_dim": 48, "mlp_dim": 96})", 24},
    {"swin", "SwinTransformer",
     R"({"patch_size": [4, 4], "embed_dim": 24, "depths": [2, 2, 2], "num_heads": [2, 3, 4], "window_size": [4, 4]})",
     64},
    {"fcn", "fcn_resnet50", R"({"num_classes": 4})", 64},
    {"deeplab", "deeplabv3_resnet50", R"({"num_classes": 5})", 64},
    {"unet", "UNet", R"({"n_channels": 3, "n_classes": 4})", 32},
    {"unet_bilinear", "UNet", R"({"n_channels": 3, "n_classes": 4, "bilinear": true})", 32},
    {"capsnet", "CapsNet",
     R"({"channels": 8, "types": 2, "prim_size": 4, "classes": 5, "digit_size": 6, "iterations": 2, "hidden": [16, 24]})",
     28, 1},
    {"autoencoder", "Autoencoder", R"({"inputs": 75, "hidden": 12, "code": 3})", 5},
    {"hf_vit", "ViTForImageClassification", kViT, 24},
    {"deit", "DeiTForImageClassificationWithTeacher", kViT, 24},
    {"beit", "BeitForImageClassification",
     R"({"image_size": 24, "patch_size": 6, "hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 3,
         "intermediate_size": 50, "use_relative_position_bias": true})",
     24},
    {"dinov2", "Dinov2ForImageClassification",
     R"({"image_size": 42, "patch_size": 6, "hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 3})", 24},
    {"mobilevit", "MobileViTForImageClassification",
     R"({"hidden_sizes": [12, 16, 20], "neck_hidden_sizes": [6, 8, 10, 12, 14, 16, 24], "num_labels": 4})", 64},
    {"clip_images", "CLIPVisionModel",
     R"({"hidden_size": 36, "intermediate_size": 50, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 24,
         "patch_size": 6})",
     24},
    {"clip_text", "CLIPTextModel",
     R"({"vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3,
         "max_position_embeddings": 14})"},
    {"gpt2", "GPT2LMHeadModel", R"({"vocab_size": 50, "n_positions": 16, "n_embd": 24, "n_layer": 2, "n_head": 3})"},
    {"nanogpt", "GPT", R"({"vocab_size": 50, "block_size": 16, "n_embd": 24, "n_layer": 2, "n_head": 3})"},
    {"bert", "BertModel", kBert},
    {"bert_words", "BertForMaskedLM", kBert},
    {"bert_classes", "BertForSequenceClassification", kBert},
    {"roberta", "RobertaForMaskedLM", kBert},
    {"roberta_classes", "RobertaForSequenceClassification", kBert},
    {"distilbert", "DistilBertForMaskedLM",
     R"({"vocab_size": 70, "dim": 24, "hidden_dim": 50, "n_layers": 2, "n_heads": 3, "max_position_embeddings": 20})"},
    {"llama", "LlamaForCausalLM",
     R"({"vocab_size": 61, "hidden_size": 48, "intermediate_size": 70, "num_hidden_layers": 2, "num_attention_heads": 6,
         "num_key_value_heads": 3, "max_position_embeddings": 64})"},
    {"mistral", "MistralForCausalLM", kLlama},
    {"qwen2", "Qwen2ForCausalLM", kPlainLlama},
    {"qwen3", "Qwen3ForCausalLM", kPlainLlama},
    {"phi3", "Phi3ForCausalLM", kPlainLlama},
    {"gemma2", "Gemma2ForCausalLM", kLlama},
    {"gpt_neox", "GPTNeoXForCausalLM",
     R"({"vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4})"},
    {"lstm", "CharLSTM", R"({"vocabulary": 50, "embedding": 6, "hidden": 10, "layers": 2})"},
    {"gru", "CharGRU", R"({"vocabulary": 50, "embedding": 6, "hidden": 10, "layers": 2})"},
    {"t5_encoder", "T5EncoderModel",
     R"({"vocab_size": 61, "d_model": 24, "d_kv": 5, "d_ff": 40, "num_layers": 2, "num_heads": 3,
         "relative_attention_num_buckets": 8, "relative_attention_max_distance": 9})"},
};

/// An input that is neither one image nor one text: of what sizes it is exported, and run.
struct OtherInput {
  bool is_text;
  core::Shape example, run;
  std::map<std::int64_t, std::string> axes;
};
struct OtherCase {
  std::string_view name;
  std::string_view family;
  std::string_view config;
  std::vector<OtherInput> inputs;
};

std::vector<OtherCase> other_cases() {
  const auto text = [](const std::string& batch, const std::string& length, std::int64_t count) {
    return OtherInput{true, {1, 7}, {3, count}, {{0, batch}, {1, length}}};
  };
  return {
      {"t5",
       "T5ForConditionalGeneration",
       R"({"vocab_size": 61, "d_model": 24, "d_kv": 5, "d_ff": 40, "num_layers": 2, "num_heads": 3,
           "relative_attention_num_buckets": 8, "relative_attention_max_distance": 9})",
       {text("batch", "length", 14), text("batch", "written", 5)}},
      {"whisper",
       "WhisperForConditionalGeneration",
       R"({"vocab_size": 61, "d_model": 24, "num_mel_bins": 10, "encoder_layers": 2, "encoder_attention_heads": 3,
           "encoder_ffn_dim": 40, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 30,
           "max_source_positions": 8, "max_target_positions": 12, "pad_token_id": 0, "bos_token_id": 1,
           "eos_token_id": 2, "decoder_start_token_id": 3})",
       {{false, {1, 10, 16}, {3, 10, 16}, {{0, "batch"}}}, text("batch", "written", 9)}},
      {"clip",
       "CLIPModel",
       R"({"text_config": {"vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
           "num_attention_heads": 3, "max_position_embeddings": 12, "eos_token_id": 2},
           "vision_config": {"hidden_size": 36, "intermediate_size": 50, "num_hidden_layers": 2,
           "num_attention_heads": 4, "image_size": 24, "patch_size": 6}, "projection_dim": 20})",
       {text("texts", "length", 9), {false, {1, 3, 24, 24}, {4, 3, 24, 24}, {{0, "images"}}}}},
      {"bilstm",
       "BiLSTMClassifier",
       R"({"inputs": 6, "hidden": 9, "classes": 3})",
       {{false, {1, 5, 6}, {4, 9, 6}, {{0, "batch"}, {1, "length"}}}}},
      {"encoder",
       "EncoderClassifier",
       R"({"inputs": 9, "width": 24, "heads": 3, "feedforward": 40, "layers": 2, "classes": 4})",
       {{false, {1, 5, 9}, {4, 8, 9}, {{0, "batch"}, {1, "length"}}}}},
      {"rnn",
       "SimpleRNN",
       R"({"inputs": 7, "hidden": 9, "outputs": 2})",
       {{false, {6, 4, 7}, {6, 5, 7}, {{1, "batch"}}}}},
  };
}

/// As trained ones are: no statistics of 0 and 1, nothing that hides what is behind it.
void disturb(core::Module& module) {
  const core::NoGradGuard no_history;
  for (const core::TensorSlot& slot : module.tensor_slots()) {
    if (!slot.tensor->defined() || !slot.tensor->is_floating_point()) continue;
    const Tensor values = slot.tensor->data_alias();
    if (slot.name.ends_with("running_mean")) core::normal_(values, 0, 0.3);
    if (slot.name.ends_with("running_var")) core::uniform_(values, 0.5, 1.5);
    if (slot.kind == core::TensorSlot::Kind::parameter) values.add_(core::randn(values.sizes()) * 0.05);
  }
}

std::shared_ptr<core::Module> made(std::string_view name, std::string_view json) {
  core::manual_seed(3);
  const auto [family, config] = zoo::resolve(name, zoo::Config::parse(json));
  auto net = zoo::build(*family, config);
  disturb(*net);
  net->eval();
  return net;
}

void write_case(const Case& each, const std::filesystem::path& folder, std::int64_t opset) {
  const auto net = made(each.family, each.config);
  std::int64_t numbers = 0;
  for (const Tensor& parameter : net->parameters()) numbers += parameter.numel();
  if (opset == 18 && numbers > 10'000'000) return;  // what they are made of is in others
  const zoo::Family* family = zoo::resolve(each.family, zoo::Config()).first;
  const bool text = family->input == zoo::Input::tokens;
  const auto input = [&](std::int64_t batch, std::int64_t length) {
    if (text) return core::randint(0, 47, {batch, length});
    return core::randn({batch, each.channels, each.size, each.size});
  };
  ckpt::onnx::ExportOptions options{
      .dynamic_axes = {{"input", {{0, "batch"}}}}, .opset = opset, .external_data = opset == 18};
  if (text) options.dynamic_axes["input"][1] = "length";
  options.forward = [family](core::Module& module, const Tensors& in) {
    return Tensors{family->main_output != nullptr ? family->main_output(module, in[0]) : module.call(in[0])};
  };
  write_model(*net, folder / each.name, {input(1, 11)}, {input(text ? 3 : 5, 13)}, options);
}

void write_other(const OtherCase& each, const std::filesystem::path& folder, std::int64_t opset) {
  const auto net = made(each.family, each.config);
  ckpt::onnx::ExportOptions options{.opset = opset, .external_data = opset == 18};
  options.forward = [](core::Module& module, const Tensors& in) {
    if (in.size() == 1) return Tensors{module.call(in[0])};
    return Tensors{dynamic_cast<zoo::TwoInputs&>(module).with_second(in[0], in[1])};
  };
  Tensors examples, inputs;
  for (const OtherInput& one : each.inputs) {
    const auto tensor = [&](const core::Shape& sizes) {
      return one.is_text ? core::randint(3, 47, sizes) : core::randn(sizes);
    };
    options.input_names.push_back("input_" + std::to_string(examples.size()));
    options.dynamic_axes[options.input_names.back()] = one.axes;
    examples.push_back(tensor(one.example));
    inputs.push_back(tensor(one.run));
  }
  write_model(*net, folder / each.name, examples, inputs, options);
}

/// Operations that no model of the zoo has, each of its outputs by itself.
class Operations : public core::ModuleOf<Operations> {
 public:
  explicit Operations(std::function<Tensors(const Tensor&)> f) : function(std::move(f)) {}
  void members(core::Members&) override {}
  Tensor forward(const Tensor& x) { return function(x)[0]; }
  std::function<Tensors(const Tensor&)> function;
};

void write_operations(const std::filesystem::path& stem, std::int64_t opset, const Tensor& example, const Tensor& input,
                      const std::map<std::int64_t, std::string>& axes, std::function<Tensors(const Tensor&)> function) {
  Operations net(std::move(function));
  const auto forward = [&net](core::Module&, const Tensors& in) { return net.function(in[0]); };
  write_model(net, stem, {example}, {input}, {.dynamic_axes = {{"input", axes}}, .opset = opset, .forward = forward});
}

Tensors of_image(const Tensor& x) {
  return {core::interpolate(x, {.scale_factor = {1.7}, .mode = "bilinear"}),
          core::interpolate(x, {.scale_factor = {0.3}}),
          core::max_pool2d(x, 2, {.stride = 3, .ceil_mode = true}),
          core::avg_pool2d(x, 3, {.stride = 3, .padding = 1, .ceil_mode = true}),
          core::scaled_dot_product_attention(x, x, x, {.mask = x.select(3, 0).unsqueeze(3) > 0.4}),
          core::scaled_dot_product_attention(x, x, x, {.scale = 0.0}),
          core::linear(x, x.select(0, 0).select(0, 0).select(0, 0)),
          core::floor_divide(x, 0.3)};
}

Tensors of_text(const Tensor& x) {
  const std::int64_t length = x.size(1);
  return {x.select(1, -1) + 1,
          x.slice(1, 0, length - 1) + 1,
          x.slice(1, 0, 12) + 1,
          x.slice(1, -3) + 1,
          core::arange(0, x.size(0) * length + 1),
          core::floor(x) + std::int64_t{9007199254740993},
          core::maximum(x > 3, x < 2),
          (x > 3) + (x < 2)};
}

void write_functions(const std::filesystem::path& folder, std::int64_t opset) {
  write_operations(folder / "image_operations", opset, core::rand({1, 3, 7, 8}), core::rand({3, 3, 7, 8}),
                   {{0, "batch"}}, of_image);
  write_operations(folder / "text_operations", opset, core::randint(0, 9, {1, 6}), core::randint(0, 9, {4, 17}),
                   {{0, "batch"}, {1, "length"}}, of_text);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return std::cerr << "usage: onnx_models FOLDER [OPSET]\n", 2;
  const std::int64_t opset = argc == 3 && std::string_view(argv[2]) == "18" ? 18 : 17;
  bool good = true;
  for (const Case& each : kCases) good &= tried(each.name, [&] { write_case(each, argv[1], opset); });
  for (const OtherCase& each : other_cases()) good &= tried(each.name, [&] { write_other(each, argv[1], opset); });
  good &= tried("operations", [&] { write_functions(argv[1], opset); });
  return good ? 0 : 1;
}
