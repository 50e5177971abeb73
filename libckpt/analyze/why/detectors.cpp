#include "libckpt/analyze/why/detectors.h"

#include <algorithm>

#include "libckpt/analyze/why/foreign_names.h"
#include "libckpt/analyze/why/key_rule.h"
#include "libckpt/analyze/why/leftover_causes.h"
#include "libckpt/analyze/why/name_causes.h"
#include "libckpt/analyze/why/weight_norm.h"

namespace ckpt::detail {
namespace {

/// How many names of the file the model has, wrappers aside.
std::size_t names_in_common(const KeyList& model, const Dict& dict) {
  KeyTable table(model);
  return static_cast<std::size_t>(std::count_if(dict.items.begin(), dict.items.end(), [&](const auto& item) {
    return item.first.is(Value::Kind::text) && table.find(without_wrappers(item.first.as_text(), false)) >= 0;
  }));
}

/// Whether more than a head, a vocabulary or a table of positions differs. Without shapes nobody knows.
bool may_be_another_model(const Attempt& attempt) {
  if (attempt.match().keys == attempt.match().wanted || !attempt.wanted().shapes_known()) return false;
  return std::any_of(attempt.causes.begin(), attempt.causes.end(), [](const Cause& cause) {
    return cause.kind == CauseKind::shape_mismatch || cause.kind == CauseKind::missing_keys;
  });
}

/// The file is what another known model leaves: that comes first, and nothing of it is renamed or dropped.
Attempt of_another_model(const Candidate& candidate, const KeyTable& wanted, const std::string& model) {
  Attempt attempt(candidate.keys, wanted);
  Cause cause{attempt.mismatched().empty() ? CauseKind::depth : CauseKind::width,
              "this is a " + model + ": the shapes of the file are those of " + model + ", not of the model"};
  cause.confidence = 0.9;
  cause.advice = "build the model as " + model + "; 'ckpt why' says more with --for " + model;
  attempt.add(std::move(cause));
  find_missing_and_extra(attempt, Kinship::other_model);
  return attempt;
}

/// Runs all detectors over one candidate. Where the names have little in common with the model's, renaming rules are
/// coincidences and only what is certain is said.
Attempt run_detectors(const Candidate& candidate, const KeyTable& wanted, const KnownPacks& packs,
                      const Nearest& nearest) {
  Attempt attempt(candidate.keys, wanted);
  if (attempt.complete()) return attempt;
  find_wrappers(attempt);
  if (packs && !attempt.complete() && !find_foreign_names(attempt, packs())) return attempt;
  find_weight_norm(attempt);
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
    find_missing_and_extra(plain, Kinship::other_model);
    std::string model = wanted.shapes_known() ? "" : nearest();
    if (!model.empty()) plain.causes.front().evidence.push_back("the file's shapes are those of " + model);
    return plain;
  }
  if (!other) find_size_causes(attempt);
  if (!other) find_missing_and_extra(attempt, Kinship::same_model);
  return attempt;
}

}  // namespace

std::string other_known_model(const WhyOptions& options, const Dict& dict, const KeyList& target) {
  constexpr std::size_t kAlike = 8;
  if (!options.known) return "";
  std::vector<NearModel> near = nearest_models(options.known(), dict, kAlike);
  if (near.empty() || near[0].share < kSameModel) return "";
  std::vector<NearModel> own = nearest_models({target}, dict, 1);
  if (!own.empty() && own[0].share >= near[0].share) return "";
  const NearModel* best = nullptr;
  std::size_t most = 0;
  for (const NearModel& one : near) {
    if (one.share < near[0].share) break;
    if (one.model->name == target.name) return "";
    std::size_t common = names_in_common(*one.model, dict);
    if (best == nullptr || common > most) best = &one;
    most = std::max(most, common);
  }
  return best->model->name;
}

Attempt attempt_all(const Candidate& candidate, const KeyTable& wanted, const KnownPacks& packs,
                    const Nearest& nearest) {
  Attempt attempt = run_detectors(candidate, wanted, packs, nearest);
  std::string model = may_be_another_model(attempt) ? nearest() : "";
  return model.empty() ? std::move(attempt) : of_another_model(candidate, wanted, model);
}

}  // namespace ckpt::detail
