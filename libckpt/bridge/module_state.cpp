#include "libckpt/bridge/module_state.h"

#include "libckpt/bridge/load_rules.h"
#include "libckpt/bridge/tensor_entry.h"
#include "libckpt/damage.h"
#include "libckpt/state_dicts.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/uninitialized.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using core::StateDict;

/// {'version': n} for every module, as torch keeps it in `_metadata`.
Value versions_value(const StateDict& state) {
  Dict metadata;
  metadata.type = "collections.OrderedDict";
  for (const auto& [module, version] : state.versions()) {
    Dict local;
    local.items.emplace_back(Value::text("version"), Value::integer(version));
    metadata.items.emplace_back(Value::text(module), Value::dict(std::move(local)));
  }
  Dict attributes;
  attributes.items.emplace_back(Value::text("_metadata"), Value::dict(std::move(metadata)));
  return Value::dict(std::move(attributes));
}

/// The tensors of a state dict. Error(type) naming the first value that is none.
std::vector<PlacedEntry> entries_of(const Dict& dict) {
  std::vector<PlacedEntry> entries;
  for (const auto& [key, value] : dict.items) {
    std::string name = step_text(key);
    if (!value.is(Value::Kind::tensor)) {
      throw Error(ErrorCode::type,
                  core::quote(name) + " is not a tensor, so this is not a state dict; name the one to load");
    }
    entries.push_back({std::move(name), value.entry_ptr(), {}});
  }
  return entries;
}

}  // namespace

Value to_value(const StateDict& state) {
  EntryMaker maker;
  return to_value(state, maker);
}

Value to_value(const StateDict& state, EntryMaker& maker) {
  Dict dict;
  dict.type = "collections.OrderedDict";
  for (const auto& [key, tensor] : state) {
    if (core::is_uninitialized(tensor)) {
      throw Error(ErrorCode::value, core::quote(key) + ": its shape is not known yet; call the lazy module once first");
    }
    dict.items.emplace_back(Value::text(key), Value::tensor(maker.entry(tensor)));
  }
  if (state.has_versions()) dict.attributes = versions_value(state);
  return Value::dict(std::move(dict));
}

StateDict to_state_dict(const Dict& dict, const MapLocation& map_location, const DeviceRing& ring, unsigned threads) {
  std::vector<PlacedEntry> entries = entries_of(dict);
  place(entries, map_location);
  TensorMaker maker(entries, ring, threads);
  StateDict state;
  for (const PlacedEntry& placed : entries) {
    state.set(placed.key, core::with_context(core::quote(placed.key), [&] { return maker.tensor(*placed.entry); }));
  }
  maker.finish();
  for (const auto& [module, version] : module_versions(dict)) state.set_version(module, static_cast<int>(version));
  return state;
}

StateDict load(const std::filesystem::path& path, const LoadOptions& options) {
  OpenOptions open_options = options.open;
  open_options.look_past_foreign = true;  // what lies beside the state dict does not matter
  Checkpoint checkpoint = open(path, open_options);
  return core::with_context(path.string(), [&] {
    const Dict& chosen = *choose_state_dict(checkpoint.root, options.path).dict;
    const Value ruled = options.rules.empty() ? Value() : apply_load_rules(chosen, options.rules);
    const Dict& dict = options.rules.empty() ? chosen : ruled.as_dict();
    StateDict state = to_state_dict(dict, options.map_location, options.ring, options.open.threads);
    std::string damage = options.open.report == nullptr ? "" : damage_warning(list_entries(Value::dict(dict)));
    if (!damage.empty()) options.open.report->warnings.push_back(std::move(damage));
    return state;
  });
}

Value to_value(const core::Tensor& tensor) {
  return Value::tensor(to_entry(tensor));
}

core::Tensor load_tensor(const std::filesystem::path& path, const LoadOptions& options) {
  OpenOptions open_options = options.open;
  open_options.look_past_foreign = true;
  Checkpoint checkpoint = open(path, open_options);
  return core::with_context(path.string(), [&] {
    const Value& found = value_at(checkpoint.root, options.path);
    if (!found.is(Value::Kind::tensor)) {
      throw Error(ErrorCode::type, options.path.empty() ? "the file does not hold a tensor alone; name the one to load"
                                                        : core::quote(options.path) + " is not a tensor");
    }
    std::vector<PlacedEntry> entries = {{options.path, found.entry_ptr(), {}}};
    place(entries, options.map_location);
    TensorMaker maker(entries, options.ring, options.open.threads);
    core::Tensor tensor = maker.tensor(*entries.front().entry);
    maker.finish();
    return tensor;
  });
}

void save(const Value& root, const std::filesystem::path& path, const SaveOptions& options) {
  Checkpoint checkpoint;
  checkpoint.root = root;
  save(checkpoint, path, options);
}
void save(const StateDict& state, const std::filesystem::path& path, const SaveOptions& options) {
  save(to_value(state), path, options);
}
void save(const core::Module& module, const std::filesystem::path& path, const SaveOptions& options) {
  save(module.state_dict(), path, options);
}
void save(const std::map<std::string, core::Tensor>& tensors, const std::filesystem::path& path,
          const SaveOptions& options) {
  StateDict state;
  for (const auto& [name, tensor] : tensors) state.set(name, tensor);
  save(state, path, options);
}
void save(const core::Tensor& tensor, const std::filesystem::path& path, const SaveOptions& options) {
  save(to_value(tensor), path, options);
}

}  // namespace ckpt
