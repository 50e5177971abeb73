#include "libckpt/transform/flat_optimizer.h"

#include <algorithm>
#include <map>

namespace ckpt::detail {
namespace {

/// Optimizers of one file; more beginnings than that are modules that happen to be called "state".
constexpr std::size_t kMaxGroups = 16;
constexpr std::size_t kMaxSections = 8;

/// Bytes of "optimizer.state." or "optimizer.param_groups." at the beginning of a key; 0 for any other key.
std::size_t start_size(std::string_view key) {
  std::size_t first = 0;
  for (std::string_view marker : {std::string_view("state."), std::string_view("param_groups.")}) {
    std::size_t at = key.find(marker);
    while (at != std::string_view::npos && at > 0 && key[at - 1] != '.') at = key.find(marker, at + 1);
    if (at == std::string_view::npos) continue;
    std::size_t size = at + marker.size();
    first = first == 0 ? size : std::min(first, size);
  }
  return first;
}

/// The name of a parameter after its key, with a section before it, became `to`.
std::string name_in(const std::string& to, std::string_view section, std::string_view name) {
  if (to.starts_with(section) && to.size() > section.size()) return to.substr(section.size());
  bool shorter = name.ends_with(to) && name.size() > to.size() && name[name.size() - to.size() - 1] == '.';
  return shorter ? to : std::string(name);
}

}  // namespace

FlatOptimizer::FlatOptimizer(const Dict& dict) {
  std::map<std::string_view, std::vector<std::string_view>> groups;
  for (const auto& [key, value] : dict.items) {
    if (!key.is(Value::Kind::text)) continue;
    std::string_view name = key.as_text();
    std::size_t size = start_size(name);
    if (size == 0) {
      names_.insert(name);
    } else if (groups.size() <= kMaxGroups) {
      groups[name.substr(0, size)].push_back(name.substr(size));
    }
  }
  if (groups.size() > kMaxGroups) return;
  for (const auto& [start, rests] : groups) add_group(start, rests);
}

void FlatOptimizer::add_group(std::string_view start, const std::vector<std::string_view>& rests) {
  for (std::string_view section : sections_of(rests.front())) {
    bool all =
        std::all_of(rests.begin(), rests.end(), [&](std::string_view rest) { return name_size(section, rest) > 0; });
    if (!all) continue;
    groups_.push_back({start, section});
    return;
  }
}

bool FlatOptimizer::holds(std::string_view section, std::string_view name) const {
  if (section.empty()) return names_.contains(name);
  return names_.contains(std::string(section) + std::string(name));
}

std::size_t FlatOptimizer::name_size(std::string_view section, std::string_view rest) const {
  for (std::size_t dot = rest.rfind('.'); dot != std::string_view::npos && dot > 0; dot = rest.rfind('.', dot - 1)) {
    if (holds(section, rest.substr(0, dot))) return dot;
  }
  return 0;
}

std::vector<std::string_view> FlatOptimizer::sections_of(std::string_view rest) const {
  std::vector<std::string_view> found;
  for (std::size_t dot = rest.rfind('.'); dot != std::string_view::npos && dot > 0; dot = rest.rfind('.', dot - 1)) {
    std::string_view name = rest.substr(0, dot);
    for (std::string_view key : names_) {
      bool ends = key.ends_with(name) && (key.size() == name.size() || key[key.size() - name.size() - 1] == '.');
      std::string_view section = key.substr(0, key.size() - name.size());
      if (!ends || std::find(found.begin(), found.end(), section) != found.end()) continue;
      found.push_back(section);
    }
  }
  std::sort(found.begin(), found.end(),
            [](auto a, auto b) { return a.size() != b.size() ? a.size() < b.size() : a < b; });
  if (found.size() > kMaxSections) found.resize(kMaxSections);
  return found;
}

std::optional<std::string> FlatOptimizer::renamed(const std::string& key, const NameChange& rename) const {
  for (const Group& group : groups_) {
    if (!key.starts_with(group.start)) continue;
    std::string_view rest = std::string_view(key).substr(group.start.size());
    std::size_t size = name_size(group.section, rest);
    if (size == 0) continue;
    std::string_view name = rest.substr(0, size);
    std::string before = std::string(group.section) + std::string(name);
    std::string to = rename(before);
    if (to.empty() || to == before) return key;
    return std::string(group.start) + name_in(to, group.section, name) + std::string(rest.substr(size));
  }
  return std::nullopt;
}

}  // namespace ckpt::detail
