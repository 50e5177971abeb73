#include "libckpt/analyze/why/trees.h"

#include <algorithm>
#include <unordered_set>

#include "libckpt/transform/key_edit.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

Candidate from_dict(const Dict& dict, std::string at, Candidate::Kind kind) {
  Candidate candidate{kind, std::move(at), {}, 0};
  candidate.keys.reserve(dict.items.size());
  for (const auto& [key, value] : dict.items) {
    if (!key.is(Value::Kind::text)) continue;
    if (value.is(Value::Kind::tensor)) {
      const Entry& entry = value.as_entry();
      candidate.keys.push_back({key.as_text(), entry.shape, entry.dtype});
      candidate.bytes += entry.byte_size();
    } else {
      candidate.keys.push_back({key.as_text(), core::Shape{}, core::DType::u8});
    }
  }
  return candidate;
}

std::string joined(const std::string& start, const std::string& step) {
  return start.empty() ? step : start + "." + step;
}

/// A value that is still to be looked at, with its place.
struct Place {
  const Value* value;
  std::string at;
};

/// Pickled modules, outermost first; what they hold is not looked into.
std::vector<Place> find_modules(const Value& root) {
  std::vector<Place> found;
  std::vector<Place> todo = {{&root, ""}};
  std::unordered_set<const void*> seen;
  while (!todo.empty()) {
    Place place = std::move(todo.back());
    todo.pop_back();
    if (place.value->identity() != nullptr && !seen.insert(place.value->identity()).second) continue;
    if (place.value->is(Value::Kind::object)) {
      if (module_state(*place.value)) found.push_back(std::move(place));
    } else if (place.value->is(Value::Kind::dict)) {
      const auto& items = place.value->as_dict().items;
      for (auto item = items.rbegin(); item != items.rend(); ++item) {
        if (item->second.is(Value::Kind::dict) || item->second.is(Value::Kind::object)) {
          todo.push_back({&item->second, joined(place.at, step_text(item->first))});
        }
      }
    }
  }
  return found;
}

const Value* state_member(const Value& value, std::string_view name) {
  if (!value.is(Value::Kind::object) || !value.as_object().has_state) return nullptr;
  const Value& state = value.as_object().state;
  const Value* member = state.find(name);
  return member != nullptr && member->is(Value::Kind::dict) ? member : nullptr;
}

bool is_module(const Value& value) {
  return state_member(value, "_parameters") != nullptr && state_member(value, "_modules") != nullptr;
}

std::unordered_set<std::string> unsaved_buffers(const Value& module) {
  std::unordered_set<std::string> names;
  const Value* set = module.as_object().state.find("_non_persistent_buffers_set");
  if (set == nullptr || !set->is_sequence()) return names;
  for (const Value& name : set->as_list()) {
    if (name.is(Value::Kind::text)) names.insert(name.as_text());
  }
  return names;
}

/// What a module's _parameters and _buffers hold, in PyTorch's order.
void add_own_tensors(const Value& module, const std::string& prefix, Dict& out) {
  std::unordered_set<std::string> unsaved = unsaved_buffers(module);
  for (std::string_view group : {"_parameters", "_buffers"}) {
    const Value* members = state_member(module, group);
    if (members == nullptr) continue;
    for (const auto& [key, value] : members->as_dict().items) {
      if (!value.is(Value::Kind::tensor) || (group == "_buffers" && unsaved.contains(step_text(key)))) continue;
      out.items.emplace_back(Value::text(prefix + step_text(key)), value);
    }
  }
}

std::size_t group_size(const Value& group) {
  const Value* params = group.find("params");
  return params != nullptr && params->is_sequence() ? params->as_list().size() : 0;
}

std::uint64_t bytes_below(const Value& value) {
  std::uint64_t bytes = 0;
  for (const NamedEntry& named : list_entries(value)) bytes += named.entry->byte_size();
  return bytes;
}

const Value& value_of_path(const Value& root, const std::vector<Value>& path) {
  const Value* value = &root;
  for (const Value& step : path) {
    if (value->is_sequence()) {
      value = &value->as_list()[static_cast<std::size_t>(step.as_integer())];
      continue;
    }
    for (const auto& [key, child] : value->as_dict().items) {
      if (key == step) {
        value = &child;
        break;
      }
    }
  }
  return *value;
}

std::string path_name(const std::vector<Value>& path) {
  std::string name;
  for (const Value& step : path) name = joined(name, step_text(step));
  return name;
}

}  // namespace

FixStep Candidate::step() const {
  if (kind == Kind::flat) return {FixStep::Kind::flatten, "join the dicts into dotted keys"};
  FixStep step{kind == Kind::module ? FixStep::Kind::take_module : FixStep::Kind::take, ""};
  step.at = at;
  std::string place = at.empty() ? "the top" : core::quote(at);
  step.text = kind == Kind::module ? "take the state dict of the module at " + place : "take " + place;
  return step;
}

std::optional<Dict> module_state(const Value& value) {
  if (!is_module(value)) return std::nullopt;
  Dict out;
  out.type = "collections.OrderedDict";
  std::vector<std::pair<const Value*, std::string>> todo = {{&value, ""}};
  std::unordered_set<const void*> on_the_way;  // a module that holds itself would never end
  while (!todo.empty()) {
    auto [module, prefix] = todo.back();
    todo.pop_back();
    if (!on_the_way.insert(module->identity()).second) continue;
    add_own_tensors(*module, prefix, out);
    const auto& children = state_member(*module, "_modules")->as_dict().items;
    for (auto child = children.rbegin(); child != children.rend(); ++child) {
      if (is_module(child->second)) todo.emplace_back(&child->second, prefix + step_text(child->first) + ".");
    }
  }
  return out;
}

Dict flat_state(const Value& root) {
  std::vector<std::vector<Value>> optimizers = optimizer_paths(root);
  Dict out;
  out.type = "collections.OrderedDict";
  for (const NamedEntry& named : list_entries(root)) {
    bool optimizer = std::any_of(optimizers.begin(), optimizers.end(), [&](const std::vector<Value>& path) {
      return path.size() <= named.path.size() && std::equal(path.begin(), path.end(), named.path.begin());
    });
    if (!optimizer) out.items.emplace_back(Value::text(named.name), Value::tensor(named.entry));
  }
  return out;
}

std::vector<Candidate> list_candidates(const Value& root, const std::string& at) {
  std::vector<Candidate> found;
  if (!at.empty()) {
    StateDictRef ref = only_state_dict(root, at);
    found.push_back(from_dict(*ref.dict, ref.name, Candidate::Kind::dict));
    return found;
  }
  std::vector<StateDictRef> dicts = model_state_dicts(root);
  for (const StateDictRef& ref : dicts) {
    bool in_module = std::any_of(ref.path.begin(), ref.path.end(), [](const Value& step) {
      return step.is(Value::Kind::text) && (step.as_text() == "_parameters" || step.as_text() == "_buffers");
    });
    if (!in_module) found.push_back(from_dict(*ref.dict, ref.name, Candidate::Kind::dict));
  }
  std::vector<Place> modules = find_modules(root);
  for (const Place& place : modules) {
    found.push_back(from_dict(*module_state(*place.value), place.at, Candidate::Kind::module));
  }
  if (dicts.size() > 1 && modules.empty() && root.is(Value::Kind::dict)) {
    found.push_back(from_dict(flat_state(root), "", Candidate::Kind::flat));
  }
  return found;
}

std::vector<OptimizerFacts> list_optimizers(const Value& root) {
  std::vector<OptimizerFacts> found;
  for (const std::vector<Value>& path : optimizer_paths(root)) {
    const Value& optimizer = value_of_path(root, path);
    OptimizerFacts facts{path_name(path), {}, bytes_below(optimizer)};
    const Value* groups = optimizer.find("param_groups");
    if (groups->is_sequence()) {
      for (const Value& group : groups->as_list()) facts.groups.push_back(group_size(group));
    }
    found.push_back(std::move(facts));
  }
  return found;
}

std::vector<std::pair<std::string, std::size_t>> list_devices(const Value& root) {
  std::vector<std::pair<std::string, std::size_t>> found;
  for (const NamedEntry& named : list_entries(root)) {
    const std::string& tag = named.entry->location;
    if (tag == "cpu" || tag == "meta" || tag.empty()) continue;
    auto known = std::find_if(found.begin(), found.end(), [&](const auto& pair) { return pair.first == tag; });
    if (known == found.end()) {
      found.emplace_back(tag, 1);
    } else {
      ++known->second;
    }
  }
  return found;
}

}  // namespace ckpt::detail
