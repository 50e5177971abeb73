#include <algorithm>
#include <optional>
#include <ostream>
#include <set>
#include <unordered_map>

#include "libckpt/bridge/load_rules.h"
#include "libckpt/bridge/module_state.h"
#include "libckpt/bridge/tensor_entry.h"
#include "libckpt/damage.h"
#include "libckpt/objects.h"
#include "libckpt/state_dicts.h"
#include "libckpt/transform/prefix.h"
#include "libckpt/transform/quantize.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/tensor_impl.h"

namespace ckpt {
namespace {

using core::Module;
using core::StateDict;
using core::Tensor;

/// A key without its wrapper components, and these components with their dots.
struct Bare {
  std::string key;
  std::string wrappers;
};

Bare without_wrappers(std::string_view key) {
  Bare bare;
  for (std::string_view component : core::split(key, '.')) {
    if (is_wrapper_component(component)) {
      bare.wrappers += std::string(component) + ".";
    } else {
      bare.key += (bare.key.empty() ? "" : ".") + std::string(component);
    }
  }
  return bare;
}

void count(std::vector<std::pair<std::string, std::size_t>>& counts, const std::string& text) {
  if (text.empty()) return;
  auto found = std::find_if(counts.begin(), counts.end(), [&](const auto& pair) { return pair.first == text; });
  if (found == counts.end()) {
    counts.emplace_back(text, 1);
  } else {
    ++found->second;
  }
}

/// The model's keys by their bare form; a form that two keys have is no use and is left out.
std::unordered_map<std::string, std::string> keys_by_bare_form(const StateDict& model) {
  std::unordered_map<std::string, std::string> keys;
  std::set<std::string> ambiguous;
  for (const auto& [key, tensor] : model) {
    std::string bare = without_wrappers(key).key;
    if (!keys.emplace(bare, key).second) ambiguous.insert(bare);
  }
  for (const std::string& bare : ambiguous) keys.erase(bare);
  return keys;
}

using Renames = std::unordered_map<std::string, std::string>;

/// File key -> model key, for the keys that fit the model only with other wrappers. Empty unless every such key gets a
/// place of its own.
Renames reconcile(const Dict& dict, const StateDict& model, LoadReport& report) {
  auto by_bare = keys_by_bare_form(model);
  Renames renames;
  std::set<std::string> taken;
  std::vector<std::pair<std::string, std::string>> stripped_and_added;
  for (const auto& [key_value, value] : dict.items) {
    std::string key = step_text(key_value);
    Bare bare = without_wrappers(key);
    auto found = by_bare.find(bare.key);
    bool fits = model.contains(key) || found == by_bare.end();
    const std::string& target = fits ? key : found->second;
    if (!taken.insert(target).second) return {};
    if (fits) continue;
    stripped_and_added.emplace_back(bare.wrappers, without_wrappers(target).wrappers);
    renames.emplace(key, target);
  }
  for (const auto& [stripped, added] : stripped_and_added) {
    count(report.stripped, stripped);
    count(report.added, added);
  }
  return renames;
}

/// The same dict under the model's keys; module versions lose and gain the same wrappers.
Dict renamed(const Dict& dict, const Renames& renames) {
  Dict out = dict;
  for (auto& [key, value] : out.items) {
    auto found = renames.find(step_text(key));
    if (found != renames.end()) key = Value::text(found->second);
  }
  return out;
}

/// Versions by the model's module names, found through the bare form of the file's.
StateDict::Versions versions_for(const Dict& dict, const StateDict& model) {
  std::unordered_map<std::string, int> by_bare;
  for (const auto& [module, version] : module_versions(dict)) {
    by_bare.emplace(without_wrappers(module).key, static_cast<int>(version));
  }
  StateDict::Versions versions;
  for (const auto& [module, version] : model.versions()) {
    auto found = by_bare.find(without_wrappers(module).key);
    if (found != by_bare.end()) versions.emplace_back(module, found->second);
  }
  return versions;
}

/// True when every tensor of the model has its entry, of the same shape, and nothing is left over.
bool fits_exactly(const Dict& dict, const StateDict& model) {
  if (dict.items.size() != model.size()) return false;
  return std::all_of(dict.items.begin(), dict.items.end(), [&](const auto& item) {
    const Tensor* tensor = model.find(step_text(item.first));
    return tensor != nullptr && item.second.is(Value::Kind::tensor) && item.second.as_entry().bytes &&
           item.second.as_entry().shape == tensor->sizes();
  });
}

/// Reads one entry into a live tensor, straight where dtype and layout allow.
void load_tensor(const Entry& entry, const Tensor& tensor, const std::string& key, DeviceReads& reads) {
  if (entry.dtype == tensor.dtype() && tensor.is_contiguous() && !tensor.is_meta()) {
    read_into(entry, tensor, key, reads);
    tensor.impl()->bump_version();
  } else {
    tensor.copy_(to_tensor(entry, core::Device()));
  }
}

void note_move(LoadReport& report, const std::string& from, const std::string& to) {
  std::pair<std::string, std::string> move(from, to);
  bool known = std::find(report.moved.begin(), report.moved.end(), move) != report.moved.end();
  if (from != to && !known) report.moved.push_back(std::move(move));
}

void load_straight(const Dict& dict, const StateDict& model, DeviceReads reads, LoadReport& report) {
  for (const auto& [key_value, value] : dict.items) {
    const Entry& entry = value.as_entry();
    const std::string key = step_text(key_value);
    const Tensor& tensor = model.at(key);
    core::with_context(core::quote(key), [&] { load_tensor(entry, tensor, key, reads); });
    note_move(report, entry.location, tensor.device().str());
    ++report.loaded;
    report.bytes += entry.byte_size();
  }
  reads.run();
}

/// Refuses tags whose device is not there, as torch.load does; a map_location that names another makes them fit.
void check_locations(const Dict& dict, const MapLocation& map_location) {
  std::set<std::string> seen;
  for (const auto& [key, value] : dict.items) {
    if (!value.is(Value::Kind::tensor) || !seen.insert(value.as_entry().location).second) continue;
    device_for(step_text(key), value.as_entry().location, map_location);
  }
}

/// The way of load_state_dict, for its checks, its texts and its care for older versions.
void load_checked(const Dict& dict, const StateDict::Versions& versions, const StateDict& model, Module& module,
                  bool strict, LoadReport& report) {
  StateDict state = to_state_dict(dict, MapLocation(core::Device()));
  if (versions.empty()) {
    state.clear_versions();
  } else {
    state.set_versions(versions);
  }
  core::IncompatibleKeys keys = module.load_state_dict(state, strict);
  report.missing_keys = std::move(keys.missing_keys);
  report.unexpected_keys = std::move(keys.unexpected_keys);
  std::set<std::string> unexpected(report.unexpected_keys.begin(), report.unexpected_keys.end());
  for (const auto& [key_value, value] : dict.items) {
    std::string key = step_text(key_value);
    const Tensor* tensor = model.find(key);
    if (unexpected.contains(key) || tensor == nullptr) continue;
    note_move(report, value.as_entry().location, tensor->device().str());
    ++report.loaded;
    report.bytes += value.as_entry().byte_size();
  }
}

void print_counts(std::ostream& out, std::string_view verb,
                  const std::vector<std::pair<std::string, std::size_t>>& counts) {
  for (const auto& [text, keys] : counts) {
    out << "  " << verb << ' ' << core::quote(text) << ": " << core::format_count(keys)
        << (keys == 1 ? " key\n" : " keys\n");
  }
}

void print_keys(std::ostream& out, std::string_view what, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) out << "  " << what << ' ' << core::quote(key) << '\n';
}

/// How many of the module's tensors a dict has, under their names or behind those of wrappers.
std::size_t tensors_that_fit(const Dict& dict, const StateDict& model) {
  return static_cast<std::size_t>(std::count_if(dict.items.begin(), dict.items.end(), [&](const auto& item) {
    if (!item.first.is(Value::Kind::text) || !item.second.is(Value::Kind::tensor)) return false;
    const Tensor* own = model.find(item.first.as_text());
    if (own == nullptr) own = model.find(without_wrappers(item.first.as_text()).key);
    return own != nullptr && own->sizes() == value_shape(item.second.as_entry());
  }));
}

/// The model of the file; where that has nothing for this module, or cannot be told, the only dict of weights that fits
/// best.
StateDictRef choose_for_module(const Value& root, const std::string& path, const StateDict& model) {
  const std::optional<StateDictRef> usual = path.empty() ? find_model(root) : std::nullopt;
  if (!path.empty() || (usual && tensors_that_fit(*usual->dict, model) > 0)) return choose_state_dict(root, path);
  std::vector<StateDictRef> all = list_weights(root);
  std::vector<std::size_t> fits;
  for (const StateDictRef& ref : all) fits.push_back(tensors_that_fit(*ref.dict, model));
  const auto best = std::max_element(fits.begin(), fits.end());
  if (best == fits.end() || *best == 0 || std::count(fits.begin(), fits.end(), *best) > 1) {
    return choose_state_dict(root, path);
  }
  return std::move(all[static_cast<std::size_t>(best - fits.begin())]);
}

}  // namespace

LoadReport load_into(Module& module, const Checkpoint& file, const LoadIntoOptions& options) {
  LoadReport report;
  const Checkpoint checkpoint = blocks_as_values(file);
  report.file = checkpoint.path.string();
  report.format = checkpoint.format;
  const StateDict model = module.state_dict();  // once: a user's hooks run in it
  StateDictRef chosen = choose_for_module(checkpoint.root, options.path, model);
  report.path = chosen.name;
  Value ruled = apply_load_rules(*chosen.dict, options.rules, &report.warnings);
  const Dict& source = ruled.as_dict();
  Renames renames = options.reconcile ? reconcile(source, model, report) : Renames();
  Dict dict = renamed(source, renames);
  check_locations(dict, options.map_location);
  if (fits_exactly(dict, model)) {
    load_straight(dict, model, DeviceReads(options.ring, options.open.threads), report);
  } else {
    load_checked(dict, versions_for(source, model), model, module, options.strict, report);
  }
  std::string damage = damage_warning(list_entries(ruled));
  if (!damage.empty()) report.warnings.push_back(std::move(damage));
  return report;
}

LoadReport load_into(Module& module, const std::filesystem::path& file, const LoadIntoOptions& options) {
  Report reading;
  OpenOptions open_options = options.open;
  open_options.look_past_foreign = true;  // what lies beside the state dict does not matter
  if (open_options.report == nullptr) open_options.report = &reading;
  Checkpoint checkpoint = open(file, open_options);
  return core::with_context(file.string(), [&] {
    LoadReport report = load_into(module, checkpoint, options);
    Report noted = *open_options.report;
    narrow_report(noted, value_at(checkpoint.root, report.path));
    report.warnings.insert(report.warnings.begin(), noted.warnings.begin(), noted.warnings.end());
    return report;
  });
}

std::ostream& operator<<(std::ostream& out, const LoadReport& report) {
  out << report.file << ": " << core::format_count(report.loaded) << " tensors loaded ("
      << core::format_size(report.bytes) << ", " << report.format
      << (report.path.empty() ? "" : ", " + core::quote(report.path)) << ")\n";
  print_counts(out, "stripped", report.stripped);
  print_counts(out, "added", report.added);
  for (const auto& [from, to] : report.moved) out << "  moved " << core::printable(from) << " -> " << to << '\n';
  print_keys(out, "missing", report.missing_keys);
  print_keys(out, "unexpected", report.unexpected_keys);
  print_keys(out, "warning:", report.warnings);
  return out;
}

}  // namespace ckpt
