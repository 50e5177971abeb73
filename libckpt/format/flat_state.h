#pragma once
// What formats that hold nothing but named arrays have in common when they are written: the tensors under dotted names,
// and what stands in the way. Each format says which single tensors it cannot hold.
// Thread safety: pure functions. Use: for (const FlatEntry& e : flat_entries(checkpoint, npz_obstacle)) ...

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/format/format.h"

namespace ckpt::detail {

struct FlatEntry {
  std::string name;
  EntryPtr entry;
};

/// Why a tensor of this name cannot be held, nullopt when it can.
using EntryObstacle = std::function<std::optional<Obstacle>(const std::string& name, const Entry& entry)>;

/// Everything that flat_entries() would leave out or change: other values than tensors, nested dicts, keys that are no
/// text, tensors without data, with a pending conjugation, of a Python subclass, with attributes, and `obstacle`.
std::vector<Obstacle> flat_obstacles(const Checkpoint& checkpoint, const EntryObstacle& obstacle);
/// The tensors that can be held, in order; nested names are joined with dots. Error(collision) when two would have one
/// name.
std::vector<FlatEntry> flat_entries(const Checkpoint& checkpoint, const EntryObstacle& obstacle);
/// Warns about what is lost although it says nothing about the values: device tags, module versions, ties.
void warn_about_losses(const Checkpoint& checkpoint, const std::vector<FlatEntry>& entries, Report* report);

}  // namespace ckpt::detail
