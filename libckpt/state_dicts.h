#pragma once
// The state dicts of a file: where they lie, what each is the state of, and which one is the model.
// Thread safety: pure functions; what they return points into the tree. Errors: Error(key) where there is no such state
// dict, Error(usage) where several may be meant.
// Use: const ckpt::Dict& model = *ckpt::choose_state_dict(checkpoint.root, "").dict;

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/value.h"

namespace ckpt {

enum class StateDictKind : std::uint8_t {
  model,
  ema,        ///< a moving average: a key on its path has the word ema or swa
  optimizer,  ///< part of an optimizer's state, nested or flat
  scheduler,  ///< a key on its path has the word scheduler or sched
};

/// "model", "ema", "optimizer", "scheduler".
std::string_view name(StateDictKind kind);

/// A dict that holds tensors directly under text keys: what users call a state dict.
struct StateDictRef {
  std::vector<Value> path;  ///< empty for the root itself
  std::string name;         ///< the path joined with dots, "" for the root
  std::size_t tensors = 0;  ///< how many values are tensors
  const Dict* dict = nullptr;
  StateDictKind kind = StateDictKind::model;
  bool in_object = false;        ///< part of an object such as a pickled module, whose keys are not for editing
  const Value* value = nullptr;  ///< that holds the dict
};

/// All of them, outermost first, in file order.
std::vector<StateDictRef> list_state_dicts(const Value& root);

/// Those that hold the weights of a model: of kind model or ema, outside of objects.
std::vector<StateDictRef> list_weights(const Value& root);

/// The model of a file: the only state dict of kind model, or, where there is no such, of kind ema. Of several it is
/// the root when that holds more tensors itself than all below it, else the one of a usual name ("state_dict", "model",
/// ...) at the top. A dict without any item is the state of a model without parameters. With `path`, the dict there, of
/// whatever kind, or, when it holds no tensor itself, the model below it; the path of the result counts from there.
/// Errors: Error(key) when there is none, Error(usage) listing the candidates when there are several.
StateDictRef choose_state_dict(const Value& root, const std::string& path);

/// The same for an edit, which must not part a model from its average: where both are there, one has to be named.
StateDictRef choose_for_edit(const Value& root, const std::string& path);

/// choose_state_dict() for the whole file, nullopt instead of an error.
std::optional<StateDictRef> find_model(const Value& root);

/// True for a key that has the word ema or swa: "state_dict_ema", "model-ema", "EMA", "swa_model"; not "schema".
bool names_average(const Value& key);

/// What an optimizer's state_dict() returns: a dict with 'state', a dict, and 'param_groups', a list or tuple.
bool is_optimizer_state(const Value& value);

/// True when the keys of `dict` are "state.NAME.SLOT" and "param_groups.NAME.SETTING", both there and nothing else: the
/// state of an optimizer as a distributed checkpoint has it.
bool is_flat_optimizer_state(const Dict& dict);

struct OptimizerStateRef {
  std::vector<Value> path;
  std::string name;  ///< the path joined with dots, "" for the root
  const Value* value = nullptr;
};

/// The values that are an optimizer's state, in file order; objects are not looked into.
std::vector<OptimizerStateRef> list_optimizer_states(const Value& root);

}  // namespace ckpt
