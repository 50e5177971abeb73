#pragma once
// What of a checkpoint a PyTorch file can hold. Thread safety: pure.
// Use: KeepableTree tree = keepable_tree(checkpoint.root); if (tree.obstacles.empty()) ...

#include <vector>

#include "libckpt/format/format.h"

namespace ckpt {

struct KeepableTree {
  Value root;  ///< without the obstacles: items of dicts are left out, items of sequences become None
  std::vector<Obstacle> obstacles;
};

KeepableTree keepable_tree(const Value& root);

}  // namespace ckpt
