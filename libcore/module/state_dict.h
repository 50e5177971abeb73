#pragma once
// StateDict: what a module's learnt state is outside the module: an ordered map from key to tensor, and the version of
// every module that took part (PyTorch's `_metadata`). Thread safety: a plain value; tensors are shared handles. Use:
// core::StateDict s = model.state_dict(); s.at("fc.weight");

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

class StateDict {
 public:
  using value_type = std::pair<std::string, Tensor>;
  using Versions = std::vector<std::pair<std::string, int>>;

  StateDict() = default;
  StateDict(std::initializer_list<value_type> items);

  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  std::vector<std::string> keys() const;

  bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// The tensor, or null. The pointer holds until the next change.
  const Tensor* find(std::string_view key) const;
  /// Error(key) with the key alone as text, as Python's KeyError.
  const Tensor& at(std::string_view key) const;
  /// Adds at the end, or replaces the tensor at its place.
  void set(std::string_view key, Tensor value);
  /// True when it was there. Cost: linear.
  bool erase(std::string_view key);

  /// Whether versions came along; a dict made by hand, or read from a format without them, has none.
  bool has_versions() const { return has_versions_; }
  /// Module prefix ('' for the outermost, no trailing dot) and version, in module order.
  const Versions& versions() const { return versions_; }
  std::optional<int> version(std::string_view module_prefix) const;
  void set_version(std::string_view module_prefix, int version);
  /// As set_version for a prefix that is known to be new. Cost: constant.
  void add_version(std::string module_prefix, int version);
  void set_versions(Versions versions);
  void clear_versions();

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  std::vector<value_type> items_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> index_;
  Versions versions_;
  bool has_versions_ = false;
};

/// Takes `prefix` off the keys that begin with it and puts the versions right, in place, as PyTorch's
/// consume_prefix_in_state_dict_if_present: one level; renamed keys go behind the others when only some have the
/// prefix.
void consume_prefix_in_state_dict_if_present(StateDict& state, std::string_view prefix);

/// What load_state_dict did not match.
struct IncompatibleKeys {
  std::vector<std::string> missing_keys;
  std::vector<std::string> unexpected_keys;

  /// "<All keys matched successfully>" or "_IncompatibleKeys(missing_keys=['a'], unexpected_keys=[])".
  std::string str() const;
};

std::ostream& operator<<(std::ostream& out, const IncompatibleKeys& keys);

}  // namespace core
