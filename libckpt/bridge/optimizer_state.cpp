#include "libckpt/bridge/tensor_entry.h"
#include "libckpt/bridge/training_state.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/factory.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using core::OptimizerState;
using core::Scalar;

void add(Dict& dict, std::string key, Value value) {
  dict.items.emplace_back(Value::text(std::move(key)), std::move(value));
}

Value number_value(const Scalar& number) {
  if (number.is_bool()) return Value::boolean(number.to_bool());
  return number.is_float() ? Value::real(number.to_double()) : Value::integer(number.to_int());
}

Value option_value(const core::OptionValue& option) {
  if (const auto* number = std::get_if<Scalar>(&option)) return number_value(*number);
  if (const auto* text = std::get_if<std::string>(&option)) return Value::text(*text);
  if (const auto* numbers = std::get_if<std::vector<Scalar>>(&option)) {
    Value::List items;
    for (const Scalar& number : *numbers) items.push_back(number_value(number));
    return Value::tuple(std::move(items));
  }
  return {};
}

Value group_value(const OptimizerState::Group& group) {
  Dict dict;
  for (const auto& [name, option] : group.options.items()) add(dict, name, option_value(option));
  Value::List ids;
  for (std::int64_t id : group.params) ids.push_back(Value::integer(id));
  add(dict, "params", Value::list(std::move(ids)));
  return Value::dict(std::move(dict));
}

bool is_number(const Value& value) {
  return value.is(Value::Kind::boolean) || value.is(Value::Kind::integer) || value.is(Value::Kind::real);
}

Scalar to_number(const Value& value) {
  if (value.is(Value::Kind::boolean)) return Scalar(value.as_boolean());
  return value.is(Value::Kind::real) ? Scalar(value.as_real()) : Scalar(value.as_integer());
}

core::OptionValue to_option(const std::string& name, const Value& value) {
  if (value.is_null()) return std::monostate();
  if (is_number(value)) return to_number(value);
  if (value.is(Value::Kind::text)) return value.as_text();
  if (value.is_sequence()) {
    std::vector<Scalar> numbers;
    for (const Value& item : value.as_list()) {
      if (!is_number(item))
        throw Error(ErrorCode::type, "option " + core::quote(name) + " holds something that is no number");
      numbers.push_back(to_number(item));
    }
    return numbers;
  }
  throw Error(ErrorCode::type, "option " + core::quote(name) + " of the optimizer is of a kind that no optimizer has");
}

OptimizerState::Group to_group(const Value& value) {
  const Value* params = value.find("params");
  if (params == nullptr || !params->is_sequence())
    throw Error(ErrorCode::key, "a parameter group has no list 'params'");
  OptimizerState::Group group;
  for (const Value& id : params->as_list()) {
    if (!id.is(Value::Kind::integer)) throw Error(ErrorCode::type, "a parameter group names a parameter by no integer");
    group.params.push_back(id.as_integer());
  }
  for (const auto& [key, option] : value.as_dict().items) {
    std::string name = step_text(key);
    if (name != "params" && name != "param_names") group.options.set(name, to_option(name, option));
  }
  return group;
}

/// State that some releases keep as a plain number (the step count) becomes the tensor that newer ones keep.
core::Tensor state_tensor(const std::string& name, const Value& value, TensorMaker& maker) {
  if (value.is(Value::Kind::tensor)) return maker.tensor(value.as_entry());
  if (is_number(value)) return core::full({}, to_number(value), {.dtype = core::DType::f32});
  throw Error(ErrorCode::type, "state " + core::quote(name) + " of the optimizer is neither a tensor nor a number");
}

std::vector<EntryPtr> entries_of(const Value& state) {
  std::vector<EntryPtr> entries;
  for (const NamedEntry& named : list_entries(state)) entries.push_back(named.entry);
  return entries;
}

}  // namespace

Value to_value(const OptimizerState& state) {
  EntryMaker maker;
  Dict by_id;
  for (const auto& [id, values] : state.state) {
    Dict one;
    for (const auto& [name, tensor] : values) add(one, name, Value::tensor(maker.entry(tensor)));
    by_id.items.emplace_back(Value::integer(id), Value::dict(std::move(one)));
  }
  Value::List groups;
  for (const OptimizerState::Group& group : state.param_groups) groups.push_back(group_value(group));
  Dict root;
  add(root, "state", Value::dict(std::move(by_id)));
  add(root, "param_groups", Value::list(std::move(groups)));
  return Value::dict(std::move(root));
}

OptimizerState to_optimizer_state(const Value& value, const MapLocation& map_location) {
  const Value* by_id = value.find("state");
  const Value* groups = value.find("param_groups");
  if (by_id == nullptr || !by_id->is(Value::Kind::dict) || groups == nullptr || !groups->is_sequence()) {
    throw Error(ErrorCode::key, "the optimizer state has no 'state' and 'param_groups'");
  }
  OptimizerState state;
  std::vector<EntryPtr> entries = entries_of(*by_id);
  TensorMaker maker(entries, map_location);
  for (const auto& [id, values] : by_id->as_dict().items) {
    if (!id.is(Value::Kind::integer) || !values.is(Value::Kind::dict)) {
      throw Error(ErrorCode::type, "the optimizer state names a parameter by no integer");
    }
    core::ParamState& one = state.state.emplace_back(id.as_integer(), core::ParamState()).second;
    for (const auto& [key, item] : values.as_dict().items) {
      std::string name = step_text(key);
      if (!item.is_null()) one.emplace_back(name, state_tensor(name, item, maker));
    }
  }
  for (const Value& group : groups->as_list()) state.param_groups.push_back(to_group(group));
  return state;
}

}  // namespace ckpt
