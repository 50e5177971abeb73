#include "libckpt/format/native/hdf5_side.h"

#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kTopGroup = "data";

/// A file of the most tensors has as many links, and groups besides; in the longest name each byte may be escaped.
Limits walk_limits(Limits limits) {
  limits.max_tensors = 2 * limits.max_tensors + 64;
  limits.max_name = 3 * limits.max_name + 64;
  return limits;
}

void add_group(const Hdf5Tree& tree, std::uint32_t number, const Hdf5Path& path, bool below_top, Hdf5Side& side) {
  for (const Hdf5Link& link : tree.objects[number].links) {
    Hdf5Path child = path;
    child.push_back(link.name);
    bool is_top = number == 0 && link.name == kTopGroup && link.kind == kLinkGroup;
    if (is_top) child.clear();
    bool is_dataset = link.kind == kLinkDataset || link.kind == kLinkKnown;
    if (link.kind == kLinkGroup) {
      add_group(tree, link.object, child, below_top || is_top, side);
    } else if (is_dataset && below_top) {
      side.datasets.emplace(std::move(child), &*tree.objects[link.object].dataset);
    } else {
      side.others.push_back(core::join(child, "/"));
    }
  }
}

}  // namespace

Hdf5Side read_hdf5_side(const ByteSource& file, WalkOptions options) {
  options.limits = walk_limits(options.limits);
  Hdf5Side side;
  side.tree = std::make_shared<const Hdf5Tree>(walk_hdf5(file, options));
  add_group(*side.tree, 0, {}, false, side);
  return side;
}

IndexSide read_index_side(const NativeIndex& index, const Limits& limits) {
  IndexSide side;
  std::unordered_map<const Entry*, EntryRecord> records;
  EntryCompleter note = [&](const EntryRecord& record, Entry& entry) { records[&entry] = record; };
  side.root = decode_tree(index.tree.bytes(), note, limits);
  std::vector<std::string> names;
  std::vector<NamedEntry> entries = list_entries(side.root);
  for (const NamedEntry& named : entries) names.push_back(named.name);
  std::vector<Hdf5Path> paths = plan_hdf5_paths(names);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    side.tensors.push_back({entries[i], records[entries[i].entry.get()], std::move(paths[i])});
  }
  return side;
}

}  // namespace ckpt::detail
