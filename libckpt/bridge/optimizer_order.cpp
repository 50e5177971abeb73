#include "libckpt/bridge/optimizer_order.h"

#include <algorithm>
#include <unordered_map>

#include "libckpt/checkpoint.h"
#include "libckpt/state_dicts.h"
#include "libckpt/wrappers.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using Names = std::vector<std::string>;

std::string name_without_wrappers(std::string_view name) {
  Names kept;
  for (std::string_view part : core::split(name, '.')) {
    if (!is_wrapper_component(part)) kept.emplace_back(part);
  }
  return core::join(kept, ".");
}

/// Empty unless all are text.
Names names_in(const Value* list) {
  Names names;
  if (list == nullptr || !list->is_sequence()) return names;
  for (const Value& name : list->as_list()) {
    if (!name.is(Value::Kind::text)) return {};
    names.push_back(name_without_wrappers(name.as_text()));
  }
  return names;
}

using NamesOfParameters = std::unordered_map<const core::TensorImpl*, std::string>;

NamesOfParameters names_in(const core::Module& model) {
  NamesOfParameters known;
  for (const auto& [name, parameter] : model.named_parameters())
    known.emplace(parameter.impl(), name_without_wrappers(name));
  return known;
}

/// The names of a group's parameters; empty where the model has not all of them.
Names names_of(const core::ParamGroup& group, const NamesOfParameters& known) {
  Names names;
  for (const core::Tensor& parameter : group.params) {
    auto found = known.find(parameter.impl());
    if (found == known.end()) return {};
    names.push_back(found->second);
  }
  return names;
}

/// The names of an optimizer's parameters, group by group; a group that no model has is empty.
std::vector<Names> names_of(const std::vector<const core::Module*>& models, const core::Optimizer& optimizer) {
  std::vector<Names> groups(optimizer.param_groups().size());
  for (const core::Module* model : models) {
    const NamesOfParameters known = names_in(*model);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (groups[i].empty()) groups[i] = names_of(optimizer.param_groups()[i], known);
    }
  }
  return groups;
}

void set_item(Dict& dict, std::string_view name, const Value& fresh) {
  for (auto& [key, value] : dict.items) {
    if (key.is(Value::Kind::text) && key.as_text() == name) value = fresh;
  }
}

/// Where each of `wanted` stands in `names`; empty when they are not the same names.
std::vector<std::size_t> places_of(const Names& wanted, const Names& names) {
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < names.size(); ++i) places.emplace(names[i], i);
  bool distinct = places.size() == names.size() && wanted.size() == names.size();
  std::vector<std::size_t> found;
  for (const std::string& name : wanted) {
    auto place = places.find(name);
    if (distinct && place != places.end()) found.push_back(place->second);
  }
  return found.size() == names.size() ? found : std::vector<std::size_t>();
}

Value in_order(const Value& list, const std::vector<std::size_t>& places) {
  if (!list.is_sequence() || list.as_list().size() != places.size()) return list;
  Value::List items;
  for (std::size_t place : places) items.push_back(list.as_list()[place]);
  return Value::list(std::move(items));
}

[[noreturn]] void refuse_names(const Names& wanted, const Names& names) {
  auto missing = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return std::find(wanted.begin(), wanted.end(), name) == wanted.end();
  });
  throw core::Error(core::ErrorCode::key,
                    "the optimizer state is keyed by names, and a group of " + core::format_count(names.size()) +
                        " parameters does not have those of the optimizer's group of " +
                        core::format_count(wanted.size()) +
                        (missing == names.end() ? "" : ": the model has no " + core::quote(*missing)));
}

/// State keyed by names, with the numbers that the groups have from now on.
class Numbers {
 public:
  Value number(const Value& names) {
    Value::List numbers;
    for (const Value& name : names.as_list()) {
      auto next = static_cast<std::int64_t>(numbers_.size());
      numbers.push_back(Value::integer(numbers_.try_emplace(name.as_text(), next).first->second));
    }
    return Value::list(std::move(numbers));
  }

  void apply_to(Dict& root) const {
    const Value* state = root.find("state");
    if (numbers_.empty() || state == nullptr || !state->is(Value::Kind::dict)) return;
    Dict numbered = state->as_dict();
    for (auto& [key, value] : numbered.items) {
      auto found = key.is(Value::Kind::text) ? numbers_.find(key.as_text()) : numbers_.end();
      if (found != numbers_.end()) key = Value::integer(found->second);
    }
    set_item(root, "state", Value::dict(std::move(numbered)));
  }

 private:
  std::unordered_map<std::string, std::int64_t> numbers_;
};

}  // namespace

Value in_order_of(const Value& state, const std::vector<const core::Module*>& models,
                  const core::Optimizer& optimizer) {
  if (!is_optimizer_state(state)) return state;
  const Value* groups = state.find("param_groups");
  std::vector<Names> wanted = names_of(models, optimizer);
  if (groups->as_list().size() != wanted.size()) return state;
  Value::List fresh;
  Numbers numbers;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Value& group = groups->as_list()[i];
    const Value* params = group.find("params");
    Names keys = names_in(params);
    std::vector<std::size_t> places = places_of(wanted[i], keys.empty() ? names_in(group.find("param_names")) : keys);
    if (places.empty() && !keys.empty()) refuse_names(wanted[i], keys);
    if (places.empty()) {
      fresh.push_back(group);
      continue;
    }
    Dict ordered = group.as_dict();
    Value order = in_order(*params, places);
    set_item(ordered, "params", keys.empty() ? order : numbers.number(order));
    fresh.push_back(Value::dict(std::move(ordered)));
  }
  Dict root = state.as_dict();
  set_item(root, "param_groups", Value::list(std::move(fresh)));
  numbers.apply_to(root);
  return Value::dict(std::move(root));
}

}  // namespace ckpt::detail
