#include "libckpt/analyze/align_modules.h"

#include <numeric>

namespace ckpt::detail {
namespace {

constexpr std::size_t kMaxDepth = 48;  // of what lies deeper, the rest of the name is one module

}  // namespace

ModuleTree::ModuleTree(const Side& side) {
  add("", 0);
  units_.reserve(side.size());
  for (std::size_t i = 0; i < side.size(); ++i) {
    std::string_view name = side.name(i);
    std::size_t last = name.rfind('.');
    std::size_t node = 0;
    std::size_t depth = 0;
    for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
      if (++depth >= kMaxDepth) dot = last;
      node = add(name.substr(0, dot), node);
    }
    units_.push_back(node);
  }
  number();
  walk_ = lists_modules_whole();
}

/// True when no module is entered a second time.
bool ModuleTree::lists_modules_whole() const {
  std::vector<char> entered(size());
  std::size_t last = 0;
  for (std::size_t unit : units_) {
    std::size_t around = common(last, unit);
    for (std::size_t node = unit; node != around; node = parents_[node]) {
      if (entered[node] != 0) return false;
      entered[node] = 1;
    }
    last = unit;
  }
  return true;
}

std::size_t ModuleTree::add(std::string_view path, std::size_t parent) {
  auto [known, is_new] = by_path_.emplace(path, parents_.size());
  if (!is_new) return known->second;
  depths_.push_back(parents_.empty() ? 0 : depths_[parent] + 1);
  parents_.push_back(parent);
  paths_.push_back(path);
  return known->second;
}

/// Children have higher numbers than their parents, so sizes add up from behind and places go out from the front.
void ModuleTree::number() {
  std::vector<std::size_t> below(size(), 1);
  for (std::size_t node = size(); node-- > 1;) below[parents_[node]] += below[node];
  enter_.assign(size(), 0);
  leave_.assign(size(), size());
  std::vector<std::size_t> next(size(), 1);
  for (std::size_t node = 1; node < size(); ++node) {
    std::size_t parent = parents_[node];
    enter_[node] = next[parent];
    leave_[node] = enter_[node] + below[node];
    next[parent] = leave_[node];
    next[node] = enter_[node] + 1;
  }
  starts_.assign(size() + 1, 0);
  for (std::size_t unit : units_) ++starts_[enter_[unit] + 1];
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  std::vector<std::size_t> at(starts_.begin(), starts_.end() - 1);
  tensors_.resize(units_.size());
  for (std::size_t i = 0; i < units_.size(); ++i) tensors_[at[enter_[units_[i]]]++] = i;
}

std::size_t ModuleTree::find(std::string_view path) const {
  auto found = by_path_.find(path);
  return found == by_path_.end() ? kNone : found->second;
}

std::size_t ModuleTree::common(std::size_t x, std::size_t y) const {
  while (x != y) {
    if (depths_[x] < depths_[y]) std::swap(x, y);
    x = parents_[x];
  }
  return x;
}

std::span<const std::size_t> ModuleTree::tensors_in(std::size_t module) const {
  std::size_t first = starts_[enter_[module]];
  return std::span(tensors_).subspan(first, starts_[leave_[module]] - first);
}

std::span<const std::size_t> ModuleTree::tensors_of(std::size_t module) const {
  std::size_t first = starts_[enter_[module]];
  return std::span(tensors_).subspan(first, starts_[enter_[module] + 1] - first);
}

}  // namespace ckpt::detail
