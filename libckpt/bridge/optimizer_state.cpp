#include <algorithm>
#include <charconv>

#include "libckpt/bridge/tensor_entry.h"
#include "libckpt/bridge/training_state.h"
#include "libckpt/state_dicts.h"
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

/// A list of maps; an empty one stands for None (a function, which is not kept).
Value maps_value(const std::vector<core::OptionMap>& maps) {
  Value::List items;
  for (const core::OptionMap& map : maps) items.push_back(map.items().empty() ? Value() : to_value(map));
  return Value::list(std::move(items));
}

Value option_value(const core::OptionValue& option) {
  if (const auto* number = std::get_if<Scalar>(&option)) return number_value(*number);
  if (const auto* text = std::get_if<std::string>(&option)) return Value::text(*text);
  if (const auto* numbers = std::get_if<std::vector<Scalar>>(&option)) {
    Value::List items;
    for (const Scalar& number : *numbers) items.push_back(number_value(number));
    return Value::tuple(std::move(items));
  }
  if (const auto* maps = std::get_if<std::vector<core::OptionMap>>(&option)) return maps_value(*maps);
  if (const auto* some = std::get_if<std::vector<std::optional<Scalar>>>(&option)) {
    Value::List items;
    for (const auto& number : *some) items.push_back(number ? number_value(*number) : Value());
    return Value::tuple(std::move(items));
  }
  return {};
}

/// Epochs and how often each stands in the list: the Counter that torch keeps.
Value counter_value(const std::vector<Scalar>& epochs) {
  Dict dict;
  for (const Scalar& epoch : epochs) {
    const auto same = [&](const auto& item) { return item.first.as_integer() == epoch.to_int(); };
    const auto found = std::find_if(dict.items.begin(), dict.items.end(), same);
    if (found == dict.items.end()) {
      dict.items.emplace_back(Value::integer(epoch.to_int()), Value::integer(1));
    } else {
      found->second = Value::integer(found->second.as_integer() + 1);
    }
  }
  return Value::dict(std::move(dict));
}

/// An entry of a schedule's state: lists are lists there, not tuples.
Value schedule_value(const std::string& name, const core::OptionValue& option) {
  const auto* numbers = std::get_if<std::vector<Scalar>>(&option);
  if (numbers == nullptr) return option_value(option);
  if (name == "milestones") return counter_value(*numbers);
  Value::List items;
  for (const Scalar& number : *numbers) items.push_back(number_value(number));
  return Value::list(std::move(items));
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

std::vector<Scalar> counted(const Dict& counter) {
  std::vector<Scalar> epochs;
  for (const auto& [epoch, times] : counter.items) {
    for (std::int64_t i = 0; i < times.as_integer(); ++i) epochs.push_back(to_number(epoch));
  }
  return epochs;
}

bool is_list_of_maps(const Value& value) {
  if (!value.is_sequence() || value.as_list().empty()) return false;
  const auto fits = [](const Value& item) { return item.is_null() || item.is(Value::Kind::dict); };
  return std::all_of(value.as_list().begin(), value.as_list().end(), fits);
}

std::vector<core::OptionMap> to_maps(const Value& value) {
  std::vector<core::OptionMap> maps;
  for (const Value& item : value.as_list()) {
    maps.push_back(item.is_null() ? core::OptionMap() : to_option_map(item));
  }
  return maps;
}

/// A tuple of numbers; with places for None where there are some.
core::OptionValue to_numbers(const std::string& name, const Value& value) {
  std::vector<std::optional<Scalar>> some;
  std::vector<Scalar> numbers;
  for (const Value& item : value.as_list()) {
    if (!is_number(item) && !item.is_null())
      throw Error(ErrorCode::type, "option " + core::quote(name) + " is not a number");
    some.push_back(item.is_null() ? std::nullopt : std::optional<Scalar>(to_number(item)));
    if (some.back()) numbers.push_back(*some.back());
  }
  if (numbers.size() == some.size()) return numbers;
  return some;
}

core::OptionValue to_option(const std::string& name, const Value& value) {
  if (value.is_null()) return std::monostate();
  if (is_number(value)) return to_number(value);
  if (value.is(Value::Kind::text)) return value.as_text();
  if (is_list_of_maps(value)) return to_maps(value);
  if (value.is_sequence()) return to_numbers(name, value);
  throw Error(ErrorCode::type, "option " + core::quote(name) + " of the optimizer is of a kind that no optimizer has");
}

OptimizerState::Group to_group(const Value& value) {
  const Value* params = value.find("params");
  if (params == nullptr || !params->is_sequence())
    throw Error(ErrorCode::key, "a parameter group has no list 'params'");
  OptimizerState::Group group;
  for (const Value& id : params->as_list()) {
    if (!id.is(Value::Kind::integer))
      throw Error(ErrorCode::type, "a parameter group names a parameter by something other than an integer");
    group.params.push_back(id.as_integer());
  }
  for (const auto& [key, option] : value.as_dict().items) {
    std::string name = step_text(key);
    if (name != "params" && name != "param_names") group.options.set(name, to_option(name, option));
  }
  return group;
}

/// Puts one entry of a parameter's state where it belongs. The step count, which some releases keep as a plain number,
/// becomes the tensor that newer ones keep.
struct StateReader {
  TensorMaker& maker;
  core::ParamState& tensors;
  std::vector<std::pair<std::string, core::StateValue>>& values;

  void read(const std::string& name, const Value& value) {
    if (value.is_null()) return;
    if (value.is(Value::Kind::tensor)) {
      tensors.emplace_back(name, maker.tensor(value.as_entry()));
    } else if (is_number(value) && name == "step") {
      tensors.emplace_back(name, core::full({}, to_number(value), {.dtype = core::DType::f32}));
    } else if (is_number(value)) {
      values.emplace_back(name, to_number(value));
    } else if (value.is_sequence()) {
      read_list(name, value.as_list());
    } else {
      throw Error(ErrorCode::type, "state " + core::quote(name) + " of the optimizer is neither a tensor nor a number");
    }
  }

  void read_list(const std::string& name, const Value::List& items) {
    std::vector<core::Tensor> list;
    for (const Value& item : items) {
      if (item.is_null()) continue;  // scratch of LBFGS that was not used yet
      if (!item.is(Value::Kind::tensor)) {
        throw Error(ErrorCode::type,
                    "state " + core::quote(name) + " of the optimizer has a value that is not a tensor");
      }
      list.push_back(maker.tensor(item.as_entry()));
    }
    values.emplace_back(name, std::move(list));
  }
};

Value state_value(const core::StateValue& value, EntryMaker& maker) {
  if (const auto* number = std::get_if<Scalar>(&value)) return number_value(*number);
  Value::List items;
  for (const core::Tensor& tensor : std::get<std::vector<core::Tensor>>(value)) {
    items.push_back(Value::tensor(maker.entry(tensor)));
  }
  return Value::list(std::move(items));
}

/// The dict of parameter `id`, made at the end when there is none yet.
Dict& dict_of(std::vector<std::pair<std::int64_t, Dict>>& dicts, std::int64_t id) {
  for (auto& [known, dict] : dicts) {
    if (known == id) return dict;
  }
  return dicts.emplace_back(id, Dict()).second;
}

/// All tensors, by names such as "state.0.exp_avg".
std::vector<PlacedEntry> entries_of(const Value& state) {
  std::vector<PlacedEntry> entries;
  for (NamedEntry& named : list_entries(state)) entries.push_back({"state." + named.name, named.entry, {}});
  return entries;
}

void check(const Value& value) {
  if (!is_optimizer_state(value)) {
    throw Error(ErrorCode::key, "the optimizer state has no 'state' and 'param_groups'");
  }
}

}  // namespace

Value to_value(const OptimizerState& state) {
  EntryMaker maker;
  return to_value(state, maker);
}

Value to_value(const OptimizerState& state, EntryMaker& maker) {
  std::vector<std::pair<std::int64_t, Dict>> dicts;
  for (const auto& [id, values] : state.values) {
    for (const auto& [name, value] : values) add(dict_of(dicts, id), name, state_value(value, maker));
  }
  for (const auto& [id, values] : state.state) {
    for (const auto& [name, tensor] : values) add(dict_of(dicts, id), name, Value::tensor(maker.entry(tensor)));
  }
  Dict by_id;
  for (auto& [id, dict] : dicts) by_id.items.emplace_back(Value::integer(id), Value::dict(std::move(dict)));
  Value::List groups;
  for (const OptimizerState::Group& group : state.param_groups) groups.push_back(group_value(group));
  Dict root;
  add(root, "state", Value::dict(std::move(by_id)));
  add(root, "param_groups", Value::list(std::move(groups)));
  return Value::dict(std::move(root));
}

Value to_value(const core::OptionMap& state) {
  Dict dict;
  for (const auto& [name, option] : state.items()) add(dict, name, schedule_value(name, option));
  return Value::dict(std::move(dict));
}

core::OptionMap to_option_map(const Value& value) {
  if (!value.is(Value::Kind::dict)) throw Error(ErrorCode::type, "the state of a schedule is a dict");
  core::OptionMap state;
  for (const auto& [key, option] : value.as_dict().items) {
    const std::string name = step_text(key);
    if (name == "milestones" && option.is(Value::Kind::dict)) {
      state.set(name, counted(option.as_dict()));
    } else {
      state.set(name, to_option(name, option));
    }
  }
  return state;
}

std::vector<PlacedEntry> optimizer_entries(const Value& value) {
  check(value);
  return entries_of(*value.find("state"));
}

OptimizerState to_optimizer_state(const Value& value, const MapLocation& map_location) {
  std::vector<PlacedEntry> entries = optimizer_entries(value);
  place(entries, map_location);
  TensorMaker maker(entries);
  OptimizerState state = to_optimizer_state(value, maker);
  maker.finish();
  return state;
}

/// A parameter's number; where all keys are text, as in a distributed checkpoint, its digits. nullopt for anything
/// else.
static std::optional<std::int64_t> parameter_number(const Value& id) {
  if (id.is(Value::Kind::integer)) return id.as_integer();
  std::int64_t number = 0;
  if (!id.is(Value::Kind::text)) return std::nullopt;
  const std::string& text = id.as_text();
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool whole = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return whole ? std::optional(number) : std::nullopt;
}

OptimizerState to_optimizer_state(const Value& value, TensorMaker& maker) {
  OptimizerState state;
  for (const auto& [id, values] : value.find("state")->as_dict().items) {
    const std::optional<std::int64_t> number = parameter_number(id);
    if (!number || !values.is(Value::Kind::dict)) {
      throw Error(ErrorCode::type, "the optimizer state names a parameter by something other than an integer");
    }
    core::ParamState tensors;
    std::vector<std::pair<std::string, core::StateValue>> others;
    StateReader reader{maker, tensors, others};
    for (const auto& [key, item] : values.as_dict().items) reader.read(step_text(key), item);
    if (!tensors.empty() || others.empty()) state.state.emplace_back(*number, std::move(tensors));
    if (!others.empty()) state.values.emplace_back(*number, std::move(others));
  }
  for (const Value& group : value.find("param_groups")->as_list()) state.param_groups.push_back(to_group(group));
  return state;
}

}  // namespace ckpt
