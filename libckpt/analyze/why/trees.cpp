#include "libckpt/analyze/why/trees.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/objects.h"
#include "libckpt/transform/key_edit.h"
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
      candidate.keys.push_back({key.as_text(), entry.shape, entry.dtype});
      candidate.bytes += entry.byte_size();
    } else {
      candidate.keys.push_back({key.as_text(), core::Shape{}, core::DType::u8});
    }
  }
  return candidate;
}

std::string joined(const std::string& start, const std::string& step) {
  return start.empty() ? step : start + "." + step;
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

std::string path_name(const std::vector<Value>& path) {
  std::string name;
  for (const Value& step : path) name = joined(name, step_text(step));
  return name;
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
  PathSet optimizers(optimizer_paths(root));
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
    StateDictRef ref = only_state_dict(root, at);
    found.push_back(from_dict(*ref.dict, ref.name, Candidate::Kind::dict));
    return found;
  }
  std::vector<StateDictRef> dicts = model_state_dicts(root);
  std::unordered_set<const Dict*> nameable = dicts_outside_objects(root);
  std::erase_if(dicts, [&](const StateDictRef& ref) { return !nameable.contains(ref.dict); });
  for (const StateDictRef& ref : dicts) found.push_back(from_dict(*ref.dict, ref.name, Candidate::Kind::dict));
  if (dicts.size() > 1 && root.is(Value::Kind::dict)) {
    found.push_back(from_dict(flat_state(root), "", Candidate::Kind::flat));
  }
  return found;
}

std::vector<OptimizerFacts> list_optimizers(const Value& root) {
  std::vector<OptimizerFacts> found;
  for (const auto& [path, value] : optimizer_values(root)) {
    const Value& optimizer = *value;
    OptimizerFacts facts{path_name(path), {}, bytes_below(optimizer)};
    const Value* groups = optimizer.find("param_groups");
    if (groups->is_sequence()) {
      for (const Value& group : groups->as_list()) facts.groups.push_back(group_size(group));
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
