#include "libckpt/keras/flattened.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

namespace ckpt::detail {
namespace {

constexpr std::size_t kMostSteps = 512;  ///< back from a dense layer; what says more is no model

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// Element by element: they leave the order of features, and of channels, as it is.
constexpr std::array<std::string_view, 12> kElementwise = {"Activation",
                                                           "ReLU",
                                                           "LeakyReLU",
                                                           "ELU",
                                                           "Softmax",
                                                           "Dropout",
                                                           "AlphaDropout",
                                                           "GaussianNoise",
                                                           "GaussianDropout",
                                                           "Rescaling",
                                                           "ActivityRegularization",
                                                           "Identity"};

/// They leave channels in their order too, and are applied to images before a Flatten.
constexpr std::array<std::string_view, 20> kKeepChannels = {
    "MaxPooling1D",     "MaxPooling2D",       "MaxPooling3D",       "AveragePooling1D",   "AveragePooling2D",
    "AveragePooling3D", "SpatialDropout1D",   "SpatialDropout2D",   "SpatialDropout3D",   "ZeroPadding1D",
    "ZeroPadding2D",    "ZeroPadding3D",      "Cropping1D",         "Cropping2D",         "UpSampling1D",
    "UpSampling2D",     "BatchNormalization", "LayerNormalization", "GroupNormalization", "Add"};

/// Sequences and features, which torch has in the same order.
constexpr std::array<std::string_view, 8> kFeaturesLast = {
    "Embedding", "LSTM", "GRU", "SimpleRNN", "Bidirectional", "Dense", "TimeDistributed", "Flatten"};

bool is_image_layer(std::string_view kind) {
  return kind.find("Conv") != std::string_view::npos;
}

/// The text under "keras_history", or the first of a list of them: whose output goes in.
std::string history_in(const JsonView& view) {
  using Kind = JsonView::Kind;
  if (view.is(Kind::object) && view.has("config")) return history_in(view.at("config"));
  if (view.is(Kind::object) && view.has("keras_history")) {
    const std::vector<JsonView> items = view.at("keras_history").items();
    return !items.empty() && items[0].is(Kind::text) ? std::string(items[0].as_text()) : "";
  }
  if (view.is(Kind::object) && view.has("args")) return history_in(view.at("args"));
  if (!view.is(Kind::array)) return "";
  for (const JsonView& item : view.items()) {
    if (item.is(Kind::text)) return std::string(item.as_text());  // before Keras 3: ["conv1", 0, 0, {}]
    std::string found = history_in(item);
    if (!found.empty()) return found;
  }
  return "";
}

/// The layer before: that of "inbound_nodes", in a Sequential the one above.
const KerasNode* input_of(const KerasNode& model, const KerasNode& layer) {
  if (layer.whole.has("inbound_nodes")) {
    const std::string name = history_in(layer.whole.at("inbound_nodes"));
    if (!name.empty()) return model.by_name(name);
  }
  if (model.kind != "Sequential" || model.children.empty()) return nullptr;
  const auto is_before = std::less<const KerasNode*>();
  const bool behind_first = is_before(&model.children.front(), &layer) && !is_before(&model.children.back(), &layer);
  return behind_first ? &layer - 1 : nullptr;
}

/// The layer whose output is that of a model.
const KerasNode* output_of(const KerasNode& model) {
  if (model.kind == "Sequential") return model.children.empty() ? nullptr : &model.children.back();
  return model.config.has("output_layers") ? model.by_name(history_in(model.config.at("output_layers"))) : nullptr;
}

/// The model that `inner` is a layer of.
const KerasNode* model_around(const KerasNode& model, const KerasNode& inner) {
  for (const KerasNode& child : model.children) {
    if (&child == &inner) return &model;
    if (const KerasNode* found = model_around(child, inner)) return found;
  }
  return nullptr;
}

/// A layer on the way back from another to the inputs of the whole model, out of models inside and into them.
class WayBack {
 public:
  WayBack(const KerasNode& root, const KerasNode& model, const KerasNode& layer)
      : root_(root), model_(&model), layer_(&layer) {}

  /// The layer before; null at the inputs, and where the file does not say.
  const KerasNode* next() {
    const KerasNode* before = model_ == nullptr ? nullptr : input_of(*model_, *layer_);
    while (model_ != nullptr && model_ != &root_ && (before == nullptr || before->kind == "InputLayer")) {
      layer_ = model_;
      model_ = model_around(root_, *layer_);
      before = model_ == nullptr ? nullptr : input_of(*model_, *layer_);
    }
    while (before != nullptr && !before->children.empty()) {
      model_ = before;
      before = output_of(*before);
    }
    if (before != nullptr) layer_ = before;
    if (before == nullptr) model_ = nullptr;
    return before;
  }

 private:
  const KerasNode& root_;
  const KerasNode* model_;
  const KerasNode* layer_;
};

std::int64_t channels_of(const KerasNode& node, const std::vector<KerasLayer>& layers) {
  for (const KerasLayer& layer : layers) {
    if (layer.node != &node) continue;
    const KerasWeight* pointwise = layer.find("pointwise_kernel");
    const KerasWeight* kernel = pointwise == nullptr ? layer.find("kernel") : pointwise;
    if (kernel == nullptr) kernel = layer.find("depthwise_kernel");
    if (kernel == nullptr || kernel->shape.size() < 3) return 0;
    const core::Shape& shape = kernel->shape;
    if (node.kind.starts_with("Depthwise")) return shape[shape.size() - 1] * shape[shape.size() - 2];
    return shape[shape.size() - (node.kind.ends_with("Transpose") ? 2 : 1)];
  }
  return 0;
}

/// Of the inputs of the model: images have four dimensions with the one of the batch, sequences and features fewer.
Flattened flattened_inputs(const KerasNode& input) {
  std::vector<std::int64_t> shape = input.integers("batch_shape");
  if (shape.empty()) shape = input.integers("batch_input_shape");
  if (shape.size() < 4) return {true, 0, !shape.empty()};
  return {true, std::max<std::int64_t>(shape.back(), 0), shape.back() > 0};
}

/// From the Flatten on.
Flattened flattened_by(WayBack& way, const std::vector<KerasLayer>& layers) {
  for (std::size_t step = 0; step < kMostSteps; ++step) {
    const KerasNode* at = way.next();
    if (at == nullptr || at->text("data_format") == "channels_first") break;
    if (is_image_layer(at->kind)) return {true, channels_of(*at, layers), channels_of(*at, layers) > 0};
    if (at->kind == "InputLayer") return flattened_inputs(*at);
    if (is_one_of(kFeaturesLast, at->kind)) return {true, 0, true};
    if (!is_one_of(kElementwise, at->kind) && !is_one_of(kKeepChannels, at->kind)) break;
  }
  return {true, 0, false};
}

}  // namespace

Flattened flattened_before(const KerasLayer& layer, const KerasNode* root, const std::vector<KerasLayer>& layers) {
  if (root == nullptr || layer.node == nullptr || layer.parent == nullptr) return {};
  WayBack way(*root, *layer.parent, *layer.node);
  bool mixed = false;  // by a norm, whose own tensors have an order too
  for (std::size_t step = 0; step < kMostSteps; ++step) {
    const KerasNode* at = way.next();
    if (at == nullptr) return {};
    if (at->kind == "Flatten") return mixed ? Flattened{true, 0, false} : flattened_by(way, layers);
    const bool norm = at->kind == "BatchNormalization" || at->kind == "LayerNormalization";
    if (!norm && !is_one_of(kElementwise, at->kind)) return {};
    mixed = mixed || norm;
  }
  return {};
}

}  // namespace ckpt::detail
