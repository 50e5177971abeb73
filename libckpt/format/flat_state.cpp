#include "libckpt/format/flat_state.h"

#include <set>
#include <unordered_set>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

std::optional<Obstacle> obstacle_of(const std::string& name, const Entry& entry, const EntryObstacle& obstacle) {
  if (!entry.bytes) return no_data_obstacle(name);
  if (entry.conjugate || entry.negative) return pending_obstacle(name);
  return obstacle(name, entry);
}

/// What would be lost of a tensor although its values are kept.
std::optional<Obstacle> loss_of(const std::string& name, const Entry& entry) {
  if (!entry.python_class.empty()) return python_class_obstacle(name, entry);
  if (entry.attributes.is_null()) return std::nullopt;
  return Obstacle{name, Obstacle::Kind::attribute, "Python attributes"};
}

class ObstacleFinder {
 public:
  explicit ObstacleFinder(const EntryObstacle& obstacle) : obstacle_(obstacle) {}
  std::vector<Obstacle> found;

  void look_at_items(const Dict& dict, const std::string& prefix) {
    for (const auto& [key, value] : dict.items) {
      std::string name = prefix + step_text(key);
      if (!key.is(Value::Kind::text)) found.push_back(key_obstacle(name, key));
      if (value.is(Value::Kind::tensor)) {
        look_at_tensor(name, value.as_entry());
      } else if (value.is(Value::Kind::dict)) {
        found.push_back(nested_dict_obstacle(name));
        open_.push_back({&value.as_dict(), name + "."});
      } else {
        found.push_back(value_obstacle(name, value));
      }
    }
  }

  void run(const Dict& top) {
    open_.push_back({&top, ""});
    for (std::size_t i = 0; i < open_.size(); ++i) {
      auto [dict, prefix] = open_[i];
      look_at_items(*dict, prefix);
    }
  }

 private:
  void look_at_tensor(const std::string& name, const Entry& entry) {
    std::optional<Obstacle> obstacle = obstacle_of(name, entry, obstacle_);
    if (!obstacle) obstacle = loss_of(name, entry);
    if (obstacle) found.push_back(std::move(*obstacle));
  }

  const EntryObstacle& obstacle_;
  std::vector<std::pair<const Dict*, std::string>> open_;
};

}  // namespace

std::vector<Obstacle> flat_obstacles(const Checkpoint& checkpoint, const EntryObstacle& obstacle) {
  if (!checkpoint.root.is(Value::Kind::dict)) return {top_obstacle(checkpoint.root, "a dict of tensors")};
  ObstacleFinder finder(obstacle);
  finder.run(checkpoint.root.as_dict());
  return std::move(finder.found);
}

std::vector<FlatEntry> flat_entries(const Checkpoint& checkpoint, const EntryObstacle& obstacle) {
  std::vector<FlatEntry> out;
  for (NamedEntry& named : list_entries(checkpoint.root)) {
    if (obstacle_of(named.name, *named.entry, obstacle)) continue;
    out.push_back({std::move(named.name), std::move(named.entry)});
  }
  std::unordered_set<std::string_view> names;
  for (const FlatEntry& flat : out) {
    if (names.insert(flat.name).second) continue;
    throw core::Error(core::ErrorCode::collision, "two tensors would both be named " + core::quote(flat.name));
  }
  return out;
}

void warn_about_losses(const Checkpoint& checkpoint, const std::vector<FlatEntry>& entries, Report* report) {
  if (report == nullptr) return;
  std::set<std::string> locations;
  std::set<const void*> storages;
  std::size_t shared = 0;
  for (const FlatEntry& flat : entries) {
    if (flat.entry->location != "cpu") locations.insert(flat.entry->location);
    if (flat.entry->numel() > 0 && !storages.insert(storage_identity(*flat.entry)).second) ++shared;
  }
  if (!locations.empty()) {
    report->warnings.push_back("device tags (" + *locations.begin() + (locations.size() > 1 ? ", ..." : "") +
                               ") are not kept: the format has none");
  }
  if (shared > 0) {
    report->warnings.push_back(core::format_count(shared) + (shared == 1 ? " tensor shares" : " tensors share") +
                               " memory with another one and will be written separately");
  }
  bool versions = checkpoint.root.is(Value::Kind::dict) && !module_versions(checkpoint.root.as_dict()).empty();
  if (versions) report->warnings.push_back("the versions of modules (_metadata) are not kept: the format has none");
}

}  // namespace ckpt::detail
