#include "libckpt/analyze/why/proof.h"

#include <algorithm>

#include "libckpt/analyze/why/fix.h"
#include "libckpt/analyze/why/shape_causes.h"
#include "libckpt/analyze/why/simulated_load.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

using core::Error;

/// What load_state_dict says of the file once the plan is carried out.
core::LoadProblems problems_after(const FixPlan& plan, const Checkpoint& file, const KeyList& wanted) {
  try {
    Checkpoint fixed = apply_fix(file, plan);
    const Value& state = value_at(fixed.root, plan.at);
    if (state.is(Value::Kind::dict)) return simulate_load(state.as_dict(), wanted);
    return {.errors = {"Expected state_dict to be dict-like, got <class '" + type_text(state) + "'>."}};
  } catch (const Error& error) {
    return {.errors = {error.message()}};
  }
}

/// Counters that the versions in the file let PyTorch add by itself need no step.
void drop_needless_counters(Diagnosis& diagnosis, const Checkpoint& file, const KeyList& wanted) {
  FixPlan plan = diagnosis.plan;
  auto added = std::erase_if(plan.steps, [](const FixStep& step) { return step.kind == FixStep::Kind::add_counters; });
  if (added == 0 || !problems_after(plan, file, wanted).none()) return;
  diagnosis.plan = std::move(plan);
  std::erase_if(diagnosis.causes, [](const Cause& cause) { return cause.kind == CauseKind::missing_counters; });
}

}  // namespace

Match all_of(const Match& match) {
  Match all = match;
  all.wanted = all.keys;
  all.bytes_wanted = all.bytes;
  return all;
}

void prove(Diagnosis& diagnosis, const Checkpoint& file, const KeyList& wanted) {
  drop_needless_counters(diagnosis, file, wanted);
  core::LoadProblems problems = problems_after(diagnosis.plan, file, wanted);
  diagnosis.proven = problems.none();
  diagnosis.missing = std::move(problems.missing);
  diagnosis.unexpected = std::move(problems.unexpected);
  diagnosis.mismatched = std::move(problems.errors);
  if (diagnosis.proven) diagnosis.after = all_of(diagnosis.after);
  if (diagnosis.plan.empty()) diagnosis.before = diagnosis.after;
}

void add_no_state_dict(Diagnosis& diagnosis, const Value& root) {
  if (root.is(Value::Kind::dict) && root.as_dict().items.empty()) {
    diagnosis.causes.push_back({CauseKind::missing_keys, "the file has none of the keys that are missing"});
    return;
  }
  Cause cause{CauseKind::no_state_dict, "the file holds no state dict: the top of it is a " + type_text(root)};
  cause.advice = "load_state_dict takes a dict of tensors; look at what is there with 'ckpt tree'";
  diagnosis.causes.push_back(std::move(cause));
}

void prove_alone(Diagnosis& diagnosis, const Checkpoint& file) {
  try {
    Checkpoint fixed = apply_fix(file, diagnosis.plan);
    const Value& state = value_at(fixed.root, diagnosis.plan.at);
    diagnosis.proven = is_dict_of_tensors(state);
    if (diagnosis.proven || !diagnosis.causes.empty() || !state.is(Value::Kind::dict)) return;
    std::vector<std::string> others;
    for (const auto& [key, value] : state.as_dict().items) {
      if (!value.is(Value::Kind::tensor)) others.push_back(step_text(key) + " (" + type_text(value) + ")");
    }
    diagnosis.causes.push_back(
        {CauseKind::extra_keys, "the dict holds other things than tensors: " + some_names(others)});
  } catch (const Error&) {
    diagnosis.proven = false;
  }
}

}  // namespace ckpt::detail
