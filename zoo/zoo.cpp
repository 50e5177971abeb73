#include "zoo/zoo.h"

#include <algorithm>
#include <string>
#include <vector>

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

std::int64_t number(std::string_view size) {
  return std::stoll(std::string(size));
}

void refuse_channels(const ModelOptions& asked) {
  if (asked.in_channels != 0) refuse("number of input channels");
}

/// Numbers between the letters 'x' of a size.
std::vector<std::int64_t> numbers(std::string_view size) {
  std::vector<std::int64_t> found;
  for (std::size_t at = 0; at <= size.size(); at = std::min(size.find('x', at), size.size()) + 1) {
    found.push_back(number(size.substr(at)));
  }
  return found;
}

Made make_lenet5(std::string_view, const ModelOptions& asked) {
  if (asked.in_channels > 1) refuse("number of input channels");
  return std::make_shared<LeNet5>(asked.num_classes == 0 ? 10 : asked.num_classes);
}
Made make_mlp(std::string_view, const ModelOptions& asked) {
  refuse_channels(asked);
  MLP::Options options;
  if (asked.num_classes != 0) options.classes = asked.num_classes;
  return std::make_shared<MLP>(options);
}

/// Models of fixed size.
template <class M>
Made make_fixed(std::string_view, const ModelOptions& asked) {
  refuse_channels(asked);
  if (asked.num_classes != 0) refuse("number of classes");
  return std::make_shared<M>();
}
template <class M>
Made make_small_image(std::string_view, const ModelOptions& asked) {
  return image_model<M>({}, asked);
}
Made make_char_lstm(std::string_view layers, const ModelOptions& asked) {
  refuse_channels(asked);
  CharOptions own;
  if (layers == "2") own = {.vocabulary = 40, .embedding = 16, .hidden = 24, .layers = 2};
  if (asked.num_classes != 0) own.vocabulary = asked.num_classes;
  return std::make_shared<CharLSTM>(own);
}
Made make_encoder_classifier(std::string_view form, const ModelOptions& asked) {
  refuse_channels(asked);
  EncoderClassifier::Options own;
  if (form == "prenorm") {
    own.norm_first = true;
    own.activation = "gelu";
  }
  if (asked.num_classes != 0) own.classes = asked.num_classes;
  return std::make_shared<EncoderClassifier>(own);
}
Made make_capsnet(std::string_view size, const ModelOptions& asked) {
  CapsNet::Options own;
  if (size == "small") own = {.channels = 16, .types = 4, .hidden = {32, 64}};
  return image_model<CapsNet>(own, asked);
}

Made make_alexnet(std::string_view, const ModelOptions& asked) {
  return image_model<AlexNet>({}, asked);
}
Made make_vgg(std::string_view layers, const ModelOptions& asked) {
  VGG::Options own{.batch_norm = layers.ends_with("_bn")};
  return std::make_shared<VGG>(number(layers), with(own, asked));
}
Made make_resnet(std::string_view layers, const ModelOptions& asked) {
  return image_model<ResNet>(resnet_options(number(layers)), asked);
}
/// size: layers x groups x width of a group.
Made make_wider_resnet(std::string_view size, const ModelOptions& asked) {
  const std::size_t first = size.find('x'), second = size.rfind('x');
  ResNet::Options own = resnet_options(number(size.substr(0, first)));
  own.groups = number(size.substr(first + 1, second - first - 1));
  own.width_per_group = number(size.substr(second + 1));
  return image_model<ResNet>(own, asked);
}
Made make_squeezenet(std::string_view version, const ModelOptions& asked) {
  const auto which = version == "1_0" ? SqueezeNet::Version::v1_0 : SqueezeNet::Version::v1_1;
  return std::make_shared<SqueezeNet>(which, with(SqueezeNet::Options{}, asked));
}
Made make_densenet(std::string_view layers, const ModelOptions& asked) {
  return image_model<DenseNet>(densenet_options(number(layers)), asked);
}
Made make_googlenet(std::string_view heads, const ModelOptions& asked) {
  return image_model<GoogLeNet>({.aux_logits = heads == "aux"}, asked);
}
Made make_inception(std::string_view heads, const ModelOptions& asked) {
  return image_model<Inception3>({.aux_logits = heads == "aux"}, asked);
}
Made make_mobilenet_v2(std::string_view, const ModelOptions& asked) {
  return image_model<MobileNetV2>({}, asked);
}
Made make_mobilenet_v3(std::string_view size, const ModelOptions& asked) {
  const auto which = size == "small" ? MobileNetV3::Size::small : MobileNetV3::Size::large;
  return std::make_shared<MobileNetV3>(which, with(MobileNetV3::Options{}, asked));
}
/// size: half widths.
Made make_shufflenet(std::string_view size, const ModelOptions& asked) {
  return std::make_shared<ShuffleNetV2>(static_cast<double>(number(size)) / 2, with(ShuffleNetV2::Options{}, asked));
}
Made make_efficientnet(std::string_view size, const ModelOptions& asked) {
  return image_model<EfficientNet>(efficientnet_options(number(size)), asked);
}
Made make_regnet(std::string_view size, const ModelOptions& asked) {
  return image_model<RegNet>(regnet_options(size), asked);
}
Made make_convnext(std::string_view size, const ModelOptions& asked) {
  return image_model<ConvNeXt>(convnext_options(size), asked);
}
/// size: layers x heads x width x hidden x patch.
Made make_vit(std::string_view size, const ModelOptions& asked) {
  const auto n = numbers(size);
  VisionTransformer::Options own{
      .patch_size = n.at(4), .num_layers = n.at(0), .num_heads = n.at(1), .hidden_dim = n.at(2), .mlp_dim = n.at(3)};
  return image_model<VisionTransformer>(own, asked);
}
Made make_swin(std::string_view size, const ModelOptions& asked) {
  return image_model<SwinTransformer>(swin_options(size), asked);
}
Made make_fcn(std::string_view layers, const ModelOptions& asked) {
  return fcn_resnet(number(layers), with(SegmentationOptions{}, asked));
}
Made make_deeplabv3(std::string_view layers, const ModelOptions& asked) {
  return deeplabv3_resnet(number(layers), with(SegmentationOptions{}, asked));
}

/// size: layers x heads x width.
Made make_gpt2(std::string_view size, const ModelOptions& asked) {
  refuse_channels(asked);
  const auto n = numbers(size);
  GPT2Model::Options own{.n_embd = n.at(2), .n_layer = n.at(0), .n_head = n.at(1)};
  if (asked.num_classes != 0) own.vocab_size = asked.num_classes;
  return std::make_shared<GPT2LMHeadModel>(own);
}
Made make_nanogpt(std::string_view size, const ModelOptions& asked) {
  refuse_channels(asked);
  NanoGPT::Options own{.vocab_size = 50257};
  if (size == "char") {
    own = {
        .block_size = 256, .vocab_size = 65, .n_layer = 6, .n_head = 6, .n_embd = 384, .dropout = 0.2, .bias = false};
  }
  if (asked.num_classes != 0) own.vocab_size = asked.num_classes;
  return std::make_shared<NanoGPT>(own);
}
template <class M>
Made make_bert(std::string_view size, const ModelOptions& asked) {
  refuse_channels(asked);
  BertOptions own;
  if (size == "large") {
    own.hidden_size = 1024;
    own.num_hidden_layers = 24;
    own.num_attention_heads = 16;
    own.intermediate_size = 4096;
  }
  if (asked.num_classes != 0) own.num_labels = asked.num_classes;
  return std::make_shared<M>(own);
}
/// size: layers x width x hidden x heads x groups of keys x vocabulary.
Made make_llama(std::string_view size, const ModelOptions& asked) {
  refuse_channels(asked);
  const auto n = numbers(size);
  LlamaOptions own{.vocab_size = n.at(5),
                   .hidden_size = n.at(1),
                   .intermediate_size = n.at(2),
                   .num_hidden_layers = n.at(0),
                   .num_attention_heads = n.at(3),
                   .num_key_value_heads = n.at(4)};
  if (asked.num_classes != 0) own.vocab_size = asked.num_classes;
  return std::make_shared<LlamaForCausalLM>(own);
}
/// size: layers x heads x width x hidden.
Made make_hf_vit(std::string_view size, const ModelOptions& asked) {
  const auto n = numbers(size);
  HFViTOptions own{.hidden_size = n.at(2),
                   .num_hidden_layers = n.at(0),
                   .num_attention_heads = n.at(1),
                   .intermediate_size = n.at(3)};
  if (asked.in_channels != 0) own.in_channels = asked.in_channels;
  if (asked.num_classes == 0) return std::make_shared<HFViTModel>(own);
  own.num_labels = asked.num_classes;
  return std::make_shared<HFViTForImageClassification>(own);
}

constexpr Model kModels[] = {
    {"lenet5", "LeNet-5, grey images of 28 x 28", make_lenet5, {}},
    {"mlp", "perceptron 784-256-10", make_mlp, {}},
    {"mnist_net", "PyTorch's MNIST example, log-probabilities", make_small_image<MnistNet>, {}},
    {"cifar_net", "PyTorch's beginners' tutorial, images of 32 x 32", make_small_image<CifarNet>, {}},
    {"batchnorm_net", "two convolutions with batch norm", make_small_image<BatchNormNet>, {}},
    {"simple_rnn", "RNN whose last state is read", make_fixed<SimpleRNN>, {}},
    {"step_rnn", "RNN whose every step is read", make_fixed<StepRNN>, {}},
    {"char_lstm", "characters, one LSTM layer", make_char_lstm, "1"},
    {"char_lstm_2_layers", "characters, two LSTM layers", make_char_lstm, "2"},
    {"char_gru", "characters, two GRU layers", make_fixed<CharGRU>, {}},
    {"bilstm_classifier", "sequences, two bidirectional LSTM layers", make_fixed<BiLSTMClassifier>, {}},
    {"encoder_classifier", "sequences, transformer encoder", make_encoder_classifier, {}},
    {"encoder_classifier_prenorm", "the same, normalised first", make_encoder_classifier, "prenorm"},
    {"autoencoder", "autoencoder 784-400-20", make_fixed<Autoencoder>, {}},
    {"vae", "variational autoencoder 784-400-20", make_fixed<VAE>, {}},
    {"word2vec", "skip-gram word vectors", make_fixed<Word2Vec>, {}},
    {"capsnet", "capsule network with reconstruction", make_capsnet, {}},
    {"capsnet_small", "the same, small", make_capsnet, "small"},

    {"alexnet", "AlexNet", make_alexnet, {}},
    {"vgg11", "VGG, 11 layers", make_vgg, "11"},
    {"vgg11_bn", "VGG, 11 layers, batch norm", make_vgg, "11_bn"},
    {"vgg13", "VGG, 13 layers", make_vgg, "13"},
    {"vgg13_bn", "VGG, 13 layers, batch norm", make_vgg, "13_bn"},
    {"vgg16", "VGG, 16 layers", make_vgg, "16"},
    {"vgg16_bn", "VGG, 16 layers, batch norm", make_vgg, "16_bn"},
    {"vgg19", "VGG, 19 layers", make_vgg, "19"},
    {"vgg19_bn", "VGG, 19 layers, batch norm", make_vgg, "19_bn"},
    {"resnet18", "ResNet, 18 layers", make_resnet, "18"},
    {"resnet34", "ResNet, 34 layers", make_resnet, "34"},
    {"resnet50", "ResNet, 50 layers", make_resnet, "50"},
    {"resnet101", "ResNet, 101 layers", make_resnet, "101"},
    {"resnet152", "ResNet, 152 layers", make_resnet, "152"},
    {"resnext50_32x4d", "ResNeXt, 50 layers, 32 groups of 4", make_wider_resnet, "50x32x4"},
    {"resnext101_32x8d", "ResNeXt, 101 layers, 32 groups of 8", make_wider_resnet, "101x32x8"},
    {"resnext101_64x4d", "ResNeXt, 101 layers, 64 groups of 4", make_wider_resnet, "101x64x4"},
    {"wide_resnet50_2", "ResNet, 50 layers, bottlenecks twice as wide", make_wider_resnet, "50x1x128"},
    {"wide_resnet101_2", "ResNet, 101 layers, bottlenecks twice as wide", make_wider_resnet, "101x1x128"},
    {"squeezenet1_0", "SqueezeNet 1.0", make_squeezenet, "1_0"},
    {"squeezenet1_1", "SqueezeNet 1.1", make_squeezenet, "1_1"},
    {"densenet121", "DenseNet, 121 layers", make_densenet, "121"},
    {"densenet161", "DenseNet, 161 layers", make_densenet, "161"},
    {"densenet169", "DenseNet, 169 layers", make_densenet, "169"},
    {"densenet201", "DenseNet, 201 layers", make_densenet, "201"},
    {"googlenet", "GoogLeNet with auxiliary heads", make_googlenet, "aux"},
    {"googlenet_no_aux", "GoogLeNet", make_googlenet, {}},
    {"inception_v3", "Inception v3 with its auxiliary head", make_inception, "aux"},
    {"inception_v3_no_aux", "Inception v3", make_inception, {}},
    {"mobilenet_v2", "MobileNet v2", make_mobilenet_v2, {}},
    {"mobilenet_v3_small", "MobileNet v3, small", make_mobilenet_v3, "small"},
    {"mobilenet_v3_large", "MobileNet v3, large", make_mobilenet_v3, "large"},
    {"shufflenet_v2_x0_5", "ShuffleNet v2, half width", make_shufflenet, "1"},
    {"shufflenet_v2_x1_0", "ShuffleNet v2", make_shufflenet, "2"},
    {"shufflenet_v2_x1_5", "ShuffleNet v2, width 1.5", make_shufflenet, "3"},
    {"shufflenet_v2_x2_0", "ShuffleNet v2, double width", make_shufflenet, "4"},
    {"efficientnet_b0", "EfficientNet B0", make_efficientnet, "0"},
    {"efficientnet_b1", "EfficientNet B1", make_efficientnet, "1"},
    {"efficientnet_b2", "EfficientNet B2", make_efficientnet, "2"},
    {"efficientnet_b3", "EfficientNet B3", make_efficientnet, "3"},
    {"efficientnet_b4", "EfficientNet B4", make_efficientnet, "4"},
    {"efficientnet_b5", "EfficientNet B5", make_efficientnet, "5"},
    {"efficientnet_b6", "EfficientNet B6", make_efficientnet, "6"},
    {"efficientnet_b7", "EfficientNet B7", make_efficientnet, "7"},
    {"regnet_y_400mf", "RegNet Y, 0.4 GF", make_regnet, "y_400mf"},
    {"regnet_y_800mf", "RegNet Y, 0.8 GF", make_regnet, "y_800mf"},
    {"regnet_y_1_6gf", "RegNet Y, 1.6 GF", make_regnet, "y_1_6gf"},
    {"regnet_y_3_2gf", "RegNet Y, 3.2 GF", make_regnet, "y_3_2gf"},
    {"regnet_y_8gf", "RegNet Y, 8 GF", make_regnet, "y_8gf"},
    {"regnet_y_16gf", "RegNet Y, 16 GF", make_regnet, "y_16gf"},
    {"regnet_y_32gf", "RegNet Y, 32 GF", make_regnet, "y_32gf"},
    {"regnet_y_128gf", "RegNet Y, 128 GF", make_regnet, "y_128gf"},
    {"regnet_x_400mf", "RegNet X, 0.4 GF", make_regnet, "x_400mf"},
    {"regnet_x_800mf", "RegNet X, 0.8 GF", make_regnet, "x_800mf"},
    {"regnet_x_1_6gf", "RegNet X, 1.6 GF", make_regnet, "x_1_6gf"},
    {"regnet_x_3_2gf", "RegNet X, 3.2 GF", make_regnet, "x_3_2gf"},
    {"regnet_x_8gf", "RegNet X, 8 GF", make_regnet, "x_8gf"},
    {"regnet_x_16gf", "RegNet X, 16 GF", make_regnet, "x_16gf"},
    {"regnet_x_32gf", "RegNet X, 32 GF", make_regnet, "x_32gf"},
    {"convnext_tiny", "ConvNeXt, tiny", make_convnext, "tiny"},
    {"convnext_small", "ConvNeXt, small", make_convnext, "small"},
    {"convnext_base", "ConvNeXt, base", make_convnext, "base"},
    {"convnext_large", "ConvNeXt, large", make_convnext, "large"},
    {"vit_b_16", "vision transformer, base, patches of 16", make_vit, "12x12x768x3072x16"},
    {"vit_b_32", "vision transformer, base, patches of 32", make_vit, "12x12x768x3072x32"},
    {"vit_l_16", "vision transformer, large, patches of 16", make_vit, "24x16x1024x4096x16"},
    {"vit_l_32", "vision transformer, large, patches of 32", make_vit, "24x16x1024x4096x32"},
    {"vit_h_14", "vision transformer, huge, patches of 14", make_vit, "32x16x1280x5120x14"},
    {"swin_t", "Swin transformer, tiny", make_swin, "t"},
    {"swin_s", "Swin transformer, small", make_swin, "s"},
    {"swin_b", "Swin transformer, base", make_swin, "b"},
    {"fcn_resnet50", "segmentation, FCN on ResNet-50", make_fcn, "50"},
    {"fcn_resnet101", "segmentation, FCN on ResNet-101", make_fcn, "101"},
    {"deeplabv3_resnet50", "segmentation, DeepLab v3 on ResNet-50", make_deeplabv3, "50"},
    {"deeplabv3_resnet101", "segmentation, DeepLab v3 on ResNet-101", make_deeplabv3, "101"},

    {"gpt2", "GPT-2, 124 M, Hugging Face's names", make_gpt2, "12x12x768"},
    {"gpt2_medium", "GPT-2, 355 M", make_gpt2, "24x16x1024"},
    {"gpt2_large", "GPT-2, 774 M", make_gpt2, "36x20x1280"},
    {"gpt2_xl", "GPT-2, 1.6 G", make_gpt2, "48x25x1600"},
    {"distilgpt2", "GPT-2 of six layers", make_gpt2, "6x12x768"},
    {"nanogpt_gpt2", "GPT-2, 124 M, nanoGPT's names", make_nanogpt, {}},
    {"nanogpt_shakespeare_char", "nanoGPT's character model", make_nanogpt, "char"},
    {"bert_base", "BERT, base", make_bert<BertModel>, {}},
    {"bert_large", "BERT, large", make_bert<BertModel>, "large"},
    {"bert_base_masked_lm", "BERT, base, predicts hidden tokens", make_bert<BertForMaskedLM>, {}},
    {"bert_base_pretraining", "BERT, base, both heads of its training", make_bert<BertForPreTraining>, {}},
    {"bert_base_classifier", "BERT, base, classifies texts", make_bert<BertForSequenceClassification>, {}},
    {"llama_1b_shape", "Llama-style decoder, 1.1 G", make_llama, "22x2048x5632x32x4x32000"},
    {"llama_7b_shape", "Llama-style decoder, 6.7 G", make_llama, "32x4096x11008x32x32x32000"},
    {"hf_vit_base", "vision transformer, base, Hugging Face's names", make_hf_vit, "12x12x768x3072"},
    {"hf_vit_large", "vision transformer, large, Hugging Face's names", make_hf_vit, "24x16x1024x4096"},
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
  return model->make_size(model->size, options);
}

}  // namespace zoo
