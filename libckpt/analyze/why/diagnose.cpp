#include "libckpt/analyze/why.h"

#include <algorithm>
#include <memory>
#include <unordered_set>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/analyze/why/damage.h"
#include "libckpt/analyze/why/detectors.h"
#include "libckpt/analyze/why/error_target.h"
#include "libckpt/analyze/why/file_causes.h"
#include "libckpt/analyze/why/foreign_names.h"
#include "libckpt/analyze/why/leftover_causes.h"
#include "libckpt/analyze/why/name_causes.h"
#include "libckpt/analyze/why/proof.h"
#include "libckpt/analyze/why/python_line.h"
#include "libckpt/analyze/why/rank_part.h"
#include "libckpt/analyze/why/shape_causes.h"
#include "libckpt/analyze/why/simulated_load.h"
#include "libckpt/analyze/why/unreadable.h"
#include "libckpt/analyze/why/weight_norm.h"
#include "libckpt/io/unpacked_file.h"
#include "libckpt/open_save.h"
#include "libckpt/origin.h"
#include "libckpt/state_dicts.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::Attempt;
using detail::attempt_all;
using detail::Candidate;
using detail::FileKey;
using detail::KeyTable;
using detail::kSameModel;

constexpr std::size_t kMaxTried = 6;  ///< candidates that are compared in full

/// The state dict of a candidate as a dict of its own.
Dict dict_of(const Candidate& candidate, const Value& root) {
  if (candidate.kind == Candidate::Kind::flat) return detail::flat_state(root);
  return value_at(root, candidate.at).as_dict();
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
        return detail::other_known_model(options, dict_of(*candidate, root), wanted.list());
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

/// Another dict, where it gives the model too once the names are those of the model.
std::optional<Attempt> fitting(const Candidate& candidate, const KeyTable& wanted, const KnownPacks& packs) {
  if (candidate.keys.size() < wanted.size() || candidate.keys.size() > 2 * wanted.size()) return std::nullopt;
  Attempt attempt = attempt_all(candidate, wanted, packs, [] { return std::string(); });
  return attempt.complete() ? std::optional(std::move(attempt)) : std::nullopt;
}

/// A file and what it is compared with.
struct Question {
  const WhyInput& input;
  const WhyOptions& options;
  const ErrorFacts& facts;
  const KeyList& list;
  const KeyTable& wanted;
  const std::vector<Candidate>& candidates;
};

void add_ties_stated(Diagnosis& diagnosis, const KeyList& list) {
  auto stated = [&](const std::pair<std::string, std::string>& tie) {
    return std::any_of(list.ties.begin(), list.ties.end(), [&](const std::vector<std::string>& group) {
      return std::find(group.begin(), group.end(), tie.first) != group.end() &&
             std::find(group.begin(), group.end(), tie.second) != group.end();
    });
  };
  diagnosis.ties_stated = std::all_of(diagnosis.dropped_ties.begin(), diagnosis.dropped_ties.end(), stated);
}

/// Names that the model takes although it does not have them.
void note_older_weight_norm(Diagnosis& diagnosis, const Candidate& candidate, const KeyTable& wanted) {
  auto count =
      static_cast<std::uint64_t>(std::count_if(candidate.keys.begin(), candidate.keys.end(), [&](const FileKey& key) {
        std::optional<std::string> newer = detail::newer_weight_norm(key.name);
        return newer && wanted.find(*newer) >= 0 && wanted.find(key.name) < 0;
      }));
  if (count == 0) return;
  diagnosis.after.keys += count;
  diagnosis.after.wanted += count;
  diagnosis.notes.push_back(core::format_count(count) +
                            " keys have the older names of weight norm (weight_g, weight_v), which PyTorch's "
                            "parametrizations.weight_norm takes for its own");
}

/// What has to be done where the keys lie in one dict, or in none.
Diagnosis diagnose_place(const Question& asked, const Tried& place) {
  const Value& root = asked.input.checkpoint->root;
  Diagnosis diagnosis;
  diagnosis.subject = asked.input.subject;
  diagnosis.format = asked.input.checkpoint->format;
  diagnosis.target = asked.list.name;
  diagnosis.shapes_known = asked.wanted.shapes_known();
  diagnosis.description = detail::describe_file(root, place.candidate);
  bool same_place = place.candidate != nullptr && place.candidate->kind == Candidate::Kind::dict &&
                    (place.candidate->at == asked.list.at || place.candidate->at == asked.options.at);
  detail::FileContext context{
      asked.input, asked.options, asked.facts, place.candidate, match_at_top(asked.candidates, asked.wanted),
      {},          same_place};
  if (place.attempt) context.in_chosen = Attempt(place.candidate->keys, asked.wanted).match();
  if (same_place) {
    context.at_top = context.in_chosen;
    diagnosis.plan.at = place.candidate->at;
  }
  diagnosis.before = context.at_top;
  diagnosis.after = context.in_chosen;
  add_before_names(diagnosis, context);
  if (place.attempt) {
    if (is_taken(*place.candidate, root, asked.list)) {
      diagnosis.after = detail::all_of(context.in_chosen);
      note_older_weight_norm(diagnosis, *place.candidate, asked.wanted);
    } else {
      take_over(diagnosis, *place.attempt);
      diagnosis.plan.reaches = drops_a_parent(*place.candidate, diagnosis.plan);
    }
  } else {
    add_optimizer_file(diagnosis, root);
    if (diagnosis.causes.empty()) detail::add_no_state_dict(diagnosis, root);
  }
  add_behind_names(diagnosis, context);
  add_ties_stated(diagnosis, asked.list);
  detail::prove(diagnosis, *asked.input.checkpoint, asked.list);
  return diagnosis;
}

/// "state_dict_ema" of "models.state_dict_ema", as far as a file name takes it.
std::string tag_of(const std::string& at) {
  std::string tag;
  for (char c : at.substr(at.rfind('.') + 1)) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (plain) tag += c;
  }
  return tag.empty() || tag == "fixed" ? "alternative" : tag;
}

void add_alternative(Diagnosis& diagnosis, Diagnosis other, const std::string& at) {
  other.tag = tag_of(at);
  for (const Diagnosis& known : diagnosis.alternatives) {
    if (known.tag == other.tag) other.tag += std::to_string(diagnosis.alternatives.size() + 1);
  }
  diagnosis.alternatives.push_back(std::move(other));
}

/// The dict that is taken and the others that would do as well: a sentence, and what each of them needs.
void add_others_that_fit(Diagnosis& diagnosis, const Question& asked, const Tried& best) {
  if (!best.attempt || !best.attempt->complete() || best.candidate->kind != Candidate::Kind::dict) return;
  std::vector<std::string> names = {best.candidate->at.empty() ? "the top" : core::quote(best.candidate->at)};
  std::string other;
  for (const Candidate* candidate : worth_trying(asked.candidates)) {
    if (candidate == best.candidate || candidate->kind != Candidate::Kind::dict) continue;
    if (candidate->is_one_of(asked.input.module_dicts)) continue;  // not what the training left
    std::optional<Attempt> attempt = fitting(*candidate, asked.wanted, asked.options.packs);
    if (!attempt) continue;
    if (other.empty()) other = candidate->at;
    names.push_back(core::quote(candidate->at));
    if (diagnosis.alternatives.size() == kMaxAlternatives) continue;
    Diagnosis fit = diagnose_place(asked, {candidate, std::move(attempt)});
    if (fit.fixable()) add_alternative(diagnosis, std::move(fit), candidate->at);
  }
  if (other.empty()) return;
  std::string last = names.back();
  std::string taken = names.front();
  names.pop_back();
  diagnosis.notes.push_back(core::join(names, ", ") + " and " + last + (names.size() > 1 ? " all" : " both") +
                            " fit the model; " + taken + " is taken, name another as FILE::" + shell_word(other));
}

Diagnosis against(const WhyInput& input, const WhyOptions& options, const ErrorFacts& facts, const KeyList& list) {
  KeyTable wanted(list);
  std::vector<Candidate> candidates = detail::list_candidates(input.checkpoint->root, options.at);
  Question asked{input, options, facts, list, wanted, candidates};
  Tried best = candidates.empty() ? Tried{} : best_candidate(candidates, wanted, input, options);
  Diagnosis diagnosis = diagnose_place(asked, best);
  add_others_that_fit(diagnosis, asked, best);
  return diagnosis;
}

/// The main state dict when nobody says for what: the model of the file; where several may be it, the one with the most
/// bytes, the outermost of equals.
const Candidate* main_candidate(const std::vector<Candidate>& candidates, const Value& root) {
  const Candidate* best = nullptr;
  std::optional<StateDictRef> model = find_model(root);
  for (const Candidate& candidate : candidates) {
    if (candidate.kind == Candidate::Kind::flat) continue;
    if (model && candidate.dict == model->dict) return &candidate;
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
  if (options.packs) {
    std::vector<NearModel> more = detail::models_by_rules(candidate.keys, options.packs(), options.known());
    std::copy(more.begin(), more.end(), std::back_inserter(implied.near));
    std::stable_sort(implied.near.begin(), implied.near.end(),
                     [](const NearModel& a, const NearModel& b) { return a.share > b.share; });
  }
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
    strip.word("strip-prefix").option("--prefix", branch).word("FILE");
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

/// The same for one dict where nobody says for what.
Diagnosis alone_at(const WhyInput& input, const WhyOptions& options, const ErrorFacts& facts, const Candidate* main) {
  const Value& root = input.checkpoint->root;
  Diagnosis diagnosis;
  diagnosis.subject = input.subject;
  diagnosis.format = input.checkpoint->format;
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
    add_ties_stated(diagnosis, *near);
    detail::prove(diagnosis, *input.checkpoint, *near);
  } else {
    detail::prove_alone(diagnosis, *input.checkpoint);
  }
  return diagnosis;
}

Diagnosis alone(const WhyInput& input, const WhyOptions& options, const ErrorFacts& facts) {
  std::vector<Candidate> candidates = detail::list_candidates(input.checkpoint->root, options.at);
  const Candidate* main = main_candidate(candidates, input.checkpoint->root);
  Diagnosis diagnosis = alone_at(input, options, facts, main);
  for (const Candidate& other : candidates) {
    bool state = &other != main && other.kind != Candidate::Kind::flat && main != nullptr &&
                 other.keys.size() == main->keys.size();
    if (!state) continue;
    diagnosis.notes.push_back(core::quote(other.at) + " holds as many keys; name it as FILE::" + shell_word(other.at));
    if (other.is_one_of(input.module_dicts) || diagnosis.alternatives.size() == kMaxAlternatives) continue;
    Diagnosis same = alone_at(input, options, facts, &other);
    if (same.fixable()) add_alternative(diagnosis, std::move(same), other.at);
  }
  return diagnosis;
}

double share_of(const Match& match) {
  return match.wanted == 0 ? 0 : static_cast<double>(match.keys) / static_cast<double>(match.wanted);
}

/// The message says that a file could not be read, and this one can.
void note_readable(Diagnosis& diagnosis, const ErrorFacts& facts) {
  using Kind = ErrorFacts::Kind;
  const Kind kinds[] = {Kind::header_too_large, Kind::cut, Kind::zip_directory, Kind::load_key};
  if (std::none_of(std::begin(kinds), std::end(kinds), [&](Kind kind) { return facts.has(kind); })) return;
  bool other = std::any_of(diagnosis.causes.begin(), diagnosis.causes.end(),
                           [](const Cause& cause) { return cause.kind == CauseKind::other_format; });
  if (other) return;  // which is why
  diagnosis.notes.emplace_back(
      detail::reader_in_python(diagnosis.format) == PythonReader::libckpt
          ? "the message: torch.load does not read this format"
          : "the message says that a file could not be read, but this one can: it is another file, or was fetched "
            "again since");
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

void set_place(Diagnosis& diagnosis, const WhyInput& input, const WhyOptions& options) {
  diagnosis.path = file_of(diagnosis.subject, options.at);
  diagnosis.at = options.at;
  diagnosis.place = place_of(diagnosis.plan, input.checkpoint->root);
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

}  // namespace

bool Diagnosis::fixable() const {
  bool all_cured = std::all_of(causes.begin(), causes.end(), [](const Cause& cause) { return cause.cured; });
  return readable && all_cured && proven;
}

bool Diagnosis::guesses() const {
  return std::any_of(causes.begin(), causes.end(),
                     [](const Cause& cause) { return cause.cured && cause.confidence < 0.5; });
}

namespace {

/// Names that rules for known models do not bring to what is wanted.
void note_keras(Diagnosis& diagnosis, const Value& root) {
  const std::vector<FixStep>& steps = diagnosis.plan.steps;
  const bool ruled =
      std::any_of(steps.begin(), steps.end(), [](const FixStep& step) { return step.kind == FixStep::Kind::rules; });
  const std::vector<NamedEntry> entries = list_entries(root);
  const bool keras = std::any_of(entries.begin(), entries.end(),
                                 [](const NamedEntry& named) { return detail::is_counted_by_keras(named.name); });
  if (!keras || ruled || diagnosis.loads()) return;
  diagnosis.notes.emplace_back(
      "the names are those of Keras 3; 'ckpt convert FILE OUT --rules keras' makes them those of torch's layers, by "
      "the kinds of Keras' layers");
}

}  // namespace

Diagnosis why(const WhyInput& input, const WhyOptions& options) {
  Diagnosis diagnosis = best_diagnosis(input, options);
  note_keras(diagnosis, input.checkpoint->root);
  const std::string origin = origin_of(*input.checkpoint);
  if (!origin.empty()) diagnosis.notes.push_back("its weights were converted " + core::printable(origin));
  set_place(diagnosis, input, options);
  for (Diagnosis& other : diagnosis.alternatives) set_place(other, input, options);
  return diagnosis;
}

namespace {

/// open() would unpack it; the program that fails to load the file does not.
void refuse_packed(const std::filesystem::path& path) {
  const detail::Packer packer = detail::packer_of_file(path);
  if (packer == detail::Packer::none) return;
  throw Error(ErrorCode::unsupported, "this is a " + std::string(name(packer)) + " file; decompress it first (" +
                                          (packer == detail::Packer::gzip   ? "gunzip"
                                           : packer == detail::Packer::zstd ? "unzstd"
                                                                            : "pigz -dz") +
                                          ")");
}

}  // namespace

Diagnosis why(const std::filesystem::path& path, const WhyOptions& options) {
  Report report;
  OpenOptions open_options = options.open;
  open_options.foreign_objects = true;
  open_options.report = &report;
  Checkpoint checkpoint;
  try {
    refuse_packed(path);
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
    detail::add_damage(diagnosis, checkpoint, options.open.limits);
    return diagnosis;
  });
}

}  // namespace ckpt
