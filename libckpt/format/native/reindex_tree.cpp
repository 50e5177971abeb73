#include "libckpt/format/native/reindex_tree.h"

#include <unordered_map>
#include <unordered_set>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

std::string joined(const std::string& prefix, const std::string& step) {
  return prefix.empty() ? step : prefix + "." + step;
}

/// "fc.weight" for "model.fc.weight" in the dict "model"; "" when the name lies elsewhere.
std::string key_in(const std::string& dict, const std::string& name) {
  if (dict.empty()) return name;
  return name.starts_with(dict + ".") ? name.substr(dict.size() + 1) : "";
}

/// Dotted names of the dicts that are reached through dicts alone.
void list_dicts(const Value& value, const std::string& name, std::unordered_set<std::string>& found) {
  if (!value.is(Value::Kind::dict)) return;
  found.insert(name);
  for (const auto& [key, child] : value.as_dict().items) list_dicts(child, joined(name, step_text(key)), found);
}

class Rebuilder {
 public:
  Rebuilder(const Value& root, const std::vector<TensorChange>& changes, std::vector<NewTensor> added)
      : changes_(changes) {
    list_dicts(root, "", dicts_);
    for (NewTensor& tensor : added) send(std::move(tensor));
    for (const TensorChange& change : changes) find_leaving(change);
  }

  Value run(const Value& root) {
    Value rebuilt = map(root, "");
    if (waiting_.empty()) return rebuilt;
    throw Error(ErrorCode::unsupported,
                "there is no dict to put " + core::quote(waiting_.begin()->second.front().name) + " into");
  }

 private:
  /// To the innermost dict whose name it begins with.
  void send(NewTensor tensor) {
    std::string dict = tensor.name;
    while (!dicts_.contains(dict) || dict == tensor.name) {
      std::size_t dot = dict.rfind('.');
      dict.resize(dot == std::string::npos ? 0 : dot);
      if (dict.empty()) break;
    }
    waiting_[dict].push_back(std::move(tensor));
  }

  /// A tensor that is renamed out of the dict it stands in.
  void find_leaving(const TensorChange& change) {
    if (change.entry == nullptr || change.new_name == change.name) return;
    std::string dict = change.name;
    do {
      std::size_t dot = dict.rfind('.');
      dict.resize(dot == std::string::npos ? 0 : dot);
    } while (!dict.empty() && !dicts_.contains(dict));
    if (!key_in(dict, change.new_name).empty()) return;
    leaving_.insert(&change);
    send({change.new_name, change.entry});
  }

  Value map(const Value& value, const std::string& name) {
    switch (value.kind()) {
      case Value::Kind::tensor:
        return map_fixed_tensor();
      case Value::Kind::dict:
        return map_dict(value.as_dict(), name);
      case Value::Kind::list:
        return Value::list(map_list(value.as_list(), name));
      case Value::Kind::tuple:
        return Value::tuple(map_list(value.as_list(), name));
      case Value::Kind::set:
        return Value::set(map_list(value.as_list(), name));
      case Value::Kind::frozenset:
        return Value::frozenset(map_list(value.as_list(), name));
      case Value::Kind::object:
        return Value::object(map_object(value.as_object(), name));
      default:
        return value;
    }
  }

  const TensorChange& next() { return changes_.at(next_++); }

  /// One that stands in a list or object: it can be replaced and nothing else.
  Value map_fixed_tensor() {
    const TensorChange& change = next();
    if (change.entry != nullptr && change.new_name == change.name) return Value::tensor(change.entry);
    throw Error(ErrorCode::unsupported, core::quote(change.name) + " was " +
                                            (change.entry == nullptr ? "deleted" : "renamed") +
                                            ", but it is in a list or object, where it cannot be");
  }

  Value map_dict(const Dict& dict, const std::string& name) {
    Dict out = dict;
    out.items.clear();
    bool reachable = dicts_.contains(name);
    for (const auto& [key, child] : dict.items) {
      std::string child_name = joined(name, step_text(key));
      if (child.is(Value::Kind::tensor) && reachable) {
        take_tensor(key, name, out);
      } else {
        out.items.emplace_back(key, map(child, child_name));
      }
    }
    if (reachable) add_waiting(name, out);
    require_distinct(out, name);
    return Value::dict(std::move(out));
  }

  void take_tensor(const Value& key, const std::string& dict, Dict& out) {
    const TensorChange& change = next();
    if (change.entry == nullptr || leaving_.contains(&change)) return;
    bool same = change.new_name == change.name;
    out.items.emplace_back(same ? key : Value::text(key_in(dict, change.new_name)), Value::tensor(change.entry));
  }

  void add_waiting(const std::string& name, Dict& out) {
    auto at = waiting_.find(name);
    if (at == waiting_.end()) return;
    for (const NewTensor& tensor : at->second) {
      out.items.emplace_back(Value::text(key_in(name, tensor.name)), Value::tensor(tensor.entry));
    }
    waiting_.erase(at);
  }

  static void require_distinct(const Dict& dict, const std::string& name) {
    std::unordered_set<std::string_view> keys;
    for (const auto& [key, child] : dict.items) {
      if (!key.is(Value::Kind::text) || keys.insert(key.as_text()).second) continue;
      throw Error(ErrorCode::collision,
                  "the key " + core::quote(joined(name, key.as_text())) + " would be there twice");
    }
  }

  Value::List map_list(const Value::List& items, const std::string& name) {
    Value::List out;
    for (std::size_t i = 0; i < items.size(); ++i) out.push_back(map(items[i], joined(name, std::to_string(i))));
    return out;
  }

  std::vector<std::pair<Value, Value>> map_items(const std::vector<std::pair<Value, Value>>& items,
                                                 const std::string& name) {
    std::vector<std::pair<Value, Value>> out;
    for (const auto& [key, child] : items) out.emplace_back(key, map(child, joined(name, step_text(key))));
    return out;
  }

  /// In the order of list_entries().
  Object map_object(const Object& object, const std::string& name) {
    Object out = object;
    if (object.args.is_sequence()) out.args = map(object.args, name);
    if (object.kwargs.is(Value::Kind::dict)) {
      Dict kwargs = object.kwargs.as_dict();
      kwargs.items = map_items(kwargs.items, name);
      out.kwargs = Value::dict(std::move(kwargs));
    }
    if (object.has_state) out.state = map(object.state, name);
    out.appended = map_list(object.appended, name);
    out.items = map_items(object.items, name);
    return out;
  }

  const std::vector<TensorChange>& changes_;
  std::size_t next_ = 0;
  std::unordered_set<std::string> dicts_;
  std::unordered_map<std::string, std::vector<NewTensor>> waiting_;  ///< by dict
  std::unordered_set<const TensorChange*> leaving_;
};

}  // namespace

Value rebuild_tree(const Value& root, const std::vector<TensorChange>& changes, std::vector<NewTensor> added) {
  return Rebuilder(root, changes, std::move(added)).run(root);
}

}  // namespace ckpt::detail
