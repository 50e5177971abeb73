#include "libckpt/analyze/why.h"

#include <algorithm>
#include <memory>
#include <unordered_set>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/analyze/why/error_target.h"
#include "libckpt/analyze/why/file_causes.h"
#include "libckpt/analyze/why/foreign_names.h"
#include "libckpt/analyze/why/leftover_causes.h"
#include "libckpt/analyze/why/name_causes.h"
#include "libckpt/analyze/why/proof.h"
#include "libckpt/analyze/why/rank_part.h"
#include "libckpt/analyze/why/shape_causes.h"
#include "libckpt/analyze/why/simulated_load.h"
#include "libckpt/analyze/why/unreadable.h"
#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::Attempt;
using detail::Candidate;
using detail::FileKey;
using detail::KeyTable;

constexpr double kSameModel = 0.9;    ///< share of shapes from which on a file is said to be a known model
constexpr std::size_t kMaxTried = 6;  ///< candidates that are compared in full

/// The state dict of a candidate as a dict of its own.
Dict dict_of(const Candidate& candidate, const Value& root) {
  if (candidate.kind == Candidate::Kind::flat) return detail::flat_state(root);
  return value_at(root, candidate.at).as_dict();
}

std::string other_known_model(const WhyOptions& options, const Dict& dict, const std::string& target) {
  if (!options.known) return "";
  std::vector<NearModel> near = nearest_models(options.known(), dict, 1);
  bool other = !near.empty() && near[0].share >= kSameModel && near[0].model->name != target;
  return other ? near[0].model->name : "";
}

/// Runs all detectors over one candidate. Where the names have little in common with the model's, renaming rules are
/// coincidences and only what is certain is said.
Attempt attempt_all(const Candidate& candidate, const KeyTable& wanted, const KnownPacks& packs,
                    const detail::Nearest& nearest) {
  Attempt attempt(candidate.keys, wanted);
  if (attempt.complete()) return attempt;
  find_wrappers(attempt);
  if (packs && !attempt.complete() && !find_foreign_names(attempt, packs())) return attempt;
  std::size_t known = count_rules(attempt);
  find_name_causes(attempt);
  if (std::size_t found = count_rules(attempt) - known;
      found > 3 && found * 4 > attempt.file().size()) {  // nearly a rule a key: the names say nothing
    Attempt ordered(candidate.keys, wanted);
    find_order_cause(ordered);
    if (ordered.complete()) return ordered;
  }
  find_order_cause(attempt);
  find_layout_causes(attempt);
  bool other = find_other_model(attempt, nearest);
  if (!other) find_leftovers(attempt);
  std::size_t named = wanted.size() - attempt.unmatched_wanted().size();
  bool alike = named * 2 >= wanted.size();
  if (!other && !alike) {
    Attempt plain(candidate.keys, wanted);
    find_missing_and_extra(plain, detail::Kinship::other_model);
    std::string model = nearest();
    if (!model.empty()) plain.causes.front().evidence.push_back("the file's shapes are those of " + model);
    return plain;
  }
  if (!other) find_size_causes(attempt);
  if (!other) find_missing_and_extra(attempt, detail::Kinship::same_model);
  return attempt;
}

struct Tried {
  const Candidate* candidate = nullptr;
  std::optional<Attempt> attempt;
  bool module = false;  ///< a module that was pickled whole, as Lightning keeps among its hyper_parameters
};

/// A state dict was saved for loading; a module beside it may hold what the weights were before the training.
bool better(const Tried& a, const Tried& b) {
  if (!b.attempt) return true;
  if (a.attempt->match().keys != b.attempt->match().keys) return a.attempt->match().keys > b.attempt->match().keys;
  if (a.module != b.module) return b.module;
  if (a.attempt->causes.size() != b.attempt->causes.size()) return a.attempt->causes.size() < b.attempt->causes.size();
  return false;
}

/// The candidates worth a comparison in full: the largest, in file order.
std::vector<const Candidate*> worth_trying(const std::vector<Candidate>& candidates) {
  std::vector<const Candidate*> chosen;
  for (const Candidate& candidate : candidates) chosen.push_back(&candidate);
  if (chosen.size() <= kMaxTried) return chosen;
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const Candidate* a, const Candidate* b) { return a->keys.size() > b->keys.size(); });
  chosen.resize(kMaxTried);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

Tried best_candidate(const std::vector<Candidate>& candidates, const KeyTable& wanted, const WhyInput& input,
                     const WhyOptions& options) {
  const Value& root = input.checkpoint->root;
  Tried best;
  for (const Candidate* candidate : worth_trying(candidates)) {
    Tried tried{candidate, Attempt(candidate->keys, wanted), candidate->is_one_of(input.module_dicts)};
    if (!tried.attempt->complete()) {
      tried.attempt = attempt_all(*candidate, wanted, options.packs, [&] {
        return other_known_model(options, dict_of(*candidate, root), wanted.list().name);
      });
    }
    if (better(tried, best)) best = std::move(tried);
    if (!best.module && best.attempt->complete() && best.attempt->causes.empty()) break;
  }
  return best;
}

Match match_at_top(const std::vector<Candidate>& candidates, const KeyTable& wanted) {
  for (const Candidate& candidate : candidates) {
    if (candidate.at_top()) return Attempt(candidate.keys, wanted).match();
  }
  Match none = Attempt({}, wanted).match();
  return none;
}

/// A dropped key such as "fc" beside "fc.weight".
bool drops_a_parent(const Candidate& candidate, const FixPlan& plan) {
  std::unordered_set<std::string_view> gone;
  for (const FixStep& step : plan.steps) {
    if (step.kind == FixStep::Kind::drop) gone.insert(step.keys.begin(), step.keys.end());
  }
  return !gone.empty() && std::any_of(candidate.keys.begin(), candidate.keys.end(), [&](const FileKey& key) {
    std::string_view above = key.name;
    for (std::size_t dot = above.rfind('.'); dot != std::string_view::npos; dot = above.rfind('.')) {
      above = above.substr(0, dot);
      if (gone.contains(above)) return true;
    }
    return false;
  });
}

void take_over(Diagnosis& diagnosis, const Attempt& attempt) {
  for (const Cause& cause : attempt.causes) diagnosis.causes.push_back(cause);
  for (const FixStep& step : attempt.plan.steps) diagnosis.plan.steps.push_back(step);
  diagnosis.plan.loses |= attempt.plan.loses;
  diagnosis.after = attempt.match();
}

/// Where load_state_dict takes the dict as it is, whatever the names look like, there is nothing to rename.
bool is_taken(const Candidate& candidate, const Value& root, const KeyList& wanted) {
  return detail::simulate_load(dict_of(candidate, root), wanted).none();
}

/// The file holds only the state of an optimizer.
void add_optimizer_file(Diagnosis& diagnosis, const Value& root) {
  std::vector<detail::OptimizerFacts> optimizers = detail::list_optimizers(root);
  if (optimizers.empty()) return;
  Cause cause{CauseKind::optimizer_file, "the file holds the state of an optimizer and no model"};
  cause.evidence.push_back("its " + std::string(optimizers[0].at.empty() ? "top" : optimizers[0].at) + " has " +
                           std::to_string(optimizers[0].groups.size()) + " parameter groups");
  cause.advice = "the weights are in another file of the same run, often named model or pytorch_model";
  diagnosis.causes.push_back(std::move(cause));
}

/// Whether another dict gives the model too, once the names are those of the model.
bool fits_too(const Candidate& candidate, const KeyTable& wanted, const KnownPacks& packs) {
  if (candidate.keys.size() < wanted.size() || candidate.keys.size() > 2 * wanted.size()) return false;
  return attempt_all(candidate, wanted, packs, [] { return std::string(); }).complete();
}

/// The dict that is taken and the others that would do as well, in one sentence.
void note_others_that_fit(Diagnosis& diagnosis, const Tried& best, const std::vector<Candidate>& candidates,
                          const KeyTable& wanted, const WhyInput& input, const WhyOptions& options) {
  if (!best.attempt || !best.attempt->complete() || best.candidate->kind != Candidate::Kind::dict) return;
  std::vector<std::string> names = {best.candidate->at.empty() ? "the top" : core::quote(best.candidate->at)};
  std::string other;
  for (const Candidate* candidate : worth_trying(candidates)) {
    if (candidate == best.candidate || candidate->kind != Candidate::Kind::dict) continue;
    if (candidate->is_one_of(input.module_dicts)) continue;  // not what the training left
    if (!fits_too(*candidate, wanted, options.packs)) continue;
    if (other.empty()) other = candidate->at;
    names.push_back(core::quote(candidate->at));
  }
  if (other.empty()) return;
  std::string last = names.back();
  std::string taken = names.front();
  names.pop_back();
  diagnosis.notes.push_back(core::join(names, ", ") + " and " + last + (names.size() > 1 ? " all" : " both") +
                            " fit the model; " + taken + " is taken, name another as FILE::" + shell_word(other));
}

Diagnosis against(const WhyInput& input, const WhyOptions& options, const ErrorFacts& facts, const KeyList& list) {
  const Value& root = input.checkpoint->root;
  Diagnosis diagnosis;
  diagnosis.subject = input.subject;
  diagnosis.format = input.checkpoint->format;
  diagnosis.target = list.name;
  KeyTable wanted(list);
  diagnosis.shapes_known = wanted.shapes_known();
  std::vector<Candidate> candidates = detail::list_candidates(root, options.at);
  Tried best = candidates.empty() ? Tried{} : best_candidate(candidates, wanted, input, options);
  diagnosis.description = detail::describe_file(root, best.candidate);
  bool same_place = best.candidate != nullptr && best.candidate->kind == Candidate::Kind::dict &&
                    (best.candidate->at == list.at || best.candidate->at == options.at);
  detail::FileContext context{input, options, facts, best.candidate, match_at_top(candidates, wanted), {}, same_place};
  if (best.attempt) context.in_chosen = Attempt(best.candidate->keys, wanted).match();
  if (same_place) {
    context.at_top = context.in_chosen;
    diagnosis.plan.at = best.candidate->at;
  }
  diagnosis.before = context.at_top;
  diagnosis.after = context.in_chosen;
  note_others_that_fit(diagnosis, best, candidates, wanted, input, options);
  add_before_names(diagnosis, context);
  if (best.attempt) {
    if (is_taken(*best.candidate, root, list)) {
      diagnosis.after = detail::all_of(context.in_chosen);
    } else {
      take_over(diagnosis, *best.attempt);
      diagnosis.plan.reaches = drops_a_parent(*best.candidate, diagnosis.plan);
    }
  } else {
    add_optimizer_file(diagnosis, root);
    if (diagnosis.causes.empty()) detail::add_no_state_dict(diagnosis, root);
  }
  add_behind_names(diagnosis, context);
  detail::prove(diagnosis, *input.checkpoint, list);
  return diagnosis;
}

/// The main state dict when nobody says for what: the one with the most bytes, the outermost of equals.
const Candidate* main_candidate(const std::vector<Candidate>& candidates) {
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates) {
    if (candidate.kind == Candidate::Kind::flat) continue;
    if (best == nullptr || candidate.bytes > best->bytes) best = &candidate;
  }
  return best;
}

void add_wrappers(Diagnosis& diagnosis, const Candidate& candidate) {
  detail::WrapperUse use = detail::wrapper_use(candidate.keys);
  if (use.keys * 2 <= candidate.keys.size()) return;
  FixStep step = detail::wrapper_step(use);
  std::string many = core::format_count(use.keys) + " of " + core::format_count(candidate.keys.size()) + " keys ";
  bool prefix = step.rule.kind == KeyRule::Kind::prefix;
  Cause cause{prefix ? CauseKind::wrapper_prefix : CauseKind::wrapper_inside, ""};
  cause.text = prefix ? many + "begin with " + core::quote(step.rule.from) +
                            ", which a wrapper put there; a model that is not wrapped does not have it"
                      : many + "hold components that wrappers put there, as in " + core::quote(use.example);
  cause.confidence = 0.9;
  cause.cured = true;
  diagnosis.plan.steps.push_back(std::move(step));
  diagnosis.causes.push_back(std::move(cause));
}

/// "model." when every key begins with it, "" when they differ.
std::string common_branch(const Candidate& candidate) {
  if (candidate.keys.size() < 2) return "";
  std::string_view first = candidate.keys[0].name;
  std::size_t dot = first.find('.');
  if (dot == std::string_view::npos) return "";
  std::string branch(first.substr(0, dot + 1));
  bool all = std::all_of(candidate.keys.begin(), candidate.keys.end(),
                         [&](const FileKey& key) { return key.name.starts_with(branch); });
  return all ? branch : "";
}

struct Implied {
  std::optional<Attempt> attempt;
  std::vector<NearModel> near;
};

/// A known model whose keys all are in the file, once the names are put right.
Implied implied_model(const Candidate& candidate, const Value& root, const WhyOptions& options,
                      std::vector<std::unique_ptr<KeyTable>>& tables) {
  Implied implied;
  if (!options.known) return implied;
  implied.near = nearest_models(options.known(), dict_of(candidate, root), 4);
  for (const NearModel& near : implied.near) {
    if (near.share < kSameModel) break;
    tables.push_back(std::make_unique<KeyTable>(*near.model));
    Attempt attempt = attempt_all(candidate, *tables.back(), options.packs, [] { return std::string(); });
    bool all = attempt.match().keys == attempt.match().wanted;
    if (!all || (implied.attempt && implied.attempt->causes.size() <= attempt.causes.size())) continue;
    implied.attempt = std::move(attempt);
  }
  return implied;
}

std::string share_text(double share) {
  return std::to_string(static_cast<int>(share * 100 + 0.5)) + " %";
}

void add_names_alone(Diagnosis& diagnosis, const Candidate& candidate, const Value& root, const WhyOptions& options) {
  std::vector<std::unique_ptr<KeyTable>> tables;
  Implied implied = implied_model(candidate, root, options, tables);
  if (implied.attempt) {
    diagnosis.nearest = implied.attempt->wanted().list().name;
    std::string with = implied.attempt->causes.empty() ? "" : " once its keys are renamed";
    diagnosis.notes.push_back("this is a " + diagnosis.nearest + with + ": all " +
                              core::format_count(implied.attempt->wanted().size()) + " keys and shapes agree");
    diagnosis.target = diagnosis.nearest;
    diagnosis.before = Attempt(candidate.keys, implied.attempt->wanted()).match();
    if (!candidate.at_top()) diagnosis.before.keys = diagnosis.before.bytes = 0;
    const KeyList& list = implied.attempt->wanted().list();
    if (is_taken(candidate, root, list)) {
      diagnosis.after = detail::all_of(implied.attempt->match());
    } else {
      take_over(diagnosis, *implied.attempt);
      diagnosis.plan.reaches = drops_a_parent(candidate, diagnosis.plan);
    }
    return;
  }
  add_wrappers(diagnosis, candidate);
  std::string branch = common_branch(candidate);
  if (!branch.empty() && diagnosis.plan.empty()) {
    ShellCommand strip("ckpt");
    strip.word("strip-prefix").option("--prefix", branch);
    diagnosis.notes.push_back("every key begins with " + core::quote(branch) + "; say --for what the file is meant" +
                              (strip.is_exact() ? ", or strip it: " + strip.text() : ""));
  }
  if (!implied.near.empty()) {
    diagnosis.notes.push_back("nearest known model: " + implied.near[0].model->name + " (" +
                              share_text(implied.near[0].share) + " of the shapes)");
  }
}

const KeyList* model_named(const WhyOptions& options, const std::string& name) {
  if (name.empty()) return nullptr;
  const std::vector<KeyList>& known = options.known();
  auto found = std::find_if(known.begin(), known.end(), [&](const KeyList& list) { return list.name == name; });
  return found == known.end() ? nullptr : &*found;
}

Diagnosis alone(const WhyInput& input, const WhyOptions& options, const ErrorFacts& facts) {
  const Value& root = input.checkpoint->root;
  Diagnosis diagnosis;
  diagnosis.subject = input.subject;
  diagnosis.format = input.checkpoint->format;
  std::vector<Candidate> candidates = detail::list_candidates(root, options.at);
  const Candidate* main = main_candidate(candidates);
  diagnosis.description = detail::describe_file(root, main);
  bool same_place = main != nullptr && !options.at.empty();
  if (same_place) diagnosis.plan.at = main->at;
  detail::FileContext context{input, options, facts, main, {}, {}, same_place};
  add_before_names(diagnosis, context);
  if (main != nullptr) add_names_alone(diagnosis, *main, root, options);
  if (main == nullptr) add_optimizer_file(diagnosis, root);
  if (main == nullptr && diagnosis.causes.empty()) detail::add_no_state_dict(diagnosis, root);
  add_behind_names(diagnosis, context);
  if (const KeyList* near = model_named(options, diagnosis.nearest)) {
    detail::prove(diagnosis, *input.checkpoint, *near);
  } else {
    detail::prove_alone(diagnosis, *input.checkpoint);
  }
  for (const Candidate& other : candidates) {
    bool state = &other != main && other.kind != Candidate::Kind::flat && main != nullptr &&
                 other.keys.size() == main->keys.size();
    if (state) {
      diagnosis.notes.push_back(core::quote(other.at) +
                                " holds as many keys; name it as FILE::" + shell_word(other.at));
    }
  }
  return diagnosis;
}

double share_of(const Match& match) {
  return match.wanted == 0 ? 0 : static_cast<double>(match.keys) / static_cast<double>(match.wanted);
}

void note_readable(Diagnosis& diagnosis, const ErrorFacts& facts) {
  using Kind = ErrorFacts::Kind;
  for (Kind kind : {Kind::header_too_large, Kind::cut, Kind::zip_directory, Kind::load_key}) {
    if (!facts.has(kind)) continue;
    diagnosis.notes.push_back(
        "the message says that a file could not be read, but this one can: it is another file, or was fetched again "
        "since");
    return;
  }
}

/// The steps to the dict that the plan takes, or to the one whose keys it changes.
std::vector<Value> place_of(const FixPlan& plan, const Value& root) {
  std::string_view at = plan.at;
  for (const FixStep& step : plan.steps) {
    if (step.kind == FixStep::Kind::take || step.kind == FixStep::Kind::take_module) at = step.at;
  }
  if (at.empty()) return {};
  const Value& there = value_at(root, at);
  if (!there.is(Value::Kind::dict)) return {};
  for (const StateDictRef& ref : list_state_dicts(root)) {
    if (ref.dict == &there.as_dict()) return ref.path;
  }
  return {};
}

/// The file of "best.pth::model" when the model is the place that was named.
std::string file_of(const std::string& subject, const std::string& at) {
  std::string place = "::" + at;
  return !at.empty() && subject.ends_with(place) ? subject.substr(0, subject.size() - place.size()) : subject;
}

Diagnosis of_one_rank(const WhyInput& input, const detail::RankPart& part) {
  Diagnosis diagnosis;
  diagnosis.subject = input.subject;
  diagnosis.format = input.checkpoint->format;
  diagnosis.description = detail::describe_file(input.checkpoint->root, nullptr);
  diagnosis.causes.push_back(detail::rank_cause(part));
  return diagnosis;
}

Diagnosis best_diagnosis(const WhyInput& input, const WhyOptions& options) {
  if (auto part = detail::rank_part(input.checkpoint->root)) return of_one_rank(input, *part);
  ErrorFacts facts = parse_error_text(options.error);
  std::vector<KeyList> wanted = options.wanted;
  std::optional<KeyList> said = wanted.empty() ? detail::target_of(facts, input.checkpoint->root) : std::nullopt;
  if (said) wanted.push_back(std::move(*said));
  std::vector<Diagnosis> all;
  for (const KeyList& list : wanted) all.push_back(against(input, options, facts, list));
  if (all.empty()) {
    Diagnosis diagnosis = alone(input, options, facts);
    if (facts.keys())
      diagnosis.notes.push_back(
          "the keys that the message names are not in this file; is the message about another one?");
    note_readable(diagnosis, facts);
    return diagnosis;
  }
  auto best = std::max_element(all.begin(), all.end(), [](const Diagnosis& a, const Diagnosis& b) {
    return share_of(a.after) < share_of(b.after);
  });
  Diagnosis diagnosis = *best;
  for (const Diagnosis& other : all) {
    if (&other == &*best) continue;
    diagnosis.also.push_back(other.target);
    diagnosis.others.push_back(other.after);
  }
  note_readable(diagnosis, facts);
  return diagnosis;
}

/// A file that is not large is read whole: nothing is promised of bytes that are not those that were written.
void add_damage(Diagnosis& diagnosis, const Checkpoint& checkpoint) {
  constexpr std::uint64_t kMost = 64ULL << 20;
  std::vector<NamedEntry> entries = list_entries(checkpoint.root);
  std::uint64_t bytes = 0;
  for (const NamedEntry& named : entries) bytes += std::min(kMost, named.entry->byte_size());
  if (bytes >= kMost) {
    diagnosis.notes.push_back(
        "the values were not read; 'ckpt verify' compares them with the checksums that the file has");
    return;
  }
  for (const NamedEntry& named : entries) {
    try {
      if (named.entry->bytes) for_each_part(*named.entry->bytes, [](Bytes) {});
    } catch (const Error& error) {
      if (error.code() == ErrorCode::io) throw;
      if (error.code() != ErrorCode::corrupt) continue;  // refused for its size: says nothing of damage
      Cause cause{CauseKind::corrupt, core::quote(named.name) + ": " + error.message()};
      cause.advice =
          "fetch or copy the file again; PyTorch does not compare checksums and would load the damaged values";
      diagnosis.causes.insert(diagnosis.causes.begin(), std::move(cause));
      return;
    }
  }
}

}  // namespace

bool Diagnosis::fixable() const {
  bool all_cured = std::all_of(causes.begin(), causes.end(), [](const Cause& cause) { return cause.cured; });
  return readable && all_cured && proven;
}

bool Diagnosis::guesses() const {
  return std::any_of(causes.begin(), causes.end(),
                     [](const Cause& cause) { return cause.cured && cause.confidence < 0.5; });
}

Diagnosis why(const WhyInput& input, const WhyOptions& options) {
  Diagnosis diagnosis = best_diagnosis(input, options);
  diagnosis.path = file_of(diagnosis.subject, options.at);
  diagnosis.at = options.at;
  diagnosis.place = place_of(diagnosis.plan, input.checkpoint->root);
  return diagnosis;
}

Diagnosis why(const std::filesystem::path& path, const WhyOptions& options) {
  Report report;
  OpenOptions open_options = options.open;
  open_options.foreign_objects = true;
  open_options.report = &report;
  Checkpoint checkpoint;
  try {
    checkpoint = open(path, open_options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    Diagnosis diagnosis;
    diagnosis.subject = path.string();
    diagnosis.path = path.string();
    diagnosis.at = options.at;
    detail::diagnose_unreadable(diagnosis, path, error);
    return diagnosis;
  }
  WhyInput input{&checkpoint, path.string(), report.globals, report.modules, report.module_dicts};
  return core::with_context(path.string(), [&] {
    Diagnosis diagnosis = why(input, options);
    add_damage(diagnosis, checkpoint);
    return diagnosis;
  });
}

}  // namespace ckpt
