#include "libckpt/transform/set_values.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <span>

#include "libckpt/integer_text.h"
#include "libckpt/transform/tree_map.h"
#include "libckpt/value_path.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::PathStep;
using Way = std::vector<PathStep>;
using Item = std::pair<const void*, std::size_t>;  ///< an item of a container, by the identity of that

/// What becomes of one item of a dict or list.
struct ItemEdit {
  std::size_t index;
  std::vector<std::size_t> inside = {};  ///< further down through tuples, which are replaced, not changed
  std::optional<Value> value = {};       ///< empty: the item goes
};

struct ContainerEdit {
  std::vector<ItemEdit> items;
  std::vector<std::pair<Value, Value>> added;
};

bool is_same(const Value& a, const Value& b) {
  if (!a.is(Value::Kind::real) || !b.is(Value::Kind::real)) return a == b;
  return std::bit_cast<std::uint64_t>(a.as_real()) == std::bit_cast<std::uint64_t>(b.as_real());
}

/// A tuple with another value somewhere inside.
Value with_value(const Value& whole, std::span<const std::size_t> inside, const Value& value) {
  if (inside.empty()) return value;
  Value::List items = whole.as_list();
  items[inside.front()] = with_value(items[inside.front()], inside.subspan(1), value);
  return Value::tuple(std::move(items));
}

Item item_of(const PathStep& step) {
  return {step.parent->identity(), step.index};
}

/// Finds the places of all edits before the first is made, so that none moves the place of another.
class Planner {
 public:
  Planner(const Checkpoint& checkpoint, const ValueEdits& edits) : checkpoint_(checkpoint), edits_(edits) {
    value_at(checkpoint.root, edits.at);  // says what is wrong with it
    base_ = *detail::find_path(checkpoint.root, edits.at);
  }

  void run() {
    for (const ValueToSet& wanted : edits_.set) set(wanted);
    for (const std::string& key : edits_.unset) unset(key);
    require_apart();
  }

  std::map<const void*, ContainerEdit> containers;
  std::optional<Value> new_root;  ///< a tuple at the top, changed
  std::vector<ValueChange> changes;

 private:
  struct Named {
    std::string key;
    Way way;
    bool goes;
  };

  const Value& start() const { return base_.empty() ? checkpoint_.root : base_.back().child(); }
  std::string full_key(const std::string& key) const { return edits_.at.empty() ? key : edits_.at + "." + key; }

  std::optional<Way> find(const std::string& key) const {
    std::optional<Way> way = detail::find_path(start(), key);
    if (way) way->insert(way->begin(), base_.begin(), base_.end());
    return way;
  }

  void set(const ValueToSet& wanted) {
    if (wanted.key.empty()) throw Error(ErrorCode::usage, "the key of a value to set is empty");
    std::optional<Way> way = find(wanted.key);
    if (!way && edits_.create) return add(wanted);
    if (!way) refuse_absent(wanted.key);
    require_ordered(wanted.key, *way);
    const Value& old = way->back().child();
    Value value = detail::value_to_set(wanted, &old);
    named_.push_back({wanted.key, *way, false});
    if (is_same(old, value)) return;
    changes.push_back({full_key(wanted.key), old, value});
    replace(*way, value);
  }

  void replace(const Way& way, const Value& value) {
    std::size_t depth = way.size();  // of the innermost that is no tuple, from where the item is replaced
    while (depth > 0 && way[depth - 1].parent->is(Value::Kind::tuple)) --depth;
    std::vector<std::size_t> inside;
    for (std::size_t i = depth; i < way.size(); ++i) inside.push_back(way[i].index);
    if (depth == 0) {
      new_root = with_value(new_root.value_or(checkpoint_.root), inside, value);
      return;
    }
    const PathStep& step = way[depth - 1];
    containers[step.parent->identity()].items.push_back({step.index, std::move(inside), value});
  }

  void unset(const std::string& key) {
    std::optional<Way> way = key.empty() ? std::nullopt : find(key);
    if (!way) refuse_absent(key);
    require_ordered(key, *way);
    const PathStep& step = way->back();
    const Value& old = step.child();
    std::size_t tensors = list_entries(old).size();
    if (old.is(Value::Kind::tensor)) {
      throw Error(ErrorCode::usage,
                  core::quote(key) + " is " + detail::what_it_is(old) + "; 'ckpt select' leaves tensors out");
    }
    if (tensors > 0) {
      throw Error(ErrorCode::usage, core::quote(key) + " is " + detail::what_it_is(old) + " and holds " +
                                        core::format_count(tensors) + (tensors == 1 ? " tensor" : " tensors") +
                                        "; 'ckpt select' leaves tensors out");
    }
    if (step.parent->is(Value::Kind::tuple)) {
      throw Error(ErrorCode::usage, core::quote(key) + " is an item of a tuple, which keeps its length");
    }
    named_.push_back({key, *way, true});
    changes.push_back({full_key(key), old, std::nullopt});
    containers[step.parent->identity()].items.push_back({.index = step.index});
  }

  void add(const ValueToSet& wanted) {
    std::size_t dot = wanted.key.rfind('.');
    std::string place = dot == std::string::npos ? "" : wanted.key.substr(0, dot);
    std::string name = dot == std::string::npos ? wanted.key : wanted.key.substr(dot + 1);
    const Value& parent = value_at(start(), place);
    if (!parent.is(Value::Kind::dict)) {
      std::string shown = place.empty() ? "the top" : core::quote(place);
      throw Error(ErrorCode::usage, shown + " is " + detail::what_it_is(parent) + "; a new key such as " +
                                        core::quote(name) + " needs a dict");
    }
    if (!core::is_utf8(name) || name.empty()) {
      throw Error(ErrorCode::usage, core::quote(wanted.key) + " is no key: it is empty or no UTF-8");
    }
    if (!added_.insert({parent.identity(), name}).second) refuse_twice(wanted.key);
    Value value = detail::value_to_set(wanted, nullptr);
    changes.push_back({full_key(wanted.key), std::nullopt, value});
    containers[parent.identity()].added.emplace_back(new_key(parent.as_dict(), name), std::move(value));
  }

  /// A dict whose keys are all numbers, such as an optimizer's state, gets one more of them.
  static Value new_key(const Dict& dict, const std::string& name) {
    std::optional<Value> number = detail::parse_integer(name);
    bool numbers = !dict.items.empty() && std::all_of(dict.items.begin(), dict.items.end(), [](const auto& item) {
      return item.first.is(Value::Kind::integer);
    });
    return numbers && number && number->is(Value::Kind::integer) ? *number : Value::text(name);
  }

  /// Items of sets have no places.
  static void require_ordered(const std::string& key, const Way& way) {
    for (const PathStep& step : way) {
      if (!step.parent->is(Value::Kind::set) && !step.parent->is(Value::Kind::frozenset)) continue;
      throw Error(ErrorCode::usage, core::quote(key) + " is in a set, whose items have no places");
    }
  }

  [[noreturn]] void refuse_absent(const std::string& key) const {
    for (const auto& [name, text] : checkpoint_.metadata) {
      if (name != key) continue;
      throw Error(ErrorCode::usage,
                  core::quote(key) + " is text of the file, not a value in it; 'ckpt meta' changes that");
    }
    for (std::size_t dot = key.rfind('.'); dot != std::string::npos && dot > 0; dot = key.rfind('.', dot - 1)) {
      std::optional<Way> way = detail::find_path(start(), key.substr(0, dot));
      if (!way || !way->back().child().is(Value::Kind::object)) continue;
      throw Error(ErrorCode::usage, core::quote(key) + " cannot be set: " + core::quote(key.substr(0, dot)) + " is " +
                                        detail::what_it_is(way->back().child()) + ", whose parts are left as they are");
    }
    value_at(start(), key);  // says what there is
    throw Error(ErrorCode::usage, "the key of a value to remove is empty");
  }

  [[noreturn]] static void refuse_twice(const std::string& key) {
    throw Error(ErrorCode::usage, core::quote(key) + " is named twice");
  }

  /// No value is set twice, and none in what goes.
  void require_apart() const {
    std::map<Item, const Named*> gone;
    for (const Named& named : named_) {
      if (named.goes && !gone.emplace(item_of(named.way.back()), &named).second) refuse_twice(named.key);
    }
    for (const Named& named : named_) {
      if (named.goes) continue;
      for (const PathStep& step : named.way) {
        auto found = gone.find(item_of(step));
        if (found == gone.end()) continue;
        throw Error(ErrorCode::usage,
                    core::quote(named.key) + " is set, and " + core::quote(found->second->key) + " removed with it");
      }
    }
    require_set_once();
  }

  /// One object may have several names, and one tuple several places.
  void require_set_once() const {
    std::map<std::vector<Item>, const Named*> ends;
    for (const Named& named : named_) {
      if (named.goes) continue;
      std::size_t first = named.way.size() - 1;
      while (first > 0 && named.way[first].parent->is(Value::Kind::tuple)) --first;
      std::vector<Item> end;
      for (std::size_t i = first; i < named.way.size(); ++i) end.push_back(item_of(named.way[i]));
      auto [other, fresh] = ends.emplace(std::move(end), &named);
      if (fresh) continue;
      if (other->second->key == named.key) refuse_twice(named.key);
      throw Error(ErrorCode::usage, core::quote(other->second->key) + " and " + core::quote(named.key) +
                                        " are one value under two names; set it once");
    }
  }

  const Checkpoint& checkpoint_;
  const ValueEdits& edits_;
  Way base_;
  std::vector<Named> named_;
  std::set<std::pair<const void*, std::string>> added_;
};

/// Makes the edits in a walk that visits each object once, however many places it stands in.
class EditItems final : public detail::TreeMap {
 public:
  explicit EditItems(const std::map<const void*, ContainerEdit>& containers) : containers_(containers) {}

 private:
  bool edit_dict(const Value& node, Dict& dict) override {
    auto found = containers_.find(node.identity());
    if (found == containers_.end()) return false;
    edit(dict.items, found->second, [](auto& item) -> Value& { return item.second; });
    dict.items.insert(dict.items.end(), found->second.added.begin(), found->second.added.end());
    return true;
  }

  bool edit_sequence(const Value& node, Value::List& items) override {
    auto found = containers_.find(node.identity());
    if (found == containers_.end()) return false;
    edit(items, found->second, [](Value& item) -> Value& { return item; });
    return true;
  }

  template <class Items, class ValueOf>
  static void edit(Items& items, const ContainerEdit& edit, const ValueOf& value_of) {
    std::vector<bool> goes(items.size());
    for (const ItemEdit& item : edit.items) {
      Value& value = value_of(items[item.index]);
      if (item.value) value = with_value(value, item.inside, *item.value);
      goes[item.index] = goes[item.index] || !item.value;
    }
    std::size_t i = 0;
    std::erase_if(items, [&](const auto&) { return goes[i++]; });
  }

  const std::map<const void*, ContainerEdit>& containers_;
};

}  // namespace

Checkpoint set_values(const Checkpoint& checkpoint, const ValueEdits& edits, std::vector<ValueChange>* changes) {
  Planner plan(checkpoint, edits);
  plan.run();
  Checkpoint out = checkpoint;
  if (plan.new_root) out.root = *plan.new_root;
  if (!plan.containers.empty()) out.root = EditItems(plan.containers).map(out.root);
  if (changes != nullptr) *changes = std::move(plan.changes);
  return out;
}

}  // namespace ckpt
