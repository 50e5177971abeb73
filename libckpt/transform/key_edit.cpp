#include "libckpt/transform/key_edit.h"

#include <algorithm>
#include <unordered_map>

#include "libckpt/transform/flat_optimizer.h"
#include "libckpt/transform/optimizer_keys.h"
#include "libckpt/transform/tree_map.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

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
  bool flat_optimizer = edit.param_names && is_flat_optimizer_state(*dict.dict);
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

std::vector<StateDictRef> state_dicts_in_scope(const Value& root, const std::string& at) {
  if (at.empty()) return list_weights(root);
  const Value& top = value_at(root, at);
  std::vector<StateDictRef> found = list_state_dicts(top);
  bool itself = !found.empty() && found.front().value == &top;
  if (itself) {
    found.resize(1);
  } else {
    found = list_weights(top);
  }
  if (found.empty()) throw Error(ErrorCode::key, core::quote(at) + " has no state dict of a model");
  for (StateDictRef& dict : found) dict.name = at + (dict.name.empty() ? "" : "." + dict.name);
  return found;
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
  if (edit.param_names) {
    for (const StateDictRef& dict : list_state_dicts(checkpoint.root)) {
      if (dict.in_object || !is_flat_optimizer_state(*dict.dict)) continue;
      auto [plan, fresh] = plans.try_emplace(dict.dict);
      if (!fresh) continue;
      plan->second = plan_dict(dict, edit);
      note_changes(dict, plan->second, noted);
    }
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
