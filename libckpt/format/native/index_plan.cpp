#include "libckpt/format/native/index_plan.h"

namespace ckpt::detail {

NativeIndex plan_index(const Checkpoint& checkpoint, const PayloadPlan& plan) {
  NativeIndex index;
  index.ranges.resize(2);
  index.storages = plan.storages;
  auto lookup = [&](const Entry& entry) -> const EntryRecord& { return plan.records.at(&entry); };
  index.tree = SharedBytes(encode_tree(checkpoint.root, lookup, Limits().max_depth));
  index.metadata = checkpoint.metadata;
  index.wrappers = list_wrappers(checkpoint.root);
  return index;
}

std::vector<DatasetPlan> plan_datasets(const Checkpoint& checkpoint, const PayloadPlan& plan,
                                       const NativeIndex& index) {
  std::vector<NamedEntry> entries = list_entries(checkpoint.root);
  std::vector<std::string> names;
  names.reserve(entries.size());
  for (const NamedEntry& named : entries) names.push_back(named.name);
  std::vector<Hdf5Path> paths = plan_hdf5_paths(names);
  std::vector<DatasetPlan> datasets;
  datasets.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry* entry = entries[i].entry.get();
    const std::optional<Window>& window = plan.records.at(entry).window;
    if (!window || index.payloads[window->payload].codec == NativeCodec::elsewhere) continue;
    datasets.push_back(
        {std::move(names[i]), std::move(paths[i]), entry, &index.payloads[window->payload], window->offset});
  }
  return datasets;
}

core::ByteVector padded_superblock(const Hdf5Image& image) {
  core::ByteVector superblock(image.superblock.begin(), image.superblock.end());
  superblock.resize(kFirstPayload);
  return superblock;
}

std::vector<StampedRange> stamp(Bytes superblock, std::uint64_t metadata_begin, Bytes metadata) {
  return {{0, superblock.size(), hash128(superblock)}, {metadata_begin, metadata.size(), hash128(metadata)}};
}

}  // namespace ckpt::detail
