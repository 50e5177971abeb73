#include "libckpt/transform/compared_models.h"

#include <algorithm>
#include <span>

#include "libckpt/state_dicts.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::size_t kMaxListedNames = 8;

ComparedModel model_of(const Checkpoint& checkpoint, const std::string& at) {
  ComparedModel model;
  model.value = choose_state_dict(checkpoint.root, at).value;
  model.entries = list_entries(*model.value);
  for (const NamedEntry& named : model.entries) model.by_name.emplace(named.name, named.entry.get());
  return model;
}

std::string file_of(const Checkpoint& checkpoint, std::size_t number) {
  return checkpoint.path.empty() ? "checkpoint " + std::to_string(number + 1) : checkpoint.path.string();
}

std::string describe(const Entry& entry) {
  return std::string(core::name(entry.dtype)) + " " + core::to_list(entry.shape);
}

/// What keeps two models from being combined, one text each.
std::vector<std::string> differences(const ComparedModel& first, const ComparedModel& other) {
  std::vector<std::string> found;
  for (const NamedEntry& named : first.entries) {
    auto match = other.by_name.find(named.name);
    if (match == other.by_name.end()) {
      found.push_back(core::quote(named.name) + " is missing");
    } else if (match->second->dtype != named.entry->dtype || !(match->second->shape == named.entry->shape)) {
      found.push_back(core::quote(named.name) + " is " + describe(*match->second) + " where the first has " +
                      describe(*named.entry));
    }
  }
  for (const NamedEntry& named : other.entries) {
    if (!first.by_name.contains(named.name)) found.push_back(core::quote(named.name) + " is not in the first");
  }
  return found;
}

void require_same_keys(const ComparedModel& first, const ComparedModel& other) {
  std::vector<std::string> found = differences(first, other);
  if (found.empty()) return;
  std::size_t shown = std::min(found.size(), kMaxListedNames);
  std::string list = core::join(std::span(found).first(shown), "; ");
  if (found.size() > shown) list += "; and " + core::format_count(found.size() - shown) + " more";
  const bool common =
      std::ranges::any_of(first.entries, [&](const NamedEntry& named) { return other.by_name.contains(named.name); });
  if (!common && !first.entries.empty() && !other.entries.empty()) {
    list += "; no name is in both (this one begins with " + core::quote(other.entries.front().name) + ")";
  }
  throw Error(ErrorCode::refused, "does not fit the first checkpoint: " + list).add_context(other.file);
}

std::string place_of(const std::vector<std::string>& at, std::size_t i) {
  if (at.empty()) return "";
  return at.size() == 1 ? at.front() : at.at(i);
}

}  // namespace

std::vector<ComparedModel> same_models(const std::vector<Checkpoint>& checkpoints, const std::vector<std::string>& at) {
  std::vector<ComparedModel> models;
  for (std::size_t i = 0; i < checkpoints.size(); ++i) {
    const std::string file = file_of(checkpoints[i], i);
    models.push_back(core::with_context(file, [&] { return model_of(checkpoints[i], place_of(at, i)); }));
    models.back().file = file;
    require_same_keys(models.front(), models.back());
  }
  return models;
}

}  // namespace ckpt::detail
