#include <algorithm>
#include <set>
#include <unordered_map>

#include "libckpt/format/safetensors/detail.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorCode::corrupt, what);
}

/// A name from the index may only mean a file beside it.
void check_shard_name(std::string_view name) {
  auto refuse = [&](const char* why) {
    throw Error(ErrorCode::refused, "the index names the shard " + quote(name) + ", which " + why);
  };
  if (name.empty() || name == "." || name == "..") refuse("is no file name");
  if (name.find_first_of("/\\") != std::string_view::npos) refuse("is not beside the index");
  if (name.find('\0') != std::string_view::npos) refuse("holds a NUL byte");
  if (!name.ends_with(".safetensors")) refuse("is no safetensors file");
}

TextPairs read_weight_map(const JsonView& root, const OpenOptions& options) {
  if (!root.is(JsonView::Kind::object) || !root.has("weight_map")) corrupt("the index has no weight_map");
  JsonView map = root.at("weight_map");
  if (!map.is(JsonView::Kind::object)) corrupt("the weight_map of the index is no object");
  TextPairs pairs;
  for (const auto& [tensor, file] : map.members()) {
    if (!file.is(JsonView::Kind::text)) corrupt("the index names a shard that is no text for tensor " + quote(tensor));
    check_shard_name(file.as_text());
    pairs.emplace_back(tensor, file.as_text());
  }
  if (pairs.size() > options.limits.max_tensors) {
    throw Error(ErrorCode::refused, "the index lists more tensors than allowed");
  }
  return pairs;
}

/// Sizes are bookkeeping of the index, everything else belongs to the checkpoint.
bool is_bookkeeping(std::string_view key) {
  return key == "total_size" || key == "total_parameters";
}

TextPairs read_index_metadata(const JsonView& root) {
  TextPairs pairs;
  if (!root.has("metadata") || !root.at("metadata").is(JsonView::Kind::object)) return pairs;
  for (const auto& [key, value] : root.at("metadata").members()) {
    if (!is_bookkeeping(key) && value.is(JsonView::Kind::text)) pairs.emplace_back(key, value.as_text());
  }
  return pairs;
}

SourcePtr open_shard(const std::filesystem::path& folder, const std::string& name) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder / name, ignored)) corrupt("it is missing, although the index names it");
  return open_file(folder / name);
}

std::vector<SafetensorsShard> open_shards(const SafetensorsShards& index, const std::filesystem::path& folder,
                                          const OpenOptions& options) {
  std::vector<SafetensorsShard> shards;
  std::set<std::string> seen;
  for (const auto& [tensor, file] : index.weight_map) {
    if (!seen.insert(file).second) continue;
    shards.push_back({file, core::with_context("shard " + quote(file), [&, &name = file] {
                        return read_safetensors_file(open_shard(folder, name), options);
                      })});
  }
  return shards;
}

/// Tensors of a shard by name.
using Names = std::unordered_map<std::string_view, std::size_t>;

Names names_of(const SafetensorsDetail& detail) {
  Names names;
  for (std::size_t i = 0; i < detail.header.items.size(); ++i) names.emplace(detail.header.items[i].name, i);
  return names;
}

std::vector<std::pair<std::string, EntryPtr>> collect(const SafetensorsShards& index) {
  std::unordered_map<std::string_view, std::pair<const SafetensorsDetail*, Names>> by_file;
  for (const SafetensorsShard& shard : index.shards) {
    by_file.emplace(shard.file_name, std::pair(shard.detail.get(), names_of(*shard.detail)));
  }
  std::vector<std::pair<std::string, EntryPtr>> tensors;
  for (const auto& [tensor, file] : index.weight_map) {
    const auto& [detail, names] = by_file.at(file);
    auto found = names.find(tensor);
    if (found == names.end()) {
      corrupt("the index places tensor " + quote(tensor) + " in the shard " + quote(file) + ", which does not hold it");
    }
    tensors.emplace_back(tensor, make_entry(detail->header.items[found->second], detail->sources[found->second]));
  }
  return tensors;
}

}  // namespace

std::vector<Finding> find_unlisted_tensors(const SafetensorsShards& shards) {
  std::unordered_map<std::string_view, std::string_view> listed;
  for (const auto& [tensor, file] : shards.weight_map) listed.emplace(tensor, file);
  std::vector<Finding> findings;
  for (const SafetensorsShard& shard : shards.shards) {
    for (const SafetensorsItem& item : shard.detail->header.items) {
      auto found = listed.find(item.name);
      if (found != listed.end() && found->second == shard.file_name) continue;
      std::string where =
          found == listed.end() ? "the index does not list it" : "the index places it in " + quote(found->second);
      findings.push_back({item.name, "is in the shard " + quote(shard.file_name) + ", but " + where});
    }
  }
  return findings;
}

Checkpoint read_safetensors_index(const Input& input, const OpenOptions& options) {
  if (input.file->size() > options.limits.max_json_bytes) {
    throw Error(ErrorCode::refused, "the index is " + core::format_size(input.file->size()) + " long where " +
                                        core::format_size(options.limits.max_json_bytes) + " are allowed");
  }
  auto detail = std::make_shared<SafetensorsShards>();
  JsonDocument json = JsonDocument::parse(read_all(*input.file),
                                          {.max_depth = options.limits.max_json_depth, .what = "the JSON index"});
  detail->index_text = json.text();
  detail->index_name = input.path.filename().string();
  detail->weight_map = read_weight_map(json.root(), options);
  detail->metadata = read_index_metadata(json.root());
  detail->shards = open_shards(*detail, input.path.parent_path(), options);
  if (options.report != nullptr) {
    for (const Finding& finding : find_unlisted_tensors(*detail)) {
      options.report->warnings.push_back("tensor " + quote(finding.subject) + " " + finding.text);
    }
  }
  Checkpoint checkpoint;
  checkpoint.root = make_state_dict(collect(*detail), detail->metadata, options);
  checkpoint.metadata = detail->metadata;
  checkpoint.detail = std::move(detail);
  return checkpoint;
}

}  // namespace ckpt::detail
