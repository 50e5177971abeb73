#pragma once
// TreeMap: rebuilds a checkpoint's tree with changes. What was one node stays one node (aliased containers, tied
// tensors), and subtrees without a change are shared with the original, not copied.
// Thread safety: one owner. Use: struct Copy : TreeMap {}; Value same = Copy().map(root);  // overrides what changes

#include <map>
#include <vector>

#include "libckpt/value.h"

namespace ckpt::detail {

class TreeMap {
 public:
  virtual ~TreeMap() = default;
  Value map(const Value& value);

 protected:
  /// The replacement of a tensor; the same value keeps it.
  virtual Value map_tensor(const Value& tensor) { return tensor; }
  /// The replacement of an object; the same value keeps it with all that it holds. By default its parts are mapped.
  virtual Value map_object(const Value& value);
  /// Called with a copy of `node` whose children are mapped. Returns true when it changed `dict`.
  virtual bool edit_dict(const Value& node, Dict& dict);
  /// As edit_dict, for a list, a tuple or a set.
  virtual bool edit_sequence(const Value& node, Value::List& items);
  /// As edit_dict, for an object.
  virtual bool edit_object(const Value& node, Object& object);

 private:
  Value map_node(const Value& value);
  Value map_dict(const Value& value);
  Value map_sequence(const Value& value);
  bool replace(Value& child);
  bool replace_list(Value::List& items);
  bool replace_items(std::vector<std::pair<Value, Value>>& items);

  std::map<const void*, Value> done_;
};

/// True when both are the same node, or equal plain values that live in the Value itself.
bool same_node(const Value& a, const Value& b);

}  // namespace ckpt::detail
