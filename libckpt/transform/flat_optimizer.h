#pragma once
// Keys of optimizers that stand beside the model's keys in one flat dict, as a distributed checkpoint has them and what
// is converted from one: "model.fc.weight" and "optimizer.state.fc.weight.exp_avg". Internal.
// Thread safety: immutable once built. Use: FlatOptimizer flat(dict); auto to = flat.renamed(key, rename);

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "libckpt/transform/optimizer_keys.h"

namespace ckpt::detail {

/// A key is an optimizer's when all keys that begin as it does ("optimizer.state.", "optimizer.param_groups.") name a
/// parameter that the dict has, below one and the same section ("model.", or none).
class FlatOptimizer {
 public:
  /// Looks into the text of the keys: `dict` must live as long.
  explicit FlatOptimizer(const Dict& dict);

  /// An optimizer's key with the name in it changed as `rename` changes the key of that parameter; nullopt for a key
  /// that is not an optimizer's.
  std::optional<std::string> renamed(const std::string& key, const NameChange& rename) const;

 private:
  struct Group {
    std::string_view start;
    std::string_view section;
  };
  void add_group(std::string_view start, const std::vector<std::string_view>& rests);
  bool holds(std::string_view section, std::string_view name) const;
  /// Bytes of `rest` that are the name of a parameter; 0 for none.
  std::size_t name_size(std::string_view section, std::string_view rest) const;
  std::vector<std::string_view> sections_of(std::string_view rest) const;

  std::unordered_set<std::string_view> names_;  ///< of keys that are no optimizer's by their form
  std::vector<Group> groups_;
};

}  // namespace ckpt::detail
