// Small models of tutorials, by the arguments of their constructors.

#include "libcore/tensor/tensor.h"
#include "zoo/autoencoder.h"
#include "zoo/capsnet.h"
#include "zoo/encoder_classifier.h"
#include "zoo/family.h"
#include "zoo/lenet.h"
#include "zoo/mlp.h"
#include "zoo/recurrent.h"
#include "zoo/small_images.h"
#include "zoo/word2vec.h"

namespace zoo::detail {
namespace {

std::int64_t read_lenet(Fields& f) {
  f.only("in_channels", "1");
  return f.count("classes", 10);
}

MLP::Options read_mlp(Fields& f) {
  const MLP::Options own;
  return {.inputs = f.count("inputs", own.inputs),
          .hidden = f.count("hidden", own.hidden),
          .classes = f.count("classes", own.classes)};
}

MnistNet::Options read_mnist_net(Fields& f) {
  const MnistNet::Options own;
  return {.convolution_dropout = f.probability("p1", own.convolution_dropout),
          .linear_dropout = f.probability("p2", own.linear_dropout),
          .num_classes = f.count("num_classes", own.num_classes),
          .in_channels = f.count("in_channels", own.in_channels)};
}

CifarNet::Options read_cifar_net(Fields& f) {
  const CifarNet::Options own;
  return {.num_classes = f.count("num_classes", own.num_classes),
          .in_channels = f.count("in_channels", own.in_channels)};
}

BatchNormNet::Options read_batchnorm_net(Fields& f) {
  const BatchNormNet::Options own;
  return {.channels = f.count("channels", own.channels),
          .num_classes = f.count("classes", own.num_classes),
          .in_channels = f.count("in_channels", own.in_channels)};
}

CharOptions read_characters(Fields& f, const CharOptions& own) {
  return {.vocabulary = f.count("vocabulary", own.vocabulary),
          .embedding = f.count("embedding", own.embedding),
          .hidden = f.count("hidden", own.hidden),
          .layers = f.depth("layers", own.layers)};
}
CharOptions read_char_lstm(Fields& f) {
  return read_characters(f, {});
}
CharOptions read_char_gru(Fields& f) {
  return read_characters(f, {.hidden = 48, .layers = 2});
}

SequenceOptions read_sequence(Fields& f) {
  const SequenceOptions own;
  return {.inputs = f.count("inputs", own.inputs),
          .hidden = f.count("hidden", own.hidden),
          .outputs = f.count("outputs", own.outputs)};
}
SequenceOptions read_bilstm(Fields& f) {
  return {.inputs = f.count("inputs", 12), .hidden = f.count("hidden", 16), .outputs = f.count("classes", 5)};
}

CodeOptions read_code(Fields& f) {
  const CodeOptions own;
  return {.inputs = f.count("inputs", own.inputs),
          .hidden = f.count("hidden", own.hidden),
          .code = f.count("code", own.code)};
}

Word2Vec::Options read_word2vec(Fields& f) {
  const Word2Vec::Options own;
  return {.vocabulary = f.count("vocabulary", own.vocabulary), .size = f.count("size", own.size)};
}

EncoderClassifier::Options read_encoder_classifier(Fields& f) {
  const EncoderClassifier::Options own;
  EncoderClassifier::Options o{.inputs = f.count("inputs", own.inputs),
                               .width = f.count("width", own.width),
                               .heads = f.count("heads", own.heads),
                               .feedforward = f.count("feedforward", own.feedforward),
                               .layers = f.depth("layers", own.layers),
                               .classes = f.count("classes", own.classes),
                               .dropout = f.probability("dropout", own.dropout),
                               .norm_first = f.flag("norm_first", own.norm_first),
                               .activation = f.choice("activation", own.activation, {"relu", "gelu"})};
  f.divides("heads", o.heads, "width", o.width);
  return o;
}

CapsNet::Options read_capsnet(Fields& f) {
  const CapsNet::Options own;
  const std::vector<std::int64_t> hidden = f.counts("hidden", {own.hidden[0], own.hidden[1]});
  if (hidden.size() != 2) f.refuse("hidden", "has " + std::to_string(hidden.size()) + " widths, and two are here");
  CapsNet::Options o{.channels = f.count("channels", own.channels),
                     .types = f.count("types", own.types),
                     .primary_size = f.count("prim_size", own.primary_size),
                     .num_classes = f.count("classes", own.num_classes),
                     .digit_size = f.count("digit_size", own.digit_size),
                     .iterations = f.depth("iterations", own.iterations),
                     .hidden = {hidden[0], hidden[1]},
                     .image = f.count("image", own.image),
                     .kernel = f.count("kernel", own.kernel),
                     .in_channels = f.count("in_channels", own.in_channels)};
  if (o.image < 2 * o.kernel - 1) f.refuse("kernel", "is too large for two convolutions of images of this size");
  return o;
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

constexpr Family kFamilies[] = {
    {"LeNet5", images, classes, made<LeNet5, read_lenet>, "classes", "in_channels"},
    {"MLP", images, classes, made<MLP, read_mlp>, "classes"},
    {"MnistNet", images, classes, made<MnistNet, read_mnist_net>, "num_classes", "in_channels"},
    {"CifarNet", images, classes, made<CifarNet, read_cifar_net>, "num_classes", "in_channels"},
    {"BatchNormNet", images, classes, made<BatchNormNet, read_batchnorm_net>, "classes", "in_channels"},
    {"SimpleRNN", numbers, values, made<SimpleRNN, read_sequence>},
    {"StepRNN", numbers, values, made<StepRNN, read_sequence>},
    {"CharLSTM", tokens, next_token, made<CharLSTM, read_char_lstm>, "vocabulary"},
    {"CharGRU", tokens, next_token, made<CharGRU, read_char_gru>, "vocabulary"},
    {"BiLSTMClassifier", numbers, classes, made<BiLSTMClassifier, read_bilstm>, "classes"},
    {"EncoderClassifier", numbers, classes, made<EncoderClassifier, read_encoder_classifier>, "classes"},
    {"Autoencoder", images, values, made<Autoencoder, read_code>, {}, {}, output_of_rows},
    {"VAE", images, values, made<VAE, read_code>, {}, {}, first_output_of_rows<VAE>},
    {"Word2Vec", numbers, values, made<Word2Vec, read_word2vec>},
    {"CapsNet", images, lengths, made<CapsNet, read_capsnet>, "classes", "in_channels", first_output<CapsNet>},
};

}  // namespace

std::span<const Family> small_families() {
  return kFamilies;
}

}  // namespace zoo::detail
