#include "libckpt/analyze/why/name_causes.h"

#include <algorithm>
#include <unordered_set>

#include "libckpt/analyze/why/key_rule.h"
#include "libckpt/analyze/why/rename_votes.h"
#include "libckpt/transform/prefix.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kMaxRules = 24;
constexpr std::size_t kMaxRulesTried = 12;

std::string of(std::uint64_t count, std::uint64_t all) {
  return core::format_count(count) + " of " + core::format_count(all);
}

/// What a rule would do to the keys.
struct NameTrial {
  std::vector<FileKey> file;
  std::uint64_t score = 0;
  std::size_t changed = 0;
  bool sound = true;  ///< no key without a name, no two of one name, no match lost
  std::pair<std::string, std::string> example;
};

NameTrial try_rule(const Attempt& attempt, const KeyRule& rule) {
  NameTrial trial;
  trial.file = attempt.file();
  auto rename = key_function(rule);
  for (std::size_t i = 0; i < trial.file.size(); ++i) {
    std::string to = rename(trial.file[i].name);
    if (to == trial.file[i].name) continue;
    ++trial.changed;
    trial.sound &= !to.empty();
    if (trial.example.first.empty()) trial.example = {trial.file[i].name, to};
    trial.file[i].name = std::move(to);
  }
  if (trial.changed == 0 || !trial.sound) return trial;
  std::unordered_set<std::string_view> names;
  names.reserve(trial.file.size());
  for (const FileKey& key : trial.file) trial.sound &= names.insert(key.name).second;
  KeyPairing pairing = attempt.pair_up(trial.file);
  for (std::size_t i = 0; i < trial.file.size(); ++i) {
    trial.sound &= attempt.pairing().wanted_of_file[i] < 0 || pairing.wanted_of_file[i] >= 0;
  }
  trial.score = attempt.score(trial.file, pairing);
  return trial;
}

/// A rule that would harm other keys, written out for those keys that gain by it.
KeyRule restricted(const Attempt& attempt, const KeyRule& rule) {
  KeyRule table;
  table.kind = KeyRule::Kind::table;
  auto rename = key_function(rule);
  for (std::size_t i : attempt.unmatched_file()) {
    const FileKey& key = attempt.file()[i];
    std::string to = rename(key.name);
    std::ptrdiff_t at = to == key.name ? -1 : attempt.wanted().find(to);
    if (at < 0 || attempt.pairing().file_of_wanted[static_cast<std::size_t>(at)] >= 0) continue;
    table.table.emplace_back(key.name, std::move(to));
  }
  return table;
}

bool all_wrappers(std::string_view prefix) {
  if (!prefix.ends_with('.')) return false;
  prefix.remove_suffix(1);
  std::vector<std::string_view> parts = core::split(prefix, '.');
  return std::all_of(parts.begin(), parts.end(), [](std::string_view part) { return is_wrapper_component(part); });
}

/// Names that changed between releases of PyTorch and its users, by what stands in old files.
bool is_old_name(const KeyRule& rule) {
  for (std::string_view known :
       {"gamma", "beta", "norm.1", "norm.2", "conv.1", "conv.2", "relu.1", "relu.2", "weight_g", "weight_v",
        "parametrizations.weight.original0", "parametrizations.weight.original1"}) {
    if (rule.from == known) return true;
  }
  return false;
}

CauseKind kind_of(const KeyRule& rule) {
  if (rule.kind == KeyRule::Kind::prefix) {
    if (rule.to.empty() && all_wrappers(rule.from)) return CauseKind::wrapper_prefix;
    if (rule.from.empty() && all_wrappers(rule.to)) return CauseKind::missing_wrapper;
    bool longer = rule.from.starts_with(rule.to) || rule.to.starts_with(rule.from);
    if (!rule.from.empty() && !rule.to.empty() && longer) return CauseKind::component_inserted;
    return CauseKind::prefix_offset;
  }
  if (is_old_name(rule)) return CauseKind::old_names;
  if (rule.to.empty() || rule.to.starts_with(rule.from + ".") || rule.from.starts_with(rule.to + ".")) {
    return CauseKind::component_inserted;
  }
  return CauseKind::component_renamed;
}

std::string rule_text(const KeyRule& rule) {
  if (rule.kind == KeyRule::Kind::table) return "rename " + core::format_count(rule.table.size()) + " keys";
  if (rule.to.empty()) return (rule.kind == KeyRule::Kind::prefix ? "strip " : "remove ") + core::quote(rule.from);
  if (rule.from.empty()) return "add " + core::quote(rule.to);
  return core::quote(rule.from) + " to " + core::quote(rule.to);
}

std::string cause_text(CauseKind kind, const KeyRule& rule, std::size_t keys, std::size_t all) {
  std::string many = of(keys, all) + " keys ";
  switch (kind) {
    case CauseKind::wrapper_prefix:
      return many + "begin with " + core::quote(rule.from) + ", which a wrapper put there and the model does not have";
    case CauseKind::missing_wrapper:
      return "the model is wrapped and wants " + core::quote(rule.to) + " before every key; the file has it on none";
    case CauseKind::prefix_offset:
      if (rule.to.empty()) return many + "begin with " + core::quote(rule.from) + ", which the model does not have";
      if (rule.from.empty()) return "the model has " + core::quote(rule.to) + " before " + many;
      return many + "begin with " + core::quote(rule.from) + " where the model has " + core::quote(rule.to);
    case CauseKind::component_inserted:
      if (rule.to.empty())
        return many + "hold the component " + core::quote(rule.from) + ", which the model does not have";
      return many + "say " + core::quote(rule.from) + " where the model says " + core::quote(rule.to);
    case CauseKind::old_names:
      return many + "use the older name " + core::quote(rule.from) + " for " + core::quote(rule.to);
    default:
      return many + "say " + core::quote(rule.from) + " where the model says " + core::quote(rule.to);
  }
}

FixStep rename_step(KeyRule rule) {
  FixStep step{FixStep::Kind::rename, rule_text(rule)};
  step.rule = std::move(rule);
  return step;
}

std::string example_line(const std::pair<std::string, std::string>& example) {
  return core::quote(example.first) + " becomes " + core::quote(example.second);
}

/// Without known shapes a rule for one key or two may be a coincidence.
double confidence_of(const Attempt& attempt, const NameTrial& trial, const RuleVote& vote, CauseKind kind) {
  bool wrapper = kind == CauseKind::wrapper_prefix || kind == CauseKind::missing_wrapper;
  if (wrapper || kind == CauseKind::old_names) return 0.99;
  double confidence = attempt.wanted().shapes_known() ? 0.95 : 0.85;
  if (trial.changed <= 2) confidence -= 0.15;
  bool renamed = kind == CauseKind::component_renamed;
  if (renamed && vote.likeness < 0.5) confidence -= 0.2;
  return confidence;
}

bool has_wrapper(std::string_view key) {
  return without_wrappers(key, false).size() != key.size();
}

/// Where model and file are wrapped at different places: by the names without wrappers.
void reconcile_wrappers(Attempt& attempt) {
  std::unordered_map<std::string, std::ptrdiff_t> bare;
  for (std::size_t t = 0; t < attempt.wanted().size(); ++t) {
    if (attempt.pairing().file_of_wanted[t] >= 0) continue;
    auto [at, fresh] =
        bare.try_emplace(without_wrappers(attempt.wanted()[t].key, false), static_cast<std::ptrdiff_t>(t));
    if (!fresh) at->second = -1;
  }
  KeyRule rule;
  rule.kind = KeyRule::Kind::table;
  for (std::size_t i : attempt.unmatched_file()) {
    auto found = bare.find(without_wrappers(attempt.file()[i].name, false));
    if (found == bare.end() || found->second < 0) continue;
    rule.table.emplace_back(attempt.file()[i].name, attempt.wanted()[static_cast<std::size_t>(found->second)].key);
    found->second = -1;
  }
  if (rule.table.empty()) return;
  NameTrial trial = try_rule(attempt, rule);
  if (!trial.sound || trial.score <= attempt.score()) return;
  Cause cause{CauseKind::missing_wrapper, of(trial.changed, attempt.file().size()) +
                                              " keys differ from the model's in the wrappers inside them alone"};
  cause.evidence.push_back(example_line(trial.example));
  cause.confidence = 0.95;
  attempt.add(std::move(cause), {rename_step(std::move(rule))}, std::move(trial.file));
}

/// The best of some candidates, if any helps.
struct Found {
  RuleVote vote;
  NameTrial trial;
  std::vector<std::string> rivals;  ///< other rules that would help as much
};

/// Two rules that lead to the same names can only differ in what they take.
std::optional<Found> best_of(const Attempt& attempt, const std::vector<RuleVote>& votes) {
  std::optional<Found> best;
  std::size_t tried = 0;
  std::size_t most = attempt.file().size() > 20'000 ? 3 : kMaxRulesTried;
  for (const RuleVote& vote : votes) {
    if (++tried > most) break;
    RuleVote candidate = vote;
    NameTrial trial = try_rule(attempt, candidate.rule);
    if (trial.changed == 0) continue;
    if (!trial.sound) {
      candidate.rule = restricted(attempt, candidate.rule);
      if (candidate.rule.table.empty()) continue;
      trial = try_rule(attempt, candidate.rule);
    }
    if (!trial.sound || trial.score <= attempt.score()) continue;
    if (best && trial.score == best->trial.score && trial.changed == best->trial.changed) {
      best->rivals.push_back(rule_text(candidate.rule));
    }
    if (!best || trial.score > best->trial.score) best = Found{std::move(candidate), std::move(trial), {}};
  }
  return best;
}

/// Without shapes a name that has little in common with the other is no evidence, above all for few keys.
bool is_coincidence(const Found& found, CauseKind kind) {
  const KeyRule& rule = found.vote.rule;
  bool exchanged = rule.kind == KeyRule::Kind::table || (!rule.from.empty() && !rule.to.empty());
  bool renamed = kind == CauseKind::component_renamed || kind == CauseKind::prefix_offset;
  constexpr std::size_t kFew = 6;
  double least = found.trial.changed < kFew ? 0.75 : 0.5;
  return !found.rivals.empty() || (renamed && exchanged && found.vote.likeness < least);
}

bool find_one_rule(Attempt& attempt) {
  if (attempt.unmatched_file().empty() || attempt.unmatched_wanted().empty()) return false;
  std::optional<Found> found = best_of(attempt, prefix_votes(attempt));
  if (!found || found->trial.score < attempt.score() + 2 * attempt.unmatched_file().size()) {
    std::optional<Found> path = best_of(attempt, path_votes(attempt));
    if (path && (!found || path->trial.score > found->trial.score)) found = std::move(path);
  }
  if (!found) return false;
  KeyRule& rule = found->vote.rule;
  CauseKind kind = rule.kind == KeyRule::Kind::table ? CauseKind::component_renamed : kind_of(rule);
  if (!attempt.wanted().shapes_known() && is_coincidence(*found, kind)) return false;
  Cause cause{kind, rule.kind == KeyRule::Kind::table
                        ? of(found->trial.changed, attempt.file().size()) + " keys have another name in the model"
                        : cause_text(kind, rule, found->trial.changed, attempt.file().size())};
  cause.evidence.push_back(example_line(found->trial.example));
  for (const std::string& rival : found->rivals) cause.evidence.push_back("as many keys would match after: " + rival);
  cause.confidence = confidence_of(attempt, found->trial, found->vote, kind);
  if (!found->rivals.empty()) cause.confidence = std::min(cause.confidence, 0.6);
  attempt.add(std::move(cause), {rename_step(std::move(rule))}, std::move(found->trial.file));
  return true;
}

}  // namespace

std::size_t count_rules(const Attempt& attempt) {
  return static_cast<std::size_t>(
      std::count_if(attempt.plan.steps.begin(), attempt.plan.steps.end(), [](const FixStep& step) {
        return step.kind == FixStep::Kind::rename && step.rule.kind != KeyRule::Kind::wrappers;
      }));
}

WrapperUse wrapper_use(const std::vector<FileKey>& keys) {
  WrapperUse use;
  bool first = true;
  for (const FileKey& key : keys) {
    if (!has_wrapper(key.name)) {
      use.same = false;
      continue;
    }
    ++use.keys;
    std::string leading;
    std::string_view rest = key.name;
    for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      if (!is_wrapper_component(rest.substr(0, dot))) break;
      leading += rest.substr(0, dot + 1);
      rest.remove_prefix(dot + 1);
    }
    bool inside = has_wrapper(rest);
    if (use.example.empty() || (inside && !use.inside)) use.example = key.name;
    use.inside |= inside;
    if (first) use.leading = leading;
    use.same &= leading == use.leading;
    first = false;
  }
  return use;
}

FixStep wrapper_step(const WrapperUse& use) {
  KeyRule rule;
  bool prefix = !use.inside && use.same && !use.leading.empty();
  rule.kind = prefix ? KeyRule::Kind::prefix : KeyRule::Kind::wrappers;
  if (prefix) rule.from = use.leading;
  FixStep step{FixStep::Kind::rename, prefix ? rule_text(rule) : "remove wrapper components"};
  step.rule = std::move(rule);
  return step;
}

void find_wrappers(Attempt& attempt) {
  bool wanted_has = false;
  for (std::size_t i = 0; i < attempt.wanted().size() && !wanted_has; ++i) {
    wanted_has = has_wrapper(attempt.wanted()[i].key);
  }
  std::vector<FileKey> unmatched;
  for (std::size_t i : attempt.unmatched_file()) unmatched.push_back(attempt.file()[i]);
  WrapperUse use = wrapper_use(unmatched);
  if (wanted_has || use.keys * 2 <= unmatched.size()) return;
  FixStep step = wrapper_step(use);
  NameTrial trial = try_rule(attempt, step.rule);
  if (!trial.sound || trial.changed == 0 || trial.score < attempt.score()) return;
  Cause cause{use.inside ? CauseKind::wrapper_inside : CauseKind::wrapper_prefix, ""};
  std::string many = of(trial.changed, attempt.file().size()) + " keys ";
  cause.text = step.rule.kind == KeyRule::Kind::prefix
                   ? cause_text(CauseKind::wrapper_prefix, step.rule, trial.changed, attempt.file().size())
                   : many + "hold components that wrappers put there, as in " + core::quote(use.example);
  cause.evidence.push_back(example_line(trial.example));
  cause.confidence = 0.99;
  attempt.add(std::move(cause), {std::move(step)}, std::move(trial.file));
}

void find_name_causes(Attempt& attempt) {
  find_wrappers(attempt);
  std::vector<FileKey> model;
  for (std::size_t t : attempt.unmatched_wanted()) model.push_back({attempt.wanted()[t].key, {}});
  if (wrapper_use(model).inside) {
    // Where one prefix explains everything, a component called "module" is a name like any other.
    std::optional<Found> prefix = best_of(attempt, prefix_votes(attempt));
    if (!prefix || prefix->trial.score < 2 * attempt.wanted().size()) reconcile_wrappers(attempt);
  }
  for (std::size_t i = 0; i < kMaxRules && find_one_rule(attempt); ++i) continue;
  reconcile_wrappers(attempt);
}

}  // namespace ckpt::detail
