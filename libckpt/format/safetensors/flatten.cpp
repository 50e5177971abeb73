#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/format/safetensors/plan.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::quote;

using Kind = Obstacle::Kind;

/// Why the format cannot hold a tensor, nullopt when it can.
std::optional<Obstacle> tensor_obstacle(const std::string& name, const Entry& entry) {
  if (!entry.bytes) return no_data_obstacle(name);
  if (safetensors_rank(entry.dtype) < 0) return dtype_obstacle(name, entry.dtype);
  bool half = entry.dtype == core::DType::f4_e2m1fn_x2 && entry.shape.empty();
  if (half) return Obstacle{name, Kind::shape, "a scalar of two F4 values"};
  if (entry.conjugate || entry.negative) return pending_obstacle(name);
  if (name == kMetadataKey) return name_obstacle(name, "that the format keeps for itself");
  if (!core::is_utf8(name)) return name_obstacle(name, "that is not valid UTF-8");
  return std::nullopt;
}

/// Why something about a tensor would be lost although its values are kept.
std::optional<Obstacle> tensor_loss(const std::string& name, const Entry& entry) {
  if (!entry.python_class.empty()) return python_class_obstacle(name, entry);
  if (is_json_value(entry.attributes)) return std::nullopt;
  return Obstacle{name, Kind::attribute, "Python attributes that are not plain values"};
}

class ObstacleFinder {
 public:
  std::vector<Obstacle> found;

  void look_at_root(const Value& root) {
    if (!root.is(Value::Kind::dict)) return found.push_back(top_obstacle(root, "a dict of tensors"));
    look_at_attributes(root.as_dict());
    look_at_items(root.as_dict(), "");
  }

 private:
  void look_at_attributes(const Dict& dict) {
    if (dict.attributes.is_null()) return;
    for (const auto& [key, value] : dict.attributes.as_dict().items) {
      if (!is_json_value(value) || step_text(key) != "_metadata") {
        found.push_back({step_text(key), Kind::attribute, "an attribute of the state dict that is not a plain value"});
      }
    }
  }

  void look_at_items(const Dict& dict, const std::string& prefix) {
    for (const auto& [key, value] : dict.items) {
      std::string name = prefix + step_text(key);
      if (!key.is(Value::Kind::text)) found.push_back(key_obstacle(name, key));
      if (value.is(Value::Kind::tensor)) {
        look_at_tensor(name, value.as_entry());
      } else if (value.is(Value::Kind::dict)) {
        found.push_back(nested_dict_obstacle(name));
        look_at_items(value.as_dict(), name + ".");
      } else {
        found.push_back(value_obstacle(name, value));
      }
    }
  }

  void look_at_tensor(const std::string& name, const Entry& entry) {
    std::optional<Obstacle> obstacle = tensor_obstacle(name, entry);
    if (!obstacle) obstacle = tensor_loss(name, entry);
    if (obstacle) found.push_back(std::move(*obstacle));
  }
};

/// Equal for entries that are the same view of the same memory; "" for those that are tied to nothing.
std::string tie_key(const Entry& entry) {
  if (entry.numel() == 0) return "";
  std::string key(sizeof(void*), '\0');
  const void* identity = storage_identity(entry);
  std::memcpy(key.data(), &identity, sizeof identity);
  key += std::string(core::name(entry.dtype)) + core::to_list(entry.shape);
  if (entry.view) key += std::to_string(entry.view->offset) + core::to_list(entry.view->strides);
  return key;
}

/// Of each group of ties keeps the name that the file has which it was read from, else the first in the alphabet, as
/// the reference library does.
void drop_tied(FlatState& state, const SafetensorsDetail* old) {
  std::unordered_map<std::string, std::string> kept;
  auto stands = [&](const FlatTensor& tensor) {
    const SafetensorsItem* item = old == nullptr ? nullptr : old->find(*tensor.entry);
    return item != nullptr && item->name == tensor.name;
  };
  for (const FlatTensor& tensor : state.tensors) {
    std::string key = tie_key(*tensor.entry);
    if (key.empty()) continue;
    auto [found, is_new] = kept.emplace(key, tensor.name);
    bool before = stands(tensor) || (tensor.name < found->second && !stands({found->second, tensor.entry}));
    if (!is_new && before) found->second = tensor.name;
  }
  std::erase_if(state.tensors, [&](const FlatTensor& tensor) {
    auto found = kept.find(tie_key(*tensor.entry));
    if (found == kept.end() || found->second == tensor.name) return false;
    state.extra.tied.emplace_back(tensor.name, found->second);
    return true;
  });
}

void require_distinct(const std::vector<FlatTensor>& tensors) {
  std::unordered_set<std::string_view> names;
  for (const FlatTensor& tensor : tensors) {
    if (names.insert(tensor.name).second) continue;
    throw core::Error(core::ErrorCode::collision, "two tensors would both be named " + quote(tensor.name));
  }
}

}  // namespace

std::vector<Obstacle> find_obstacles(const Checkpoint& checkpoint) {
  ObstacleFinder finder;
  finder.look_at_root(checkpoint.root);
  return std::move(finder.found);
}

FlatState flatten(const Checkpoint& checkpoint) {
  FlatState state;
  for (NamedEntry& named : list_entries(checkpoint.root)) {
    if (tensor_obstacle(named.name, *named.entry)) continue;
    state.tensors.push_back({std::move(named.name), std::move(named.entry)});
  }
  require_distinct(state.tensors);
  drop_tied(state, dynamic_cast<const SafetensorsDetail*>(checkpoint.detail.get()));
  for (const FlatTensor& tensor : state.tensors) {
    const Value& attributes = tensor.entry->attributes;
    if (!attributes.is_null() && is_json_value(attributes))
      state.extra.attributes.emplace_back(tensor.name, attributes);
  }
  if (checkpoint.root.is(Value::Kind::dict)) {
    const Value* metadata = checkpoint.root.as_dict().attributes.find("_metadata");
    if (metadata != nullptr && is_json_value(*metadata)) state.extra.module_metadata = *metadata;
  }
  return state;
}

}  // namespace ckpt::detail
