#include "libckpt/keras/flattened.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

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
constexpr std::array<std::string_view, 11> kFeaturesLast = {"Embedding",
                                                            "LSTM",
                                                            "GRU",
                                                            "SimpleRNN",
                                                            "Dense",
                                                            "Flatten",
                                                            "InputLayer",
                                                            "GlobalAveragePooling1D",
                                                            "MultiHeadAttention",
                                                            "GlobalMaxPooling1D",
                                                            "EinsumDense"};

/// What has weights for places and channels alike, or sums places up: no order of before goes through them.
constexpr std::array<std::string_view, 6> kPooled = {"GlobalAveragePooling1D", "GlobalAveragePooling2D",
                                                     "GlobalAveragePooling3D", "GlobalMaxPooling1D",
                                                     "GlobalMaxPooling2D",     "GlobalMaxPooling3D"};

constexpr std::array<std::string_view, 10> kConvolutions = {
    "Conv1D",          "Conv2D",          "Conv3D",          "DepthwiseConv1D", "DepthwiseConv2D",
    "SeparableConv1D", "SeparableConv2D", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"};

/// They move values to other places.
constexpr std::array<std::string_view, 4> kMoving = {"Flatten", "Reshape", "Permute", "Lambda"};

/// In a Sequential the layer above; null for the first one, and for what is no layer of it.
const KerasNode* layer_above(const KerasNode& model, const KerasNode& layer) {
  if (model.children.empty()) return nullptr;
  const auto is_before = std::less<const KerasNode*>();
  const bool behind_first = is_before(&model.children.front(), &layer) && !is_before(&model.children.back(), &layer);
  return behind_first ? &layer - 1 : nullptr;
}

/// The one layer whose output is that of a model; null where there are several.
const KerasNode* output_of(const KerasNode& model) {
  if (model.kind == "Sequential") return &model.children.back();
  std::vector<KerasInput> outputs;
  if (model.config.has("output_layers")) take_keras_inputs(model.config.at("output_layers"), outputs);
  return outputs.size() == 1 ? model.by_name(outputs[0].name) : nullptr;
}

bool has_one_input(const KerasNode& model) {
  if (model.kind == "Sequential") return true;
  std::vector<KerasInput> inputs;
  if (model.config.has("input_layers")) take_keras_inputs(model.config.at("input_layers"), inputs);
  return inputs.size() == 1;
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
    const KerasNode* before = layer_before();
    while (!lost_ && model_ != &root_ && (before == nullptr || before->kind == "InputLayer")) {
      if (!has_one_input(*model_)) return lose();
      layer_ = model_;
      call_ = 0;  // those of one model have the same shapes
      model_ = model_around(root_, *layer_);
      if (model_ == nullptr) return lose();  // inside of TimeDistributed
      before = layer_before();
    }
    while (before != nullptr && !before->children.empty()) {
      model_ = before;
      call_ = 0;
      before = output_of(*before);
      if (before == nullptr) return lose();
    }
    if (before != nullptr) layer_ = before;
    return before;
  }

  bool is_lost() const { return lost_; }

 private:
  const KerasNode* lose() {
    lost_ = true;
    return nullptr;
  }

  /// By the call of this layer that the way came to.
  const KerasNode* layer_before() {
    const auto& calls = layer_->calls;
    if (calls.empty() && model_->kind == "Sequential") {
      if (&model_->children.front() == layer_) return nullptr;
      const KerasNode* above = layer_above(*model_, *layer_);
      return above == nullptr ? lose() : above;
    }
    if (calls.empty()) return layer_->kind == "InputLayer" ? nullptr : lose();
    if (call_ >= calls.size()) return lose();
    const std::vector<KerasInput>& inputs = calls[call_];
    const bool alike = layer_->kind == "Add";  // all its inputs have one order
    if (inputs.empty() || inputs[0].tensor != 0 || (inputs.size() > 1 && !alike)) return lose();
    call_ = inputs[0].call;
    const KerasNode* before = model_->by_name(inputs[0].name);
    return before == nullptr ? lose() : before;
  }

  const KerasNode& root_;
  const KerasNode* model_;
  const KerasNode* layer_;
  std::size_t call_ = 0;
  bool lost_ = false;
};

/// Whether something moves values before a layer, along all inputs and through whatever leaves features where they are.
class MovedBefore {
 public:
  explicit MovedBefore(const KerasNode& root) : root_(root) {}

  bool operator()(const KerasNode& model, const KerasNode& layer) {
    std::vector<std::pair<const KerasNode*, const KerasNode*>> todo = {{&model, &layer}};
    while (!todo.empty()) {
      const auto [in, at] = todo.back();
      todo.pop_back();
      if (!seen_.insert(at).second) continue;
      steps_ += 1 + at->inputs();
      if (steps_ > kMostSteps) return true;
      for (const KerasNode* before : before_all(*in, *at)) {
        if (moves(*before)) return true;
        if (!ends(*before)) todo.emplace_back(in, before);
      }
      if (reaches_inputs_ && in != &root_) {
        const KerasNode* around = model_around(root_, *in);
        if (around == nullptr) return true;
        todo.emplace_back(around, in);
      }
    }
    return false;
  }

 private:
  std::vector<const KerasNode*> before_all(const KerasNode& model, const KerasNode& layer) {
    std::vector<const KerasNode*> out;
    for (const std::vector<KerasInput>& call : layer.calls) {
      for (const KerasInput& input : call) {
        if (const KerasNode* before = model.by_name(input.name)) out.push_back(before);
      }
    }
    if (layer.calls.empty() && model.kind == "Sequential") {
      if (const KerasNode* above = layer_above(model, layer)) out.push_back(above);
    }
    reaches_inputs_ = out.empty() || out.front()->kind == "InputLayer";
    return out;
  }

  /// Itself, what it wraps, or a layer of the model that it is.
  static bool moves(const KerasNode& node) {
    if (is_one_of(kMoving, node.kind) || (node.is_custom() && node.children.empty())) return true;
    const auto inside = [](const std::vector<KerasNode>& nodes) {
      return std::any_of(nodes.begin(), nodes.end(), [](const KerasNode& inner) { return moves(inner); });
    };
    return inside(node.children) || inside(node.wrapped);
  }

  static bool ends(const KerasNode& node) {
    return is_one_of(kFeaturesLast, node.kind) || is_one_of(kPooled, node.kind) ||
           is_one_of(kConvolutions, node.kind) || node.kind == "Bidirectional";
  }

  const KerasNode& root_;
  std::set<const KerasNode*> seen_;
  std::size_t steps_ = 0;
  bool reaches_inputs_ = false;
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

/// Also Bidirectional and TimeDistributed of such.
bool has_features_last(const KerasNode& node) {
  if (node.kind == "Bidirectional" || node.kind == "TimeDistributed") {
    return !node.wrapped.empty() && is_one_of(kFeaturesLast, node.wrapped[0].kind) && node.wrapped[0].kind != "Flatten";
  }
  return is_one_of(kFeaturesLast, node.kind);
}

constexpr Flattened kUnknown = {true, 0, false};

/// From the Flatten on, which moves the channels to the end itself where it is told that they are first.
Flattened flattened_by(const KerasNode& flatten, WayBack& way, const std::vector<KerasLayer>& layers) {
  const bool moves_channels = flatten.text("data_format") == "channels_first";
  std::string format;  // of images, which all layers have to see alike
  for (std::size_t step = 0; step < kMostSteps; ++step) {
    const KerasNode* at = way.next();
    if (at == nullptr) break;
    const std::string own = at->text("data_format");
    if (!own.empty() && !format.empty() && own != format) break;
    if (!own.empty()) format = own;
    const bool first = format == "channels_first";
    if (is_one_of(kPooled, at->kind)) return {true, 0, true};
    if (is_one_of(kConvolutions, at->kind)) {
      if (first && !moves_channels) return {true, 0, true};  // where torch has them
      const std::int64_t channels = channels_of(*at, layers);
      return {true, channels, channels > 0 && first == moves_channels};
    }
    if (first || moves_channels) {
      if (has_features_last(*at)) break;
    } else if (at->kind == "InputLayer") {
      return flattened_inputs(*at);
    } else if (has_features_last(*at)) {
      return {true, 0, true};
    }
    if (!is_one_of(kElementwise, at->kind) && !is_one_of(kKeepChannels, at->kind)) break;
  }
  return kUnknown;
}

}  // namespace

Flattened flattened_before(const KerasLayer& layer, const KerasNode* root, const std::vector<KerasLayer>& layers) {
  if (root == nullptr) return {};
  if (layer.node == nullptr || layer.parent == nullptr) return kUnknown;
  const KerasNode* from = layer.holder == nullptr ? layer.node : layer.holder;
  if (layer.kind != "Dense" || layer.holder != nullptr) return {true, 0, !MovedBefore(*root)(*layer.parent, *from)};
  WayBack way(*root, *layer.parent, *layer.node);
  bool mixed = false;  // by a norm, whose own tensors have an order too
  for (std::size_t step = 0; step < kMostSteps; ++step) {
    const KerasNode* at = way.next();
    if (at == nullptr && !way.is_lost()) return {};
    if (at != nullptr && at->kind == "Flatten") {
      const Flattened seen = flattened_by(*at, way, layers);
      return mixed && seen.channels > 0 ? kUnknown : seen;
    }
    const bool norm = at != nullptr && (at->kind == "BatchNormalization" || at->kind == "LayerNormalization");
    if (at == nullptr || (!norm && !is_one_of(kElementwise, at->kind))) break;
    mixed = mixed || norm;
  }
  return {false, 0, !MovedBefore(*root)(*layer.parent, *layer.node)};
}

}  // namespace ckpt::detail
