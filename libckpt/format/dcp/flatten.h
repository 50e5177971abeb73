#pragma once
// The tree of a checkpoint as the items of a distributed one: tensors and everything else under dotted names, as
// torch.distributed.checkpoint flattens a state dict. Thread safety: pure.
// Use: FlatTree flat = flatten_tree(checkpoint.root); for (const FlatItem& item : flat.items) ...

#include <string>
#include <vector>

#include "libckpt/format/dcp/nested.h"
#include "libckpt/obstacle.h"
#include "libckpt/value.h"

namespace ckpt::detail {

struct FlatItem {
  std::string name;            ///< the steps joined with dots
  std::vector<PathStep> path;  ///< text keys and indexes of lists
  Value value;                 ///< a tensor, or anything that is written as one object
};

struct FlatTree {
  std::vector<FlatItem> items;
  std::vector<Obstacle> obstacles;  ///< what has no place: names that two items would get, tensors of other types
  std::uint64_t number_keys = 0;    ///< keys of dicts that were no text and became it
};

/// Dicts are always taken apart (an empty one is an object); lists where a tensor, a dict or such a list is in them.
FlatTree flatten_tree(const Value& root);

}  // namespace ckpt::detail
