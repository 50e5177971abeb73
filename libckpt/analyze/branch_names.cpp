#include "libckpt/analyze/branch_names.h"

#include <algorithm>

#include "libcore/base/text.h"

namespace ckpt::detail {

std::string common_branch(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string branch = names.front().substr(0, names.front().rfind('.') + 1);
  for (const std::string& name : names) {
    while (!branch.empty() && !name.starts_with(branch)) {
      std::size_t dot = branch.size() < 2 ? std::string::npos : branch.rfind('.', branch.size() - 2);
      branch.resize(dot == std::string::npos ? 0 : dot + 1);
    }
  }
  return branch.empty() ? "" : branch.substr(0, branch.size() - 1);
}

std::string common_last(const std::vector<std::string>& names) {
  auto last = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
  bool same = !names.empty() && std::all_of(names.begin(), names.end(),
                                            [&](const std::string& name) { return last(name) == last(names.front()); });
  return same ? last(names.front()) : "";
}

std::string prefix_change(const std::vector<std::pair<std::string, std::string>>& pairs) {
  if (pairs.empty()) return "";
  const auto& [from, to] = pairs.front();
  std::size_t same = 0;  // behind, up to a dot
  for (std::size_t i = 1; i <= std::min(from.size(), to.size()) && from[from.size() - i] == to[to.size() - i]; ++i) {
    bool whole = i == from.size() || from[from.size() - i - 1] == '.';
    whole &= i == to.size() || to[to.size() - i - 1] == '.';
    if (whole) same = i;
  }
  std::string before = from.substr(0, from.size() - same);
  std::string after = to.substr(0, to.size() - same);
  if (same == 0) return "";
  for (const auto& [a, b] : pairs) {
    if (!a.starts_with(before) || b != after + a.substr(before.size())) return "";
  }
  if (before.empty()) return core::quote(after) + " is added";
  if (after.empty()) return core::quote(before) + " is removed";
  return core::quote(before) + " becomes " + core::quote(after);
}

}  // namespace ckpt::detail
