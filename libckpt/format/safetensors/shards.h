#pragma once
// Writing many safetensors files behind one index. Thread safety: pure functions.
// Use: write_shards(checkpoint, flatten(checkpoint), "model.safetensors.index.json", options).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/format/safetensors/plan.h"
#include "libckpt/io/set_edit.h"

namespace ckpt::detail {

struct PlannedShard {
  std::string name;  ///< of the file, beside the index
  SafetensorsPlan plan;
  bool kept = false;   ///< it lies there already, byte for byte
  bool found = false;  ///< so it does, although this model is not the one that it was read from
};

/// What lies under a name that a new shard might get; holds_it: just what the shard will hold.
enum class NameUse : std::uint8_t { free, taken, holds_it };
using NameTest = std::function<NameUse(const PlannedShard& shard, const std::string& name)>;

struct ShardPlan {
  std::vector<PlannedShard> shards;
  std::filesystem::path index_path;
  std::string index_text;
};

/// "model" of "model.safetensors.index.json".
std::string shard_stem(const std::filesystem::path& index_path);

/// Bytes of all tensors.
std::uint64_t tensor_bytes(const std::vector<FlatTensor>& tensors);

/// True when the options ask for more than one file whatever the size.
bool wants_shards(const SaveOptions& options);

/// Spreads the tensors over files beside `index_path` ("model.safetensors.index.json"): as they were spread before
/// where they come from shards and the options say nothing, else in order as the options say. Where a name is taken,
/// all names get a generation ("model-g2-00001-of-00003.safetensors"), so that the present files stay whole until the
/// new index stands. Errors: Error(usage) for options that contradict each other or ask for more files than there are
/// tensors; Error(key) for a prefix that no tensor has.
ShardPlan plan_shards(const Checkpoint& checkpoint, FlatState state, const std::filesystem::path& index_path,
                      const SaveOptions& options, const NameTest& test);

/// The edit that gives the shards from which the checkpoint was read other headers, and the index its new names, where
/// that makes it what write_shards() would; nullopt where tensors would move, or another index names a shard that
/// changes. Errors: those of flatten().
std::optional<SetEdit> plan_headers(const Checkpoint& checkpoint, FlatState state,
                                    const std::filesystem::path& index_path, const SaveOptions& options);

/// Writes a checkpoint as shards and index. The old set or the new one is there, whole, at any time; files of the set
/// that the index named before are removed at the end as far as present_files.h proves them to be part of it, the
/// others are named in a warning. Errors: those of plan_shards(), require_all_listed() and FileSet.
void write_shards(const Checkpoint& checkpoint, FlatState state, const std::filesystem::path& index_path,
                  const SaveOptions& options);

}  // namespace ckpt::detail
