#include "libckpt/analyze/why/foreign_names.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/analyze/why/key_rule.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

/// Causes that follow each other, as where parts of a model have the names of different projects.
constexpr std::size_t kMaxCauses = 3;

FixStep prefix_step(const std::string& from, const std::string& to) {
  FixStep step{FixStep::Kind::rename, to.empty() ? "strip " + core::quote(from) : "add " + core::quote(to)};
  step.rule.kind = KeyRule::Kind::prefix;
  step.rule.from = from;
  step.rule.to = to;
  return step;
}

std::vector<NamedShape> named(const std::vector<FileKey>& keys) {
  std::vector<NamedShape> out;
  out.reserve(keys.size());
  for (const FileKey& key : keys) out.push_back({key.name, key.shape});
  return out;
}

std::vector<NamedShape> named(const KeyTable& wanted) {
  std::vector<NamedShape> out;
  out.reserve(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    out.push_back({wanted[i].key, wanted[i].shape.value_or(core::Shape{})});
  }
  return out;
}

/// Keys as a state dict of tensors without bytes that remember where they come from.
Checkpoint without_bytes(const std::vector<FileKey>& keys, const std::vector<std::string>& origins) {
  Dict dict;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const FileKey& key = keys[i];
    Entry entry;
    entry.shape = key.shape;
    entry.dtype = key.dtype;
    entry.python_class = origins[i];
    dict.items.emplace_back(Value::text(key.name), Value::tensor(std::make_shared<const Entry>(std::move(entry))));
  }
  Checkpoint out;
  out.root = Value::dict(std::move(dict));
  return out;
}

/// What packs, one after the other, would make of the keys.
struct Trial {
  std::vector<FileKey> file;
  std::vector<std::string> origins = {};  ///< of each key: the first tensor that it was made of
  std::vector<RulePack> packs = {};
  std::vector<FixStep> steps = {};
  KeyPairing pairing = {};
  std::uint64_t score = 0;
  std::size_t changed = 0;  ///< tensors that get another layout
  std::pair<std::string, std::string> example = {};
};

void rename_keys(std::vector<FileKey>& keys, const KeyRule& rule) {
  auto rename = key_function(rule);
  for (FileKey& key : keys) key.name = rename(key.name);
}

/// "model." when every key begins with it, "" when they differ.
std::string common_branch(const std::vector<FileKey>& keys) {
  if (keys.empty()) return "";
  std::string branch = keys[0].name.substr(0, keys[0].name.find('.') + 1);
  bool all = std::all_of(keys.begin(), keys.end(), [&](const FileKey& key) { return key.name.starts_with(branch); });
  return all ? branch : "";
}

/// The step that gives the keys the prefix of the pack's own side, unless rules that hold with and without it lead to
/// a model without it. Nothing when the names are not those of the pack.
std::optional<std::vector<FixStep>> steps_before(const RulePack& pack, PackFit& to, std::vector<FileKey>& keys) {
  std::vector<FixStep> steps;
  PackFit fit = fits_from(pack, named(keys));
  if (!fit.fits) {
    std::string branch = common_branch(keys);
    if (branch.empty()) return std::nullopt;
    steps.push_back(prefix_step(branch, ""));
    rename_keys(keys, steps.back().rule);
    fit = fits_from(pack, named(keys));
  }
  if (!fit.fits) return std::nullopt;
  if (fit.prefix.empty()) return steps;
  if (fit.prefix == to.prefix) {
    to.prefix.clear();
    return steps;
  }
  steps.push_back(prefix_step("", fit.prefix));
  rename_keys(keys, steps.back().rule);
  return steps;
}

FixStep rules_step(const RulePack& pack) {
  FixStep step{FixStep::Kind::rules, "from " + pack.from + "'s names to " + pack.to + "'s (rules " + pack.name +
                                         (pack.backwards ? ", backwards)" : ")")};
  step.at = pack.name;
  step.to = pack.backwards ? "backwards" : "";
  step.rules = pack.rules;
  if (!pack.note.empty()) step.origin = origin_text(pack);
  return step;
}

/// The rules on keys alone. False where they do not fit the shapes or make two keys one.
bool apply_to_names(Trial& trial, const RulePack& pack) {
  Checkpoint after;
  RuleReport report;
  try {
    after = apply_rules(without_bytes(trial.file, trial.origins), pack.rules, {}, &report);
  } catch (const core::Error&) {
    return false;
  }
  trial.file.clear();
  trial.origins.clear();
  for (const auto& [key, value] : after.root.as_dict().items) {
    const Entry& entry = value.as_entry();
    trial.file.push_back({key.as_text(), entry.shape, entry.dtype});
    trial.origins.push_back(entry.python_class);
  }
  trial.changed = std::max<std::size_t>(trial.changed, report.changed);
  return true;
}

/// One pack more. False when the names are not those of its side.
bool advance(Trial& trial, const RulePack& pack, PackFit to) {
  std::optional<std::vector<FixStep>> before = steps_before(pack, to, trial.file);
  if (!before) return false;
  for (FixStep& step : *before) trial.steps.push_back(std::move(step));
  trial.steps.push_back(rules_step(pack));
  trial.packs.push_back(pack);
  if (!apply_to_names(trial, pack)) return false;
  if (to.prefix.empty()) return true;
  trial.steps.push_back(prefix_step(to.prefix, ""));
  rename_keys(trial.file, trial.steps.back().rule);
  return true;
}

Trial start(const Attempt& attempt) {
  Trial trial{attempt.file()};
  for (const FileKey& key : trial.file) trial.origins.push_back(key.name);
  return trial;
}

/// Every match of before stays one, and half of what there is to match is matched.
bool is_sound(const Attempt& attempt, const Trial& trial) {
  std::size_t paired = 0;
  for (std::size_t t = 0; t < attempt.wanted().size(); ++t) {
    bool after = trial.pairing.file_of_wanted[t] >= 0;
    if (attempt.pairing().file_of_wanted[t] >= 0 && !after) return false;
    paired += after ? 1 : 0;
  }
  return paired * 2 >= std::min(attempt.wanted().size(), trial.file.size());
}

/// `before` led to the wanted names by one pack more, where that brings keys to their partners.
std::optional<Trial> try_pack(const Attempt& attempt, const Trial& before, const RulePack& pack,
                              const std::vector<NamedShape>& wanted) {
  PackFit to = fits_to(pack, wanted);
  if (!to.fits) return std::nullopt;
  Trial trial = before;
  if (!advance(trial, pack, to)) return std::nullopt;
  trial.pairing = attempt.pair_up(trial.file);
  trial.score = attempt.score(trial.file, trial.pairing);
  if (trial.score <= attempt.score() || !is_sound(attempt, trial)) return std::nullopt;
  for (std::size_t i = 0; i < trial.file.size() && trial.example.first.empty(); ++i) {
    if (trial.file[i].name != trial.origins[i]) trial.example = {trial.origins[i], trial.file[i].name};
  }
  return trial;
}

bool counts_layers(const std::vector<NamedShape>& keys) {
  return std::any_of(keys.begin(), keys.end(), [](const NamedShape& key) { return is_counted_by_keras(key.name); });
}

/// So that rules for such names hold for one depth.
bool is_of_one_depth(const RulePack& pack) {
  return pack.from_key.empty() && pack.from == "Keras";
}

void add_turned_round(std::vector<RulePack>& out, const RulePack& pack) {
  try {
    out.push_back(turned_round(pack));
  } catch (const core::Error&) {  // has no way back
  }
}

/// Those that can be told by names, as they stand and turned round.
std::vector<RulePack> both_ways(const std::vector<RulePack>& packs) {
  std::vector<RulePack> out;
  for (const RulePack& pack : packs) {
    if (pack.from_key.empty()) continue;  // for use by name
    out.push_back(pack);
    add_turned_round(out, pack);
  }
  return out;
}

/// Those of one depth, which no key tells from each other: where their names are the file's, or the model's, they are
/// tried. What was made for the model comes first, since a first one that fits is kept.
std::vector<RulePack> of_one_depth(const Attempt& attempt, const std::vector<RulePack>& packs) {
  std::vector<RulePack> out;
  const std::vector<NamedShape> file = named(attempt.file());
  const std::vector<NamedShape> wanted = named(attempt.wanted());
  const bool from = counts_layers(file);
  if (from == counts_layers(wanted)) return out;
  for (const RulePack& pack : packs) {
    if (!is_of_one_depth(pack) || !knows_names(pack, from ? file : wanted)) continue;
    from ? out.push_back(pack) : add_turned_round(out, pack);
  }
  const std::string& model = attempt.wanted().list().name;
  std::stable_partition(out.begin(), out.end(), [&](const RulePack& pack) { return is_made_for(pack, model); });
  return out;
}

/// Which tensor goes to each wanted key.
std::vector<std::string> outcome(const Trial& trial) {
  std::vector<std::string> out;
  for (std::ptrdiff_t at : trial.pairing.file_of_wanted) {
    out.push_back(at < 0 ? "" : trial.origins[static_cast<std::size_t>(at)]);
  }
  return out;
}

struct Best {
  std::optional<Trial> trial;
  std::optional<RulePack> rival;  ///< fits as well and gives tensors other names
};

void consider(Best& best, std::optional<Trial> trial) {
  if (!trial || (best.trial && trial->score < best.trial->score)) return;
  bool level = best.trial && trial->score == best.trial->score;
  if (level && outcome(*trial) != outcome(*best.trial)) best.rival = trial->packs.front();
  if (level) return;
  best.trial = std::move(trial);
  best.rival.reset();
}

/// One pack, or two where the names between them are not the model's; those of `alone` with no other.
Best best_packs(const Attempt& attempt, const std::vector<RulePack>& packs, const std::vector<RulePack>& alone) {
  Best best;
  std::vector<NamedShape> wanted = named(attempt.wanted());
  const Trial begin = start(attempt);
  for (const RulePack& pack : alone) consider(best, try_pack(attempt, begin, pack, wanted));
  for (const RulePack& pack : packs) consider(best, try_pack(attempt, begin, pack, wanted));
  if (best.trial) return best;
  for (const RulePack& first : packs) {
    Trial halfway = begin;
    if (!advance(halfway, first, {true, ""})) continue;
    for (const RulePack& second : packs) {
      if (second.name != first.name) consider(best, try_pack(attempt, halfway, second, wanted));
    }
  }
  return best;
}

bool is_old(const RulePack& pack) {
  return pack.from.starts_with("old ");
}

/// Keys of the file that do not stay what they are: renamed, taken apart, put together, turned.
std::size_t count_touched(const Attempt& attempt, const Trial& trial) {
  std::size_t same = 0;
  for (std::size_t i = 0; i < trial.file.size(); ++i) same += trial.file[i].name == trial.origins[i] ? 1 : 0;
  return std::max(attempt.file().size() - std::min(same, attempt.file().size()), trial.changed);
}

Cause cause_of(const Attempt& attempt, const Trial& trial) {
  const RulePack& pack = trial.packs.front();
  Cause cause{is_old(pack) ? CauseKind::old_names : CauseKind::foreign_names, ""};
  cause.text = core::format_count(count_touched(attempt, trial)) + " of " + core::format_count(attempt.file().size()) +
               " keys are as " + pack.from + " has them, where the model has those of " + trial.packs.back().to;
  if (!trial.example.first.empty()) {
    cause.evidence.push_back(core::quote(trial.example.first) + " becomes " + core::quote(trial.example.second));
  }
  for (const RulePack& each : trial.packs) {
    if (!each.note.empty()) cause.evidence.push_back("names are not all: " + each.note);
  }
  cause.confidence = 0.99;
  return cause;
}

Cause ambiguity(const Trial& trial, const RulePack& rival) {
  auto command = [](const RulePack& which) {
    ShellCommand line("ckpt");
    line.word("rename").option("--rules", which.name);
    if (which.backwards) line.word("--reverse");
    return line.text();
  };
  const RulePack& pack = trial.packs.front();
  Cause cause{CauseKind::foreign_names, "the keys may be " + pack.from + "'s (rules " + pack.name + ") or " +
                                            rival.from + "'s (rules " + rival.name +
                                            "), which give the tensors other names"};
  cause.confidence = 0.5;
  cause.advice = "say which: " + command(pack) + ", or " + command(rival);
  return cause;
}

/// How much of a known model the pack makes of the keys.
double share_of(const std::vector<FileKey>& keys, const RulePack& pack, const KeyList& model) {
  Trial trial{keys, std::vector<std::string>(keys.size())};
  if (!apply_to_names(trial, pack)) return 0;
  const Checkpoint made = without_bytes(trial.file, trial.origins);
  const std::vector<NearModel> near = nearest_models({model}, made.root.as_dict(), 1);
  return near.empty() ? 0 : near.front().share;
}

}  // namespace

bool is_counted_by_keras(std::string_view name) {
  return name.find(".vars.") != std::string_view::npos;
}

std::vector<NearModel> models_by_rules(const std::vector<FileKey>& file, const std::vector<RulePack>& packs,
                                       const std::vector<KeyList>& known) {
  std::vector<NearModel> near;
  const std::vector<NamedShape> names = named(file);
  if (!counts_layers(names)) return near;
  for (const RulePack& pack : packs) {
    if (!is_of_one_depth(pack) || !knows_names(pack, names)) continue;
    for (const KeyList& model : known) {
      if (is_made_for(pack, model.name)) near.push_back({&model, share_of(file, pack, model)});
    }
  }
  std::erase_if(near, [](const NearModel& model) { return model.share <= 0; });
  std::stable_sort(near.begin(), near.end(), [](const NearModel& a, const NearModel& b) { return a.share > b.share; });
  return near;
}

bool find_foreign_names(Attempt& attempt, const std::vector<RulePack>& packs) {
  std::vector<RulePack> ways = both_ways(packs);
  for (std::size_t i = 0; i < kMaxCauses && !attempt.complete(); ++i) {
    Best best = best_packs(attempt, ways, of_one_depth(attempt, packs));
    if (!best.trial) return true;
    if (best.rival) {
      attempt.add(ambiguity(*best.trial, *best.rival));
      return false;
    }
    Cause cause = cause_of(attempt, *best.trial);
    attempt.add(std::move(cause), std::move(best.trial->steps), std::move(best.trial->file));
  }
  return true;
}

}  // namespace ckpt::detail
