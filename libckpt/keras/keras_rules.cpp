#include "libckpt/keras/keras_rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/keras/attention.h"
#include "libckpt/keras/flattened.h"
#include "libckpt/keras/keras_layers.h"
#include "libckpt/origin.h"
#include "libckpt/transform/pattern.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::KerasConfig;
using detail::KerasLayer;
using detail::KerasLayers;
using detail::KerasWeight;

/// Those that are turned round have their kernels as torch has them once dimensions are exchanged alike.
bool is_convolution(const std::string& kind) {
  constexpr std::array<std::string_view, 6> kKinds = {"Conv1D",          "Conv2D",          "Conv3D",
                                                      "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"};
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

bool is_recurrent(const std::string& kind) {
  return kind == "LSTM" || kind == "GRU" || kind == "SimpleRNN";
}

std::string such_as(const std::set<std::string>& names) {
  return core::quote(*names.begin()) +
         (names.size() == 1 ? "" : " and " + core::format_count(names.size() - 1) + " more");
}

/// Shapes that the kind has; else its weights are not what they seem.
bool has_ranks(const KerasLayer& layer, std::string_view role, std::size_t least, std::size_t most) {
  const KerasWeight* weight = layer.find(role);
  return weight != nullptr && weight->shape.size() >= least && weight->shape.size() <= most;
}

/// Of a norm: a shape alone may say more than there is memory for.
constexpr std::int64_t kMostFeatures = 1 << 24;

class RuleMaker {
 public:
  RuleMaker(const KerasLayers& found, const detail::KerasNode* root) : found_(found), root_(root) {
    for (const KerasLayer& layer : found.layers) {
      if (add(layer)) {
        out_.layers += layer.backward ? 0 : 1;
      } else {
        for (const KerasWeight& weight : layer.weights) out_.left.push_back(weight.key);
      }
    }
    out_.left.insert(out_.left.end(), found.others.begin(), found.others.end());
    out_.states = found.states;
    out_.numbered = found.counted;
    put_rules();
    if (root_ != nullptr) find_images(*root_);
    put_notes();
  }

  KerasRules take() { return std::move(out_); }

 private:
  bool add(const KerasLayer& layer) {
    const std::string& kind = layer.kind;
    if (kind == "Dense" && has_ranks(layer, "kernel", 2, 2)) return add_dense(layer);
    if (kind == "DepthwiseConv1D" || kind == "DepthwiseConv2D") return add_depthwise(layer, depthwise_role(layer), "");
    if (kind == "SeparableConv1D" || kind == "SeparableConv2D") return add_separable(layer);
    if (is_convolution(kind) && has_ranks(layer, "kernel", 3, 5)) return add_convolution(layer, "kernel", "");
    if (kind == "BatchNormalization" || kind == "LayerNormalization" || kind == "GroupNormalization") {
      return add_norm(layer);
    }
    if (detail::is_attention(kind)) return add_attention(layer);
    if (kind == "Embedding" && has_ranks(layer, "embeddings", 2, 2)) return add_embedding(layer);
    return is_recurrent(kind) && add_recurrent(layer);
  }

  static std::string depthwise_role(const KerasLayer& layer) {
    return layer.find("depthwise_kernel") == nullptr ? "kernel" : "depthwise_kernel";
  }

  /// The torch name of a weight, which it gets first.
  std::string name(const KerasLayer& layer, const KerasWeight& weight, const std::string& end) {
    std::string to = layer.module + "." + end;
    renames_.emplace_back(escape_pattern(weight.key), escape_pattern(to));
    return to;
  }

  void transpose(const std::string& key, std::vector<std::int64_t> dims) {
    Rule rule;
    rule.kind = Rule::Kind::transpose;
    rule.from = {selector_of(key)};
    rule.dims = std::move(dims);
    later_.push_back(std::move(rule));
  }

  void reshape(const std::string& key, std::vector<std::int64_t> shape, std::vector<std::int64_t> was) {
    Rule rule;
    rule.kind = Rule::Kind::reshape;
    rule.from = {selector_of(key)};
    rule.shape = std::move(shape);
    rule.was_shape = std::move(was);
    later_.push_back(std::move(rule));
  }

  void cut(Rule::Kind kind, const std::vector<std::string>& from, const std::vector<std::string>& to) {
    Rule rule;
    rule.kind = kind;
    for (const std::string& key : from) rule.from.push_back(escape_pattern(key));
    for (const std::string& key : to) rule.to.push_back(escape_pattern(key));
    later_.push_back(std::move(rule));
  }

  void bias(const KerasLayer& layer, const std::string& end) {
    if (const KerasWeight* weight = layer.find("bias")) name(layer, *weight, end);
  }

  bool add_dense(const KerasLayer& layer) {
    const KerasWeight& kernel = *layer.find("kernel");
    const std::string key = name(layer, kernel, "weight");
    transpose(key, {1, 0});
    bias(layer, "bias");
    const detail::Flattened seen = detail::flattened_before(layer, root_, found_.layers);
    const std::int64_t rows = kernel.shape[0];
    dense_ = true;
    if (!seen.known) return said(unordered_, layer);
    if (!seen.flat || seen.channels <= 0 || rows == seen.channels) return true;
    if (rows % seen.channels != 0) return said(unordered_, layer);
    reshape(key, {0, -1, seen.channels}, {0, -1});
    transpose(key, {0, 2, 1});
    reshape(key, {0, -1}, {0, seen.channels, -1});
    return said(ordered_, layer);
  }

  bool add_convolution(const KerasLayer& layer, const std::string& role, const std::string& part) {
    const KerasWeight& kernel = *layer.find(role);
    std::vector<std::int64_t> dims = {static_cast<std::int64_t>(kernel.shape.size()) - 1,
                                      static_cast<std::int64_t>(kernel.shape.size()) - 2};
    for (std::int64_t d = 0; d + 2 < static_cast<std::int64_t>(kernel.shape.size()); ++d) dims.push_back(d);
    transpose(name(layer, kernel, part + "weight"), dims);
    bias(layer, part + "bias");
    note_padding(layer);
    return true;
  }

  /// [..., in, times] -> [in * times, 1, ...]
  bool add_depthwise(const KerasLayer& layer, const std::string& role, const std::string& part) {
    if (!has_ranks(layer, role, 3, 4)) return false;
    const KerasWeight& kernel = *layer.find(role);
    const bool plane = kernel.shape.size() == 4;
    const std::string key = name(layer, kernel, part + "weight");
    transpose(key, plane ? std::vector<std::int64_t>{2, 3, 0, 1} : std::vector<std::int64_t>{1, 2, 0});
    const std::int64_t in = kernel.shape[kernel.shape.size() - 2];
    const std::int64_t times = kernel.shape[kernel.shape.size() - 1];
    std::vector<std::int64_t> sizes(kernel.shape.begin(), kernel.shape.end() - 2);
    std::vector<std::int64_t> shape = {in * times, 1};
    std::vector<std::int64_t> was = {in, times};
    shape.insert(shape.end(), sizes.begin(), sizes.end());
    was.insert(was.end(), sizes.begin(), sizes.end());
    reshape(key, std::move(shape), std::move(was));
    if (part.empty()) bias(layer, "bias");
    note_padding(layer);
    return true;
  }

  bool add_separable(const KerasLayer& layer) {
    if (!has_ranks(layer, "depthwise_kernel", 3, 4) || !has_ranks(layer, "pointwise_kernel", 3, 4)) return false;
    said(separable_, layer);
    return add_depthwise(layer, "depthwise_kernel", "depthwise.") &&
           add_convolution(layer, "pointwise_kernel", "pointwise.");
  }

  /// Whether a norm is along the dimension that torch's is along: the last one for layers, channels for the others.
  bool is_along_channels(const KerasLayer& layer) {
    if (layer.node == nullptr) return true;
    const std::optional<std::int64_t> axis = layer.node->axis();
    if (!axis || layer.node->flag("rms_scaling").value_or(false)) return false;
    const std::size_t rank = layer.node->input_rank();
    if (*axis == -1 || (rank != 0 && *axis == static_cast<std::int64_t>(rank) - 1)) return true;
    const bool may = rank == 0 || (*axis == 1 && layer.kind != "LayerNormalization");
    if (may) said(along_, layer);
    return may;
  }

  /// torch's norms have both of weight and bias, or neither.
  bool add_norm(const KerasLayer& layer) {
    if (!is_along_channels(layer)) return !said(other_norms_, layer);
    const KerasWeight* gamma = layer.find("gamma");
    const KerasWeight* beta = layer.find("beta");
    if (layer.weights.empty() || layer.weights.front().role.empty()) return false;
    const auto flat = [](const KerasWeight& weight) { return weight.shape.size() == 1; };
    if (!std::all_of(layer.weights.begin(), layer.weights.end(), flat)) return false;
    const std::int64_t size = layer.weights.front().shape[0];
    if (size > kMostFeatures) return false;
    if (gamma != nullptr) name(layer, *gamma, "weight");
    if (beta != nullptr) name(layer, *beta, "bias");
    if (const KerasWeight* mean = layer.find("moving_mean")) name(layer, *mean, "running_mean");
    if (const KerasWeight* variance = layer.find("moving_variance")) name(layer, *variance, "running_var");
    if (gamma == nullptr && beta != nullptr) make(layer.module + ".weight", size, 1);
    if (gamma != nullptr && beta == nullptr) make(layer.module + ".bias", size, 0);
    norms_without_eps_ = norms_without_eps_ || layer.node == nullptr;
    if (layer.node == nullptr) return true;
    eps_[layer.node->number("epsilon").value_or(1e-3)].insert(layer.module);
    return true;
  }

  void make(const std::string& key, std::int64_t size, double value) {
    Rule rule;
    rule.kind = Rule::Kind::make;
    rule.from = {escape_pattern(key)};
    rule.dtype = core::DType::f32;
    rule.constant = RuleConstant{std::vector<double>(static_cast<std::size_t>(size), value), false};
    later_.push_back(std::move(rule));
  }

  bool add_embedding(const KerasLayer& layer) {
    if (layer.node != nullptr && layer.node->flag("mask_zero").value_or(false)) said(masked_, layer);
    name(layer, *layer.find("embeddings"), "weight");
    return true;
  }

  bool add_recurrent(const KerasLayer& layer) {
    if (!has_ranks(layer, "kernel", 2, 2) || !has_ranks(layer, "recurrent_kernel", 2, 2)) return false;
    if (!computes_as_torch(layer)) return false;
    if (!detail::flattened_before(layer, root_, found_.layers).known) said(unordered_, layer);
    recurrent_ = recurrent_ || layer.node == nullptr;
    const std::string end = layer.backward ? "_l0_reverse" : "_l0";
    for (const auto& [role, weight] : {std::pair("kernel", "weight_ih"), std::pair("recurrent_kernel", "weight_hh")}) {
      const std::string key = name(layer, *layer.find(role), weight + end);
      transpose(key, {1, 0});
      if (layer.kind == "GRU") turn_gates(key);
    }
    if (const KerasWeight* bias = layer.find("bias")) add_recurrent_bias(layer, *bias, end);
    return true;
  }

  /// [features, heads, width] -> [heads * width, features], and those of queries, keys and values as one matrix where
  /// torch has them so.
  bool add_attention(const KerasLayer& layer) {
    if (const std::string why = detail::why_no_attention(layer); !why.empty()) return !said(no_attention_[why], layer);
    if (!detail::flattened_before(layer, root_, found_.layers).known) said(unordered_, layer);
    const detail::AttentionSizes sizes = detail::attention_sizes(layer);
    const std::int64_t features = sizes.features();
    std::vector<std::string> kernels, biases;
    for (const std::string part : {"query", "key", "value"}) {
      const std::string key = name(layer, *layer.find(part + ".kernel"), part.substr(0, 1) + "_proj_weight");
      reshape(key, {0, features}, {0, sizes.heads, sizes.width});
      transpose(key, {1, 0});
      kernels.push_back(key);
      const KerasWeight* bias = layer.find(part + ".bias");
      if (bias == nullptr) continue;
      biases.push_back(name(layer, *bias, part.substr(0, 1) + "_proj_bias"));
      reshape(biases.back(), {features}, {sizes.heads, sizes.width});
    }
    if (sizes.is_one()) cut(Rule::Kind::fuse, kernels, {layer.module + ".in_proj_weight"});
    if (!biases.empty()) cut(Rule::Kind::fuse, biases, {layer.module + ".in_proj_bias"});
    const std::string out = name(layer, *layer.find("output.kernel"), "out_proj.weight");
    reshape(out, {features, -1}, {sizes.heads, sizes.width, -1});
    transpose(out, {1, 0});
    if (const KerasWeight* bias = layer.find("output.bias")) name(layer, *bias, "out_proj.bias");
    return said(heads_[sizes.heads], layer);
  }

  /// z, r, h in Keras and r, z, n in torch.
  void turn_gates(const std::string& key) {
    cut(Rule::Kind::split, {key}, {key + ".z", key + ".r", key + ".n"});
    cut(Rule::Kind::fuse, {key + ".r", key + ".z", key + ".n"}, {key});
  }

  void add_recurrent_bias(const KerasLayer& layer, const KerasWeight& bias, const std::string& end) {
    const std::string input = layer.module + ".bias_ih" + end;
    const std::string hidden = layer.module + ".bias_hh" + end;
    const std::string key = name(layer, bias, "bias_ih" + end);
    if (layer.kind != "GRU") {  // one bias in Keras, two that are added in torch
      Rule rule;
      rule.kind = Rule::Kind::unfold;
      rule.by = Rule::By::add;
      rule.from = {escape_pattern(input)};
      rule.to = {escape_pattern(hidden)};
      later_.push_back(std::move(rule));
      return;
    }
    cut(Rule::Kind::split, {key}, {input + ".i", input + ".h"});
    for (const auto& [part, to] : {std::pair(input + ".i", input), std::pair(input + ".h", hidden)}) {
      reshape(part, {-1}, {1, -1});
      cut(Rule::Kind::split, {part}, {part + ".z", part + ".r", part + ".n"});
      cut(Rule::Kind::fuse, {part + ".r", part + ".z", part + ".n"}, {to});
    }
  }

  /// GRU with reset_after=False, and other activations, are no module of torch.
  bool computes_as_torch(const KerasLayer& layer) {
    const KerasWeight* bias = layer.find("bias");
    const std::size_t rank = layer.kind == "GRU" ? 2 : 1;
    bool same = bias == nullptr || bias->shape.size() == rank;
    if (layer.node != nullptr) {
      const bool reset = layer.node->flag("reset_after").value_or(true);
      same = same && reset && !layer.node->says_other("activation", "tanh") &&
             !layer.node->says_other("recurrent_activation", "sigmoid");
    }
    if (!same) return !said(other_cells_, layer);
    note_directions(layer);
    return true;
  }

  void note_directions(const KerasLayer& layer) {
    if (layer.node == nullptr) return;
    const bool backwards = layer.node->flag("go_backwards").value_or(false);
    const bool forwards_alone = layer.both && !layer.backward;
    if (backwards && (!layer.both || forwards_alone)) said(backwards_, layer);
    const bool merges = layer.both && layer.holder != nullptr && layer.holder->says_other("merge_mode", "concat");
    if (merges) said(merged_, layer);
    const bool last = layer.both && !layer.node->flag("return_sequences").value_or(false);
    if (last) said(last_steps_, layer);
  }

  /// Of features, as decoders make them.
  void find_images(const detail::KerasNode& node) {
    const std::size_t rank = node.kind == "Reshape" ? node.integers("target_shape").size() : 0;
    if (rank >= 3) imaged_.insert(node.name);
    for (const detail::KerasNode& inner : node.children) find_images(inner);
    for (const detail::KerasNode& inner : node.wrapped) find_images(inner);
  }

  void note_padding(const KerasLayer& layer) {
    if (layer.node == nullptr) return;
    const std::string padding = layer.node->text("padding");
    if (padding == "causal") said(causal_, layer);
    if (padding != "same") return;
    const std::vector<std::int64_t> strides = layer.node->integers("strides");
    const bool steps = std::any_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride > 1; });
    if (steps) said(layer.kind.ends_with("Transpose") ? cropped_ : padded_, layer);
  }

  static bool said(std::set<std::string>& list, const KerasLayer& layer) {
    list.insert(layer.module);
    return true;
  }

  void put_rules() {
    if (renames_.empty()) return;
    Rule rename;
    rename.names = std::move(renames_);
    out_.rules.push_back(std::move(rename));
    out_.rules.insert(out_.rules.end(), later_.begin(), later_.end());
  }

  void note(const std::set<std::string>& names, const std::string& before, const std::string& behind) {
    if (!names.empty()) out_.notes.push_back(before + such_as(names) + behind);
  }

  void put_notes() {
    for (const auto& [eps, names] : eps_) {
      if (eps == 1e-5) continue;
      note(names, "norms have an eps of " + core::python_float(eps) + " and not torch's 1e-05: ", "");
    }
    for (const auto& [heads, names] : heads_) {
      note(names,
           "attention has " + std::to_string(heads) + " heads, which torch's state dict does not say (num_heads=" +
               std::to_string(heads) + ", batch_first=True): ",
           "");
    }
    for (const auto& [why, names] : no_attention_) note(names, "", ": " + why + ", so it stays as it is");
    note(padded_, "",
         ": of padding 'same' with a stride, Keras has the odd zero on the right and below, which torch's padding has "
         "not: pad what goes in");
    note(cropped_, "",
         ": of padding 'same' with a stride, Keras leaves out the odd row and column at the end of what comes out, "
         "which torch's padding does not: take padding=0 and crop");
    note(causal_, "", ": of padding 'causal', which torch has not: pad what goes in on the left");
    note(separable_, "", ": separable convolutions are two modules here, 'depthwise' and 'pointwise'");
    note(ordered_, "", ": the columns are where torch's Flatten has the channels, first, and not where Keras has them");
    note(unordered_, "",
         ": sees, or may see, what Flatten or Reshape makes of images in a way that rules do not follow: its columns "
         "stay in Keras' order, channels last");
    note(imaged_, "",
         ": makes images of features with the channels last, as torch's reshape makes them first: permute");
    note(along_, "", ": is along the dimension 'axis' of Keras; torch's norm is along the channels, or the last one");
    note(other_norms_, "", ": no norm of torch computes it (another axis, or rms_scaling), so it stays as it is");
    note(masked_, "",
         ": of mask_zero=True, by which layers of Keras leave out the steps of index 0 and torch's do not");
    note(last_steps_, "",
         ": gives its last step alone, which of the direction from the end is the one at the sequence's first place; "
         "torch's out[:, -1] has that direction's first step: take h_n, torch.cat([h_n[-2], h_n[-1]], 1)");
    note(merged_, "", ": does not put its two directions side by side (merge_mode), as torch does");
    if (recurrent_) {
      out_.notes.emplace_back(
          "the file does not say which activations recurrent layers have: torch's are tanh and sigmoid");
    }
    if (norms_without_eps_) {
      out_.notes.emplace_back(
          "the file does not say which eps norms have: 0.001 in Keras unless given, 1e-05 in torch");
    }
    if (dense_ && root_ == nullptr) {
      out_.notes.emplace_back(
          "the file says nothing of the model's layers but their weights: a dense layer behind a Flatten of images "
          "keeps its columns in Keras' order, channels last; a .keras file says where one is");
    }
    note(backwards_, "", ": goes over its sequence from the end, as no module of torch does by itself");
    note(other_cells_, "",
         ": no module of torch computes it (GRU of reset_after=False, or another activation), so it "
         "stays as it is");
  }

  const KerasLayers& found_;
  const detail::KerasNode* root_;
  KerasRules out_;
  std::vector<std::pair<std::string, std::string>> renames_;
  Rules later_;  ///< that act on what the names became
  std::map<double, std::set<std::string>> eps_;
  std::map<std::int64_t, std::set<std::string>> heads_;        ///< of attention
  std::map<std::string, std::set<std::string>> no_attention_;  ///< by what torch's cannot hold
  std::set<std::string> padded_, cropped_, causal_, separable_, ordered_, unordered_, imaged_, backwards_, merged_,
      last_steps_;
  std::set<std::string> masked_, along_, other_norms_, other_cells_;
  bool dense_ = false;
  bool recurrent_ = false;          ///< one of which nothing says how it computes
  bool norms_without_eps_ = false;  ///< likewise
};

constexpr std::string_view kOptimizer = "optimizer";

Checkpoint without(const Checkpoint& checkpoint, const std::vector<std::string>& keys) {
  if (keys.empty() || !checkpoint.root.is(Value::Kind::dict)) return checkpoint;
  const std::set<std::string> gone(keys.begin(), keys.end());
  Checkpoint out = checkpoint;
  Dict dict = checkpoint.root.as_dict();
  std::erase_if(dict.items, [&](const auto& item) {
    return item.first.is(Value::Kind::text) && gone.contains(item.first.as_text());
  });
  out.root = Value::dict(std::move(dict));
  return out;
}

std::vector<std::string> counters_of(const Checkpoint& checkpoint) {
  std::vector<std::string> counters;
  for (const NamedEntry& named : list_entries(checkpoint.root)) {
    if (named.name.ends_with(".num_batches_tracked")) counters.push_back(named.name);
  }
  return counters;
}

std::map<std::string, core::Shape> shapes_of(const Checkpoint& checkpoint) {
  std::map<std::string, core::Shape> shapes;
  for (const NamedEntry& named : list_entries(checkpoint.root)) shapes.emplace(named.name, named.entry->shape);
  return shapes;
}

void require_weights(const Checkpoint& made, const Checkpoint& like, const KerasRules& way) {
  const std::map<std::string, core::Shape> shapes = shapes_of(made);
  const std::set<std::string> states(way.states.begin(), way.states.end());
  for (const auto& [key, shape] : shapes_of(like)) {
    if (states.contains(key)) continue;
    auto there = shapes.find(key);
    if (there == shapes.end()) {
      throw Error(ErrorCode::value, core::quote(key) + " of the model of Keras would have no values");
    }
    if (there->second == shape) continue;
    throw Error(ErrorCode::value, core::quote(key) + " would have the shape " + core::to_list(there->second) +
                                      ", and the model of Keras has " + core::to_list(shape));
  }
}

/// The states of random numbers, which a model of Keras asks for when it loads.
Checkpoint with_states(const Checkpoint& made, const Checkpoint& like, const KerasRules& way) {
  Checkpoint out = made;
  Dict dict = made.root.as_dict();
  for (const std::string& key : way.states) {
    const Value* value = key.starts_with(kOptimizer) ? nullptr : like.root.find(key);
    if (value != nullptr) dict.items.emplace_back(Value::text(key), *value);
  }
  out.root = Value::dict(std::move(dict));
  return out;
}

}  // namespace

Checkpoint from_keras(const Checkpoint& keras, const KerasRules& way) {
  const Checkpoint torch = apply_rules(without(keras, way.states), way.rules);
  if (way.notes.empty()) return torch;
  return with_origin(torch, "from Keras by the kinds of its layers: " + core::join(way.notes, "; "));
}

Checkpoint to_keras(const Checkpoint& torch, const Checkpoint& like) {
  const KerasRules way = keras_rules(like);
  if (!way.numbered) {
    throw Error(
        ErrorCode::unsupported,
        "has the names of Keras before 3; save the model there as .keras or .weights.h5, to whose names the way "
        "back leads");
  }
  const Checkpoint bare = with_origin(without(torch, counters_of(torch)), "");
  const Checkpoint made = apply_rules(bare, reversed(way.rules));
  require_weights(made, like, way);
  return with_states(made, like, way);
}

KerasRules keras_rules(const Checkpoint& keras) {
  const std::optional<KerasConfig> config = KerasConfig::read(keras);
  const detail::KerasNode* root = config ? &config->root() : nullptr;
  KerasRules out = RuleMaker(detail::keras_layers(keras, root), root).take();
  if (out.layers > 0) return out;
  if (out.numbered && !out.left.empty()) {
    throw Error(ErrorCode::key,
                core::quote(out.left.front()) +
                    " and all others belong to layers that torch has no module for here, or are not the "
                    "weights that their layers have: quantised, missing or of other shapes");
  }
  throw Error(ErrorCode::key,
              "no tensor has a name that Keras gives to the weights of a layer, such as 'layers.dense.vars.0' or "
              "'dense.dense.kernel:0'");
}

}  // namespace ckpt
