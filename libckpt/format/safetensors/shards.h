#pragma once
// Writing many safetensors files behind one index. Thread safety: pure functions.
// Use: write_shards(plan_shards(state, path, ...), options).

#include <filesystem>
#include <string>
#include <vector>

#include "libckpt/format/safetensors/plan.h"

namespace ckpt::detail {

struct PlannedShard {
  std::filesystem::path path;
  SafetensorsPlan plan;
};

struct ShardPlan {
  std::vector<PlannedShard> shards;
  std::filesystem::path index_path;
  std::string index_text;
};

/// Bytes of all tensors.
std::uint64_t tensor_bytes(const std::vector<FlatTensor>& tensors);

/// Spreads the tensors over files beside `index_path` ("model.safetensors.index.json"): as they were spread before
/// where they come from shards and `max_shard_size` is 0, else in order, each file up to `max_shard_size` bytes.
ShardPlan plan_shards(const Checkpoint& checkpoint, FlatState state, const std::filesystem::path& index_path,
                      std::uint64_t max_shard_size);

/// Writes all files and makes them durable before the first is put in place; the index comes last.
void write_shards(const ShardPlan& plan, const SaveOptions& options);

}  // namespace ckpt::detail
