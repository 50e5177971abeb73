#include "libckpt/analyze/why/trees.h"

#include <algorithm>
#include <unordered_map>

#include "libckpt/state_dicts.h"
#include "libckpt/transform/path_set.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

Candidate from_dict(const Dict& dict, std::string at, Candidate::Kind kind) {
  Candidate candidate{kind, std::move(at), kind == Candidate::Kind::dict ? &dict : nullptr, {}, 0};
  candidate.keys.reserve(dict.items.size());
  for (const auto& [key, value] : dict.items) {
    if (!key.is(Value::Kind::text)) continue;
    if (value.is(Value::Kind::tensor)) {
      const Entry& entry = value.as_entry();
      // Quantised blocks are loaded as the values they stand for.
      candidate.keys.push_back({key.as_text(), value_shape(entry), entry.blocks ? core::DType::f32 : entry.dtype});
      candidate.bytes += entry.byte_size();
    } else {
      candidate.keys.push_back({key.as_text(), core::Shape{}, core::DType::u8});
    }
  }
  return candidate;
}

std::size_t group_size(const Value& group) {
  const Value* params = group.find("params");
  return params != nullptr && params->is_sequence() ? params->as_list().size() : 0;
}

std::uint64_t bytes_below(const Value& value) {
  std::uint64_t bytes = 0;
  for (const NamedEntry& named : list_entries(value)) bytes += named.entry->byte_size();
  return bytes;
}

}  // namespace

bool Candidate::is_one_of(const std::vector<const void*>& identities) const {
  return std::find(identities.begin(), identities.end(), static_cast<const void*>(dict)) != identities.end();
}

FixStep Candidate::step() const {
  if (kind == Kind::flat) return {FixStep::Kind::flatten, "join the dicts into dotted keys"};
  FixStep step{FixStep::Kind::take, "take " + (at.empty() ? "the top" : core::quote(at))};
  step.at = at;
  return step;
}

Dict flat_state(const Value& root) {
  std::vector<std::vector<Value>> states;
  for (OptimizerStateRef& state : list_optimizer_states(root)) states.push_back(std::move(state.path));
  PathSet optimizers(std::move(states));
  Dict out;
  out.type = "collections.OrderedDict";
  for (const NamedEntry& named : list_entries(root)) {
    if (!optimizers.covers(named.path)) out.items.emplace_back(Value::text(named.name), Value::tensor(named.entry));
  }
  return out;
}

std::vector<Candidate> list_candidates(const Value& root, const std::string& at) {
  std::vector<Candidate> found;
  if (!at.empty()) {
    StateDictRef ref = choose_state_dict(root, at);
    found.push_back(from_dict(*ref.dict, ref.name, Candidate::Kind::dict));
    return found;
  }
  std::vector<StateDictRef> dicts = list_weights(root);
  for (const StateDictRef& ref : dicts) found.push_back(from_dict(*ref.dict, ref.name, Candidate::Kind::dict));
  if (dicts.size() > 1 && root.is(Value::Kind::dict)) {
    found.push_back(from_dict(flat_state(root), "", Candidate::Kind::flat));
  }
  return found;
}

std::vector<OptimizerFacts> list_optimizers(const Value& root) {
  std::vector<OptimizerFacts> found;
  for (const OptimizerStateRef& optimizer : list_optimizer_states(root)) {
    OptimizerFacts facts{optimizer.name, {}, bytes_below(*optimizer.value)};
    for (const Value& group : optimizer.value->find("param_groups")->as_list()) {
      facts.groups.push_back(group_size(group));
    }
    found.push_back(std::move(facts));
  }
  return found;
}

std::vector<std::pair<std::string, std::size_t>> list_devices(const Value& root) {
  std::vector<std::pair<std::string, std::size_t>> found;
  std::unordered_map<std::string, std::size_t> places;
  for (const NamedEntry& named : list_entries(root)) {
    const std::string& tag = named.entry->location;
    if (tag == "cpu" || tag == "meta" || tag.empty()) continue;
    auto [known, fresh] = places.try_emplace(tag, found.size());
    if (fresh) found.emplace_back(tag, 0);
    ++found[known->second].second;
  }
  return found;
}

}  // namespace ckpt::detail
