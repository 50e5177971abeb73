#include "libckpt/transform/optimizer.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "libckpt/state_dicts.h"
#include "libckpt/transform/nested_optimizer.h"
#include "libckpt/transform/optimizer_names.h"
#include "libckpt/transform/tree_map.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::size_t kMaxListedStates = 5;

std::vector<OptimizerStateRef> optimizers_in_scope(const Checkpoint& checkpoint, const OptimizerOptions& options) {
  std::vector<OptimizerStateRef> found = list_optimizer_states(checkpoint.root);
  if (found.empty()) throw Error(ErrorCode::key, "no optimizer state in the file");
  if (options.at.empty()) return found;
  const Value& wanted = value_at(checkpoint.root, options.at);
  std::string names;
  for (const OptimizerStateRef& ref : found) names += (names.empty() ? "" : ", ") + core::quote(ref.name);
  std::erase_if(found, [&](const OptimizerStateRef& ref) {
    return !detail::same_node(*ref.value, wanted) && !(ref.name + ".").starts_with(options.at + ".");
  });
  if (found.empty())
    throw Error(ErrorCode::key, core::quote(options.at) + " is not an optimizer state; there is " + names);
  return found;
}

/// The section of the file in which all dicts of a model in several parts lie, or null.
const Value* common_section(const Value& root) {
  std::vector<StateDictRef> parts = list_weights(root);
  std::erase_if(parts, [](const StateDictRef& ref) { return ref.kind == StateDictKind::ema; });
  if (parts.empty() || parts.front().path.empty()) return nullptr;
  const Value& step = parts.front().path.front();
  bool same = std::all_of(parts.begin(), parts.end(),
                          [&](const StateDictRef& ref) { return !ref.path.empty() && ref.path.front() == step; });
  return same && step.is(Value::Kind::text) ? root.find(step.as_text()) : nullptr;
}

/// The model that belongs to an optimizer: the one of the file, or the section that holds all parts of it.
const Value* model_beside(const Value& root, std::string& note) {
  try {
    return choose_state_dict(root, "").value;
  } catch (const Error& error) {
    bool several = error.code() == ErrorCode::usage;
    if (const Value* section = several ? common_section(root) : nullptr) return section;
    note = several ? "the file holds several state dicts; say which one the optimizer belongs to"
                   : "no state dict stands beside it; name the file of the model to get names";
    return nullptr;
  }
}

/// State that has the shape of its parameter, by name; factored or scalar state has not.
bool is_full_slot(std::string_view name) {
  constexpr std::array<std::string_view, 15> kFull = {"exp_avg",
                                                      "exp_avg_sq",
                                                      "max_exp_avg_sq",
                                                      "momentum_buffer",
                                                      "square_avg",
                                                      "grad_avg",
                                                      "sum",
                                                      "acc_delta",
                                                      "ax",
                                                      "exp_inf",
                                                      "prev",
                                                      "step_size",
                                                      "mu",
                                                      "momentum",
                                                      "exp_avg_diff"};
  return std::find(kFull.begin(), kFull.end(), name) != kFull.end();
}

std::optional<core::Shape> shape_of(const std::vector<OptimizerSlot>& slots) {
  for (const OptimizerSlot& slot : slots) {
    if (is_full_slot(slot.name) && slot.value.is(Value::Kind::tensor)) return slot.value.as_entry().shape;
  }
  return std::nullopt;
}

std::string key_text(const Value& key) {
  return (key.is(Value::Kind::text) ? "t" : "i") + step_text(key);
}

void read_settings(const Dict& group, OptimizerGroup& out) {
  for (const auto& [key, value] : group.items) {
    std::string name = step_text(key);
    if (name != "params" && name != "param_names") out.settings.emplace_back(std::move(name), value);
  }
}

/// Reads one optimizer without looking for names.
class OptimizerReader {
 public:
  explicit OptimizerReader(const OptimizerStateRef& ref) : ref_(ref) {}

  OptimizerState read() {
    OptimizerState out;
    out.at = ref_.name;
    for (const auto& [key, value] : ref_.value->find("state")->as_dict().items) states_.emplace(key_text(key), &value);
    for (const Value& group : ref_.value->find("param_groups")->as_list()) read_group(group, out);
    if (used_.size() < states_.size())
      fail("its state has " + core::format_count(states_.size() - used_.size()) + " parameters that no group lists");
    out.by_name = !out.params.empty() && std::all_of(out.params.begin(), out.params.end(), [](const OptimizerParam& p) {
      return p.key.is(Value::Kind::text);
    });
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::corrupt, "the optimizer " + core::quote(ref_.name) + " contradicts itself: " + what);
  }

  void read_group(const Value& group, OptimizerState& out) {
    const Value* params = group.find("params");
    if (params == nullptr || !params->is_sequence()) fail("a group without a list of params");
    const Value* names = group.find("param_names");
    bool named = names != nullptr && names->is_sequence() && names->as_list().size() == params->as_list().size();
    OptimizerGroup fresh;
    read_settings(group.as_dict(), fresh);
    for (const Value& key : params->as_list()) {
      if (!key.is(Value::Kind::integer) && !key.is(Value::Kind::text))
        fail("a parameter that has neither number nor name");
      OptimizerParam param = read_param(key);
      param.group = out.groups.size();
      const Value* name = named ? &names->as_list()[fresh.params] : nullptr;
      if (key.is(Value::Kind::text)) {
        param.name = key.as_text();
        param.evidence = NameEvidence::key;
      } else if (name != nullptr && name->is(Value::Kind::text)) {
        param.name = name->as_text();
        param.evidence = NameEvidence::param_names;
      }
      out.bytes += param.bytes;
      ++fresh.params;
      out.params.push_back(std::move(param));
    }
    out.groups.push_back(std::move(fresh));
  }

  OptimizerParam read_param(const Value& key) {
    OptimizerParam param;
    param.key = key;
    auto found = states_.find(key_text(key));
    if (found == states_.end()) return param;  // never had a gradient
    if (!used_.insert(found->first).second) fail("parameter " + core::quote(step_text(key)) + " is listed twice");
    if (!found->second->is(Value::Kind::dict)) return param;
    for (const auto& [name, value] : found->second->as_dict().items) {
      param.slots.push_back({step_text(name), value});
      for (const NamedEntry& named : list_entries(value)) param.bytes += named.entry->byte_size();
    }
    return param;
  }

  const OptimizerStateRef& ref_;
  std::map<std::string, const Value*> states_;
  std::set<std::string> used_;
};

/// Fills in the names that the file does not say.
void find_names(OptimizerState& optimizer, const Value* model) {
  std::vector<detail::GroupShapes> groups(optimizer.groups.size());
  bool missing = false;
  for (const OptimizerParam& param : optimizer.params) {
    groups[param.group].push_back(shape_of(param.slots));
    missing |= param.name.empty();
  }
  if (!missing || model == nullptr) return;
  std::vector<detail::ModelParameter> parameters = detail::model_parameters(*model);
  std::vector<detail::NameMatch> matches = detail::match_names(groups, parameters);
  std::size_t unknown = 0;
  for (std::size_t i = 0; i < matches.size(); ++i) {
    OptimizerParam& param = optimizer.params[i];
    if (!param.name.empty()) continue;
    param.name = std::move(matches[i].name);
    param.evidence = matches[i].evidence;
    param.candidates = std::move(matches[i].candidates);
    unknown += param.evidence == NameEvidence::unknown ? 1 : 0;
  }
  if (unknown > 0) {
    optimizer.note = "it has " + core::format_count(optimizer.params.size()) + " parameters that do not fit the " +
                     core::format_count(parameters.size()) + " of the model";
  }
}

/// A dict with some of its items replaced.
Value with_items(const Value& dict, const std::vector<std::pair<std::string, Value>>& items) {
  Dict out = dict.as_dict();
  for (const auto& [name, fresh] : items) {
    auto found = std::find_if(out.items.begin(), out.items.end(), [&wanted = name](const auto& item) {
      return item.first.is(Value::Kind::text) && item.first.as_text() == wanted;
    });
    if (found != out.items.end()) {
      found->second = fresh;
    } else {
      out.items.emplace_back(Value::text(name), fresh);
    }
  }
  return Value::dict(std::move(out));
}

Value without_item(const Value& dict, std::string_view name) {
  Dict out = dict.as_dict();
  std::erase_if(out.items,
                [&](const auto& item) { return item.first.is(Value::Kind::text) && item.first.as_text() == name; });
  return Value::dict(std::move(out));
}

void require_certain_names(const OptimizerState& optimizer) {
  std::string list;
  std::size_t uncertain = 0;
  std::set<std::string_view> seen;
  for (const OptimizerParam& param : optimizer.params) {
    bool twice = !param.name.empty() && !seen.insert(param.name).second;
    if (!param.name.empty() && !twice) continue;
    if (++uncertain > kMaxListedStates) continue;
    list += (list.empty() ? "" : ", ") + step_text(param.key);
    if (!param.candidates.empty()) list += " (" + param.candidates + ")";
    if (twice) list += " (" + core::quote(param.name) + " a second time)";
  }
  if (uncertain == 0) return;
  throw Error(ErrorCode::refused,
              "the optimizer " + core::quote(optimizer.at) + " has " + core::format_count(uncertain) + " of " +
                  core::format_count(optimizer.params.size()) + " parameters without a certain name: " + list +
                  (uncertain > kMaxListedStates ? ", ..." : "") +
                  (optimizer.note.empty() ? "" : "; " + optimizer.note));
}

/// One optimizer under new keys.
Value rekeyed(const Value& optimizer, const OptimizerState& state, OptimizerKeys keys) {
  std::map<std::string, Value> fresh_key;
  std::vector<Value::List> params(state.groups.size());
  std::vector<Value::List> names(state.groups.size());
  for (std::size_t i = 0; i < state.params.size(); ++i) {
    const OptimizerParam& param = state.params[i];
    Value key = keys == OptimizerKeys::name ? Value::text(param.name) : Value::integer(static_cast<std::int64_t>(i));
    fresh_key.emplace(key_text(param.key), key);
    params[param.group].push_back(key);
    if (!param.name.empty()) names[param.group].push_back(Value::text(param.name));
  }
  Dict states = optimizer.find("state")->as_dict();
  for (auto& [key, value] : states.items) key = fresh_key.at(key_text(key));
  Value::List groups;
  for (const Value& old : optimizer.find("param_groups")->as_list()) {
    std::size_t g = groups.size();
    Value group = with_items(old, {{"params", Value::list(params[g])}});
    bool keep_names = keys == OptimizerKeys::index && names[g].size() == params[g].size();
    groups.push_back(keep_names ? with_items(group, {{"param_names", Value::list(names[g])}})
                                : without_item(group, "param_names"));
  }
  return with_items(optimizer,
                    {{"state", Value::dict(std::move(states))}, {"param_groups", Value::list(std::move(groups))}});
}

class ReplaceDicts final : public detail::TreeMap {
 public:
  explicit ReplaceDicts(const std::map<const void*, Value>& fresh) : fresh_(fresh) {}

 protected:
  bool edit_dict(const Value& node, Dict& dict) override {
    auto found = fresh_.find(node.identity());
    if (found == fresh_.end()) return false;
    dict = found->second.as_dict();
    return true;
  }

 private:
  const std::map<const void*, Value>& fresh_;
};

/// Takes marked dicts out of what holds them, and what is left empty by that.
class DropDicts final : public detail::TreeMap {
 public:
  explicit DropDicts(std::set<const void*> dropped) : dropped_(std::move(dropped)) {}
  bool is_dropped(const Value& value) const { return dropped_.contains(value.identity()); }

 protected:
  bool edit_dict(const Value& node, Dict& dict) override {
    const auto& items = node.as_dict().items;
    std::vector<std::pair<Value, Value>> kept;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!goes(items[i].second)) kept.push_back(dict.items[i]);
    }
    if (kept.size() == items.size()) return false;
    dict.items = std::move(kept);
    return true;
  }

 private:
  /// An optimizer, or a list of nothing else.
  bool goes(const Value& value) const {
    if (is_dropped(value)) return true;
    if (!value.is_sequence() || value.as_list().empty()) return false;
    const Value::List& items = value.as_list();
    return std::all_of(items.begin(), items.end(), [&](const Value& item) { return is_dropped(item); });
  }

  std::set<const void*> dropped_;
};

/// Tensors of an optimizer that move, as a list that only says which.
Value moving_tensors(const Value& optimizer, bool to_cpu) {
  bool steps_too = to_cpu;
  for (const Value& group : optimizer.find("param_groups")->as_list()) {
    for (const char* setting : {"capturable", "fused"}) {
      const Value* value = group.find(setting);
      steps_too |= value != nullptr && value->is(Value::Kind::boolean) && value->as_boolean();
    }
  }
  Value::List moving;
  for (const auto& [key, slots] : optimizer.find("state")->as_dict().items) {
    if (!slots.is(Value::Kind::dict)) {
      moving.push_back(slots);
      continue;
    }
    for (const auto& [name, value] : slots.as_dict().items) {
      if (steps_too || step_text(name) != "step") moving.push_back(value);
    }
  }
  moving.push_back(*optimizer.find("param_groups"));
  return Value::list(std::move(moving));
}

OptimizerChanges changes_of(const std::vector<OptimizerState>& states) {
  OptimizerChanges changes;
  for (const OptimizerState& state : states) {
    changes.optimizers.push_back(state.at);
    changes.params += state.params.size();
    changes.bytes += state.bytes;
  }
  return changes;
}

}  // namespace

std::string_view name(NameEvidence evidence) {
  constexpr std::array<std::string_view, 6> kNames = {"key", "param_names", "order", "shape", "ambiguous", "unknown"};
  return kNames.at(static_cast<std::size_t>(evidence));
}

std::vector<OptimizerState> describe_optimizers(const Checkpoint& file, const OptimizerOptions& options) {
  Checkpoint checkpoint = detail::nest_optimizers(file, options.at);
  std::vector<OptimizerState> out;
  std::string note;
  const Value* model = options.model != nullptr ? options.model : model_beside(checkpoint.root, note);
  for (const OptimizerStateRef& ref : optimizers_in_scope(checkpoint, options)) {
    out.push_back(OptimizerReader(ref).read());
    find_names(out.back(), model);
    bool nameless = std::any_of(out.back().params.begin(), out.back().params.end(),
                                [](const OptimizerParam& param) { return param.name.empty(); });
    if (nameless && model == nullptr) out.back().note = note;
  }
  return out;
}

Checkpoint drop_optimizers(const Checkpoint& file, const OptimizerOptions& options, OptimizerChanges* changes) {
  Checkpoint checkpoint = detail::nest_optimizers(file, options.at);
  std::vector<OptimizerStateRef> found = optimizers_in_scope(checkpoint, options);
  std::set<const void*> nodes;
  for (const OptimizerStateRef& ref : found) {
    if (ref.path.empty()) throw Error(ErrorCode::refused, "the file holds nothing but the optimizer");
    nodes.insert(ref.value->identity());
  }
  if (changes != nullptr) *changes = changes_of(describe_optimizers(checkpoint, options));
  Checkpoint out = checkpoint;
  out.root = DropDicts(std::move(nodes)).map(checkpoint.root);
  return out;
}

Checkpoint move_optimizers(const Checkpoint& checkpoint, const std::string& to, const OptimizerOptions& options,
                           LocationChanges* changes) {
  Value::List moving;
  Checkpoint nested = detail::nest_optimizers(checkpoint, options.at);
  for (const OptimizerStateRef& ref : optimizers_in_scope(nested, options)) {
    moving.push_back(moving_tensors(*ref.value, to == "cpu"));
  }
  return detail::move_below(checkpoint, Value::list(std::move(moving)), to, changes);
}

Checkpoint rekey_optimizers(const Checkpoint& file, OptimizerKeys keys, const OptimizerOptions& options,
                            OptimizerChanges* changes) {
  Checkpoint checkpoint = detail::nest_optimizers(file, options.at);
  std::vector<OptimizerStateRef> found = optimizers_in_scope(checkpoint, options);
  std::vector<OptimizerState> states = describe_optimizers(checkpoint, options);
  std::map<const void*, Value> fresh;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (keys == OptimizerKeys::name) require_certain_names(states[i]);
    fresh.emplace(found[i].value->identity(), rekeyed(*found[i].value, states[i], keys));
  }
  Checkpoint out = checkpoint;
  out.root = ReplaceDicts(fresh).map(checkpoint.root);
  if (changes != nullptr) *changes = changes_of(states);
  return out;
}

}  // namespace ckpt
