#pragma once
// What a pickled ShardedTensor says: the shape of the whole, where the pieces of all ranks lie, and the values of those
// of the rank that wrote it. Internal to libckpt/format/fsdp. Thread safety: pure.
// Use: if (is_sharded(value)) { Shards mine = shards_of(value); }

#include <optional>
#include <vector>

#include "libckpt/entry.h"
#include "libckpt/format/dcp/tiling.h"
#include "libckpt/value.h"

namespace ckpt::detail {

struct Shard {
  Box box;
  EntryPtr values;
};

struct Shards {
  core::DType dtype = core::DType::f32;
  core::Shape shape;
  std::vector<Box> all;      ///< of every rank
  std::vector<Shard> local;  ///< those in this file
};

/// Which rank of how many.
struct RankOf {
  std::int64_t rank = 0;
  std::int64_t ranks = 0;
};

bool is_sharded(const Value& value);
/// REQUIRES: is_sharded(). Errors: Error(corrupt) for what PyTorch would not write, and for a piece whose values have
/// another shape or type than is said.
Shards shards_of(const Value& value);
/// As the first sharded tensor in the tree says; nullopt where there is none, or it does not say.
std::optional<RankOf> rank_of(const Value& root);

}  // namespace ckpt::detail
