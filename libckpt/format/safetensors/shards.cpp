#include "libckpt/format/safetensors/shards.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <unordered_map>

#include "libckpt/io/atomic_file.h"
#include "libckpt/io/json.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kIndexSuffix = ".index.json";
constexpr std::string_view kSuffix = ".safetensors";

/// Tensors of one shard; `old` is null for a shard that did not exist before.
struct Group {
  std::string file_name;
  std::shared_ptr<const SafetensorsDetail> old;
  std::vector<FlatTensor> tensors;
};

/// "model" of "model.safetensors.index.json".
std::string stem_of(const std::filesystem::path& index_path) {
  std::string name = index_path.filename().string();
  if (name.ends_with(kIndexSuffix)) name.resize(name.size() - kIndexSuffix.size());
  if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  return name;
}

std::string shard_name(const std::string& stem, std::size_t number, std::size_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05zu-of-%05zu", number, count);
  return stem + text + std::string(kSuffix);
}

/// Consecutive tensors up to `limit` bytes a file; a larger one stands alone.
std::vector<Group> fill_groups(std::vector<FlatTensor> tensors, std::uint64_t limit, const std::string& stem) {
  std::vector<Group> groups(1);
  std::uint64_t size = 0;
  for (FlatTensor& tensor : tensors) {
    std::uint64_t bytes = tensor.entry->byte_size();
    if (!groups.back().tensors.empty() && (bytes > limit || size > limit - bytes)) {
      groups.emplace_back();
      size = 0;
    }
    size += bytes;
    groups.back().tensors.push_back(std::move(tensor));
  }
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].file_name = shard_name(stem, i + 1, groups.size());
  return groups;
}

/// Every tensor into the shard that it came from, new ones into the last.
std::vector<Group> keep_groups(std::vector<FlatTensor> tensors, const SafetensorsShards& old, bool keep_names,
                               const std::string& stem) {
  std::vector<Group> groups;
  std::unordered_map<const ByteSource*, std::size_t> origin;
  for (const SafetensorsShard& shard : old.shards) {
    for (const SourcePtr& source : shard.detail->sources) origin.emplace(source.get(), groups.size());
    groups.push_back({shard.file_name, shard.detail, {}});
  }
  for (FlatTensor& tensor : tensors) {
    auto found = origin.find(tensor.entry->bytes.get());
    Group& group = found == origin.end() ? groups.back() : groups[found->second];
    group.tensors.push_back(std::move(tensor));
  }
  std::erase_if(groups, [](const Group& group) { return group.tensors.empty(); });
  for (std::size_t i = 0; i < groups.size() && !keep_names; ++i) {
    groups[i].file_name = shard_name(stem, i + 1, groups.size());
  }
  return groups;
}

/// The order of the header of a shard that is rewritten: as it was, new tensors behind.
void restore_header_order(Group& group) {
  if (!group.old) return;
  auto place = [&](const FlatTensor& tensor) {
    const SafetensorsItem* item = group.old->find(*tensor.entry);
    return item == nullptr ? SIZE_MAX : static_cast<std::size_t>(item - group.old->header.items.data());
  };
  std::stable_sort(group.tensors.begin(), group.tensors.end(),
                   [&](const FlatTensor& a, const FlatTensor& b) { return place(a) < place(b); });
}

std::string index_json(const TextPairs& metadata, std::uint64_t total_size, const TextPairs& weight_map) {
  JsonWriter out(2);
  out.begin_object().key("metadata").begin_object().key("total_size").value(total_size);
  for (const auto& [key, value] : metadata) out.key(key).value(value);
  out.end_object().key("weight_map").begin_object();
  for (const auto& [tensor, file] : weight_map) out.key(tensor).value(file);
  out.end_object().end_object();
  return out.take() + "\n";
}

/// Extra metadata of a sharded checkpoint stands in the index; "format" is said by each shard.
TextPairs index_metadata(const Checkpoint& checkpoint, const Extra& extra, const SafetensorsShards* old) {
  TextPairs metadata = plan_metadata(checkpoint, extra, old == nullptr ? nullptr : &old->metadata);
  if (old == nullptr) std::erase_if(metadata, [](const auto& pair) { return pair.first == "format"; });
  return metadata;
}

TextPairs map_weights(const std::vector<Group>& groups, const std::vector<std::string>& order) {
  std::unordered_map<std::string_view, std::string_view> file_of;
  for (const Group& group : groups) {
    for (const FlatTensor& tensor : group.tensors) file_of.emplace(tensor.name, group.file_name);
  }
  TextPairs map;
  for (const std::string& name : order) map.emplace_back(name, file_of.at(name));
  return map;
}

}  // namespace

std::uint64_t tensor_bytes(const std::vector<FlatTensor>& tensors) {
  std::uint64_t total = 0;
  for (const FlatTensor& tensor : tensors) total = core::checked_add(total, tensor.entry->byte_size());
  return total;
}

ShardPlan plan_shards(const Checkpoint& checkpoint, FlatState state, const std::filesystem::path& index_path,
                      std::uint64_t max_shard_size) {
  auto old = std::dynamic_pointer_cast<const SafetensorsShards>(checkpoint.detail);
  if (max_shard_size != 0) old = nullptr;
  std::uint64_t total = tensor_bytes(state.tensors);
  std::vector<std::string> order;
  for (const FlatTensor& tensor : state.tensors) order.push_back(tensor.name);
  std::string stem = stem_of(index_path);
  bool same_name = old && old->index_name == index_path.filename().string();
  std::uint64_t limit = max_shard_size == 0 ? UINT64_MAX : max_shard_size;
  std::vector<Group> groups = old && !old->shards.empty() ? keep_groups(std::move(state.tensors), *old, same_name, stem)
                                                          : fill_groups(std::move(state.tensors), limit, stem);
  for (Group& group : groups) restore_header_order(group);
  ShardPlan plan;
  plan.index_path = index_path;
  TextPairs metadata = index_metadata(checkpoint, state.extra, old.get());
  TextPairs weight_map = map_weights(groups, order);
  bool verbatim = old && weight_map == old->weight_map && metadata == old->metadata;
  plan.index_text = verbatim ? old->index_text : index_json(metadata, total, weight_map);
  for (Group& group : groups) {
    TextPairs shard_metadata = group.old ? group.old->header.metadata : TextPairs{{"format", "pt"}};
    plan.shards.push_back({index_path.parent_path() / group.file_name,
                           SafetensorsPlan(std::move(group.tensors), shard_metadata, std::move(group.old))});
  }
  return plan;
}

void write_shards(const ShardPlan& plan, const SaveOptions& options) {
  std::uint64_t total = plan.index_text.size();
  for (const PlannedShard& shard : plan.shards) total += shard.plan.total_size();
  AtomicFile::Options file_options{options.overwrite, options.durable, 0};
  std::vector<std::unique_ptr<AtomicFile>> files;
  std::uint64_t done = 0;
  auto add = [&](const std::filesystem::path& path, std::uint64_t size) -> AtomicFile& {
    file_options.expected_size = size;
    files.push_back(std::make_unique<AtomicFile>(path, file_options));
    return *files.back();
  };
  for (const PlannedShard& shard : plan.shards) {
    AtomicFile& file = add(shard.path, shard.plan.total_size());
    shard.plan.write(file, [&](std::uint64_t part) {
      if (options.progress) options.progress(done + part, total);
    });
    done += shard.plan.total_size();
  }
  add(plan.index_path, plan.index_text.size()).write(core::as_bytes(plan.index_text));
  for (auto& file : files) file->prepare();
  for (auto& file : files) file->commit();
  if (options.report != nullptr) {
    options.report->bytes_written += total;
    options.report->rung = "rewrite";
  }
}

}  // namespace ckpt::detail
