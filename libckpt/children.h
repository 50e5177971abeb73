#pragma once
// The children of a value in file order, for walks over a tree, and such a walk over its tensors. Internal.
// Thread safety: pure. Use: for_each_child(value, [&](const Value* step, const Value& child) { walk(child); });

#include <functional>
#include <string_view>

#include "libckpt/value.h"

namespace ckpt {

/// Calls `visit` for each tensor that list_entries() has, with its dotted name, which is valid during the call.
void visit_tensors(const Value& root, const std::function<void(std::string_view name, const Value& tensor)>& visit);

/// The same; a name that is a key of the root is `kept`: valid as long as the tree.
void visit_named_tensors(const Value& root,
                         const std::function<void(std::string_view name, bool kept, const Value& tensor)>& visit);

/// Calls `visit(step, child)` for what lies directly in a dict, a sequence or an object. The step is a key or an index,
/// and null for the state of an object, which has no name of its own.
template <class Visit>
void for_each_child(const Value& value, const Visit& visit) {
  auto items = [&](const auto& pairs) {
    for (const auto& [key, child] : pairs) visit(&key, child);
  };
  auto sequence = [&](const Value::List& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Value step = Value::integer(static_cast<std::int64_t>(i));
      visit(&step, list[i]);
    }
  };
  if (value.is(Value::Kind::dict)) {
    items(value.as_dict().items);
  } else if (value.is_sequence()) {
    sequence(value.as_list());
  } else if (value.is(Value::Kind::object)) {
    const Object& object = value.as_object();
    if (object.args.is_sequence()) sequence(object.args.as_list());
    if (object.kwargs.is(Value::Kind::dict)) items(object.kwargs.as_dict().items);
    if (object.has_state) visit(static_cast<const Value*>(nullptr), object.state);
    sequence(object.appended);
    items(object.items);
  }
}

}  // namespace ckpt
