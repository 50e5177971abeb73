#include "libckpt/analyze/name_patterns.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "libckpt/analyze/number_fit.h"
#include "libckpt/transform/glob_parts.h"
#include "libckpt/transform/pattern.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kMaxPatternTries = 20'000'000;  // names times patterns; beyond that, exact pairs
constexpr std::size_t kRounds = 24;

struct Candidate {
  NamePair names;
  Pattern pattern;
  Template replacement;
  std::size_t weight = 0;  ///< characters that are no wildcard: what is more special comes first
  std::size_t right = 0;
  std::size_t wrong = 0;
};

Candidate make_candidate(const NamePair& names) {
  Pattern pattern = Pattern::parse(names.first);
  Template replacement = Template::parse(names.second, pattern);
  std::size_t weight = 0;
  for (const GlobPart& part : parse_glob(names.first)) {
    weight += part.kind == GlobPart::Kind::literal ? part.text.size() : 0;
  }
  if (pattern.is_name()) weight += 1'000'000;
  return {names, std::move(pattern), std::move(replacement), weight};
}

NamePair exact_pair(const NamePair& wanted) {
  return {escape_pattern(wanted.first), escape_pattern(wanted.second)};
}

/// A rename rule that is being made right.
class Draft {
 public:
  Draft(const std::vector<NamePair>& wanted, const std::vector<NamePair>& names) : wanted_(wanted) {
    std::set<NamePair> seen;
    for (const NamePair& pair : names) {
      if (seen.insert(pair).second) rules_.push_back(make_candidate(pair));
    }
  }

  std::vector<NamePair> finish() {
    for (std::size_t round = 0; round < kRounds; ++round) {
      try_out();
      auto useless = [](const Candidate& rule) { return rule.wrong >= rule.right; };
      if (std::none_of(rules_.begin(), rules_.end(), useless)) break;
      std::erase_if(rules_, useless);
    }
    for (std::size_t i : missed_) rules_.push_back(make_candidate(exact_pair(wanted_[i])));
    sort();
    std::vector<NamePair> out;
    for (const Candidate& rule : rules_) out.push_back(rule.names);
    return out;
  }

 private:
  void sort() {
    std::stable_sort(rules_.begin(), rules_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.weight > b.weight; });
  }

  void try_out() {
    sort();
    missed_.clear();
    for (Candidate& rule : rules_) rule.right = rule.wrong = 0;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const auto& [from, to] = wanted_[i];
      bool done = from == to;
      for (Candidate& rule : rules_) {
        std::optional<Captures> captures = rule.pattern.match(from);
        if (!captures) continue;
        done = expanded(rule, *captures) == to;
        ++(done ? rule.right : rule.wrong);
        break;
      }
      if (!done) missed_.push_back(i);
    }
  }

  static std::string expanded(const Candidate& rule, const Captures& captures) {
    try {
      return rule.replacement.expand(captures);
    } catch (const std::exception&) {  // a number that cannot be counted on: no name at all
      return "";
    }
  }

  const std::vector<NamePair>& wanted_;
  std::vector<Candidate> rules_;
  std::vector<std::size_t> missed_;
};

std::vector<std::string> components(const std::string& name) {
  std::vector<std::string> out;
  for (std::string_view part : core::split(name, '.')) out.emplace_back(part);
  return out;
}

std::string joined(const std::vector<std::string>& parts, std::size_t begin, std::size_t end) {
  std::string out;
  for (std::size_t i = begin; i < end; ++i) out += (i > begin ? "." : "") + parts[i];
  return out;
}

/// What stands before and behind the longest run of components that both names have: "bert.*.gamma" -> "*.weight".
std::optional<NamePair> star_pair(const NamePair& names) {
  std::vector<std::string> a = components(names.first);
  std::vector<std::string> b = components(names.second);
  std::size_t best = 0;
  std::size_t best_a = 0;
  std::size_t best_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < b.size(); ++k) {
      std::size_t length = 0;
      while (i + length < a.size() && k + length < b.size() && a[i + length] == b[k + length]) ++length;
      if (length > best) std::tie(best, best_a, best_b) = std::tuple(length, i, k);
    }
  }
  if (best == 0) return std::nullopt;
  auto around = [best](const std::vector<std::string>& parts, std::size_t at) {
    std::string before = escape_pattern(joined(parts, 0, at));
    std::string behind = escape_pattern(joined(parts, at + best, parts.size()));
    return before + (before.empty() ? "*" : ".*") + (behind.empty() ? "" : "." + behind);
  };
  return NamePair{around(a, best_a), around(b, best_b)};
}

std::vector<NamePair> star_pairs(const std::vector<NamePair>& changed, std::size_t least) {
  std::map<NamePair, std::size_t> counts;
  for (const NamePair& pair : changed) {
    if (std::optional<NamePair> star = star_pair(pair)) ++counts[*star];
  }
  std::vector<NamePair> out;
  for (const auto& [pair, count] : counts) {
    if (count >= least) out.push_back(pair);
  }
  return out;
}

/// The components that both end with, at least one less than there are, left to a star.
std::vector<NamePair> number_pairs(const std::vector<NamePair>& changed, bool suffix) {
  std::vector<ManyNames> heads;
  std::vector<ManyNames> whole;
  for (const auto& [from, to] : changed) {
    std::vector<std::string> a = components(from);
    std::vector<std::string> b = components(to);
    std::size_t same = 0;
    while (suffix && same + 1 < std::min(a.size(), b.size()) && a[a.size() - same - 1] == b[b.size() - same - 1])
      ++same;
    if (same == 0) whole.push_back({from, {to}});
    if (same > 0) heads.push_back({joined(a, 0, a.size() - same), {joined(b, 0, b.size() - same)}});
  }
  std::vector<NamePair> out;
  std::set<NamePair> seen;
  std::vector<ManyNames> distinct;
  for (const ManyNames& head : heads) {
    if (seen.insert({head.from, head.to[0]}).second) distinct.push_back(head);
  }
  for (const ManyNames& rule : fit_numbers(distinct)) out.emplace_back(rule.from + ".*", rule.to[0] + ".*");
  for (const ManyNames& rule : fit_numbers(whole)) out.emplace_back(rule.from, rule.to[0]);
  return out;
}

/// Pairs that the star patterns do not already get right.
std::vector<NamePair> not_covered(const std::vector<NamePair>& changed, const std::vector<NamePair>& stars) {
  std::vector<Candidate> rules;
  for (const NamePair& star : stars) rules.push_back(make_candidate(star));
  std::vector<NamePair> out;
  for (const NamePair& pair : changed) {
    bool covered = std::any_of(rules.begin(), rules.end(), [&](const Candidate& rule) {
      std::optional<Captures> captures = rule.pattern.match(pair.first);
      return captures && rule.replacement.expand(*captures) == pair.second;
    });
    if (!covered) out.push_back(pair);
  }
  return out;
}

}  // namespace

std::vector<NamePair> rename_patterns(const std::vector<NamePair>& wanted, bool generalize) {
  std::vector<NamePair> changed;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(changed),
               [](const NamePair& pair) { return pair.first != pair.second; });
  if (changed.empty()) return {};
  std::vector<NamePair> exact;
  for (const NamePair& pair : changed) exact.push_back(exact_pair(pair));
  if (!generalize) return exact;
  std::vector<std::vector<NamePair>> drafts = {star_pairs(changed, 1), number_pairs(changed, true),
                                               number_pairs(changed, false)};
  std::vector<NamePair> mixed = star_pairs(changed, std::max<std::size_t>(3, changed.size() / 10));
  std::vector<NamePair> rest = number_pairs(not_covered(changed, mixed), true);
  mixed.insert(mixed.end(), rest.begin(), rest.end());
  drafts.push_back(std::move(mixed));
  std::vector<NamePair> best = exact;
  for (const std::vector<NamePair>& draft : drafts) {
    if (draft.size() * wanted.size() > kMaxPatternTries) continue;
    std::vector<NamePair> done = Draft(wanted, draft).finish();
    if (done.size() < best.size()) best = std::move(done);
  }
  return best;
}

}  // namespace ckpt::detail
