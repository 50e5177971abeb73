#include "libckpt/format/torch/module_tensors.h"

#include <unordered_set>

#include "libckpt/checkpoint.h"
#include "libckpt/entry.h"
#include "libckpt/format/torch/loops.h"
#include "libckpt/objects.h"
#include "libckpt/sequence_of.h"

namespace ckpt {
namespace {

/// The object itself, out of the label of one that contains itself.
const Object* object_of(const Value& value) {
  if (!value.is(Value::Kind::object)) return nullptr;
  const Object& object = value.as_object();
  std::optional<Label> label = as_label(object);
  return label ? label->object : &object;
}

const Dict* dict_in(const Value& state, std::string_view key) {
  const Value* found = state.find(key);
  return found != nullptr && found->is(Value::Kind::dict) ? &found->as_dict() : nullptr;
}

/// The attributes of a module, null for any other object.
const Value* module_state(const Value& value) {
  const Object* object = object_of(value);
  if (object == nullptr || !object->state.is(Value::Kind::dict)) return nullptr;
  bool is_module = dict_in(object->state, "_parameters") != nullptr && dict_in(object->state, "_modules") != nullptr;
  return is_module ? &object->state : nullptr;
}

/// Collects what state_dict() gives: parameters, persistent buffers, then children, each behind its name.
class ModuleWalk {
 public:
  void add(const Value& state, const std::string& prefix) {
    if (!open_.insert(&state).second) return;  // a module that holds itself
    add_tensors(dict_in(state, "_parameters"), prefix, {});
    add_tensors(dict_in(state, "_buffers"), prefix, transient(state));
    for (const auto& [key, child] : dict_in(state, "_modules")->items) {
      const Value* inner = module_state(child);
      if (inner != nullptr && key.is(Value::Kind::text)) add(*inner, prefix + key.as_text() + ".");
    }
    open_.erase(&state);
  }

  Dict take() {
    Dict dict;
    dict.type = "collections.OrderedDict";
    dict.items = std::move(items_);
    return dict;
  }

 private:
  static std::unordered_set<std::string> transient(const Value& state) {
    std::unordered_set<std::string> names;
    const Value* found = state.find("_non_persistent_buffers_set");
    if (found == nullptr || !found->is_sequence()) return names;
    for (const Value& name : found->as_list()) {
      if (name.is(Value::Kind::text)) names.insert(name.as_text());
    }
    return names;
  }

  void add_tensors(const Dict* tensors, const std::string& prefix, const std::unordered_set<std::string>& left_out) {
    if (tensors == nullptr) return;
    for (const auto& [key, value] : tensors->items) {
      bool named = key.is(Value::Kind::text) && value.is(Value::Kind::tensor);
      if (named && !left_out.contains(key.as_text())) items_.emplace_back(Value::text(prefix + key.as_text()), value);
    }
  }

  std::vector<std::pair<Value, Value>> items_;
  std::unordered_set<const Value*> open_;
};

class Replacement {
 public:
  explicit Replacement(Report* report) : report_(report) {}

  Value replace(const Value& value) {
    if (const Value* state = module_state(value)) return replace_module(value, *state);
    if (value.is(Value::Kind::dict)) return replace_dict(value);
    return value.is(Value::Kind::list) || value.is(Value::Kind::tuple) ? replace_sequence(value) : value;
  }

 private:
  Value replace_module(const Value& value, const Value& state) {
    ModuleWalk walk;
    walk.add(state, "");
    Value tensors = Value::dict(walk.take());
    if (report_ != nullptr) {
      report_->modules.push_back(object_of(value)->symbol);
      report_->module_dicts.push_back(tensors.identity());
      report_->warnings.push_back(pickled_module_text(object_of(value)->symbol));
    }
    return tensors;
  }

  Value replace_dict(const Value& value) {
    Dict dict = value.as_dict();
    bool changed = false;
    for (auto& [key, item] : dict.items) {
      Value next = replace(item);
      changed = changed || next.identity() != item.identity();
      item = std::move(next);
    }
    return changed ? Value::dict(std::move(dict)) : value;
  }

  Value replace_sequence(const Value& value) {
    Value::List items = value.as_list();
    bool changed = false;
    for (Value& item : items) {
      Value next = replace(item);
      changed = changed || next.identity() != item.identity();
      item = std::move(next);
    }
    return changed ? detail::sequence_of(value.kind(), std::move(items)) : value;
  }

  Report* report_;
};

}  // namespace

Value with_module_tensors(Value root, Report* report) {
  return Replacement(report).replace(root);
}

}  // namespace ckpt
