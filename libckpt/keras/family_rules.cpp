#include "libckpt/keras/family_rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "libckpt/keras/keras_config.h"
#include "libckpt/transform/glob.h"
#include "libckpt/transform/pattern.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using detail::KerasConfig;
using detail::KerasNode;
using Names = std::vector<std::pair<std::string, std::string>>;

/// Weights in the order in which layers of Keras have them; those of Keras 1 beside their later names.
struct KnownRole {
  std::string_view name;
  std::string_view role;
  int rank;
};
constexpr auto kLegacyRoles = std::to_array<KnownRole>({{"kernel", "kernel", 0},
                                                        {"W", "kernel", 0},
                                                        {"depthwise_kernel", "depthwise_kernel", 0},
                                                        {"pointwise_kernel", "pointwise_kernel", 1},
                                                        {"bias", "bias", 2},
                                                        {"b", "bias", 2},
                                                        {"gamma", "gamma", 0},
                                                        {"beta", "beta", 1},
                                                        {"moving_mean", "moving_mean", 2},
                                                        {"running_mean", "moving_mean", 2},
                                                        {"moving_variance", "moving_variance", 3},
                                                        {"running_std", "moving_variance", 3},
                                                        {"embeddings", "embeddings", 0},
                                                        {"mean", "mean", 0},
                                                        {"variance", "variance", 1},
                                                        {"count", "count", 2},
                                                        {"variable", "gamma", 0},  // of ConvNeXt, which has no name
                                                        {"Variable", "gamma", 0}});

/// A weight of a legacy file.
struct Weight {
  std::vector<std::string> path;  ///< of its layer: "conv1", "sequential", "conv1"
  const KnownRole* role = nullptr;
  const NamedShape* key = nullptr;
};

bool is_all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

const KnownRole* known_role(std::string_view name) {
  auto found =
      std::find_if(kLegacyRoles.begin(), kLegacyRoles.end(), [&](const KnownRole& role) { return role.name == name; });
  return found == kLegacyRoles.end() ? nullptr : &*found;
}

/// "kernel:0", "variable_1"; "block1_conv1_W_1:0" of Keras 1, in the group "block1_conv1".
const KnownRole* role_of(std::string_view name, std::string_view group) {
  if (name.ends_with(":0")) name.remove_suffix(2);
  if (name.starts_with(group) && name.substr(group.size()).starts_with('_')) name.remove_prefix(group.size() + 1);
  if (const KnownRole* role = known_role(name)) return role;
  const std::size_t at = name.rfind('_');
  const bool numbered = at != std::string_view::npos && is_all_digits(name.substr(at + 1));
  return numbered ? known_role(name.substr(0, at)) : nullptr;
}

std::optional<Weight> weight_of(const NamedShape& key) {
  Weight weight;
  for (std::string_view step : core::split(key.name, key.name.find('.') == std::string_view::npos ? '/' : '.')) {
    weight.path.emplace_back(step);
  }
  if (weight.path.front() == "optimizer_weights") return std::nullopt;
  if (weight.path.front() == "model_weights") weight.path.erase(weight.path.begin());
  if (weight.path.size() < 2) return std::nullopt;
  weight.role = role_of(weight.path.back(), weight.path.front());
  weight.path.pop_back();
  weight.key = &key;
  if (weight.role == nullptr) return std::nullopt;
  return weight;
}

/// Weights of one layer.
using Layer = std::vector<Weight>;

/// In the order of the file.
std::vector<Layer> layers_of(const std::vector<NamedShape>& keys) {
  std::vector<Layer> layers;
  std::map<std::vector<std::string>, std::size_t> places;
  for (const NamedShape& key : keys) {
    std::optional<Weight> weight = weight_of(key);
    if (!weight) continue;
    auto [at, fresh] = places.emplace(weight->path, layers.size());
    if (fresh) layers.emplace_back();
    layers[at->second].push_back(std::move(*weight));
  }
  for (Layer& layer : layers) {
    std::stable_sort(layer.begin(), layer.end(),
                     [](const Weight& a, const Weight& b) { return a.role->rank < b.role->rank; });
  }
  return layers;
}

/// What rules know of names.
class KnownNames {
 public:
  explicit KnownNames(const RulePack& pack) : pack_(pack) {
    for (const Rule& rule : pack.rules) {
      for (const auto& [from, to] : rule.names) patterns_.push_back(Pattern::parse(from));
    }
  }

  bool know(const std::string& name) const {
    return std::any_of(patterns_.begin(), patterns_.end(), [&](const Pattern& each) { return each.matches(name); }) ||
           std::any_of(pack_.rules.begin(), pack_.rules.end(), [&](const Rule& rule) {
             return rule.kind == Rule::Kind::drop && glob_match(rule.from.front(), name);
           });
  }

  /// Adds the names of a layer's weights, whose layer Keras 3 calls `container`.
  void add(Names& names, const Layer& layer, const std::string& container) const {
    for (std::size_t i = 0; i < layer.size(); ++i) {
      std::string name = container + ".vars." + std::to_string(i);
      if (know(name)) names.emplace_back(escape_pattern(layer[i].key->name), escape_pattern(name));
    }
  }

 private:
  const RulePack& pack_;
  std::vector<Pattern> patterns_;
};

/// "layers.sequential.layers.conv2d_1" of a layer by its path below a model; "" where it is none of the model.
std::string container_in(const KerasNode& model, const std::vector<std::string>& path, std::size_t from) {
  const KerasNode* at = &model;
  std::string out;
  for (std::size_t i = from; i < path.size() && (at == &model || !at->children.empty()); ++i) {
    const KerasNode* next = at->by_name(path[i]);
    if (next == nullptr) continue;
    at = next;
    out += (out.empty() ? "layers." : ".layers.") + at->container;
  }
  return at != &model && at->children.empty() ? out : "";
}

/// By what the file says of its model: the whole of it, or the model inside of which rules know most.
Names names_by_config(const KerasNode& root, const std::vector<Layer>& layers, const KnownNames& known) {
  Names best;
  for (const Layer& layer : layers) known.add(best, layer, container_in(root, layer.front().path, 0));
  for (const KerasNode& inner : root.children) {
    if (inner.children.empty()) continue;
    Names names;
    for (const Layer& layer : layers) {
      if (layer.front().path.front() != inner.name) continue;
      known.add(names, layer, container_in(inner, layer.front().path, 1));
    }
    if (names.size() > best.size()) best = std::move(names);
  }
  return best;
}

/// The class whose layers have such weights, as Keras 3 calls it; "" for none of a family.
std::string class_of(const Layer& layer) {
  const auto has = [&](std::string_view role) {
    return std::any_of(layer.begin(), layer.end(), [&](const Weight& weight) { return weight.role->role == role; });
  };
  if (has("pointwise_kernel")) return "separable_conv2d";
  if (has("depthwise_kernel")) return "depthwise_conv2d";
  if (has("moving_mean")) return "batch_normalization";
  if (has("beta")) return "layer_normalization";
  if (has("gamma")) return "layer_scale";
  if (has("variance")) return "normalization";
  const std::size_t rank = has("kernel") ? layer.front().key->shape.size() : 0;
  return rank == 2 ? "dense" : rank == 4 ? "conv2d" : "";
}

/// Names of layers of one model by their classes, in the order of the file.
class Counter {
 public:
  std::string next(const std::string& kind) {
    const int before = counts_[kind]++;
    return "layers." + kind + (before == 0 ? "" : "_" + std::to_string(before));
  }

 private:
  std::map<std::string, int> counts_;
};

/// By weights alone. Layers under one name are a model inside, whose own order the file does not say where a class is
/// there twice: what was frozen comes last.
Names names_by_weights(const std::vector<Layer>& layers, const KnownNames& known) {
  std::map<std::string, std::vector<std::string>> classes;
  for (const Layer& layer : layers) classes[layer.front().path.front()].push_back(class_of(layer));
  std::map<std::string, std::string> models;
  Counter counter;
  Names names;
  for (const Layer& layer : layers) {
    const std::string& top = layer.front().path.front();
    const std::vector<std::string>& inside = classes[top];
    const std::string kind = class_of(layer);
    if (inside.size() == 1) {
      if (!kind.empty()) known.add(names, layer, counter.next(kind));
      continue;
    }
    auto [model, fresh] = models.emplace(top, "");
    if (fresh) model->second = counter.next("sequential");
    const bool once = !kind.empty() && std::count(inside.begin(), inside.end(), kind) == 1;
    if (once) known.add(names, layer, model->second + ".layers." + kind);
  }
  return names;
}

/// Whether a weight has a name that PyTorch's modules give to none of theirs.
bool has_names_of_keras(const std::vector<Layer>& layers) {
  constexpr auto kShared = std::to_array<std::string_view>({"bias", "running_mean", "mean", "variance"});
  return std::any_of(layers.begin(), layers.end(), [&](const Layer& layer) {
    return std::any_of(layer.begin(), layer.end(), [&](const Weight& weight) {
      return std::find(kShared.begin(), kShared.end(), weight.role->name) == kShared.end();
    });
  });
}

bool is_of_family(const RulePack& pack) {
  return pack.from == "Keras" && pack.from_key.empty() && !pack.backwards;
}

}  // namespace

Rules keras_family_rules(const RulePack& pack, const Checkpoint& checkpoint, const std::vector<NamedShape>& keys) {
  if (!is_of_family(pack) || knows_names(pack, keys)) return rules_for(pack, keys);
  const std::vector<Layer> layers = layers_of(keys);
  const std::optional<KerasConfig> config = KerasConfig::read(checkpoint);
  const KnownNames known(pack);
  Rule rename;
  rename.names = config ? names_by_config(config->root(), layers, known) : names_by_weights(layers, known);
  const bool says_no_order = !config && checkpoint.format != "hdf5";
  if (rename.names.empty() || (says_no_order && !has_names_of_keras(layers))) return rules_for(pack, keys);
  if (says_no_order) {
    throw core::Error(core::ErrorCode::refused,
                      "the names are those of Keras before 3, whose layers the rules count in the order of the model, "
                      "and only the .h5 file that Keras wrote says that order");
  }
  Rules out = {std::move(rename)};
  out.insert(out.end(), pack.rules.begin(), pack.rules.end());
  return out;
}

}  // namespace ckpt
