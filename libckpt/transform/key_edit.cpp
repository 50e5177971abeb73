#include "libckpt/transform/key_edit.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/objects.h"
#include "libckpt/transform/flat_optimizer.h"
#include "libckpt/transform/optimizer_keys.h"
#include "libckpt/transform/path_set.h"
#include "libckpt/transform/tree_map.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

std::vector<StateDictRef> editable_state_dicts(const Value& root) {
  std::unordered_set<const Dict*> outside = dicts_outside_objects(root);
  std::vector<StateDictRef> found = list_state_dicts(root);
  std::erase_if(found, [&](const StateDictRef& dict) { return !outside.contains(dict.dict); });
  return found;
}

/// New names of one dict's items, in order; not for keys that are no text.
struct DictPlan {
  std::vector<std::string> names;
  bool changed = false;
};

std::string place(const StateDictRef& dict) {
  return dict.name.empty() ? "" : " in " + core::quote(dict.name);
}

DictPlan plan_dict(const StateDictRef& dict, const KeyEdit& edit) {
  DictPlan plan;
  bool flat_optimizer = edit.param_names && is_flat_optimizer(*dict.dict);
  FlatOptimizer beside(*dict.dict);
  std::unordered_map<std::string, std::string> taken;  // new name -> old name
  for (const auto& [key, value] : dict.dict->items) {
    if (!key.is(Value::Kind::text)) {
      plan.names.emplace_back();
      continue;
    }
    const std::string& from = key.as_text();
    std::optional<std::string> of_optimizer =
        flat_optimizer ? renamed_flat_key(from, edit.key) : beside.renamed(from, edit.key);
    std::string to = of_optimizer ? *of_optimizer : edit.key(from);
    if (to.empty() && !from.empty()) {
      throw Error(ErrorCode::refused, "key " + core::quote(from) + place(dict) + " would be left without a name");
    }
    auto [at, fresh] = taken.emplace(to, from);
    if (!fresh) {
      throw Error(ErrorCode::collision, "keys " + core::quote(at->second) + " and " + core::quote(from) + place(dict) +
                                            " would both become " + core::quote(to));
    }
    plan.changed |= to != from;
    plan.names.push_back(std::move(to));
  }
  return plan;
}

class KeyRewriter final : public TreeMap {
 public:
  KeyRewriter(const KeyEdit& edit, std::unordered_map<const Dict*, DictPlan> plans)
      : edit_(edit), plans_(std::move(plans)) {}

 protected:
  Value map_object(const Value& object) override { return object; }

  bool edit_dict(const Value& node, Dict& dict) override {
    bool changed = rename_items(node, dict);
    if (plans_.contains(&node.as_dict())) changed |= rename_metadata(dict);
    return (edit_.param_names && rename_in_optimizer(node, dict, edit_.key)) || changed;
  }

 private:
  bool rename_items(const Value& node, Dict& dict) {
    auto plan = plans_.find(&node.as_dict());
    if (plan == plans_.end() || !plan->second.changed) return false;
    for (std::size_t i = 0; i < dict.items.size(); ++i) {
      Value& key = dict.items[i].first;
      const std::string& name = plan->second.names[i];
      if (key.is(Value::Kind::text) && key.as_text() != name) key = Value::text(name);
    }
    return true;
  }

  bool rename_metadata(Dict& dict) {
    const Value* metadata = dict.attributes.find("_metadata");
    if (metadata == nullptr || !metadata->is(Value::Kind::dict)) return false;
    auto [known, fresh] = metadata_.try_emplace(metadata->identity());
    if (fresh) known->second = rename_modules(*metadata, edit_.module);
    if (known->second == *metadata) return false;
    Dict attributes = dict.attributes.as_dict();
    for (auto& [name, value] : attributes.items) {
      if (name.is(Value::Kind::text) && name.as_text() == "_metadata") value = known->second;
    }
    dict.attributes = Value::dict(std::move(attributes));
    return true;
  }

  const KeyEdit& edit_;
  std::unordered_map<const Dict*, DictPlan> plans_;
  std::unordered_map<const void*, Value> metadata_;
};

void note_changes(const StateDictRef& dict, const DictPlan& plan, KeyChanges& changes) {
  if (!plan.changed) return;
  for (std::size_t i = 0; i < plan.names.size(); ++i) {
    const Value& key = dict.dict->items[i].first;
    if (!key.is(Value::Kind::text)) continue;
    ++changes.keys;
    if (key.as_text() != plan.names[i]) changes.renamed.push_back({dict.name, key.as_text(), plan.names[i]});
  }
}

std::uint64_t text_keys(const Dict& dict) {
  return static_cast<std::uint64_t>(std::count_if(dict.items.begin(), dict.items.end(),
                                                  [](const auto& item) { return item.first.is(Value::Kind::text); }));
}

/// Paths of dicts that are an optimizer's state_dict: {'state': ..., 'param_groups': [...]}.
void find_optimizers(const Value& value, std::vector<Value>& path, std::vector<OptimizerValue>& found) {
  if (value.is(Value::Kind::dict)) {
    if (value.find("param_groups") != nullptr && value.find("state") != nullptr) {
      found.emplace_back(path, &value);
      return;
    }
    for (const auto& [key, child] : value.as_dict().items) {
      path.push_back(key);
      find_optimizers(child, path, found);
      path.pop_back();
    }
  } else if (value.is_sequence()) {
    const Value::List& items = value.as_list();
    for (std::size_t i = 0; i < items.size(); ++i) {
      path.push_back(Value::integer(static_cast<std::int64_t>(i)));
      find_optimizers(items[i], path, found);
      path.pop_back();
    }
  }
}

std::string list_candidates(const std::vector<StateDictRef>& dicts) {
  std::string out;
  for (const StateDictRef& dict : dicts) {
    out += (out.empty() ? "" : ", ") + (dict.name.empty() ? std::string("the top") : core::quote(dict.name)) + " (" +
           core::format_count(dict.tensors) + (dict.tensors == 1 ? " tensor)" : " tensors)");
  }
  return out;
}

}  // namespace

Value rename_modules(const Value& metadata, const std::function<std::string(const std::string&)>& module) {
  Dict out = metadata.as_dict();
  out.items.clear();
  std::unordered_map<std::string, std::size_t> index;
  for (const auto& [key, value] : metadata.as_dict().items) {
    if (!key.is(Value::Kind::text)) {
      out.items.emplace_back(key, value);
      continue;
    }
    std::string to = module(key.as_text());
    bool moved = to != key.as_text();
    auto [at, fresh] = index.emplace(to, out.items.size());
    if (fresh) out.items.emplace_back(moved ? Value::text(to) : key, value);
    if (!fresh && moved) out.items[at->second].second = value;
  }
  return Value::dict(std::move(out));
}

std::vector<OptimizerValue> optimizer_values(const Value& root) {
  std::vector<OptimizerValue> found;
  std::vector<Value> path;
  find_optimizers(root, path, found);
  return found;
}

std::vector<std::vector<Value>> optimizer_paths(const Value& root) {
  std::vector<std::vector<Value>> paths;
  for (auto& [path, value] : optimizer_values(root)) paths.push_back(std::move(path));
  return paths;
}

std::vector<StateDictRef> model_state_dicts(const Value& root) {
  PathSet optimizers(optimizer_paths(root));
  std::vector<StateDictRef> found = editable_state_dicts(root);
  std::erase_if(found, [&](const StateDictRef& dict) { return optimizers.covers(dict.path); });
  auto is_flat = [](const StateDictRef& dict) { return is_flat_optimizer(*dict.dict); };
  if (!std::all_of(found.begin(), found.end(), is_flat)) std::erase_if(found, is_flat);
  return found;
}

std::vector<StateDictRef> state_dicts_in_scope(const Value& root, const std::string& at) {
  const Value& top = value_at(root, at);
  std::vector<StateDictRef> found = editable_state_dicts(top);
  if (found.empty() && !at.empty()) throw Error(ErrorCode::key, core::quote(at) + " has no state dict");
  if (at.empty()) return found;
  if (found.front().path.empty()) found.resize(1);
  for (StateDictRef& dict : found) dict.name = at + (dict.name.empty() ? "" : "." + dict.name);
  return found;
}

StateDictRef only_state_dict(const Value& root, const std::string& at) {
  std::vector<StateDictRef> found = at.empty() ? model_state_dicts(root) : state_dicts_in_scope(root, at);
  if (found.size() == 1) return found.front();
  if (found.empty()) throw Error(ErrorCode::key, "no state dict in the file");
  throw Error(ErrorCode::usage, "several state dicts: " + list_candidates(found) + "; name one, as in FILE::" +
                                    (found.front().name.empty() ? found.back().name : found.front().name));
}

Checkpoint rewrite_keys(const Checkpoint& checkpoint, const std::vector<StateDictRef>& scope, const KeyEdit& edit,
                        KeyChanges* changes) {
  std::unordered_map<const Dict*, DictPlan> plans;
  KeyChanges noted;
  for (const StateDictRef& dict : scope) {
    auto [plan, fresh] = plans.try_emplace(dict.dict);
    if (!fresh) continue;  // the same dict under a second name
    plan->second = plan_dict(dict, edit);
    note_changes(dict, plan->second, noted);
  }
  for (const StateDictRef& dict :
       edit.param_names ? editable_state_dicts(checkpoint.root) : std::vector<StateDictRef>()) {
    if (is_flat_optimizer(*dict.dict) && !plans.contains(dict.dict)) plans.emplace(dict.dict, plan_dict(dict, edit));
  }
  if (noted.renamed.empty()) {
    for (const auto& [dict, plan] : plans) noted.keys += text_keys(*dict);
  }
  Checkpoint out = checkpoint;
  out.root = KeyRewriter(edit, std::move(plans)).map(checkpoint.root);
  if (changes != nullptr) *changes = std::move(noted);
  return out;
}

}  // namespace ckpt::detail
