#pragma once
// The index of a model that is spread over several files (model.safetensors.index.json, pytorch_model.bin.index.json):
// which tensor lies in which file. Files are found through the index alone, never by looking what is there.
// Thread safety: plain values. Use: ShardIndex index = read_shard_index(input, options, kSuffixes);

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libckpt/format/format.h"

namespace ckpt::detail {

struct ShardIndex {
  std::string text;                                             ///< of the index, as it is
  std::vector<std::pair<std::string, std::string>> weight_map;  ///< tensor and file, in the order of the text
  std::vector<std::pair<std::string, std::string>> metadata;    ///< text values of its metadata, in order
  std::vector<std::string> files;                               ///< in order of first mention
};

/// True for JSON with a weight_map. `text` gets the whole of it. Never throws.
bool is_shard_index(const Input& input, std::string& text);

/// Errors: Error(corrupt) for an index that is none; Error(refused) for a file that does not lie beside the index, or
/// whose name ends with none of `suffixes`, and for limits.
ShardIndex read_shard_index(const Input& input, const OpenOptions& options, std::span<const std::string_view> suffixes);

/// Runs `read`, which opens an index and its shards, again with the new index as long as a save replaces it meanwhile:
/// a reader finds the old model or the new one, never a missing shard or some files of each. `edit_goes_on` says
/// whether files may have changed under a `read` that failed, which is then repeated as well. Errors: those of `read`
/// for an index that stands; Error(io) when it is replaced without end.
void read_until_it_stands(const Input& input, const std::function<void(const Input&)>& read,
                          const std::function<bool()>& edit_goes_on = {});
/// True when an edit in place of one of these files goes on, or was interrupted.
bool edit_goes_on(const std::filesystem::path& folder, const std::vector<std::string>& files);

/// Every shard that the index names lies in `folder`. Errors: Error(corrupt) naming the first that does not, and how
/// many tensors are in it.
void require_shards(const std::filesystem::path& folder, const ShardIndex& index);

/// Error(corrupt) when the file is missing; Error(refused) for a link that leads out of the folder, unless allowed;
/// Error(io) when it cannot be read.
SourcePtr open_shard(const std::filesystem::path& folder, const std::string& name, const OpenOptions& options);

}  // namespace ckpt::detail
