#include "libckpt/analyze/key_rest.h"

#include <map>
#include <set>
#include <unordered_map>

#include "libckpt/checkpoint.h"

namespace ckpt {

std::vector<std::string> version_differences(const Dict& state_dict, const KeyList& want) {
  const auto versions = module_versions(state_dict);
  std::vector<std::string> lines;
  if (versions.empty()) return lines;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> both;  // in the dict, wanted
  for (const auto& [path, version] : versions) both[path] = {version, 1};
  for (const auto& [path, version] : want.versions) both.try_emplace(path, 1, 1).first->second.second = version;
  for (const auto& [path, pair] : both) {
    if (pair.first == pair.second) continue;
    lines.push_back((path.empty() ? "the model" : path) + ": version " + std::to_string(pair.first) + " where " +
                    std::to_string(pair.second) + " is wanted");
  }
  return lines;
}

TieDifferences compare_ties(const KeyList& have, const KeyList& want) {
  std::unordered_map<std::string_view, std::size_t> tensor_of;  // names that are one tensor have one number
  for (std::size_t i = 0; i < have.keys.size(); ++i) tensor_of[have.keys[i].key] = i;
  for (const auto& group : have.ties) {
    for (const std::string& name : group) tensor_of[name] = tensor_of[group.front()];
  }
  TieDifferences out;
  for (const auto& group : want.ties) {
    std::vector<std::string> there;
    std::set<std::size_t> tensors;
    for (const std::string& name : group) {
      if (!tensor_of.contains(name)) continue;
      there.push_back(name);
      tensors.insert(tensor_of[name]);
    }
    if (there.empty()) continue;
    for (const std::string& name : group) {
      if (!tensor_of.contains(name)) out.unwritten.emplace_back(name, there.front());
    }
    if (tensors.size() > 1) out.separate.push_back(std::move(there));
  }
  return out;
}

}  // namespace ckpt
