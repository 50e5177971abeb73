#include "libckpt/transform/rename.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/nearest_path.h"
#include "libckpt/transform/key_edit.h"
#include "libckpt/transform/module_moves.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using Table = std::unordered_map<std::string, std::string>;

constexpr std::size_t kMaxListedRenames = 8;

Table make_table(const RenameOptions& options) {
  Table table;
  for (const auto& [from, to] : options.table) {
    auto [at, fresh] = table.emplace(from, to);
    if (!fresh && at->second != to) {
      throw Error(ErrorCode::usage, "the table names " + core::quote(from) + " twice, once to become " +
                                        core::quote(at->second) + " and once " + core::quote(to));
    }
  }
  return table;
}

void require_known(const Value& root, const RenameOptions& options, const std::vector<StateDictRef>& scope) {
  std::unordered_set<std::string_view> keys;
  for (const StateDictRef& dict : scope) {
    for (const auto& [key, value] : dict.dict->items) {
      if (key.is(Value::Kind::text)) keys.insert(key.as_text());
    }
  }
  std::vector<std::string> unknown;
  std::string hint;
  for (const auto& [from, to] : options.table) {
    if (keys.contains(from)) continue;
    if (unknown.empty()) hint = did_you_mean_path(root, from);
    unknown.push_back(core::quote(from));
  }
  if (unknown.empty()) return;
  std::size_t more = unknown.size() - std::min(unknown.size(), kMaxListedRenames);
  unknown.resize(unknown.size() - more);
  throw Error(ErrorCode::key, "the file does not have the keys to rename: " + core::join(unknown, ", ") +
                                  (more > 0 ? " and " + core::format_count(more) + " more" : "") + hint);
}

}  // namespace

Checkpoint rename_keys(const Checkpoint& checkpoint, const RenameOptions& options, KeyChanges* changes) {
  Table table = make_table(options);
  std::vector<StateDictRef> scope = detail::state_dicts_in_scope(checkpoint.root, options.at);
  if (!options.allow_unknown) require_known(checkpoint.root, options, scope);
  auto renamed = [&table](const std::string& key) {
    auto known = table.find(key);
    return known == table.end() ? key : known->second;
  };
  detail::ModuleMoves moves;
  for (const StateDictRef& dict : scope) {
    for (const auto& [key, value] : dict.dict->items) {
      if (key.is(Value::Kind::text)) moves.add(key.as_text(), renamed(key.as_text()));
    }
  }
  detail::KeyEdit edit{renamed, [&moves](const std::string& path) { return moves.moved(path); }, options.at.empty()};
  return detail::rewrite_keys(checkpoint, scope, edit, changes);
}

}  // namespace ckpt
