#pragma once
// Writing many safetensors files behind one index. Thread safety: pure functions.
// Use: write_shards(checkpoint, flatten(checkpoint), "model.safetensors.index.json", options).

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "libckpt/format/safetensors/plan.h"

namespace ckpt::detail {

struct PlannedShard {
  std::string name;  ///< of the file, beside the index
  SafetensorsPlan plan;
  bool kept = false;  ///< it lies there already, byte for byte
};

struct ShardPlan {
  std::vector<PlannedShard> shards;
  std::filesystem::path index_path;
  std::string index_text;
};

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
                      const SaveOptions& options, const std::function<bool(const std::string&)>& is_free);

/// Writes a checkpoint as shards and index. The old set or the new one is there, whole, at any time; files of the set
/// that the index named before are removed at the end.
void write_shards(const Checkpoint& checkpoint, FlatState state, const std::filesystem::path& index_path,
                  const SaveOptions& options);

}  // namespace ckpt::detail
