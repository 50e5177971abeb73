#include "libckpt/transform/state_dict_search.h"

#include <algorithm>
#include <set>

#include "libckpt/checkpoint.h"
#include "libckpt/children.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kMaxModules = 1 << 20;

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

/// Looks for what list_weights() does not know.
class PickledLister {
 public:
  explicit PickledLister(std::vector<WeightsRef>& found) : found_(found) {}

  void walk(const Value& value, bool is_average) {
    bool container = value.is(Value::Kind::dict) || value.is_sequence() || value.is(Value::Kind::object);
    if (!container || is_optimizer_state(value) || !seen_.insert(value.identity()).second) return;
    if (Value module = module_state_dict(value); !module.is_null()) {
      found_.push_back({path_, path_text(path_), std::move(module), is_average, true});
    }
    if (Value::List unnamed = shadow_params(value); !unnamed.empty()) {
      found_.push_back({path_, path_text(path_), Value::dict({}), true, false, std::move(unnamed)});
    }
    if (value.is(Value::Kind::object)) return;
    for_each_child(value, [&](const Value* step, const Value& child) {
      path_.push_back(*step);
      walk(child, is_average || names_average(*step));
      path_.pop_back();
    });
  }

 private:
  std::vector<WeightsRef>& found_;
  std::vector<Value> path_;
  std::set<const void*> seen_;
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
  std::set<const Dict*> seen;
  for (StateDictRef& ref : list_weights(root)) {
    if (!seen.insert(ref.dict).second) continue;
    found.push_back({std::move(ref.path), std::move(ref.name), *ref.value, ref.kind == StateDictKind::ema});
  }
  PickledLister(found).walk(root, false);
  return found;
}

}  // namespace ckpt::detail
