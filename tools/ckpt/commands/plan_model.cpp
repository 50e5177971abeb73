#include "tools/ckpt/commands/plan_model.h"

#include <map>
#include <set>
#include <unordered_set>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/state_dicts.h"
#include "libckpt/transform/selector.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/why_target.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

/// The state dict of the model, flat or (Keras) a tree.
std::vector<ckpt::NamedEntry> model_entries(const ckpt::Value& root, std::string& at) {
  if (ckpt::list_weights(root).empty()) return ckpt::list_entries(root);
  const ckpt::StateDictRef model = ckpt::choose_state_dict(root, "");
  at = model.name;
  return ckpt::list_entries(*model.value);
}

ckpt::PlanTensor tensor_of(const ckpt::NamedEntry& named) {
  const ckpt::Entry& entry = *named.entry;
  ckpt::PlanTensor out{named.name, entry.dtype, ckpt::value_shape(entry)};
  out.parameter = ckpt::tensor_kind(named.name, entry) == ckpt::TensorKind::parameter;
  if (entry.blocks) {
    out.packed = entry.byte_size();
    out.packed_type = ckpt::type_name(entry);
  }
  return out;
}

/// Each block of memory once.
std::vector<ckpt::PlanTensor> tensors_of_file(const std::vector<ckpt::NamedEntry>& entries) {
  std::vector<ckpt::PlanTensor> out;
  std::set<std::pair<const void*, std::string>> seen;
  for (const ckpt::NamedEntry& named : entries) {
    const void* memory = ckpt::storage_identity(*named.entry);
    const std::string window = core::to_list(ckpt::value_shape(*named.entry)) +
                               (named.entry->view ? ":" + std::to_string(named.entry->view->offset) : "");
    if (memory != nullptr && !seen.insert({memory, window}).second) continue;
    out.push_back(tensor_of(named));
  }
  return out;
}

/// Names of one tensor behind the first.
std::unordered_set<std::string> further_names(const ckpt::KeyList& model) {
  std::unordered_set<std::string> out;
  for (const std::vector<std::string>& group : model.ties) {
    for (std::size_t i = 1; i < group.size(); ++i) out.insert(group[i]);
  }
  return out;
}

ckpt::PlanTensor tensor_of(const ckpt::WantedKey& key, const ckpt::NamedEntry* there, const ckpt::KeyList& model) {
  ckpt::PlanTensor out{key.key};
  if (there != nullptr) out = tensor_of(*there);
  if (there == nullptr && !key.shape) {
    throw Error(ErrorCode::usage, core::quote(model.name) + " says no shape of " + core::quote(key.key) +
                                      ", and the file has no tensor of that name");
  }
  if (key.shape) out.shape = *key.shape;
  if (key.dtype) out.dtype = *key.dtype;
  if (key.dtype) out.packed.reset();
  if (key.kind != ckpt::WantedKey::Kind::unknown) out.parameter = key.kind == ckpt::WantedKey::Kind::parameter;
  return out;
}

std::string types_text(const std::map<std::pair<std::string, std::string>, std::size_t>& types) {
  std::string text;
  for (const auto& [pair, count] : types) {
    text += (text.empty() ? "" : "; ") + count_of(count, "tensor") + " of " + pair.first + " become" +
            (count == 1 ? "s " : " ") + pair.second;
  }
  return text;
}

void compare(PlannedModel& model, const ckpt::KeyList& wanted, const std::string& target,
             const std::map<std::string, const ckpt::NamedEntry*>& there) {
  std::map<std::pair<std::string, std::string>, std::size_t> types;
  std::size_t missing = 0, shapes = 0;
  for (const ckpt::WantedKey& key : wanted.keys) {
    auto found = there.find(key.key);
    missing += found == there.end() && !key.optional ? 1 : 0;
    if (found == there.end()) continue;
    const ckpt::Entry& entry = *found->second->entry;
    shapes += key.shape && *key.shape != ckpt::value_shape(entry) ? 1 : 0;
    if (key.dtype && (entry.blocks || *key.dtype != entry.dtype)) {
      ++types[{ckpt::type_name(entry), std::string(core::name(*key.dtype))}];
    }
  }
  if (missing + shapes > 0) {
    model.notes.push_back(
        "the file does not fit as it is: " + count_of(missing, "key") + " of " +
        core::format_count(wanted.keys.size()) + " missing, " + core::format_count(shapes) + " of another shape; '" +
        ckpt::ShellCommand("ckpt").word("why").option("--for", target).file(model.input.address.text()).text() +
        "' says more");
  }
  if (!types.empty()) {
    model.notes.push_back("load_state_dict() keeps the types of the model: " + types_text(types) +
                          "; --dtype plans another type");
  }
}

}  // namespace

PlannedModel planned_model(const ReadOptions& options, const std::string& file, const std::string& target) {
  PlannedModel model;
  model.input = open_input(options, file);
  const std::string shown = model.input.address.text();
  core::with_context(shown, [&] {
    std::string at;
    const std::vector<ckpt::NamedEntry> entries = model_entries(model.input.checkpoint.root, at);
    if (entries.empty()) throw Error(ErrorCode::key, "has no tensors to plan for");
    std::map<std::string, const ckpt::NamedEntry*> there;
    for (const ckpt::NamedEntry& named : entries) there.emplace(named.name, &named);
    model.tensors = tensors_of_file(entries);
    for (const ckpt::PlanTensor& tensor : model.tensors) {
      const auto found = there.find(tensor.name);
      model.file_bytes += found == there.end() ? 0 : found->second->entry->byte_size();
    }
    model.name = shown + (at.empty() ? "" : " (" + core::printable(at) + ")");
    if (target.empty()) return;
    const ckpt::KeyList wanted = key_list_of_target(options, target);
    const std::unordered_set<std::string> further = further_names(wanted);
    model.tensors.clear();
    auto add = [&](const ckpt::WantedKey& key) {
      if (further.contains(key.key)) return;
      auto found = there.find(key.key);
      model.tensors.push_back(tensor_of(key, found == there.end() ? nullptr : found->second, wanted));
    };
    for (const ckpt::WantedKey& key : wanted.keys) add(key);
    for (ckpt::WantedKey key : wanted.unsaved) {
      key.kind = ckpt::WantedKey::Kind::buffer;
      add(key);
    }
    model.name = core::printable(wanted.name);
    compare(model, wanted, target, there);
  });
  return model;
}

}  // namespace cli
