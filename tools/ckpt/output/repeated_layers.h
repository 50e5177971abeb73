#pragma once
// Repeated layers of a model, shown once: "h.0-299 ×300" where the modules h.0 to h.299 hold the same names, dtypes,
// shapes, device tags and shared tensors. Thread safety: pure. Use: std::vector<LayerFold> folds =
// fold_layers(branches, below);

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/analyze/branches.h"

namespace cli {

/// One a branch.
struct LayerFold {
  std::uint64_t count = 1;   ///< layers that this one stands for
  std::string label = {};    ///< "0-299" where it stands for several, else the branch's own
  bool hidden = false;       ///< another stands for it; what lies below it is not marked
  std::size_t shown_by = 0;  ///< of a hidden one: the branch that stands for it
};

/// Indexes of the branches below each.
using BranchOrder = std::vector<std::vector<std::size_t>>;
BranchOrder children_of(const std::vector<ckpt::Branch>& all);

/// Runs of three and more branches side by side whose labels count up, in any order of the file ("0", "1", "10", "2"),
/// and that are alike inside. Tensors that share a storage are alike where they share it with the same tensor, or with
/// the same one of their own layer.
std::vector<LayerFold> fold_layers(const std::vector<ckpt::Branch>& all, const BranchOrder& below);

/// Of a branch with those above it: "h.0-299.attn", how many it stands for, whether it is hidden with one of them.
LayerFold whole_fold(const std::vector<ckpt::Branch>& all, const std::vector<LayerFold>& folds, std::size_t at);

/// The name of tensor `first`, with which tensor `at` shares a storage, where `at` is shown folded: "h.0-299.a" for
/// another tensor of the same layer, else its own.
std::string shared_name(const std::vector<ckpt::Branch>& all, const std::vector<LayerFold>& folds, std::size_t at,
                        std::size_t first);

}  // namespace cli
