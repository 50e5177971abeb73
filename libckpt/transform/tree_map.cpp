#include "libckpt/transform/tree_map.h"

#include "libckpt/sequence_of.h"

namespace ckpt::detail {
bool same_node(const Value& a, const Value& b) {
  if (a.kind() != b.kind() || a.identity() != b.identity()) return false;
  return a.identity() != nullptr || a == b;
}

bool TreeMap::edit_dict(const Value&, Dict&) {
  return false;
}

bool TreeMap::edit_sequence(const Value&, Value::List&) {
  return false;
}

bool TreeMap::edit_object(const Value&, Object&) {
  return false;
}

Value TreeMap::map(const Value& value) {
  if (value.identity() == nullptr) return value;
  if (auto known = done_.find(value.identity()); known != done_.end()) return known->second;
  Value mapped = map_node(value);
  done_.emplace(value.identity(), mapped);
  return mapped;
}

Value TreeMap::map_node(const Value& value) {
  if (value.is(Value::Kind::tensor)) return map_tensor(value);
  if (value.is(Value::Kind::dict)) return map_dict(value);
  if (value.is(Value::Kind::object)) return map_object(value);
  return value.is_sequence() ? map_sequence(value) : value;
}

Value TreeMap::map_dict(const Value& value) {
  Dict dict = value.as_dict();
  bool changed = replace_items(dict.items);
  changed |= replace(dict.attributes);
  changed |= replace(dict.constructor_args);
  changed |= edit_dict(value, dict);
  return changed ? Value::dict(std::move(dict)) : value;
}

Value TreeMap::map_sequence(const Value& value) {
  Value::List items = value.as_list();
  bool changed = replace_list(items);
  changed |= edit_sequence(value, items);
  return changed ? sequence_of(value.kind(), std::move(items)) : value;
}

Value TreeMap::map_object(const Value& value) {
  Object object = value.as_object();
  bool changed = replace(object.args);
  changed |= replace(object.kwargs);
  changed |= replace(object.state);
  changed |= replace_list(object.appended);
  changed |= replace_items(object.items);
  changed |= edit_object(value, object);
  return changed ? Value::object(std::move(object)) : value;
}

bool TreeMap::replace(Value& child) {
  Value mapped = map(child);
  if (same_node(mapped, child)) return false;
  child = std::move(mapped);
  return true;
}

bool TreeMap::replace_list(Value::List& items) {
  bool changed = false;
  for (Value& item : items) changed |= replace(item);
  return changed;
}

bool TreeMap::replace_items(std::vector<std::pair<Value, Value>>& items) {
  bool changed = false;
  for (auto& [key, child] : items) changed |= replace(child);
  return changed;
}

}  // namespace ckpt::detail
