#include "libckpt/transform/select.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "libckpt/nearest_path.h"
#include "libckpt/transform/selector.h"
#include "libckpt/transform/tree_map.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using Modules = std::unordered_set<std::string>;

/// A selector and whether it took part in anything.
struct Use {
  Selector selector;
  bool used = false;
};

bool any_covers(std::vector<Use>& uses, const std::string& name, const Value& value) {
  bool covered = false;
  for (Use& use : uses) {
    bool covers =
        value.is(Value::Kind::tensor) ? use.selector.covers(name, value.as_entry()) : use.selector.covers_value(name);
    use.used |= covers;
    covered |= covers;
  }
  return covered;
}

/// Every module path above the text keys of a dict.
Modules modules_of(const Dict& dict) {
  Modules modules;
  for (const auto& [key, value] : dict.items) {
    if (!key.is(Value::Kind::text)) continue;
    const std::string& name = key.as_text();
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      modules.insert(name.substr(0, dot));
    }
  }
  return modules;
}

/// A module stays when one of its keys does; one that never had a key goes with its parent.
bool module_stays(const std::string& path, const Modules& before, const Modules& after) {
  if (path.empty() || after.contains(path)) return true;
  if (before.contains(path)) return false;
  std::size_t dot = path.rfind('.');
  return module_stays(dot == std::string::npos ? "" : path.substr(0, dot), before, after);
}

void select_versions(const Dict& before, Dict& after) {
  const Value* metadata = after.attributes.find("_metadata");
  if (metadata == nullptr || !metadata->is(Value::Kind::dict)) return;
  Modules had = modules_of(before);
  Modules has = modules_of(after);
  Dict kept = metadata->as_dict();
  std::erase_if(kept.items, [&](const auto& item) {
    return item.first.is(Value::Kind::text) && !module_stays(item.first.as_text(), had, has);
  });
  Dict attributes = after.attributes.as_dict();
  for (auto& [name, value] : attributes.items) {
    if (name.is(Value::Kind::text) && name.as_text() == "_metadata") value = Value::dict(kept);
  }
  after.attributes = Value::dict(std::move(attributes));
}

class Selecting {
 public:
  explicit Selecting(const SelectOptions& options) {
    for (const std::string& text : options.include) include_.push_back({Selector::parse(text)});
    for (const std::string& text : options.exclude) exclude_.push_back({Selector::parse(text)});
  }

  std::optional<Value> run(const Value& top) {
    std::optional<Value> kept = filter(top, "");
    require_used(include_, top);
    require_used(exclude_, top);
    return kept;
  }
  const SelectChanges& changes() const { return changes_; }

 private:
  std::optional<Value> filter(const Value& value, const std::string& name) {
    if (value.is(Value::Kind::dict) && !value.as_dict().items.empty()) return filter_dict(value, name);
    bool included = any_covers(include_, name, value) || include_.empty();
    bool excluded = any_covers(exclude_, name, value);
    count_leaf(value, included && !excluded);
    return included && !excluded ? std::optional(value) : std::nullopt;
  }

  std::optional<Value> filter_dict(const Value& value, const std::string& name) {
    const Dict& dict = value.as_dict();
    Dict kept = dict;
    kept.items.clear();
    bool whole = true;
    for (const auto& [key, child] : dict.items) {
      std::optional<Value> left = filter(child, (name.empty() ? "" : name + ".") + step_text(key));
      whole &= left && detail::same_node(*left, child);
      if (left) kept.items.emplace_back(key, *left);
    }
    if (whole) return value;
    if (kept.items.empty()) return std::nullopt;
    select_versions(dict, kept);
    return Value::dict(std::move(kept));
  }

  void count_leaf(const Value& value, bool keep) {
    std::size_t tensors = list_entries(value).size();
    changes_.tensors += tensors;
    changes_.tensors_kept += keep ? tensors : 0;
    if (tensors > 0) return;
    ++changes_.values;
    changes_.values_kept += keep ? 1 : 0;
  }

  static void require_used(const std::vector<Use>& uses, const Value& top) {
    for (const Use& use : uses) {
      if (use.used) continue;
      const std::string& text = use.selector.text();
      throw Error(ErrorCode::key, "no name matches " + core::quote(text) + did_you_mean_pattern(top, text));
    }
  }

  std::vector<Use> include_;
  std::vector<Use> exclude_;
  SelectChanges changes_;
};

/// Puts `to` in the place of the dict `from`.
class ReplaceDict final : public detail::TreeMap {
 public:
  ReplaceDict(const Value& from, const Value& to) : from_(from), to_(to) {}

 protected:
  bool edit_dict(const Value& node, Dict& dict) override {
    if (!detail::same_node(node, from_)) return false;
    dict = to_.as_dict();
    return true;
  }

 private:
  const Value& from_;
  const Value& to_;
};

}  // namespace

Checkpoint select(const Checkpoint& checkpoint, const SelectOptions& options, SelectChanges* changes) {
  if (options.include.empty() && options.exclude.empty()) {
    throw Error(ErrorCode::usage, "name what to include or to exclude");
  }
  const Value& top = value_at(checkpoint.root, options.at);
  if (!top.is(Value::Kind::dict)) {
    throw Error(ErrorCode::key, (options.at.empty() ? "the top" : core::quote(options.at)) + " is not a dict");
  }
  Selecting selecting(options);
  std::optional<Value> kept = selecting.run(top);
  if (!kept) throw Error(ErrorCode::key, "nothing would be left");
  Checkpoint out = checkpoint;
  out.root = options.at.empty() ? *kept : ReplaceDict(top, *kept).map(checkpoint.root);
  if (changes != nullptr) *changes = selecting.changes();
  return out;
}

}  // namespace ckpt
