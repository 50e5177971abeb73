#pragma once
// The modules that the names of a file tell of, as a tree: "enc.0.fc.weight" lies in "enc.0.fc", that in "enc.0".
// Internal to align. Thread safety: immutable once built. Use: for (std::size_t i : tree.tensors_in(tree.unit(n))) ...

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libckpt/analyze/align_side.h"

namespace ckpt::detail {

class ModuleTree {
 public:
  explicit ModuleTree(const Side& side);

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::size_t size() const { return parents_.size(); }
  /// The module that a tensor lies in; 0 is the root. Parents have lower numbers than their children.
  std::size_t unit(std::size_t tensor) const { return units_[tensor]; }
  std::size_t parent(std::size_t module) const { return parents_[module]; }
  std::size_t depth(std::size_t module) const { return depths_[module]; }
  /// kNone for a path that is no module.
  std::size_t find(std::string_view path) const;
  std::string_view path(std::size_t module) const { return paths_[module]; }
  bool contains(std::size_t module, std::size_t other) const {
    return enter_[module] <= enter_[other] && enter_[other] < leave_[module];
  }
  /// True when the file lists the tensors of each module and of those in it one behind the other, as PyTorch does.
  bool is_walk() const { return walk_; }
  /// The smallest module that has both in it.
  std::size_t common(std::size_t x, std::size_t y) const;
  /// Tensors in the module and below it, in no order that means something.
  std::span<const std::size_t> tensors_in(std::size_t module) const;
  /// Those in the module itself.
  std::span<const std::size_t> tensors_of(std::size_t module) const;

 private:
  std::size_t add(std::string_view path, std::size_t parent);
  void number();
  bool lists_modules_whole() const;

  std::vector<std::size_t> parents_;
  std::vector<std::size_t> depths_;
  std::vector<std::string_view> paths_;
  std::unordered_map<std::string_view, std::size_t> by_path_;
  std::vector<std::size_t> units_;
  std::vector<std::size_t> enter_;  ///< in the order of a walk that takes modules before their children
  std::vector<std::size_t> leave_;
  std::vector<std::size_t> tensors_;  ///< by the place of their module in that walk
  std::vector<std::size_t> starts_;   ///< of each place of the walk in tensors_
  bool walk_ = false;
};

}  // namespace ckpt::detail
