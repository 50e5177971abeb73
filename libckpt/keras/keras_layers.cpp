#include "libckpt/keras/keras_layers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "libckpt/keras/attention.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using Path = std::vector<std::string>;

constexpr std::string_view kCell = "cell";  ///< of which kind its weights say

constexpr std::array<std::string_view, 19> kKinds = {"Dense",
                                                     "Conv1D",
                                                     "Conv2D",
                                                     "Conv3D",
                                                     "DepthwiseConv1D",
                                                     "DepthwiseConv2D",
                                                     "SeparableConv1D",
                                                     "SeparableConv2D",
                                                     "Conv1DTranspose",
                                                     "Conv2DTranspose",
                                                     "Conv3DTranspose",
                                                     "BatchNormalization",
                                                     "Embedding",
                                                     "LSTM",
                                                     "GRU",
                                                     "SimpleRNN",
                                                     "LayerNormalization",
                                                     "GroupNormalization",
                                                     "MultiHeadAttention"};

constexpr std::array<std::string_view, 10> kRoles = {
    "kernel", "bias", "depthwise_kernel", "pointwise_kernel", "recurrent_kernel",
    "gamma",  "beta", "moving_mean",      "moving_variance",  "embeddings"};

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// "conv2d" of "conv2d_3".
std::string_view without_number(std::string_view name) {
  const std::size_t at = name.rfind('_');
  return at != std::string_view::npos && is_digits(name.substr(at + 1)) ? name.substr(0, at) : name;
}

/// The class whose layers Keras names so by itself; "" for none.
std::string kind_of_name(std::string_view name) {
  for (std::string_view kind : kKinds) {
    if (keras_snake_case(kind) == without_number(name)) return std::string(kind);
  }
  return "";
}

/// A component of a torch name: such have no dots.
std::string component(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '.' || c == '/'; }, '_');
  return name;
}

std::string joined(const std::string& module, const std::string& name) {
  return module.empty() ? component(name) : module + "." + component(name);
}

/// Roles by the order in which a layer of the kind has its weights; empty where the number is not one that it may have.
std::vector<std::string> roles_of(const KerasLayer& layer, std::size_t count) {
  const std::string& kind = layer.kind;
  std::vector<std::string> roles;
  if (kind == "BatchNormalization" || kind == "LayerNormalization" || kind == "GroupNormalization") {
    const bool moving = kind == "BatchNormalization";
    // Without a configuration a single one may be either.
    const bool both = count == (moving ? 4 : 2);
    const bool scale = layer.node == nullptr ? both : layer.node->flag("scale").value_or(true);
    const bool center = layer.node == nullptr ? both : layer.node->flag("center").value_or(true);
    if (scale) roles.emplace_back("gamma");
    if (center) roles.emplace_back("beta");
    if (moving) roles.insert(roles.end(), {"moving_mean", "moving_variance"});
  } else if (kind == "Embedding") {
    roles = {"embeddings"};
  } else if (kind.starts_with("Separable")) {
    roles = {"depthwise_kernel", "pointwise_kernel", "bias"};
  } else if (kind == "LSTM" || kind == "GRU" || kind == "SimpleRNN") {
    roles = {"kernel", "recurrent_kernel", "bias"};
  } else if (!kind.empty()) {
    roles = {"kernel", "bias"};
  }
  const std::optional<bool> biased = layer.node == nullptr ? std::nullopt : layer.node->flag("use_bias");
  const bool last = !roles.empty() && roles.back() == "bias";
  if (last && !biased.value_or(count == roles.size())) roles.pop_back();
  return roles.size() == count ? roles : std::vector<std::string>();
}

/// By the shape of the recurrent kernel, where no name says it: gates lie side by side.
std::string kind_of_cell(const core::Shape& shape) {
  if (shape.size() != 2 || shape[0] <= 0 || shape[1] % shape[0] != 0) return "";
  const std::int64_t gates = shape[1] / shape[0];
  return gates == 4 ? "LSTM" : gates == 3 ? "GRU" : gates == 1 ? "SimpleRNN" : "";
}

class LayerReader {
 public:
  LayerReader(const Checkpoint& checkpoint, const KerasNode* config) : config_(config) {
    for (const auto& [key, text] : checkpoint.metadata) {
      if (key.ends_with("@name")) names_.emplace(key.substr(0, key.size() - 5), text);
    }
    const std::vector<NamedEntry> entries = list_entries(checkpoint.root);
    for (const NamedEntry& named : entries) find_projection(named);
    for (const NamedEntry& named : entries) read(named);
    for (KerasLayer& layer : found_.layers) finish(layer);
    leave_namesakes();
  }

  KerasLayers take() { return std::move(found_); }

 private:
  /// Where a tensor belongs, while its path is gone along.
  struct Place {
    KerasLayer layer;
    bool cell = false;
    bool state = false;
  };

  static Path path_of(const NamedEntry& named) {
    const char separator = named.name.find('.') == std::string::npos ? '/' : '.';
    Path path;
    for (std::string_view step : core::split(named.name, separator)) path.emplace_back(step);
    if (!is_counted(path) && path.size() > 1 && path.front() == "model_weights") path.erase(path.begin());
    return path;
  }

  static bool is_counted(const Path& path) {
    return path.size() >= 2 && path[path.size() - 2] == "vars" && is_digits(path.back());
  }

  /// Of attention that nothing but its weights tells: kernels of three dimensions, called as it calls them.
  void find_projection(const NamedEntry& named) {
    Path path = path_of(named);
    const bool kernel = is_counted(path) ? path.back() == "0" : role_of(path) == "kernel";
    const std::size_t behind = is_counted(path) ? 2 : 1;
    if (!kernel || path.size() < behind + 2 || named.entry->shape.size() != 3) return;
    path.resize(path.size() - behind);
    const std::string part = attention_part(path.back());
    path.pop_back();
    if (!part.empty()) projections_[core::join(path, "/")].insert(part);
  }

  static std::string role_of(const Path& path) {
    const std::string& last = path.back();
    return last.ends_with(":0") ? last.substr(0, last.size() - 2) : last;
  }

  /// Which projection `step` is of a layer at `place`, whose kind is known, or not: ""; "" for none.
  std::string part_of(const KerasLayer& layer, const std::string& place, const std::string& step) const {
    if (is_attention(layer.kind)) return attention_part(step);
    auto found = projections_.find(place);
    const bool seems = layer.kind.empty() && found != projections_.end() && found->second.size() > 1;
    return seems ? attention_part(step) : "";
  }

  void read(const NamedEntry& named) {
    Path path = path_of(named);
    if (is_counted(path)) return read_counted(path, named);
    read_named(std::move(path), named);
  }

  /// layers.bidirectional.forward_layer.cell.vars.0
  void read_counted(const Path& path, const NamedEntry& named) {
    found_.counted = true;
    Place place;
    place.layer.node = config_;
    std::string at, part;
    for (std::size_t i = 0; i + 2 < path.size(); ++i) {
      if (i + 3 == path.size()) part = part_of(place.layer, at, path[i]);
      if (!part.empty()) break;
      at += (i == 0 ? "" : "/") + path[i];
      if (path[i] == "layers" && i + 3 < path.size()) {
        at += "/" + path[++i];
        go_to_layer(place, path[i], name_at(at));
      } else {
        go_inside(place, path[i], name_at(at));
      }
    }
    if (path.front() == "optimizer" || place.state) return void(found_.states.push_back(named.name));
    if (place.cell && place.layer.kind.empty()) place.layer.kind = kCell;
    KerasWeight weight{"", named.name, named.entry->shape, is_floating(*named.entry)};
    const std::string& number = path.back();
    if (!part.empty()) {
      if (place.layer.kind.empty()) place.layer.kind = kAttention;
      weight.role = part + "." + (number == "0" ? "kernel" : number == "1" ? "bias" : number);
    }
    const auto read = std::from_chars(number.data(), number.data() + number.size(), weight.number);
    if (read.ec != std::errc()) return void(found_.others.push_back(named.name));
    add(at, std::move(place.layer), std::move(weight));
  }

  std::string name_at(const std::string& path) const {
    auto found = names_.find(path + "/vars");
    return found == names_.end() ? "" : found->second;
  }

  static void go_to_layer(Place& place, const std::string& container, const std::string& said) {
    KerasLayer& layer = place.layer;
    const KerasNode* model = layer.node;
    layer.parent = model;
    layer.holder = nullptr;
    layer.node = model == nullptr ? nullptr : model->by_container(container);
    layer.kind = layer.node == nullptr ? kind_of_name(container) : layer.node->kind;
    const std::string& configured = layer.node == nullptr ? said : layer.node->name;
    layer.module = joined(layer.module, configured.empty() ? container : configured);
  }

  static void go_inside(Place& place, const std::string& step, const std::string& said) {
    KerasLayer& layer = place.layer;
    const bool backward = step == "backward_layer";
    if (step == "cell") {
      place.cell = true;
    } else if (step == "forward_layer" || backward || step == "layer") {
      layer.both = step != "layer";
      layer.backward = backward;
      const KerasNode* outer = layer.node;
      const bool inner = outer != nullptr && !outer->wrapped.empty();
      if (layer.holder == nullptr) layer.holder = outer;
      layer.node = inner ? inside(*outer, backward) : nullptr;
      layer.kind = inner ? layer.node->kind : kind_of_name(step == "layer" ? said : inner_name(said));
    } else if (step == "seed_generator") {
      place.state = true;
    } else {  // an attribute of a class that somebody wrote
      layer.module = joined(layer.module, step);
      layer.node = nullptr;
      layer.kind = kind_of_name(said);
    }
  }

  /// The backward layer is like the other one where nothing is said of it.
  static const KerasNode* inside(const KerasNode& outer, bool backward) {
    return &outer.wrapped[backward && outer.wrapped.size() > 1 ? 1 : 0];
  }

  static bool is_floating(const Entry& entry) { return core::is_floating(entry.dtype) && !entry.blocks; }

  /// "lstm" of "forward_lstm".
  static std::string inner_name(std::string name) {
    for (std::string_view start : {"forward_", "backward_"}) {
      if (name.starts_with(start)) return name.substr(start.size());
    }
    return name;
  }

  /// model_weights.lstm.sequential.lstm.lstm_cell.kernel:0: the layer, and the path of the variable.
  void read_named(Path path, const NamedEntry& named) {
    if (path.front() == "optimizer_weights") return void(found_.states.push_back(named.name));
    std::string role = role_of(path);
    const bool known = std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end();
    if (path.size() < 2 || !known) return void(found_.others.push_back(named.name));
    path.pop_back();
    std::string at = core::join(path, "/");
    KerasLayer layer = layer_at(path);
    const std::string last = path.back();
    path.pop_back();
    if (!path.empty() && !attention_part(last).empty()) {
      KerasLayer around = layer_at(path);
      std::string place = core::join(path, "/");
      if (const std::string part = part_of(around, place, last); !part.empty()) {
        role = part + "." + role;
        layer = std::move(around);
        at = std::move(place);
        if (layer.kind.empty()) layer.kind = kAttention;
      }
    }
    add(at, std::move(layer), {role, named.name, named.entry->shape, is_floating(*named.entry)});
  }

  /// By the names of a path of Keras before 3: "lstm.sequential.lstm.lstm_cell".
  KerasLayer layer_at(Path path) const {
    const std::string top = path.front();
    path.erase(path.begin());
    if (auto own = std::find(path.begin(), path.end(), top); own != path.end()) path.erase(path.begin(), own + 1);
    KerasLayer layer;
    layer.module = component(top);
    layer.parent = config_;
    layer.node = config_ == nullptr ? nullptr : config_->by_name(top);
    for (const std::string& step : path) go_along(layer, step);
    if (layer.node != nullptr) layer.kind = layer.node->kind;
    return layer;
  }

  static void go_along(KerasLayer& layer, const std::string& step) {
    const bool backward = step.starts_with("backward_");
    if (without_number(step).ends_with("_cell")) return;
    if (backward || step.starts_with("forward_")) {
      layer.both = true;
      layer.backward = backward;
      const bool inner = layer.node != nullptr && !layer.node->wrapped.empty();
      if (layer.holder == nullptr) layer.holder = layer.node;
      layer.node = inner ? inside(*layer.node, backward) : nullptr;
    } else if (layer.node != nullptr && !layer.node->wrapped.empty()) {
      if (layer.holder == nullptr) layer.holder = layer.node;
      layer.node = &layer.node->wrapped[0];
    } else {
      layer.parent = layer.node;
      layer.node = layer.node == nullptr ? nullptr : layer.node->by_name(step);
      layer.module = joined(layer.module, step);
    }
  }

  /// `place` is where the file has the weights of the layer.
  void add(const std::string& place, KerasLayer layer, KerasWeight weight) {
    auto [at, fresh] = places_.emplace(place, found_.layers.size());
    if (fresh) found_.layers.push_back(std::move(layer));
    found_.layers[at->second].weights.push_back(std::move(weight));
  }

  /// Layers at several places that would have one name in torch.
  void leave_namesakes() {
    std::map<std::string, std::size_t> first;
    for (std::size_t i = 0; i < found_.layers.size(); ++i) {
      KerasLayer& layer = found_.layers[i];
      auto [at, fresh] = first.emplace(layer.module + (layer.backward ? "<" : ">"), i);
      if (fresh) continue;
      layer.kind.clear();
      found_.layers[at->second].kind.clear();
    }
  }

  /// Whether roles go by numbers that are all there, and each role has one weight.
  static bool is_whole(const KerasLayer& layer) {
    for (std::size_t i = 0; i < layer.weights.size(); ++i) {
      const KerasWeight& weight = layer.weights[i];
      if (weight.role.empty() ? weight.number != i : layer.find(weight.role) != &weight) return false;
    }
    return true;
  }

  /// Roles, and the kind where only the weights say it; none where weights are quantised, missing or there twice.
  static void finish(KerasLayer& layer) {
    std::stable_sort(layer.weights.begin(), layer.weights.end(),
                     [](const KerasWeight& a, const KerasWeight& b) { return a.number < b.number; });
    const auto floating = [](const KerasWeight& weight) { return weight.floating; };
    if (!is_whole(layer) || !std::all_of(layer.weights.begin(), layer.weights.end(), floating)) {
      return layer.kind.clear();
    }
    const bool named = !layer.weights.front().role.empty();
    if (named && layer.kind.empty()) layer.kind = kind_by_roles(layer);
    if (named) return;
    const bool cell = layer.kind == kCell || (layer.kind.empty() && layer.both);
    if (cell) layer.kind = layer.weights.size() < 2 ? "" : kind_of_cell(layer.weights[1].shape);
    const std::vector<std::string> roles = roles_of(layer, layer.weights.size());
    for (std::size_t i = 0; i < roles.size(); ++i) layer.weights[i].role = roles[i];
  }

  /// Kernels of Conv2D and of Conv2DTranspose lie alike once they are torch's.
  static std::string kind_by_roles(const KerasLayer& layer) {
    const KerasWeight* kernel = layer.find("kernel");
    if (const KerasWeight* recurrent = layer.find("recurrent_kernel")) return kind_of_cell(recurrent->shape);
    if (layer.find("pointwise_kernel") != nullptr) return "SeparableConv2D";
    if (layer.find("depthwise_kernel") != nullptr) return "DepthwiseConv2D";
    if (layer.find("embeddings") != nullptr) return "Embedding";
    if (layer.find("moving_mean") != nullptr) return "BatchNormalization";
    if (layer.find("gamma") != nullptr || layer.find("beta") != nullptr) return "LayerNormalization";
    if (kernel == nullptr) return "";
    return kernel->shape.size() == 2 ? "Dense" : "Conv2D";
  }

  const KerasNode* config_;
  std::map<std::string, std::string> names_;  ///< of layers, by their places
  std::map<std::string, std::size_t> places_;
  std::map<std::string, std::set<std::string>> projections_;  ///< of what may be attention, by its place
  KerasLayers found_;
};

}  // namespace

const KerasWeight* KerasLayer::find(std::string_view role) const {
  auto found =
      std::find_if(weights.begin(), weights.end(), [&](const KerasWeight& weight) { return weight.role == role; });
  return found == weights.end() ? nullptr : &*found;
}

KerasLayers keras_layers(const Checkpoint& checkpoint, const KerasNode* config) {
  return LayerReader(checkpoint, config).take();
}

}  // namespace ckpt::detail
