#include "libcore/module/state_dict.h"

#include <algorithm>
#include <ostream>

#include "libcore/base/error.h"

namespace core {
namespace {

std::string python_list(const std::vector<std::string>& names) {
  std::string text = "[";
  for (const std::string& name : names) {
    if (text.size() > 1) text += ", ";
    text += "'" + name + "'";
  }
  return text + "]";
}

/// A dict that is taken apart and put together again in Python's order: a key that leaves and comes back goes to the
/// end.
template <class Value>
class Reordering {
 public:
  using Item = std::pair<std::string, Value>;

  explicit Reordering(const std::vector<Item>& items) {
    for (const Item& item : items) set(item.first, item.second);
  }
  void rename(const std::string& from, const std::string& to) {
    const std::size_t at = index_.at(from);
    Value value = std::move(slots_[at]->second);
    slots_[at].reset();
    index_.erase(from);
    set(to, std::move(value));
  }
  bool contains(const std::string& key) const { return index_.count(key) != 0; }
  std::vector<Item> items() && {
    std::vector<Item> result;
    for (auto& slot : slots_) {
      if (slot) result.push_back(std::move(*slot));
    }
    return result;
  }

 private:
  void set(const std::string& key, Value value) {
    const auto [found, fresh] = index_.emplace(key, slots_.size());
    if (fresh) {
      slots_.emplace_back(Item(key, std::move(value)));
    } else {
      slots_[found->second]->second = std::move(value);
    }
  }

  std::vector<std::optional<Item>> slots_;
  std::unordered_map<std::string, std::size_t> index_;
};

/// "module." also stands for the versions key "module", whose rest is ''.
bool names_prefix(std::string_view module_prefix, std::string_view prefix) {
  std::string without_dots;
  std::copy_if(prefix.begin(), prefix.end(), std::back_inserter(without_dots), [](char c) { return c != '.'; });
  return module_prefix == without_dots || module_prefix.substr(0, prefix.size()) == prefix;
}

std::string without_prefix(const std::string& key, std::string_view prefix) {
  return key.size() < prefix.size() ? std::string() : key.substr(prefix.size());
}

}  // namespace

StateDict::StateDict(std::initializer_list<value_type> items) {
  for (const value_type& item : items) set(item.first, item.second);
}

std::vector<std::string> StateDict::keys() const {
  std::vector<std::string> result;
  result.reserve(items_.size());
  for (const value_type& item : items_) result.push_back(item.first);
  return result;
}

const Tensor* StateDict::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &items_[found->second].second;
}

const Tensor& StateDict::at(std::string_view key) const {
  const Tensor* found = find(key);
  if (!found) throw Error(ErrorCode::key, std::string(key));
  return *found;
}

void StateDict::set(std::string_view key, Tensor value) {
  const auto found = index_.find(key);
  if (found != index_.end()) {
    items_[found->second].second = std::move(value);
    return;
  }
  index_.emplace(std::string(key), items_.size());
  items_.emplace_back(std::string(key), std::move(value));
}

bool StateDict::erase(std::string_view key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return false;
  const std::size_t at = found->second;
  index_.erase(found);
  items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(at));
  for (auto& [name, position] : index_) {
    if (position > at) --position;
  }
  return true;
}

std::optional<int> StateDict::version(std::string_view module_prefix) const {
  for (const auto& [prefix, version] : versions_) {
    if (prefix == module_prefix) return version;
  }
  return std::nullopt;
}

void StateDict::set_version(std::string_view module_prefix, int version) {
  has_versions_ = true;
  for (auto& [prefix, old] : versions_) {
    if (prefix == module_prefix) {
      old = version;
      return;
    }
  }
  versions_.emplace_back(std::string(module_prefix), version);
}

void StateDict::add_version(std::string module_prefix, int version) {
  has_versions_ = true;
  versions_.emplace_back(std::move(module_prefix), version);
}

void StateDict::set_versions(Versions versions) {
  versions_ = std::move(versions);
  has_versions_ = true;
}

void StateDict::clear_versions() {
  versions_.clear();
  has_versions_ = false;
}

void consume_prefix_in_state_dict_if_present(StateDict& state, std::string_view prefix) {
  Reordering<Tensor> items(std::vector<StateDict::value_type>(state.begin(), state.end()));
  for (const std::string& key : state.keys()) {
    if (key.substr(0, prefix.size()) == prefix) items.rename(key, without_prefix(key, prefix));
  }
  Reordering<int> versions(state.versions());
  for (const auto& [module_prefix, version] : state.versions()) {
    if (!module_prefix.empty() && names_prefix(module_prefix, prefix)) {
      versions.rename(module_prefix, without_prefix(module_prefix, prefix));
    }
  }
  StateDict result;
  for (auto& [key, tensor] : std::move(items).items()) result.set(key, std::move(tensor));
  if (state.has_versions()) result.set_versions(std::move(versions).items());
  state = std::move(result);
}

std::string IncompatibleKeys::str() const {
  if (missing_keys.empty() && unexpected_keys.empty()) return "<All keys matched successfully>";
  return "_IncompatibleKeys(missing_keys=" + python_list(missing_keys) +
         ", unexpected_keys=" + python_list(unexpected_keys) + ")";
}

std::ostream& operator<<(std::ostream& out, const IncompatibleKeys& keys) {
  return out << keys.str();
}

}  // namespace core
