#include "libckpt/state_dicts.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <unordered_set>

#include "libckpt/checkpoint.h"
#include "libckpt/children.h"
#include "libckpt/hint.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

bool is_container(const Value& value) {
  return value.is(Value::Kind::dict) || value.is_sequence() || value.is(Value::Kind::object);
}

/// Words are what letters and digits make, in lower case.
bool has_word(const Value& key, std::initializer_list<std::string_view> words) {
  if (!key.is(Value::Kind::text)) return false;
  std::string text = key.as_text();
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::isalnum(c) != 0 ? static_cast<char>(std::tolower(c)) : '_'; });
  std::vector<std::string_view> parts = core::split(text, '_');
  return std::find_first_of(parts.begin(), parts.end(), words.begin(), words.end()) != parts.end();
}

std::size_t count_tensors(const Dict& dict) {
  return static_cast<std::size_t>(std::count_if(dict.items.begin(), dict.items.end(), [](const auto& item) {
    return item.first.is(Value::Kind::text) && item.second.is(Value::Kind::tensor);
  }));
}

class StateDictLister {
 public:
  std::vector<StateDictRef> run(const Value& root) {
    walk(root, {});
    return std::move(found_);
  }

 private:
  /// What lies above a value.
  struct Above {
    bool average = false;
    bool scheduler = false;
    bool optimizer = false;
    bool object = false;

    StateDictKind kind() const {
      if (optimizer) return StateDictKind::optimizer;
      if (scheduler) return StateDictKind::scheduler;
      return average ? StateDictKind::ema : StateDictKind::model;
    }
  };

  void walk(const Value& value, Above above) {
    above.optimizer |= is_optimizer_state(value);
    above.object |= value.is(Value::Kind::object);
    if (value.is(Value::Kind::dict)) above = look_at(value, above);
    for_each_child(value, [&](const Value* step, const Value& child) {
      if (is_container(child)) walk_child(step, child, above);
    });
  }

  Above look_at(const Value& value, Above above) {
    const Dict& dict = value.as_dict();
    std::size_t tensors = count_tensors(dict);
    if (tensors == 0) return above;
    above.optimizer |= is_flat_optimizer_state(dict);
    found_.push_back({path_, path_text(path_), tensors, &dict, above.kind(), above.object, &value});
    return above;
  }

  void walk_child(const Value* step, const Value& child, Above above) {
    if (step == nullptr) return walk(child, above);
    above.average = above.average || names_average(*step);
    above.scheduler = above.scheduler || has_word(*step, {"scheduler", "schedulers", "sched"});
    path_.push_back(*step);
    walk(child, above);
    path_.pop_back();
  }

  std::vector<Value> path_;
  std::vector<StateDictRef> found_;
};

class OptimizerLister {
 public:
  std::vector<OptimizerStateRef> run(const Value& root) {
    walk(root);
    return std::move(found_);
  }

 private:
  void walk(const Value& value) {
    if (is_optimizer_state(value)) {
      found_.push_back({path_, path_text(path_), &value});
      return;
    }
    if (value.is(Value::Kind::object)) return;
    for_each_child(value, [&](const Value* step, const Value& child) {
      if (!is_container(child)) return;
      path_.push_back(*step);
      walk(child);
      path_.pop_back();
    });
  }

  std::vector<Value> path_;
  std::vector<OptimizerStateRef> found_;
};

/// Nothing but what generators of random numbers were at (`rng_state`, `cuda_rng_state`): bytes in one row.
bool is_generators_state(const Dict& dict) {
  return std::all_of(dict.items.begin(), dict.items.end(), [](const auto& item) {
    if (!item.first.is(Value::Kind::text) || !item.second.is(Value::Kind::tensor)) return true;
    const Entry& entry = item.second.as_entry();
    return has_word(item.first, {"rng"}) && entry.dtype == core::DType::u8 && entry.shape.size() == 1;
  });
}

/// The state dicts among which the model is: each dict once, averages only where there is nothing else.
std::vector<StateDictRef> model_candidates(const Value& root) {
  std::vector<StateDictRef> found = list_weights(root);
  auto is_average = [](const StateDictRef& ref) { return ref.kind == StateDictKind::ema; };
  if (!std::all_of(found.begin(), found.end(), is_average)) std::erase_if(found, is_average);
  if (found.size() > 1) {
    std::erase_if(found, [](const StateDictRef& ref) { return is_generators_state(*ref.dict); });
  }
  std::unordered_set<const Dict*> seen;
  std::erase_if(found, [&](const StateDictRef& ref) { return !seen.insert(ref.dict).second; });
  return found;
}

/// True when the root holds more tensors itself than all dicts below it, which then are parts of it; a tensor such as
/// the best accuracy beside the model makes no state dict of a training file.
bool is_mostly_root(const std::vector<StateDictRef>& candidates) {
  std::size_t below = 0;
  for (const StateDictRef& ref : candidates) below += ref.path.empty() ? 0 : ref.tensors;
  return candidates.front().path.empty() && candidates.front().tensors > below;
}

/// The one that is the model, or null. REQUIRES: candidates are not empty.
const StateDictRef* pick(const std::vector<StateDictRef>& candidates) {
  constexpr std::array<std::string_view, 8> kUsual = {"state_dict", "model",  "model_state_dict", "net",
                                                      "network",    "module", "weights",          "params"};
  if (candidates.size() == 1 || is_mostly_root(candidates)) return &candidates.front();
  for (std::string_view name : kUsual) {
    for (const StateDictRef& ref : candidates) {
      if (ref.name == name) return &ref;
    }
  }
  return nullptr;
}

/// What needs no choice: a dict of tensors that was named, and one without any item.
std::optional<StateDictRef> top_itself(const Value& top, const std::string& path) {
  if (!top.is(Value::Kind::dict)) return std::nullopt;
  const Dict& dict = top.as_dict();
  std::size_t tensors = path.empty() ? 0 : count_tensors(dict);
  if (tensors == 0 && !dict.items.empty()) return std::nullopt;
  return StateDictRef{{}, path, tensors, &dict, StateDictKind::model, false, &top};
}

std::string list_candidates(const std::vector<StateDictRef>& candidates) {
  constexpr std::size_t kMostListed = 8;
  std::string out;
  for (std::size_t i = 0; i < std::min(candidates.size(), kMostListed); ++i) {
    const StateDictRef& ref = candidates[i];
    out += (out.empty() ? "" : ", ") + (ref.name.empty() ? std::string("the top") : core::quote(ref.name)) + " (" +
           core::format_count(ref.tensors) + (ref.tensors == 1 ? " tensor)" : " tensors)");
  }
  if (candidates.size() > kMostListed) out += " and " + core::format_count(candidates.size() - kMostListed) + " more";
  return out;
}

[[noreturn]] void throw_none(const Value& top, const std::string& path) {
  std::string others;
  for (const StateDictRef& ref : list_state_dicts(top)) {
    if (!ref.in_object)
      others += (others.empty() ? "" : ", ") + core::quote(ref.name) + " of kind " + std::string(name(ref.kind));
  }
  throw Error(ErrorCode::key, (path.empty() ? "the file" : core::quote(path)) + " has no state dict of a model" +
                                  (others.empty() ? "" : ", only " + others));
}

/// REQUIRES: there are several. Their names count from the top of the file.
[[noreturn]] void throw_several(const std::vector<StateDictRef>& candidates) {
  const StateDictRef& example = candidates.front().name.empty() ? candidates.back() : candidates.front();
  throw HintedError(ErrorCode::usage, "several state dicts: " + list_candidates(candidates),
                    Hint{"name one, as in {}", {{.option = Hint::Option::part, .name = example.name}}});
}

/// With names that count from the top of the file.
void name_from_top(std::vector<StateDictRef>& found, const std::string& path) {
  for (StateDictRef& ref : found) ref.name = (path.empty() ? "" : path + ".") + ref.name;
}

}  // namespace

bool names_average(const Value& key) {
  return has_word(key, {"ema", "swa"});
}

std::string_view name(StateDictKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"model", "ema", "optimizer", "scheduler"};
  return kNames.at(static_cast<std::size_t>(kind));
}

// Whoever finds an optimizer's state goes on to read both as what they are. A dict that has only the two names, for
// tensors or modules that are called so, is no optimizer's, and its tensors are weights. Flat state is a form of its
// own (is_flat_optimizer_state()): it has neither 'state' nor 'param_groups' to read.
bool is_optimizer_state(const Value& value) {
  const Value* state = value.find("state");
  if (state == nullptr || !state->is(Value::Kind::dict)) return false;
  const Value* groups = value.find("param_groups");
  return groups != nullptr && (groups->is(Value::Kind::list) || groups->is(Value::Kind::tuple));
}

bool is_flat_optimizer_state(const Dict& dict) {
  auto names_setting = [](std::string_view key, std::string_view start) {
    return key.starts_with(start) && key.find('.', start.size()) != std::string_view::npos;
  };
  bool states = false;
  bool groups = false;
  for (const auto& [key, value] : dict.items) {
    if (!key.is(Value::Kind::text)) return false;
    bool state = names_setting(key.as_text(), "state.");
    bool group = !state && names_setting(key.as_text(), "param_groups.");
    if (!state && !group) return false;
    states |= state;
    groups |= group;
  }
  return states && groups;
}

std::vector<StateDictRef> list_state_dicts(const Value& root) {
  return StateDictLister().run(root);
}

std::vector<StateDictRef> list_weights(const Value& root) {
  std::vector<StateDictRef> found = list_state_dicts(root);
  std::erase_if(found, [](const StateDictRef& ref) {
    return ref.in_object || (ref.kind != StateDictKind::model && ref.kind != StateDictKind::ema);
  });
  return found;
}

std::vector<OptimizerStateRef> list_optimizer_states(const Value& root) {
  return OptimizerLister().run(root);
}

StateDictRef choose_state_dict(const Value& root, const std::string& path) {
  const Value& top = value_at(root, path);
  if (std::optional<StateDictRef> itself = top_itself(top, path)) return std::move(*itself);
  std::vector<StateDictRef> candidates = model_candidates(top);
  if (candidates.empty()) throw_none(top, path);
  const StateDictRef* chosen = pick(candidates);
  if (chosen != nullptr) candidates = {*chosen};
  name_from_top(candidates, path);
  if (candidates.size() > 1) throw_several(candidates);
  return std::move(candidates.front());
}

StateDictRef choose_for_edit(const Value& root, const std::string& path) {
  StateDictRef chosen = choose_state_dict(root, path);
  const Value& top = value_at(root, path);
  if (!path.empty() && chosen.value == &top) return chosen;  // it was named itself
  std::vector<StateDictRef> all = list_weights(top);
  auto is_other_average = [&](const StateDictRef& ref) {
    return ref.kind == StateDictKind::ema && ref.dict != chosen.dict;
  };
  if (std::none_of(all.begin(), all.end(), is_other_average)) return chosen;
  name_from_top(all, path);
  throw_several(all);
}

std::optional<StateDictRef> find_model(const Value& root) {
  if (std::optional<StateDictRef> itself = top_itself(root, "")) return itself;
  std::vector<StateDictRef> candidates = model_candidates(root);
  const StateDictRef* chosen = candidates.empty() ? nullptr : pick(candidates);
  return chosen == nullptr ? std::nullopt : std::optional<StateDictRef>(*chosen);
}

}  // namespace ckpt
