#include "libckpt/transform/metadata.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using Pairs = std::vector<std::pair<std::string, std::string>>;

/// Views into the keys of `pairs`, which must not change meanwhile.
using Places = std::unordered_map<std::string_view, std::size_t>;

Places places_of(const Pairs& pairs) {
  Places places;
  for (std::size_t i = 0; i < pairs.size(); ++i) places.emplace(pairs[i].first, i);
  return places;
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

/// Takes out everything that is not about to be set.
void clear(Pairs& pairs, const MetadataEdit& edit, MetadataChanges& done) {
  std::unordered_set<std::string_view> stays;
  for (const auto& [key, text] : edit.set) stays.insert(key);
  for (const auto& [key, text] : pairs) {
    if (!stays.contains(key)) done.removed.push_back(key);
  }
  std::erase_if(pairs, [&](const auto& pair) { return !stays.contains(pair.first); });
}

void unset(Pairs& pairs, const MetadataEdit& edit, MetadataChanges& done) {
  Places places = places_of(pairs);
  std::unordered_set<std::string> cleared(done.removed.begin(), done.removed.end());
  std::vector<bool> gone(pairs.size());
  auto sweep = [&] {
    std::size_t i = 0;
    std::erase_if(pairs, [&](const auto&) { return gone[i++]; });
  };
  for (const std::string& key : edit.unset) {
    auto found = places.find(key);
    if (found != places.end()) {
      gone[found->second] = true;
      done.removed.push_back(key);
    } else if (!cleared.contains(key)) {
      sweep();
      throw Error(ErrorCode::key, "no metadata is named " + core::quote(key) + "; " + what_is_there(pairs));
    }
  }
  sweep();
}

void set(Pairs& pairs, const MetadataEdit& edit, MetadataChanges& done) {
  Places places = places_of(pairs);
  Pairs fresh;
  for (const auto& [key, text] : edit.set) {
    auto found = places.find(key);
    if (found == places.end()) {
      fresh.emplace_back(key, text);
      done.added.push_back(key);
    } else if (pairs[found->second].second != text) {
      pairs[found->second].second = text;
      done.changed.push_back(key);
    }
  }
  std::move(fresh.begin(), fresh.end(), std::back_inserter(pairs));
}

}  // namespace

Checkpoint edit_metadata(const Checkpoint& checkpoint, const MetadataEdit& edit, MetadataChanges* changes) {
  check(edit);
  MetadataChanges done;
  Checkpoint out = checkpoint;
  if (edit.clear) clear(out.metadata, edit, done);
  unset(out.metadata, edit, done);
  set(out.metadata, edit, done);
  if (changes != nullptr) *changes = std::move(done);
  return out;
}

}  // namespace ckpt
