// Keys paired by their place and their shapes, where names say nothing.

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "libckpt/analyze/why/name_causes.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;  // file, wanted

/// Dimensions of 1 do not tell tensors apart: a later cause reshapes them.
core::Shape squeezed(const core::Shape& shape) {
  core::Shape out;
  for (std::int64_t size : shape) {
    if (size != 1) out.push_back(size);
  }
  return out;
}

bool nearly_fits(const WantedKey& wanted, const core::Shape& shape) {
  return !wanted.shape || squeezed(*wanted.shape) == squeezed(shape);
}

/// The two lists one by one, when all shapes agree. Empty when they do not.
Pairs zip(const Attempt& attempt, const std::vector<std::size_t>& file, const std::vector<std::size_t>& wanted) {
  if (file.size() != wanted.size()) return {};
  Pairs pairs;
  for (std::size_t i = 0; i < file.size(); ++i) {
    const WantedKey& key = attempt.wanted()[wanted[i]];
    if (!nearly_fits(key, attempt.file()[file[i]].shape)) return {};
    if (is_counter(key.key) != is_counter(attempt.file()[file[i]].name)) return {};
    pairs.emplace_back(file[i], wanted[i]);
  }
  return pairs;
}

/// Within each group of one shape and one last component, in order; only groups of equal size.
Pairs by_group(const Attempt& attempt, const std::vector<std::size_t>& file, const std::vector<std::size_t>& wanted) {
  auto group = [](const core::Shape& shape, std::string_view key) {
    return core::to_list(squeezed(shape)) + std::string(leaf_of(key));
  };
  std::map<std::string, std::pair<std::vector<std::size_t>, std::vector<std::size_t>>> groups;
  for (std::size_t i : file) groups[group(attempt.file()[i].shape, attempt.file()[i].name)].first.push_back(i);
  for (std::size_t t : wanted) {
    const WantedKey& key = attempt.wanted()[t];
    if (!key.shape) return {};
    groups[group(*key.shape, key.key)].second.push_back(t);
  }
  Pairs pairs;
  for (const auto& [key, members] : groups) {
    if (members.first.size() != members.second.size()) continue;
    for (std::size_t i = 0; i < members.first.size(); ++i) pairs.emplace_back(members.first[i], members.second[i]);
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

bool same_leaves(const Attempt& attempt, const Pairs& pairs) {
  return std::all_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
    return leaf_of(attempt.file()[pair.first].name) == leaf_of(attempt.wanted()[pair.second].key);
  });
}

/// Together with the pairs that names already made, no two cross.
bool keeps_order(const Attempt& attempt, const Pairs& pairs) {
  Pairs all = pairs;
  for (std::size_t i = 0; i < attempt.file().size(); ++i) {
    if (attempt.pairing().wanted_of_file[i] >= 0) {
      all.emplace_back(i, static_cast<std::size_t>(attempt.pairing().wanted_of_file[i]));
    }
  }
  std::sort(all.begin(), all.end());
  return std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
}

std::vector<std::size_t> everything(std::size_t size) {
  std::vector<std::size_t> all(size);
  for (std::size_t i = 0; i < size; ++i) all[i] = i;
  return all;
}

std::vector<std::size_t> without_counters(const Attempt& attempt, std::vector<std::size_t> file) {
  std::erase_if(file, [&](std::size_t i) { return is_counter(attempt.file()[i].name); });
  return file;
}

std::vector<std::size_t> wanted_without_counters(const Attempt& attempt, std::vector<std::size_t> wanted) {
  std::erase_if(wanted, [&](std::size_t t) { return is_counter(attempt.wanted()[t].key); });
  return wanted;
}

struct Choice {
  Pairs pairs;
  double confidence = 0;
  std::string how;
};

Choice choose(const Attempt& attempt) {
  std::vector<std::size_t> file = attempt.unmatched_file();
  std::vector<std::size_t> wanted = attempt.unmatched_wanted();
  Pairs rest = zip(attempt, file, wanted);
  if (rest.empty()) rest = zip(attempt, without_counters(attempt, file), wanted_without_counters(attempt, wanted));
  Pairs whole = zip(attempt, everything(attempt.file().size()), everything(attempt.wanted().size()));
  double trust = attempt.wanted().shapes_known() ? 0.85 : 0.55;
  bool crossing = !rest.empty() && !keeps_order(attempt, rest);
  if ((rest.empty() || crossing) && !whole.empty() && same_leaves(attempt, whole)) {
    return {std::move(whole), trust, "all keys have the same order and shapes"};
  }
  constexpr std::size_t kFew = 4;
  bool leaves = same_leaves(attempt, rest);
  if (!rest.empty() && !leaves && (!attempt.wanted().shapes_known() || rest.size() < kFew)) return {};
  if (!rest.empty()) {
    double less = (leaves ? 0 : 0.3) + (crossing ? 0.2 : 0);
    return {std::move(rest), std::max(0.2, trust - less), "the keys without a partner have the same order and shapes"};
  }
  Pairs grouped = by_group(attempt, file, wanted);
  double share = static_cast<double>(grouped.size()) / static_cast<double>(std::max<std::size_t>(1, wanted.size()));
  if (share < 0.5) return {};
  std::set<std::string> shapes;
  for (const auto& [from, to] : grouped)
    shapes.insert(core::to_list(attempt.file()[from].shape) + std::string(leaf_of(attempt.file()[from].name)));
  bool certain = shapes.size() == grouped.size();  // no two of one group that could be exchanged
  return {std::move(grouped), certain ? 0.85 : 0.4, "paired by shape and last component, in order within each group"};
}

/// What exchanges names all at once has to name every key whose name changes.
KeyRule table_of(const Attempt& attempt, const Pairs& pairs) {
  KeyRule rule;
  rule.kind = KeyRule::Kind::table;
  for (const auto& [file, wanted] : pairs) {
    const std::string& from = attempt.file()[file].name;
    if (from != attempt.wanted()[wanted].key) rule.table.emplace_back(from, attempt.wanted()[wanted].key);
  }
  return rule;
}

}  // namespace

void find_order_cause(Attempt& attempt) {
  if (!attempt.wanted().shapes_known()) return;  // the order alone is no evidence
  if (attempt.unmatched_file().empty() || attempt.unmatched_wanted().empty()) return;
  Choice choice = choose(attempt);
  KeyRule rule = table_of(attempt, choice.pairs);
  if (rule.table.empty()) return;
  std::vector<FileKey> file = attempt.file();
  for (const auto& [from, to] : choice.pairs) file[from].name = attempt.wanted()[to].key;
  std::unordered_set<std::string_view> names;
  for (const FileKey& key : file) {
    if (!names.insert(key.name).second) return;
  }
  Cause cause{CauseKind::order_only, core::format_count(rule.table.size()) + " of " +
                                         core::format_count(attempt.file().size()) +
                                         " keys have other names in the model: " + choice.how};
  for (std::size_t i = 0; i < std::min<std::size_t>(3, rule.table.size()); ++i) {
    cause.evidence.push_back(core::quote(rule.table[i].first) + " becomes " + core::quote(rule.table[i].second));
  }
  cause.confidence = choice.confidence;
  FixStep step{FixStep::Kind::rename, "rename " + core::format_count(rule.table.size()) + " keys by their order"};
  step.rule = std::move(rule);
  attempt.add(std::move(cause), {std::move(step)}, std::move(file));
}

}  // namespace ckpt::detail
