#include "libckpt/transform/prefix.h"

#include <algorithm>
#include <unordered_map>

#include "libckpt/transform/key_edit.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

/// "module" and "module." both mean the component "module."
std::string whole_components(std::string prefix) {
  if (prefix.empty() || prefix == ".") throw Error(ErrorCode::usage, "the prefix is empty");
  if (!prefix.ends_with('.')) prefix += '.';
  return prefix;
}

std::string strip_front(std::string_view key, const std::string& prefix, bool repeat) {
  while (key.starts_with(prefix)) {
    key.remove_prefix(prefix.size());
    if (!repeat) break;
  }
  return std::string(key);
}

/// As strip_front, for a path of _metadata, which has no final dot: "module" becomes "".
std::string strip_module(const std::string& path, const std::string& prefix, bool repeat) {
  std::string stripped = strip_front(path + ".", prefix, repeat);
  if (!stripped.empty()) stripped.pop_back();
  return stripped;
}

/// Wrapper components go wherever they stand before the last component of a key; `last_too` is for paths of modules.
std::string drop_wrappers(std::string_view text, bool last_too) {
  std::vector<std::string> kept;
  std::vector<std::string_view> parts = core::split(text, '.');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    bool may_drop = last_too || i + 1 < parts.size();
    if (!may_drop || !is_wrapper_component(parts[i])) kept.emplace_back(parts[i]);
  }
  return core::join(kept, ".");
}

/// Takes the prefix out wherever whole components of `text` are it; `last_too` as for drop_wrappers.
std::string cut_anywhere(std::string_view text, const std::string& prefix, const StripOptions& options, bool last_too) {
  std::string whole = std::string(text) + (last_too ? "." : "");
  std::string_view rest = whole;
  std::string out;
  bool found = false;
  while (!rest.empty()) {
    if (rest.starts_with(prefix) && (options.repeat || !found)) {
      rest.remove_prefix(prefix.size());
      found = true;
      continue;
    }
    std::size_t dot = rest.find('.');
    std::size_t step = dot == std::string_view::npos ? rest.size() : dot + 1;
    out += rest.substr(0, step);
    rest.remove_prefix(step);
  }
  if (last_too && !out.empty()) out.pop_back();
  return out;
}

detail::KeyEdit strip_edit(const StripOptions& options) {
  if (options.wrappers) {
    return {[](const std::string& key) { return drop_wrappers(key, false); },
            [](const std::string& path) { return drop_wrappers(path, true); }, options.at.empty()};
  }
  std::string prefix = whole_components(options.prefix);
  if (options.anywhere) {
    return {[=](const std::string& key) { return cut_anywhere(key, prefix, options, false); },
            [=](const std::string& path) { return path.empty() ? path : cut_anywhere(path, prefix, options, true); },
            options.at.empty()};
  }
  bool repeat = options.repeat;
  return {[=](const std::string& key) { return strip_front(key, prefix, repeat); },
          [=](const std::string& path) { return strip_module(path, prefix, repeat); }, options.at.empty()};
}

/// What the keys begin with, for somebody who named a prefix that is not there.
void note_starts(const std::vector<StateDictRef>& dicts, const StripOptions& options, KeyChanges& changes) {
  std::string prefix = options.wrappers ? "" : "." + whole_components(options.prefix);
  std::unordered_map<std::string, std::size_t> places;
  for (const StateDictRef& dict : dicts) {
    for (const auto& [key, value] : dict.dict->items) {
      if (!key.is(Value::Kind::text)) continue;
      const std::string& name = key.as_text();
      if (!prefix.empty() && changes.inside.empty() && name.find(prefix) != std::string::npos) changes.inside = name;
      std::size_t dot = name.find('.');
      if (dot == std::string::npos) continue;
      std::string start = name.substr(0, dot + 1);
      auto [known, fresh] = places.try_emplace(start, changes.starts.size());
      if (fresh) changes.starts.emplace_back(start, 0);
      ++changes.starts[known->second].second;
    }
  }
  std::stable_sort(changes.starts.begin(), changes.starts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
}

}  // namespace

Checkpoint strip_prefix(const Checkpoint& checkpoint, const StripOptions& options, KeyChanges* changes) {
  detail::KeyEdit edit = strip_edit(options);
  std::vector<StateDictRef> scope = detail::state_dicts_in_scope(checkpoint.root, options.at);
  Checkpoint out = detail::rewrite_keys(checkpoint, scope, edit, changes);
  if (changes != nullptr && changes->renamed.empty()) note_starts(scope, options, *changes);
  return out;
}

Checkpoint add_prefix(const Checkpoint& checkpoint, const AddOptions& options, KeyChanges* changes) {
  std::string prefix = whole_components(options.prefix);
  std::string bare = prefix.substr(0, prefix.size() - 1);
  detail::KeyEdit edit{[=](const std::string& key) { return prefix + key; },
                       [=](const std::string& path) { return path.empty() ? bare : prefix + path; },
                       options.at.empty()};
  return detail::rewrite_keys(checkpoint, {choose_for_edit(checkpoint.root, options.at)}, edit, changes);
}

}  // namespace ckpt
