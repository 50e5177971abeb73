#include "libckpt/transform/optimizer_keys.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/state_dicts.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kStateKeys = "state.";
constexpr std::string_view kGroupKeys = "param_groups.";

/// The new name of what is text; a name that would be left empty stays.
std::string changed_name(const Value& value, const NameChange& rename) {
  std::string to = rename(value.as_text());
  return to.empty() ? value.as_text() : to;
}

void set_item(Dict& dict, std::string_view name, const Value& fresh) {
  for (auto& [key, value] : dict.items) {
    if (key.is(Value::Kind::text) && key.as_text() == name) value = fresh;
  }
}

bool rename_list(Dict& dict, std::string_view name, const NameChange& rename) {
  const Value* names = dict.find(name);
  if (names == nullptr || !names->is_sequence()) return false;
  Value::List renamed = names->as_list();
  bool changed = false;
  for (Value& item : renamed) {
    if (!item.is(Value::Kind::text)) continue;
    std::string to = changed_name(item, rename);
    if (to == item.as_text()) continue;
    item = Value::text(std::move(to));
    changed = true;
  }
  if (!changed) return false;
  bool tuple = names->is(Value::Kind::tuple);
  set_item(dict, name, tuple ? Value::tuple(std::move(renamed)) : Value::list(std::move(renamed)));
  return true;
}

/// The names that the groups list; other text keys of the state are no names.
std::unordered_set<std::string_view> listed_names(const Value& optimizer) {
  std::unordered_set<std::string_view> names;
  for (const Value& group : optimizer.find("param_groups")->as_list()) {
    const Value* params = group.find("params");
    if (params == nullptr || !params->is_sequence()) continue;
    for (const Value& name : params->as_list()) {
      if (name.is(Value::Kind::text)) names.insert(name.as_text());
    }
  }
  return names;
}

/// Keys of the state as the file has them; the values as they are in the edited copy.
bool rename_state(const Value& node, Dict& dict, const NameChange& rename) {
  const Value* before = node.find("state");
  const Value* now = dict.find("state");
  std::unordered_set<std::string_view> listed = listed_names(node);
  if (listed.empty()) return false;
  Dict state = now->as_dict();
  std::unordered_map<std::string, std::string> taken;  // new name -> old name
  bool changed = false;
  for (std::size_t i = 0; i < state.items.size(); ++i) {
    const Value& old = before->as_dict().items[i].first;
    if (!old.is(Value::Kind::text)) continue;
    std::string to = listed.contains(old.as_text()) ? changed_name(old, rename) : old.as_text();
    auto [at, fresh] = taken.emplace(to, old.as_text());
    if (!fresh) {
      throw core::Error(core::ErrorCode::collision, "the states of " + core::quote(at->second) + " and " +
                                                        core::quote(old.as_text()) + " in an optimizer would both be " +
                                                        core::quote(to));
    }
    Value& key = state.items[i].first;
    if (key.as_text() == to) continue;
    key = Value::text(std::move(to));
    changed = true;
  }
  if (changed) set_item(dict, "state", Value::dict(std::move(state)));
  return changed;
}

}  // namespace

bool rename_in_optimizer(const Value& node, Dict& dict, const NameChange& rename) {
  if (is_optimizer_state(node)) return rename_state(node, dict, rename);
  const Value* params = dict.find("params");
  if (params == nullptr || !params->is_sequence()) return false;
  bool changed = rename_list(dict, "params", rename);
  return rename_list(dict, "param_names", rename) || changed;
}

std::string renamed_flat_key(const std::string& key, const NameChange& rename) {
  std::size_t begin = key.starts_with(kStateKeys) ? kStateKeys.size() : kGroupKeys.size();
  // A slot has no dot as a rule; where it has some, a shorter name is one that changes.
  for (std::size_t end = key.rfind('.'); end != std::string::npos && end > begin; end = key.rfind('.', end - 1)) {
    std::string name = key.substr(begin, end - begin);
    std::string to = rename(name);
    if (!to.empty() && to != name) return key.substr(0, begin) + to + key.substr(end);
  }
  return key;
}

bool rename_flat_keys(Dict& dict, const NameChange& rename) {
  std::unordered_set<std::string> taken;
  bool changed = false;
  for (auto& [key, value] : dict.items) {
    std::string to = renamed_flat_key(key.as_text(), rename);
    if (!taken.insert(to).second) {
      throw core::Error(core::ErrorCode::collision, "two keys of an optimizer would both become " + core::quote(to));
    }
    if (to == key.as_text()) continue;
    key = Value::text(std::move(to));
    changed = true;
  }
  return changed;
}

}  // namespace ckpt::detail
