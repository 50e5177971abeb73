#include "libckpt/transform/metadata.h"

#include <algorithm>
#include <set>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using Pairs = std::vector<std::pair<std::string, std::string>>;

auto find(Pairs& pairs, const std::string& key) {
  return std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first == key; });
}

void check(const MetadataEdit& edit) {
  std::set<std::string> seen;
  auto once = [&](const std::string& key) {
    if (key.empty()) throw Error(ErrorCode::usage, "a metadata key is empty");
    if (!seen.insert(key).second) {
      throw Error(ErrorCode::usage, "the metadata key " + core::quote(key) + " is named twice");
    }
  };
  for (const auto& [key, text] : edit.set) once(key);
  for (const std::string& key : edit.unset) once(key);
}

std::string what_is_there(const Pairs& pairs) {
  constexpr std::size_t kMaxListed = 12;
  if (pairs.empty()) return "there is none";
  std::string list = "there is ";
  for (std::size_t i = 0; i < std::min(pairs.size(), kMaxListed); ++i) {
    list += (i == 0 ? "" : ", ") + core::quote(pairs[i].first);
  }
  return pairs.size() > kMaxListed ? list + ", ..." : list;
}

}  // namespace

Checkpoint edit_metadata(const Checkpoint& checkpoint, const MetadataEdit& edit, MetadataChanges* changes) {
  check(edit);
  MetadataChanges done;
  Checkpoint out = checkpoint;
  Pairs& pairs = out.metadata;
  if (edit.clear) {
    auto stays = [&](const std::string& key) {
      return std::any_of(edit.set.begin(), edit.set.end(), [&](const auto& pair) { return pair.first == key; });
    };
    for (const auto& [key, text] : checkpoint.metadata) {
      if (!stays(key)) done.removed.push_back(key);
    }
    std::erase_if(pairs, [&](const auto& pair) { return !stays(pair.first); });
  }
  for (const std::string& key : edit.unset) {
    auto found = find(pairs, key);
    if (found == pairs.end()) {
      if (edit.clear && std::find(done.removed.begin(), done.removed.end(), key) != done.removed.end()) continue;
      throw Error(ErrorCode::key, "no metadata is named " + core::quote(key) + "; " + what_is_there(pairs));
    }
    pairs.erase(found);
    done.removed.push_back(key);
  }
  for (const auto& [key, text] : edit.set) {
    auto found = find(pairs, key);
    if (found == pairs.end()) {
      pairs.emplace_back(key, text);
      done.added.push_back(key);
    } else if (found->second != text) {
      found->second = text;
      done.changed.push_back(key);
    }
  }
  if (changes != nullptr) *changes = std::move(done);
  return out;
}

}  // namespace ckpt
