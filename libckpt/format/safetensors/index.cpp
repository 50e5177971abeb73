#include <algorithm>
#include <unordered_map>

#include "libckpt/format/corrupt.h"
#include "libckpt/format/safetensors/detail.h"
#include "libckpt/format/shard_index.h"
#include "libckpt/io/json.h"
#include "libckpt/io/unedited_source.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;

constexpr std::string_view kSuffixes[] = {".safetensors"};

std::vector<SafetensorsShard> open_shards(const std::vector<std::string>& files, const std::filesystem::path& folder,
                                          const OpenOptions& options) {
  std::vector<SafetensorsShard> shards;
  for (const std::string& file : files) {
    shards.push_back({file, core::with_context("shard " + quote(file), [&] {
                        return read_safetensors_file(open_shard(folder, file, options), options);
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

NamedTensors collect(const SafetensorsShards& index) {
  std::unordered_map<std::string_view, std::pair<const SafetensorsDetail*, Names>> by_file;
  for (const SafetensorsShard& shard : index.shards) {
    by_file.emplace(shard.file_name, std::pair(shard.detail.get(), names_of(*shard.detail)));
  }
  NamedTensors tensors;
  ObjectArena arena(index.weight_map.size() * kBytesOfEntry);
  for (const auto& [tensor, file] : index.weight_map) {
    const auto& [detail, names] = by_file.at(file);
    auto found = names.find(tensor);
    if (found == names.end()) {
      corrupt("the index places tensor " + quote(tensor) + " in the shard " + quote(file) + ", which does not hold it");
    }
    const std::size_t item = found->second;
    tensors.emplace_back(tensor, make_entry(detail->header.items[item], detail->sources[item], arena));
  }
  return tensors;
}

/// PyTorch's distributed writer may put blocks of one tensor under one name into several files. Taking the first would
/// give a part for the whole.
void refuse_blocks(const SafetensorsShards& index) {
  for (const SafetensorsShard& shard : index.shards) {
    for (const auto& [key, text] : shard.detail->header.metadata) {
      if (key != "DCP_SHARDING_INFO") continue;
      JsonDocument info = JsonDocument::parse(text, {.what = "DCP_SHARDING_INFO"});
      if (!info.root().is(JsonView::Kind::object)) continue;
      for (const auto& [tensor, where] : info.root().members()) {
        if (!where.has("saved_offsets") || !where.at("saved_offsets").is(JsonView::Kind::array)) continue;
        for (const JsonView& offset : where.at("saved_offsets").items()) {
          if (offset.is_count() && offset.as_unsigned() == 0) continue;
          throw Error(ErrorCode::unsupported, "the shard " + quote(shard.file_name) + " holds only a block of tensor " +
                                                  quote(tensor) +
                                                  "; consolidate the distributed checkpoint with PyTorch first");
        }
      }
    }
  }
}

/// Once for all shards: 'ckpt undo' of the index takes the edit back from all of them.
void warn_of_pending_edits(const SafetensorsShards& shards, Report& report) {
  bool pending = std::ranges::any_of(shards.shards, [](const auto& shard) { return hides_edit(*shard.detail->file); });
  if (!pending) return;
  report.warnings.push_back(
      "an edit of these files goes on or was interrupted; they are read as they were before, and 'ckpt undo' of the "
      "index takes the edit back");
}

std::shared_ptr<const SafetensorsShards> read_shards(const Input& input, ShardIndex index, const OpenOptions& options) {
  require_shards(input.path.parent_path(), index);
  auto shards = std::make_shared<SafetensorsShards>();
  shards->index_path = input.path;
  shards->index_text = std::move(index.text);
  shards->index_name = input.path.filename().string();
  shards->weight_map = std::move(index.weight_map);
  shards->metadata = std::move(index.metadata);
  shards->shards = open_shards(index.files, input.path.parent_path(), options);
  shards->lenient = options.lenient;
  refuse_blocks(*shards);
  return shards;
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
  std::shared_ptr<const SafetensorsShards> shards;
  NamedTensors tensors;
  std::vector<std::string> files;
  auto read = [&](const Input& now) {
    ShardIndex index = read_shard_index(now, options, kSuffixes);
    files = index.files;
    shards = read_shards(now, std::move(index), options);
    tensors = collect(*shards);
  };
  read_until_it_stands(input, read, [&] { return edit_goes_on(input.path.parent_path(), files); });
  if (options.report != nullptr) {
    warn_of_pending_edits(*shards, *options.report);
    for (const Finding& finding : find_unlisted_tensors(*shards)) {
      options.report->warnings.push_back("tensor " + quote(finding.subject) + " " + finding.text);
    }
  }
  Checkpoint checkpoint;
  checkpoint.root = make_state_dict(tensors, shards->metadata, options);
  checkpoint.metadata = without_tie_hints(shards->metadata, checkpoint.root, tensors);
  checkpoint.detail = std::move(shards);
  return checkpoint;
}

}  // namespace ckpt::detail
