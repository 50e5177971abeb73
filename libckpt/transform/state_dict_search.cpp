#include "libckpt/transform/state_dict_search.h"

#include <algorithm>
#include <set>

#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kMaxModules = 1 << 20;

/// "state_dict_ema", "model-ema", "EMA", "swa_model".
bool names_average(const Value& step) {
  if (!step.is(Value::Kind::text)) return false;
  std::string words = step.as_text();
  std::transform(words.begin(), words.end(), words.begin(),
                 [](unsigned char c) { return std::isalnum(c) != 0 ? static_cast<char>(std::tolower(c)) : '_'; });
  std::vector<std::string_view> parts = core::split(words, '_');
  return std::any_of(parts.begin(), parts.end(), [](std::string_view word) { return word == "ema" || word == "swa"; });
}

bool is_optimizer(const Value& value) {
  return value.find("param_groups") != nullptr && value.find("state") != nullptr;
}

bool holds_tensors(const Dict& dict) {
  return std::any_of(dict.items.begin(), dict.items.end(), [](const auto& item) {
    return item.first.is(Value::Kind::text) && item.second.is(Value::Kind::tensor);
  });
}

/// A tensor, or a Parameter that was kept as an object around one.
const Value* tensor_of(const Value& value) {
  return value.is(Value::Kind::tensor) ? &value : nullptr;
}

void add_tensors(const Value* items, const std::string& prefix, const std::set<std::string>& left_out, Dict& out) {
  if (items == nullptr || !items->is(Value::Kind::dict)) return;
  for (const auto& [key, value] : items->as_dict().items) {
    std::string name = step_text(key);
    const Value* tensor = tensor_of(value);
    if (tensor != nullptr && !left_out.contains(name)) out.items.emplace_back(Value::text(prefix + name), *tensor);
  }
}

std::set<std::string> texts_of(const Value* set) {
  std::set<std::string> out;
  if (set == nullptr || !set->is_sequence()) return out;
  for (const Value& item : set->as_list()) out.insert(step_text(item));
  return out;
}

bool is_module(const Value& value) {
  return value.is(Value::Kind::object) && value.as_object().state.find("_parameters") != nullptr &&
         value.as_object().state.find("_modules") != nullptr;
}

/// {"shadow_params": [tensor, ...]}: the parameters in the order of the model.
Value::List shadow_params(const Value& value) {
  const Value* shadows = value.find("shadow_params");
  if (shadows == nullptr || !shadows->is_sequence()) return {};
  const Value::List& items = shadows->as_list();
  bool tensors =
      std::all_of(items.begin(), items.end(), [](const Value& item) { return item.is(Value::Kind::tensor); });
  return tensors ? items : Value::List{};
}

struct Place {
  const Value* value;
  std::vector<Value> path;
  bool is_average;
};

}  // namespace

Value module_state_dict(const Value& object) {
  if (!is_module(object)) return {};
  Dict out;
  out.type = "collections.OrderedDict";
  std::vector<std::pair<const Value*, std::string>> open = {{&object, ""}};
  for (std::size_t seen = 0; !open.empty() && seen < kMaxModules; ++seen) {
    auto [module, prefix] = std::move(open.back());
    open.pop_back();
    const Value& state = module->as_object().state;
    add_tensors(state.find("_parameters"), prefix, {}, out);
    add_tensors(state.find("_buffers"), prefix, texts_of(state.find("_non_persistent_buffers_set")), out);
    const Value* children = state.find("_modules");
    if (!children->is(Value::Kind::dict)) continue;
    const auto& items = children->as_dict().items;
    for (auto child = items.rbegin(); child != items.rend(); ++child) {
      if (is_module(child->second)) open.emplace_back(&child->second, prefix + step_text(child->first) + ".");
    }
  }
  return Value::dict(std::move(out));
}

std::vector<WeightsRef> find_weights(const Value& root) {
  std::vector<WeightsRef> found;
  std::vector<Place> open = {{&root, {}, false}};
  std::set<const void*> seen;
  while (!open.empty()) {
    Place place = std::move(open.back());
    open.pop_back();
    const Value& value = *place.value;
    if (is_optimizer(value) || !seen.insert(value.identity()).second) continue;
    std::vector<std::string> steps;
    for (const Value& step : place.path) steps.push_back(step_text(step));
    Value module = module_state_dict(value);
    bool is_dict = value.is(Value::Kind::dict);
    if (!module.is_null()) found.push_back({place.path, core::join(steps, "."), module, place.is_average, true});
    if (is_dict && holds_tensors(value.as_dict())) {
      found.push_back({place.path, core::join(steps, "."), value, place.is_average});
    }
    if (Value::List unnamed = shadow_params(value); !unnamed.empty()) {
      found.push_back({place.path, core::join(steps, "."), Value::dict({}), true, false, std::move(unnamed)});
    }
    std::vector<Place> children;
    auto add = [&](const Value& step, const Value& child) {
      bool container = child.is(Value::Kind::dict) || child.is_sequence() || child.is(Value::Kind::object);
      if (!container) return;
      children.push_back({&child, place.path, place.is_average || names_average(step)});
      children.back().path.push_back(step);
    };
    if (is_dict) {
      for (const auto& [key, child] : value.as_dict().items) add(key, child);
    } else if (value.is_sequence()) {
      for (std::size_t i = 0; i < value.as_list().size(); ++i) {
        add(Value::integer(static_cast<std::int64_t>(i)), value.as_list()[i]);
      }
    }
    std::move(children.rbegin(), children.rend(), std::back_inserter(open));
  }
  return found;
}

}  // namespace ckpt::detail
