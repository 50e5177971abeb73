#pragma once
// What a pickled ShardedTensor or DTensor says: the shape of the whole, where the pieces lie, and the values of those
// of the rank that wrote it. Internal to libckpt/format/fsdp. Thread safety: pure. Use: if (is_sharded(value)) { Shards
// mine = shards_of(value); }

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "libckpt/entry.h"
#include "libckpt/format/dcp/tiling.h"
#include "libckpt/format/fsdp/device_mesh.h"
#include "libckpt/value.h"

namespace ckpt::detail {

struct Shard {
  Box box;
  EntryPtr values;
};

/// The offsets and sizes of a box, in an order.
using Place = std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>;

struct Shards {
  core::DType dtype = core::DType::f32;
  core::Shape shape;
  std::set<Place> all;       ///< where the pieces of every rank lie; of a DTensor those of this one
  std::vector<Shard> local;  ///< those in this file
};

Place place_of(const Box& box);
bool is_sharded(const Value& value);
/// The first one in the tree; null where there is none.
const Value* first_sharded(const Value& root);
/// REQUIRES: is_sharded(). Errors: Error(corrupt) for what PyTorch would not write, and for a piece whose values have
/// another shape or type than is said; Error(unsupported) naming a placement of a DTensor that cuts or sums otherwise.
Shards shards_of(const Value& value);
/// As the first sharded tensor in the tree says; nullopt where there is none, or it does not say.
std::optional<RankOf> rank_of(const Value& root);

}  // namespace ckpt::detail
