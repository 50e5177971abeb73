#include "zoo/recognize.h"

#include <algorithm>
#include <optional>
#include <set>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/load.h"
#include "zoo/made_as.h"
#include "zoo/measure.h"

namespace zoo {
namespace {

using Names = std::set<std::string, std::less<>>;

/// Which fields that no shape says change no name: any number that divides will do.
Config with_one_head(Measured measured) {
  bool decodes = false;
  for (const std::string& field : measured.unsaid) {
    if (field.ends_with("heads") || field.ends_with("n_head")) measured.config.set(field, "1");
    decodes = decodes || field == "rope_theta";
  }
  const bool unsaid_heads = std::ranges::find(measured.unsaid, "num_attention_heads") != measured.unsaid.end();
  if (decodes && unsaid_heads) measured.config.set("num_key_value_heads", "1");
  return measured.config;
}

/// The names of the model that the tensors say, were it of this family; nullopt where they say none.
std::optional<ckpt::KeyList> keys_as(const Family& family, const std::vector<ckpt::NamedEntry>& entries) {
  const std::optional<Measured> measured = measure(family.name, [&](const std::string& key) -> const core::Shape* {
    for (const ckpt::NamedEntry& named : entries) {
      if (ends_with_key(named.name, key)) return &named.entry->shape;
    }
    return nullptr;
  });
  if (!measured) return std::nullopt;
  try {
    const MadeAs scope(core::Device("meta"));
    return key_list_of(*build(family, with_one_head(*measured)), family.name);
  } catch (const core::Error&) {
    return std::nullopt;  // sizes that no such model has
  }
}

/// How many of its names are there; nullopt where one is missing that is not tied to another.
std::optional<std::size_t> names_found(const ckpt::KeyList& list, const Names& names) {
  Names tied;
  for (const std::vector<std::string>& group : list.ties) tied.insert(group.begin(), group.end());
  std::size_t found = 0;
  for (const ckpt::WantedKey& key : list.keys) {
    const bool there = names.contains(key.key);
    if (!there && !tied.contains(key.key)) return std::nullopt;
    found += there ? 1 : 0;
  }
  return found;
}

}  // namespace

std::vector<std::string_view> families_of(const ckpt::Checkpoint& weights) {
  const std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(weights.root);
  Names names;
  for (const ckpt::NamedEntry& named : entries) names.insert(named.name);
  std::vector<std::string_view> best;
  std::size_t most = names.size() - names.size() / 5;
  for (const Family& family : families()) {
    const std::optional<ckpt::KeyList> list = keys_as(family, entries);
    const std::optional<std::size_t> found = list ? names_found(*list, names) : std::nullopt;
    if (!found || *found == 0 || *found < most) continue;
    if (*found > most) best.clear();
    most = *found;
    best.push_back(family.name);
  }
  return best;
}

std::string other_family(const Family& said, const ckpt::Checkpoint& weights) {
  const std::vector<std::string_view> found = families_of(weights);
  if (found.empty() || std::ranges::find(found, said.name) != found.end()) return "";
  std::vector<std::string> names(found.begin(), found.end());
  return "config.json is of " + std::string(said.name) + ", but the weights look like those of " +
         core::join(names, " or ") + ": take both from the folder of one model";
}

}  // namespace zoo
