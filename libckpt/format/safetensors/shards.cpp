#include "libckpt/format/safetensors/shards.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/format/safetensors/present_files.h"
#include "libckpt/io/file_set.h"
#include "libckpt/io/json.h"
#include "libckpt/io/mentions.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kIndexSuffix = ".index.json";
constexpr std::string_view kSuffix = ".safetensors";

/// Tensors of one shard; `old` is null for a shard that did not exist before.
struct Group {
  std::string file_name;
  std::shared_ptr<const SafetensorsDetail> old;
  std::vector<FlatTensor> tensors;
};

std::string shard_name(const std::string& stem, std::size_t number, std::size_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05zu-of-%05zu", number, count);
  return stem + text + std::string(kSuffix);
}

/// Consecutive tensors up to `limit` bytes a file; a larger one stands alone.
void fill_groups(std::vector<FlatTensor> tensors, std::uint64_t limit, std::vector<Group>& groups) {
  std::uint64_t size = 0;
  bool open = false;
  for (FlatTensor& tensor : tensors) {
    std::uint64_t bytes = tensor.entry->byte_size();
    if (!open || (!groups.back().tensors.empty() && (bytes > limit || size > limit - bytes))) {
      groups.emplace_back();
      size = 0;
      open = true;
    }
    size += bytes;
    groups.back().tensors.push_back(std::move(tensor));
  }
}

/// `count` files of about the same size, none of them empty.
std::vector<Group> balance_groups(std::vector<FlatTensor> tensors, std::size_t count) {
  if (tensors.size() < count) {
    throw Error(ErrorCode::usage, "cannot spread " + core::format_count(tensors.size()) + " tensors over " +
                                      core::format_count(count) + " files");
  }
  std::vector<Group> groups(count);
  std::uint64_t left = tensor_bytes(tensors);
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t share = left / (count - i);
    std::uint64_t size = 0;
    std::size_t last = tensors.size() - (count - i - 1);  // one at least for each of the others
    while (next < last) {
      std::uint64_t bytes = tensors[next].entry->byte_size();
      bool closer = size + bytes / 2 <= share || i + 1 == count;
      if (!groups[i].tensors.empty() && !closer) break;
      size += bytes;
      groups[i].tensors.push_back(std::move(tensors[next++]));
    }
    left -= size;
  }
  return groups;
}

/// The tensors below each prefix together, the rest behind them.
std::vector<Group> prefix_groups(std::vector<FlatTensor> tensors, const SaveOptions& options, std::uint64_t limit) {
  std::vector<std::vector<FlatTensor>> parts(options.shard_prefixes.size() + 1);
  auto part_of = [&](const std::string& name) {
    for (std::size_t i = 0; i < options.shard_prefixes.size(); ++i) {
      std::string prefix = options.shard_prefixes[i];
      if (!prefix.ends_with('.')) prefix += '.';
      if (name.starts_with(prefix)) return i;
    }
    return options.shard_prefixes.size();
  };
  for (FlatTensor& tensor : tensors) parts[part_of(tensor.name)].push_back(std::move(tensor));
  std::vector<Group> groups;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty() && i < options.shard_prefixes.size()) {
      throw Error(ErrorCode::key,
                  "no tensor is left for a file of the prefix " + core::quote(options.shard_prefixes[i]));
    }
    fill_groups(std::move(parts[i]), limit, groups);
  }
  return groups;
}

std::vector<Group> new_groups(std::vector<FlatTensor> tensors, const SaveOptions& options, const std::string& stem) {
  std::uint64_t limit = options.max_shard_size == 0 ? UINT64_MAX : options.max_shard_size;
  std::vector<Group> groups;
  if (options.shards > 0) {
    groups = balance_groups(std::move(tensors), options.shards);
  } else if (!options.shard_prefixes.empty()) {
    groups = prefix_groups(std::move(tensors), options, limit);
  } else {
    fill_groups(std::move(tensors), limit, groups);
  }
  if (groups.empty()) groups.emplace_back();  // a file without tensors still says that it is one
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].file_name = shard_name(stem, i + 1, groups.size());
  return groups;
}

/// Which shard a tensor stays in: by its data, else (it was cast) by its name.
class Origins {
 public:
  void add(const SafetensorsDetail& shard, std::size_t group) {
    for (const SourcePtr& source : shard.sources) by_source_.emplace(source.get(), group);
    for (const SafetensorsItem& item : shard.header.items) by_name_.emplace(item.name, group);
  }
  /// nullopt: it is new.
  std::optional<std::size_t> find(const FlatTensor& tensor) const {
    auto source = by_source_.find(tensor.entry->bytes.get());
    if (source != by_source_.end()) return source->second;
    auto named = by_name_.find(tensor.name);
    return named == by_name_.end() ? std::nullopt : std::optional(named->second);
  }

 private:
  std::unordered_map<const ByteSource*, std::size_t> by_source_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

/// Every tensor into the shard that it came from, new ones into that of the tensor before them.
std::vector<Group> keep_groups(std::vector<FlatTensor> tensors, const SafetensorsShards& old, bool keep_names,
                               const std::string& stem) {
  std::vector<Group> groups;
  Origins origins;
  for (const SafetensorsShard& shard : old.shards) {
    origins.add(*shard.detail, groups.size());
    groups.push_back({shard.file_name, shard.detail, {}});
  }
  std::size_t last = 0;
  for (FlatTensor& tensor : tensors) {
    last = origins.find(tensor).value_or(last);
    groups[last].tensors.push_back(std::move(tensor));
  }
  std::erase_if(groups, [](const Group& group) { return group.tensors.empty(); });
  for (std::size_t i = 0; i < groups.size() && !keep_names; ++i) {
    groups[i].file_name = shard_name(stem, i + 1, groups.size());
  }
  return groups;
}

/// "model-g2-00001-of-00003.safetensors" as it was called without its generation.
std::string base_name(const std::string& name) {
  std::size_t place = std::min(name.rfind("-of-"), name.size());
  std::size_t number = place == name.size() || place < 6 ? name.rfind(kSuffix) : place - 6;
  std::size_t dash = name.rfind("-g", number);
  if (dash == std::string::npos || dash + 2 >= number) return name;
  bool digits =
      std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dash) + 2,
                  name.begin() + static_cast<std::ptrdiff_t>(number), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? name.substr(0, dash) + name.substr(number) : name;
}

std::string generation_name(const std::string& base, std::size_t generation) {
  if (generation < 2) return base;
  std::size_t place = base.rfind("-of-");
  std::size_t at = place == std::string::npos || place < 6 ? base.rfind(kSuffix) : place - 6;
  return base.substr(0, at) + "-g" + std::to_string(generation) + base.substr(at);
}

/// Names that no file has yet, the same generation for all shards that must be written. A file that holds just what a
/// shard would, as a killed save may have left it, is taken for it.
void choose_names(std::vector<PlannedShard>& shards, const NameTest& test) {
  for (std::size_t generation = 1;; ++generation) {
    std::vector<NameUse> uses(shards.size(), NameUse::free);
    auto name = [&](const PlannedShard& shard) { return generation_name(base_name(shard.name), generation); };
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (!shards[i].kept) uses[i] = test(shards[i], name(shards[i]));
      if (uses[i] == NameUse::taken) break;
    }
    if (std::find(uses.begin(), uses.end(), NameUse::taken) != uses.end()) continue;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (shards[i].kept) continue;
      shards[i].name = name(shards[i]);
      shards[i].kept = shards[i].found = uses[i] == NameUse::holds_it;
    }
    return;
  }
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

using ShardOfTensor = std::unordered_map<std::string, std::size_t>;

ShardOfTensor number_tensors(const std::vector<Group>& groups) {
  ShardOfTensor shard_of;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const FlatTensor& tensor : groups[i].tensors) shard_of.emplace(tensor.name, i);
  }
  return shard_of;
}

/// Whether a name may be used for a new shard.
NameUse use_of(const FileSet& set, const SaveOptions& options, const PlannedShard& shard,
               const std::filesystem::path& path) {
  if (set.is_free(path.filename().string())) return NameUse::free;
  if (holds_plan(path, shard.plan)) return NameUse::holds_it;
  return options.overwrite ? NameUse::taken : NameUse::free;  // the set refuses it
}

/// Files of the old model that are still there and not part of the new one.
void report_left(const SupersededShards& old, const ShardPlan& plan, const FileSet& set, Report& report) {
  std::vector<std::string> left = set.left();
  std::unordered_set<std::string_view> used;
  for (const PlannedShard& shard : plan.shards) used.insert(shard.name);
  for (const SupersededShards::Left& file : old.left) {
    if (!used.contains(file.name)) left.push_back(core::quote(file.name) + " (" + file.reason + ")");
  }
  if (left.empty()) return;
  report.warnings.push_back("files that " + core::quote(plan.index_path.filename().string()) +
                            " named before were left beside it: " + core::join(left, ", "));
}

}  // namespace

std::string shard_stem(const std::filesystem::path& index_path) {
  std::string name = index_path.filename().string();
  if (name.ends_with(kIndexSuffix)) name.resize(name.size() - kIndexSuffix.size());
  if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  return name;
}

std::uint64_t tensor_bytes(const std::vector<FlatTensor>& tensors) {
  std::uint64_t total = 0;
  for (const FlatTensor& tensor : tensors) total = core::checked_add(total, tensor.entry->byte_size());
  return total;
}

bool wants_shards(const SaveOptions& options) {
  return options.shards > 0 || !options.shard_prefixes.empty();
}

namespace {

/// plan_shards() with names as `choose` makes them.
ShardPlan plan_groups(const Checkpoint& checkpoint, FlatState state, const std::filesystem::path& index_path,
                      const SaveOptions& options, const std::function<void(std::vector<PlannedShard>&)>& choose) {
  auto old = std::dynamic_pointer_cast<const SafetensorsShards>(checkpoint.detail);
  if (options.max_shard_size != 0 || wants_shards(options)) old = nullptr;
  std::uint64_t total = tensor_bytes(state.tensors);
  std::vector<std::string> order;
  for (const FlatTensor& tensor : state.tensors) order.push_back(tensor.name);
  std::string stem = shard_stem(index_path);
  bool same_name = old && old->index_name == index_path.filename().string();
  std::vector<Group> groups = old && !old->shards.empty() ? keep_groups(std::move(state.tensors), *old, same_name, stem)
                                                          : new_groups(std::move(state.tensors), options, stem);
  ShardOfTensor shard_of = number_tensors(groups);
  ShardPlan plan;
  plan.index_path = index_path;
  for (Group& group : groups) {
    restore_header_order(group);
    TextPairs shard_metadata = group.old ? group.old->header.metadata : TextPairs{{"format", "pt"}};
    SafetensorsPlan file(std::move(group.tensors), shard_metadata, group.old, options.slack);
    bool kept = file.is_unchanged() && is_file_of(*group.old->file, index_path.parent_path() / group.file_name);
    plan.shards.push_back({group.file_name, std::move(file), kept});
  }
  choose(plan.shards);
  TextPairs metadata = index_metadata(checkpoint, state.extra, old.get());
  TextPairs weight_map;
  for (const std::string& name : order) weight_map.emplace_back(name, plan.shards[shard_of.at(name)].name);
  bool verbatim = old && weight_map == old->weight_map && metadata == old->metadata;
  plan.index_text = verbatim ? old->index_text : index_json(metadata, total, weight_map);
  return plan;
}

}  // namespace

ShardPlan plan_shards(const Checkpoint& checkpoint, FlatState state, const std::filesystem::path& index_path,
                      const SaveOptions& options, const NameTest& test) {
  if (options.shards > 0 && (options.max_shard_size > 0 || !options.shard_prefixes.empty())) {
    throw Error(ErrorCode::usage, "a number of shards goes with neither a size nor prefixes");
  }
  return plan_groups(checkpoint, std::move(state), index_path, options,
                     [&](std::vector<PlannedShard>& shards) { choose_names(shards, test); });
}

std::optional<SetEdit> plan_headers(const Checkpoint& checkpoint, FlatState state,
                                    const std::filesystem::path& index_path, const SaveOptions& options) {
  auto old = std::dynamic_pointer_cast<const SafetensorsShards>(checkpoint.detail);
  std::error_code failed;
  bool same = old && !old->shards.empty() && std::filesystem::equivalent(old->index_path, index_path, failed);
  if (!same || options.max_shard_size != 0 || wants_shards(options)) return std::nullopt;
  ShardPlan plan = plan_groups(checkpoint, std::move(state), index_path, options, [](std::vector<PlannedShard>&) {});
  if (plan.shards.size() != old->shards.size()) return std::nullopt;
  // Another model that is read from the same files must not change with this one.
  std::filesystem::path folder = index_path.has_parent_path() ? index_path.parent_path() : ".";
  IndexMentions others(folder, index_path.filename().string());
  SetEdit edit;
  core::append(edit.old_head, core::as_bytes(old->index_text));
  core::append(edit.new_head, core::as_bytes(plan.index_text));
  for (std::size_t i = 0; i < plan.shards.size(); ++i) {
    const SafetensorsDetail& file = *old->shards[i].detail;
    const PlannedShard& shard = plan.shards[i];
    if (shard.name != old->shards[i].file_name) return std::nullopt;
    if (shard.plan.is_unchanged()) continue;
    std::optional<FileEdit> changes = shard.plan.edit();
    if (!changes) return std::nullopt;
    if (!is_file_of(*file.file, folder / shard.name) || others.holds(shard.name)) return std::nullopt;
    edit.members.push_back({shard.name, std::move(*changes)});
  }
  if (edit.old_head == edit.new_head && !edit.members.empty()) return std::nullopt;  // nothing would decide
  return edit;
}

void write_shards(const Checkpoint& checkpoint, FlatState state, const std::filesystem::path& index_path,
                  const SaveOptions& options) {
  FileSet set(
      index_path,
      {.overwrite = options.overwrite, .durable = options.durable, .io = options.io, .threads = options.threads});
  require_all_listed(checkpoint, index_path);
  SupersededShards old = find_superseded(checkpoint, state.tensors, index_path);
  ShardPlan plan = plan_shards(checkpoint, std::move(state), index_path, options,
                               [&](const PlannedShard& shard, const std::string& name) {
                                 return use_of(set, options, shard, index_path.parent_path() / name);
                               });
  std::uint64_t total = plan.index_text.size();
  std::vector<std::string> names;
  for (const PlannedShard& shard : plan.shards) {
    if (shard.found) set.keep_member(shard.name);
    if (shard.kept) continue;
    total += shard.plan.total_size();
    names.push_back(shard.name);
  }
  set.announce(names, old.removable, total);
  std::uint64_t done = 0;
  for (const PlannedShard& shard : plan.shards) {
    if (shard.kept) continue;
    set.write_member(shard.name, shard.plan.total_size(), [&](AtomicFile& file) {
      shard.plan.write(file, [&](std::uint64_t part) {
        if (options.progress) options.progress(done + part, total);
      });
    });
    done += shard.plan.total_size();
  }
  set.commit(core::as_bytes(plan.index_text));
  if (options.report == nullptr) return;
  options.report->bytes_written += total;
  options.report->rung = "rewrite";
  report_left(old, plan, set, *options.report);
}

}  // namespace ckpt::detail
