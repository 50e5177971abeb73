#pragma once
// Builds the tree of a checkpoint from items and their paths. Thread safety: one owner.
// Use: NestedBuilder tree(limits); tree.add({"model", "fc.weight"}, value); Value root = tree.take();

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "libckpt/limits.h"
#include "libckpt/value.h"

namespace ckpt::detail {

using PathStep = std::variant<std::string, std::int64_t>;  ///< key of a dict, or index of a list

class NestedBuilder {
 public:
  explicit NestedBuilder(const Limits& limits);
  ~NestedBuilder();

  /// Errors: Error(corrupt) for a path that is taken, or that leads through a value; Error(refused) for limits.
  void add(const std::vector<PathStep>& path, Value value);
  /// Dicts keep the order of first mention; places of a list that nothing fills are None. A node whose steps are all
  /// indexes is a list, as in PyTorch.
  Value take();

 private:
  struct Node;
  Value build(const Node& node);
  Value build_list(const Node& node);

  const Limits& limits_;
  std::unique_ptr<Node> root_;
  std::uint64_t filled_ = 0;  ///< places of lists
};

}  // namespace ckpt::detail
