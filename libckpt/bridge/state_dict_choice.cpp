#include "libckpt/bridge/state_dict_choice.h"

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

/// True for a dict with `state` and `param_groups`: what an optimizer's state_dict() returns.
bool is_optimizer_state(const Value& value) {
  return value.find("state") != nullptr && value.find("param_groups") != nullptr;
}

/// True when the dict belongs to an optimizer's state, or to an object such as a pickled module among the settings.
bool is_part_of_another(const Value& root, const StateDictRef& ref) {
  const Value* at = &root;
  for (const Value& step : ref.path) {
    if (is_optimizer_state(*at) || at->is(Value::Kind::object)) return true;
    const Value* next = nullptr;
    if (at->is(Value::Kind::dict)) {
      for (const auto& [key, child] : at->as_dict().items) {
        if (key == step) next = &child;
      }
    } else if (at->is_sequence() && step.is(Value::Kind::integer)) {
      next = &at->as_list()[static_cast<std::size_t>(step.as_integer())];
    }
    if (next == nullptr) return false;
    at = next;
  }
  return false;
}

std::string list_candidates(const std::vector<StateDictRef>& candidates) {
  std::string text;
  for (const StateDictRef& ref : candidates) {
    text += (text.empty() ? "" : ", ") + core::quote(ref.name) + " (" + core::format_count(ref.tensors) +
            (ref.tensors == 1 ? " tensor)" : " tensors)");
  }
  return text;
}

}  // namespace

StateDictRef choose_state_dict(const Value& root, const std::string& path) {
  if (!path.empty()) {
    const Value& value = value_at(root, path);
    if (!value.is(Value::Kind::dict)) throw Error(ErrorCode::key, core::quote(path) + " is not a dict of tensors");
    return {{}, path, value.as_dict().items.size(), &value.as_dict()};
  }
  std::vector<StateDictRef> candidates;
  for (StateDictRef& ref : list_state_dicts(root)) {
    if (ref.path.empty()) return ref;
    if (!is_part_of_another(root, ref)) candidates.push_back(std::move(ref));
  }
  if (candidates.size() == 1) return std::move(candidates.front());
  if (candidates.empty()) {
    if (root.is(Value::Kind::dict) && root.as_dict().items.empty()) return {{}, "", 0, &root.as_dict()};
    throw Error(ErrorCode::key, "the file has no state dict (a dict of tensors)");
  }
  throw Error(ErrorCode::key, "the file holds several state dicts: " + list_candidates(candidates) + "; name one");
}

}  // namespace ckpt
