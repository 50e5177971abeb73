#pragma once
// branches: the totals of every module of a checkpoint: tensors, elements and bytes of all that lies below a dotted
// name. Thread safety: pure. Use: for (const ckpt::Branch& b : ckpt::branches(checkpoint.root)) std::cout << b.name <<
// b.bytes;

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libcore/base/dtype.h"

namespace ckpt {

struct Branch {
  std::string name;                                           ///< "model.layer1"; "" for the whole
  std::string label;                                          ///< what it adds to the branch above: "layer1"
  std::uint64_t depth = 0;                                    ///< 0 for the whole
  std::size_t parent = 0;                                     ///< index of the branch above; itself for the whole
  std::uint64_t tensors = 0;                                  ///< below it, at any depth
  std::uint64_t elements = 0;                                 ///< of those tensors, tied ones each time
  std::uint64_t parameters = 0;                               ///< elements of what tensor_kind() calls parameters
  std::uint64_t bytes = 0;                                    ///< a source that several tensors share counts once,
                                                              ///< where the file has it first
  std::vector<std::pair<core::DType, std::uint64_t>> dtypes;  ///< tensors of each, most frequent first
  const Entry* entry = nullptr;                               ///< a tensor of exactly this name, else null
  bool leaf = false;                                          ///< nothing lies below it
};

struct BranchOptions {
  std::uint64_t max_depth = 64;  ///< components behind it stay together: what a hostile name of 30,000 dots would cost
  bool join_chains = true;       ///< a branch whose only content is one other is shown as one: "model.encoder"
};

/// In order of first appearance, each branch before what lies below it; tensors are the leaves. The whole comes first,
/// also when there are no tensors. Never throws for what a file holds.
std::vector<Branch> branches(const Value& root, const BranchOptions& options = {});

}  // namespace ckpt
