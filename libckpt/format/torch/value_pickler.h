#pragma once
// Writes a tree of Values as the pickle of torch.save, and lists the storages that its tensors need. The same tree
// gives the same bytes. Aliases stay aliases: a container or tensor that stands in two places is written once. Shared
// by all torch containers. Thread safety: pure. Use: PickledTree out = pickle_tree(checkpoint.root);

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libckpt/entry.h"
#include "libckpt/value.h"

namespace ckpt {

struct PickledTree {
  core::ByteVector pickle;
  std::vector<SourcePtr> storages;  ///< in the order in which the tree needs them; number n has the key "n" by default
};

/// Chooses the key of storage `number`. Called once for each, in ascending order.
using StorageKeys = std::function<std::string(const ByteSource& bytes, std::size_t number)>;

/// REQUIRES: every entry has a dtype that torch_can_hold().
PickledTree pickle_tree(const Value& root, const StorageKeys& keys = {});

/// False for types that PyTorch has no dtype for.
bool torch_can_hold(core::DType dtype);

}  // namespace ckpt
