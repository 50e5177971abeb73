#include "zoo/zoo.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/alexnet.h"
#include "zoo/autoencoder.h"
#include "zoo/bert.h"
#include "zoo/capsnet.h"
#include "zoo/convnext.h"
#include "zoo/densenet.h"
#include "zoo/efficientnet.h"
#include "zoo/encoder_classifier.h"
#include "zoo/googlenet.h"
#include "zoo/gpt2.h"
#include "zoo/hf_vit.h"
#include "zoo/inception.h"
#include "zoo/lenet.h"
#include "zoo/llama.h"
#include "zoo/mlp.h"
#include "zoo/mobilenet.h"
#include "zoo/nanogpt.h"
#include "zoo/recurrent.h"
#include "zoo/regnet.h"
#include "zoo/resnet.h"
#include "zoo/segmentation.h"
#include "zoo/shufflenet.h"
#include "zoo/small_images.h"
#include "zoo/squeezenet.h"
#include "zoo/swin.h"
#include "zoo/vgg.h"
#include "zoo/vit.h"
#include "zoo/word2vec.h"

namespace zoo {
namespace {

using Made = std::shared_ptr<core::Module>;

/// `own` with what the caller asked for in its place.
template <class Options>
Options with(Options own, const ModelOptions& asked) {
  if (asked.num_classes != 0) own.num_classes = asked.num_classes;
  if (asked.in_channels != 0) own.in_channels = asked.in_channels;
  return own;
}

template <class M>
Made image_model(const typename M::Options& own, const ModelOptions& asked) {
  return std::make_shared<M>(with(own, asked));
}

[[noreturn]] void refuse(const char* option) {
  throw core::Error(core::ErrorCode::usage, std::string("this model has no ") + option + " to choose");
}

void refuse_channels(const ModelOptions& asked) {
  if (asked.in_channels != 0) refuse("number of input channels");
}

Made make_lenet5(const Model&, const ModelOptions& asked) {
  if (asked.in_channels > 1) refuse("number of input channels");
  return std::make_shared<LeNet5>(asked.num_classes == 0 ? 10 : asked.num_classes);
}
Made make_mlp(const Model&, const ModelOptions& asked) {
  refuse_channels(asked);
  MLP::Options options;
  if (asked.num_classes != 0) options.classes = asked.num_classes;
  return std::make_shared<MLP>(options);
}

/// Models of fixed size.
template <class M>
Made make_fixed(const Model&, const ModelOptions& asked) {
  refuse_channels(asked);
  if (asked.num_classes != 0) refuse("number of classes");
  return std::make_shared<M>();
}
template <class M>
Made make_small_image(const Model&, const ModelOptions& asked) {
  return image_model<M>({}, asked);
}
Made make_char_lstm(const Model& model, const ModelOptions& asked) {
  refuse_channels(asked);
  CharOptions own;
  if (model.sizes[0] == 2) own = {.vocabulary = 40, .embedding = 16, .hidden = 24, .layers = 2};
  if (asked.num_classes != 0) own.vocabulary = asked.num_classes;
  return std::make_shared<CharLSTM>(own);
}
Made make_encoder_classifier(const Model& model, const ModelOptions& asked) {
  refuse_channels(asked);
  EncoderClassifier::Options own;
  if (model.form == "prenorm") {
    own.norm_first = true;
    own.activation = "gelu";
  }
  if (asked.num_classes != 0) own.classes = asked.num_classes;
  return std::make_shared<EncoderClassifier>(own);
}
Made make_capsnet(const Model& model, const ModelOptions& asked) {
  CapsNet::Options own;
  if (model.form == "small") own = {.channels = 16, .types = 4, .hidden = {32, 64}};
  return image_model<CapsNet>(own, asked);
}

Made make_alexnet(const Model&, const ModelOptions& asked) {
  return image_model<AlexNet>({}, asked);
}
Made make_vgg(const Model& model, const ModelOptions& asked) {
  VGG::Options own{.batch_norm = model.form == "bn"};
  return std::make_shared<VGG>(model.sizes[0], with(own, asked));
}
Made make_resnet(const Model& model, const ModelOptions& asked) {
  return image_model<ResNet>(resnet_options(model.sizes[0]), asked);
}
/// sizes: layers, groups, width of a group.
Made make_wider_resnet(const Model& model, const ModelOptions& asked) {
  ResNet::Options own = resnet_options(model.sizes[0]);
  own.groups = model.sizes[1];
  own.width_per_group = model.sizes[2];
  return image_model<ResNet>(own, asked);
}
Made make_squeezenet(const Model& model, const ModelOptions& asked) {
  const auto which = model.form == "1_0" ? SqueezeNet::Version::v1_0 : SqueezeNet::Version::v1_1;
  return std::make_shared<SqueezeNet>(which, with(SqueezeNet::Options{}, asked));
}
Made make_densenet(const Model& model, const ModelOptions& asked) {
  return image_model<DenseNet>(densenet_options(model.sizes[0]), asked);
}
Made make_googlenet(const Model& model, const ModelOptions& asked) {
  return image_model<GoogLeNet>({.aux_logits = model.form == "aux"}, asked);
}
Made make_inception(const Model& model, const ModelOptions& asked) {
  return image_model<Inception3>({.aux_logits = model.form == "aux"}, asked);
}
Made make_mobilenet_v2(const Model&, const ModelOptions& asked) {
  return image_model<MobileNetV2>({}, asked);
}
Made make_mobilenet_v3(const Model& model, const ModelOptions& asked) {
  const auto which = model.form == "small" ? MobileNetV3::Size::small : MobileNetV3::Size::large;
  return std::make_shared<MobileNetV3>(which, with(MobileNetV3::Options{}, asked));
}
/// sizes: half widths.
Made make_shufflenet(const Model& model, const ModelOptions& asked) {
  return std::make_shared<ShuffleNetV2>(static_cast<double>(model.sizes[0]) / 2, with(ShuffleNetV2::Options{}, asked));
}
Made make_efficientnet(const Model& model, const ModelOptions& asked) {
  return image_model<EfficientNet>(efficientnet_options(model.sizes[0]), asked);
}
Made make_regnet(const Model& model, const ModelOptions& asked) {
  return image_model<RegNet>(regnet_options(model.form), asked);
}
Made make_convnext(const Model& model, const ModelOptions& asked) {
  return image_model<ConvNeXt>(convnext_options(model.form), asked);
}
/// sizes: layers, heads, width, hidden, patch.
Made make_vit(const Model& model, const ModelOptions& asked) {
  const auto& n = model.sizes;
  VisionTransformer::Options own{
      .patch_size = n[4], .num_layers = n[0], .num_heads = n[1], .hidden_dim = n[2], .mlp_dim = n[3]};
  return image_model<VisionTransformer>(own, asked);
}
Made make_swin(const Model& model, const ModelOptions& asked) {
  return image_model<SwinTransformer>(swin_options(model.form), asked);
}
Made make_fcn(const Model& model, const ModelOptions& asked) {
  return fcn_resnet(model.sizes[0], with(SegmentationOptions{}, asked));
}
Made make_deeplabv3(const Model& model, const ModelOptions& asked) {
  return deeplabv3_resnet(model.sizes[0], with(SegmentationOptions{}, asked));
}

/// sizes: layers, heads, width.
Made make_gpt2(const Model& model, const ModelOptions& asked) {
  refuse_channels(asked);
  const auto& n = model.sizes;
  GPT2Model::Options own{.n_embd = n[2], .n_layer = n[0], .n_head = n[1]};
  if (asked.num_classes != 0) own.vocab_size = asked.num_classes;
  return std::make_shared<GPT2LMHeadModel>(own);
}
Made make_nanogpt(const Model& model, const ModelOptions& asked) {
  refuse_channels(asked);
  NanoGPT::Options own{.vocab_size = 50257};
  if (model.form == "char") {
    own = {
        .block_size = 256, .vocab_size = 65, .n_layer = 6, .n_head = 6, .n_embd = 384, .dropout = 0.2, .bias = false};
  }
  if (asked.num_classes != 0) own.vocab_size = asked.num_classes;
  return std::make_shared<NanoGPT>(own);
}
template <class M>
Made make_bert(const Model& model, const ModelOptions& asked) {
  refuse_channels(asked);
  BertOptions own;
  if (model.form == "large") {
    own.hidden_size = 1024;
    own.num_hidden_layers = 24;
    own.num_attention_heads = 16;
    own.intermediate_size = 4096;
  }
  if (asked.num_classes != 0) own.num_labels = asked.num_classes;
  return std::make_shared<M>(own);
}
/// sizes: layers, width, hidden, heads, groups of keys, vocabulary.
Made make_llama(const Model& model, const ModelOptions& asked) {
  refuse_channels(asked);
  const auto& n = model.sizes;
  LlamaOptions own{.vocab_size = n[5],
                   .hidden_size = n[1],
                   .intermediate_size = n[2],
                   .num_hidden_layers = n[0],
                   .num_attention_heads = n[3],
                   .num_key_value_heads = n[4]};
  if (asked.num_classes != 0) own.vocab_size = asked.num_classes;
  return std::make_shared<LlamaForCausalLM>(own);
}
/// sizes: layers, heads, width, hidden.
Made make_hf_vit(const Model& model, const ModelOptions& asked) {
  const auto& n = model.sizes;
  HFViTOptions own{
      .hidden_size = n[2], .num_hidden_layers = n[0], .num_attention_heads = n[1], .intermediate_size = n[3]};
  if (asked.in_channels != 0) own.in_channels = asked.in_channels;
  if (asked.num_classes == 0) return std::make_shared<HFViTModel>(own);
  own.num_labels = asked.num_classes;
  return std::make_shared<HFViTForImageClassification>(own);
}

/// The first of several outputs.
template <class M>
core::Tensor first_output(core::Module& module, const core::Tensor& x) {
  return std::get<0>(dynamic_cast<M&>(module)(x));
}
/// Of models that take their images as rows of pixels.
core::Tensor output_of_rows(core::Module& module, const core::Tensor& x) {
  return module.call(x.flatten(1));
}
template <class M>
core::Tensor first_output_of_rows(core::Module& module, const core::Tensor& x) {
  return first_output<M>(module, x.flatten(1));
}

using enum Input;
using enum Answer;

constexpr Model kModels[] = {
    {"lenet5", "LeNet-5, grey images of 28 x 28", images, classes, make_lenet5},
    {"mlp", "perceptron 784-256-10", images, classes, make_mlp},
    {"mnist_net", "PyTorch's MNIST example, log-probabilities", images, classes, make_small_image<MnistNet>},
    {"cifar_net", "PyTorch's beginners' tutorial, images of 32 x 32", images, classes, make_small_image<CifarNet>},
    {"batchnorm_net", "two convolutions with batch norm", images, classes, make_small_image<BatchNormNet>},
    {"simple_rnn", "RNN whose last state is read", numbers, values, make_fixed<SimpleRNN>},
    {"step_rnn", "RNN whose every step is read", numbers, values, make_fixed<StepRNN>},
    {"char_lstm", "characters, one LSTM layer", tokens, next_token, make_char_lstm, {1}},
    {"char_lstm_2_layers", "characters, two LSTM layers", tokens, next_token, make_char_lstm, {2}},
    {"char_gru", "characters, two GRU layers", tokens, next_token, make_fixed<CharGRU>},
    {"bilstm_classifier", "sequences, two bidirectional LSTM layers", numbers, classes, make_fixed<BiLSTMClassifier>},
    {"encoder_classifier", "sequences, transformer encoder", numbers, classes, make_encoder_classifier},
    {"encoder_classifier_prenorm",
     "the same, normalised first",
     numbers,
     classes,
     make_encoder_classifier,
     {},
     "prenorm"},
    {"autoencoder", "autoencoder 784-400-20", images, values, make_fixed<Autoencoder>, {}, {}, output_of_rows},
    {"vae", "variational autoencoder 784-400-20", images, values, make_fixed<VAE>, {}, {}, first_output_of_rows<VAE>},
    {"word2vec", "skip-gram word vectors", numbers, values, make_fixed<Word2Vec>},
    {"capsnet", "capsule network with reconstruction", images, lengths, make_capsnet, {}, {}, first_output<CapsNet>},
    {"capsnet_small", "the same, small", images, lengths, make_capsnet, {}, "small", first_output<CapsNet>},

    {"alexnet", "AlexNet", images, classes, make_alexnet},
    {"vgg11", "VGG, 11 layers", images, classes, make_vgg, {11}},
    {"vgg11_bn", "VGG, 11 layers, batch norm", images, classes, make_vgg, {11}, "bn"},
    {"vgg13", "VGG, 13 layers", images, classes, make_vgg, {13}},
    {"vgg13_bn", "VGG, 13 layers, batch norm", images, classes, make_vgg, {13}, "bn"},
    {"vgg16", "VGG, 16 layers", images, classes, make_vgg, {16}},
    {"vgg16_bn", "VGG, 16 layers, batch norm", images, classes, make_vgg, {16}, "bn"},
    {"vgg19", "VGG, 19 layers", images, classes, make_vgg, {19}},
    {"vgg19_bn", "VGG, 19 layers, batch norm", images, classes, make_vgg, {19}, "bn"},
    {"resnet18", "ResNet, 18 layers", images, classes, make_resnet, {18}},
    {"resnet34", "ResNet, 34 layers", images, classes, make_resnet, {34}},
    {"resnet50", "ResNet, 50 layers", images, classes, make_resnet, {50}},
    {"resnet101", "ResNet, 101 layers", images, classes, make_resnet, {101}},
    {"resnet152", "ResNet, 152 layers", images, classes, make_resnet, {152}},
    {"resnext50_32x4d", "ResNeXt, 50 layers, 32 groups of 4", images, classes, make_wider_resnet, {50, 32, 4}},
    {"resnext101_32x8d", "ResNeXt, 101 layers, 32 groups of 8", images, classes, make_wider_resnet, {101, 32, 8}},
    {"resnext101_64x4d", "ResNeXt, 101 layers, 64 groups of 4", images, classes, make_wider_resnet, {101, 64, 4}},
    {"wide_resnet50_2",
     "ResNet, 50 layers, bottlenecks twice as wide",
     images,
     classes,
     make_wider_resnet,
     {50, 1, 128}},
    {"wide_resnet101_2",
     "ResNet, 101 layers, bottlenecks twice as wide",
     images,
     classes,
     make_wider_resnet,
     {101, 1, 128}},
    {"squeezenet1_0", "SqueezeNet 1.0", images, classes, make_squeezenet, {}, "1_0"},
    {"squeezenet1_1", "SqueezeNet 1.1", images, classes, make_squeezenet, {}, "1_1"},
    {"densenet121", "DenseNet, 121 layers", images, classes, make_densenet, {121}},
    {"densenet161", "DenseNet, 161 layers", images, classes, make_densenet, {161}},
    {"densenet169", "DenseNet, 169 layers", images, classes, make_densenet, {169}},
    {"densenet201", "DenseNet, 201 layers", images, classes, make_densenet, {201}},
    {"googlenet", "GoogLeNet with auxiliary heads", images, classes, make_googlenet, {}, "aux"},
    {"googlenet_no_aux", "GoogLeNet", images, classes, make_googlenet},
    {"inception_v3", "Inception v3 with its auxiliary head", images, classes, make_inception, {}, "aux"},
    {"inception_v3_no_aux", "Inception v3", images, classes, make_inception},
    {"mobilenet_v2", "MobileNet v2", images, classes, make_mobilenet_v2},
    {"mobilenet_v3_small", "MobileNet v3, small", images, classes, make_mobilenet_v3, {}, "small"},
    {"mobilenet_v3_large", "MobileNet v3, large", images, classes, make_mobilenet_v3, {}, "large"},
    {"shufflenet_v2_x0_5", "ShuffleNet v2, half width", images, classes, make_shufflenet, {1}},
    {"shufflenet_v2_x1_0", "ShuffleNet v2", images, classes, make_shufflenet, {2}},
    {"shufflenet_v2_x1_5", "ShuffleNet v2, width 1.5", images, classes, make_shufflenet, {3}},
    {"shufflenet_v2_x2_0", "ShuffleNet v2, double width", images, classes, make_shufflenet, {4}},
    {"efficientnet_b0", "EfficientNet B0", images, classes, make_efficientnet, {0}},
    {"efficientnet_b1", "EfficientNet B1", images, classes, make_efficientnet, {1}},
    {"efficientnet_b2", "EfficientNet B2", images, classes, make_efficientnet, {2}},
    {"efficientnet_b3", "EfficientNet B3", images, classes, make_efficientnet, {3}},
    {"efficientnet_b4", "EfficientNet B4", images, classes, make_efficientnet, {4}},
    {"efficientnet_b5", "EfficientNet B5", images, classes, make_efficientnet, {5}},
    {"efficientnet_b6", "EfficientNet B6", images, classes, make_efficientnet, {6}},
    {"efficientnet_b7", "EfficientNet B7", images, classes, make_efficientnet, {7}},
    {"regnet_y_400mf", "RegNet Y, 0.4 GF", images, classes, make_regnet, {}, "y_400mf"},
    {"regnet_y_800mf", "RegNet Y, 0.8 GF", images, classes, make_regnet, {}, "y_800mf"},
    {"regnet_y_1_6gf", "RegNet Y, 1.6 GF", images, classes, make_regnet, {}, "y_1_6gf"},
    {"regnet_y_3_2gf", "RegNet Y, 3.2 GF", images, classes, make_regnet, {}, "y_3_2gf"},
    {"regnet_y_8gf", "RegNet Y, 8 GF", images, classes, make_regnet, {}, "y_8gf"},
    {"regnet_y_16gf", "RegNet Y, 16 GF", images, classes, make_regnet, {}, "y_16gf"},
    {"regnet_y_32gf", "RegNet Y, 32 GF", images, classes, make_regnet, {}, "y_32gf"},
    {"regnet_y_128gf", "RegNet Y, 128 GF", images, classes, make_regnet, {}, "y_128gf"},
    {"regnet_x_400mf", "RegNet X, 0.4 GF", images, classes, make_regnet, {}, "x_400mf"},
    {"regnet_x_800mf", "RegNet X, 0.8 GF", images, classes, make_regnet, {}, "x_800mf"},
    {"regnet_x_1_6gf", "RegNet X, 1.6 GF", images, classes, make_regnet, {}, "x_1_6gf"},
    {"regnet_x_3_2gf", "RegNet X, 3.2 GF", images, classes, make_regnet, {}, "x_3_2gf"},
    {"regnet_x_8gf", "RegNet X, 8 GF", images, classes, make_regnet, {}, "x_8gf"},
    {"regnet_x_16gf", "RegNet X, 16 GF", images, classes, make_regnet, {}, "x_16gf"},
    {"regnet_x_32gf", "RegNet X, 32 GF", images, classes, make_regnet, {}, "x_32gf"},
    {"convnext_tiny", "ConvNeXt, tiny", images, classes, make_convnext, {}, "tiny"},
    {"convnext_small", "ConvNeXt, small", images, classes, make_convnext, {}, "small"},
    {"convnext_base", "ConvNeXt, base", images, classes, make_convnext, {}, "base"},
    {"convnext_large", "ConvNeXt, large", images, classes, make_convnext, {}, "large"},
    {"vit_b_16", "vision transformer, base, patches of 16", images, classes, make_vit, {12, 12, 768, 3072, 16}},
    {"vit_b_32", "vision transformer, base, patches of 32", images, classes, make_vit, {12, 12, 768, 3072, 32}},
    {"vit_l_16", "vision transformer, large, patches of 16", images, classes, make_vit, {24, 16, 1024, 4096, 16}},
    {"vit_l_32", "vision transformer, large, patches of 32", images, classes, make_vit, {24, 16, 1024, 4096, 32}},
    {"vit_h_14", "vision transformer, huge, patches of 14", images, classes, make_vit, {32, 16, 1280, 5120, 14}},
    {"swin_t", "Swin transformer, tiny", images, classes, make_swin, {}, "t"},
    {"swin_s", "Swin transformer, small", images, classes, make_swin, {}, "s"},
    {"swin_b", "Swin transformer, base", images, classes, make_swin, {}, "b"},
    {"fcn_resnet50", "segmentation, FCN on ResNet-50", images, pixels, make_fcn, {50}},
    {"fcn_resnet101", "segmentation, FCN on ResNet-101", images, pixels, make_fcn, {101}},
    {"deeplabv3_resnet50", "segmentation, DeepLab v3 on ResNet-50", images, pixels, make_deeplabv3, {50}},
    {"deeplabv3_resnet101", "segmentation, DeepLab v3 on ResNet-101", images, pixels, make_deeplabv3, {101}},

    {"gpt2", "GPT-2, 124 M, Hugging Face's names", tokens, next_token, make_gpt2, {12, 12, 768}},
    {"gpt2_medium", "GPT-2, 355 M", tokens, next_token, make_gpt2, {24, 16, 1024}},
    {"gpt2_large", "GPT-2, 774 M", tokens, next_token, make_gpt2, {36, 20, 1280}},
    {"gpt2_xl", "GPT-2, 1.6 G", tokens, next_token, make_gpt2, {48, 25, 1600}},
    {"distilgpt2", "GPT-2 of six layers", tokens, next_token, make_gpt2, {6, 12, 768}},
    {"nanogpt_gpt2", "GPT-2, 124 M, nanoGPT's names", tokens, next_token, make_nanogpt},
    {"nanogpt_shakespeare_char", "nanoGPT's character model", tokens, next_token, make_nanogpt, {}, "char"},
    {"bert_base", "BERT, base", tokens, values, make_bert<BertModel>},
    {"bert_large", "BERT, large", tokens, values, make_bert<BertModel>, {}, "large"},
    {"bert_base_masked_lm", "BERT, base, predicts hidden tokens", tokens, hidden_tokens, make_bert<BertForMaskedLM>},
    {"bert_base_pretraining", "BERT, base, both heads of its training", tokens, hidden_tokens,
     make_bert<BertForPreTraining>},
    {"bert_base_classifier", "BERT, base, classifies texts", tokens, classes, make_bert<BertForSequenceClassification>},
    {"llama_1b_shape", "Llama-style decoder, 1.1 G", tokens, next_token, make_llama, {22, 2048, 5632, 32, 4, 32000}},
    {"llama_7b_shape", "Llama-style decoder, 6.7 G", tokens, next_token, make_llama, {32, 4096, 11008, 32, 32, 32000}},
    {"hf_vit_base",
     "vision transformer, base, Hugging Face's names",
     images,
     features,
     make_hf_vit,
     {12, 12, 768, 3072}},
    {"hf_vit_large",
     "vision transformer, large, Hugging Face's names",
     images,
     features,
     make_hf_vit,
     {24, 16, 1024, 4096}},
};

/// Models whose names share the most leading letters with `name`.
std::string near(std::string_view name) {
  std::size_t best = 0;
  std::string names;
  for (const Model& model : kModels) {
    const auto [a, b] = std::mismatch(model.name.begin(), model.name.end(), name.begin(), name.end());
    const auto common = static_cast<std::size_t>(a - model.name.begin());
    if (common > best) names.clear();
    if (common < best || common == 0) continue;
    best = common;
    names += (names.empty() ? "" : ", ") + std::string(model.name);
  }
  return names;
}

}  // namespace

std::span<const Model> list() {
  return kModels;
}

const Model* find(std::string_view name) {
  const Model* found =
      std::find_if(std::begin(kModels), std::end(kModels), [&](const Model& model) { return model.name == name; });
  return found == std::end(kModels) ? nullptr : found;
}

std::shared_ptr<core::Module> make(std::string_view name, const ModelOptions& options) {
  const Model* model = find(name);
  if (model == nullptr) {
    throw core::Error(core::ErrorCode::usage,
                      "no model is named " + core::quote(name) + "; " +
                          (near(name).empty() ? "zoo::list() has all" : "there are " + near(name)));
  }
  return model->make(*model, options);
}

core::Tensor main_output(const Model& model, core::Module& module, const core::Tensor& x) {
  return model.main_output != nullptr ? model.main_output(module, x) : module.call(x);
}

Answer answer_of(const Model& model, const core::Module& module) {
  if (model.answer != Answer::features) return model.answer;
  return dynamic_cast<const HFViTForImageClassification*>(&module) != nullptr ? Answer::classes : Answer::values;
}

}  // namespace zoo
