#include "libckpt/analyze/why/simulated_load.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/analyze/why/attempt.h"
#include "libckpt/analyze/why/weight_norm.h"

namespace ckpt::detail {
namespace {

/// Which counters of batch norms may be missing: of modules whose version says so.
class Counters {
 public:
  Counters(const Dict& state_dict, const KeyList& wanted) {
    for (const WantedKey& key : wanted.keys) {
      if (leaf_of(key.key) == "running_mean") norms_.insert(parent_of(key.key));
    }
    if (norms_.empty()) return;
    for (const auto& [path, version] : module_versions(state_dict)) versions_.emplace(path, version);
  }
  bool may_be_missing(const std::string& key) const {
    if (!is_counter(key) || !norms_.contains(parent_of(key))) return false;
    auto version = versions_.find(std::string(parent_of(key)));
    return core::load_adds_counter(version == versions_.end() ? std::nullopt : std::optional(version->second));
  }

 private:
  std::unordered_set<std::string_view> norms_;
  std::unordered_map<std::string, std::int64_t> versions_;
};

using Values = std::unordered_map<std::string_view, const Value*>;

/// What parametrizations.weight_norm takes for a key that is not there: the same under its older name, where both
/// halves have that. `names` keeps the names alive.
void take_older_weight_norm(Values& there, const KeyList& wanted, std::vector<std::string>& names) {
  for (const WantedKey& want : wanted.keys) {
    std::optional<std::string> older = there.contains(want.key) ? std::nullopt : older_weight_norm(want.key);
    if (!older) continue;
    std::string other = *older;
    other.back() = other.back() == 'g' ? 'v' : 'g';
    auto found = there.find(*older);
    if (found == there.end() || !there.contains(other)) continue;
    there.emplace(want.key, found->second);
    names.push_back(std::move(*older));
  }
}

std::string no_tensor_text(const std::string& key, const Value& value) {
  return "While copying the parameter named \"" + key +
         "\", expected torch.Tensor or Tensor-like object from checkpoint but received <class '" + type_text(value) +
         "'>";
}

}  // namespace

core::LoadProblems simulate_load(const Dict& state_dict, const KeyList& wanted) {
  core::LoadProblems problems;
  Values there;
  for (const auto& [key, value] : state_dict.items) {
    if (key.is(Value::Kind::text)) there.emplace(key.as_text(), &value);
  }
  std::vector<std::string> older;
  take_older_weight_norm(there, wanted, older);
  Counters counters(state_dict, wanted);
  std::unordered_set<std::string_view> known(older.begin(), older.end());
  for (const WantedKey& want : wanted.keys) {
    known.insert(want.key);
    auto found = there.find(want.key);
    if (found == there.end()) {
      if (!want.optional && !counters.may_be_missing(want.key)) problems.missing.push_back(want.key);
    } else if (!found->second->is(Value::Kind::tensor)) {
      problems.errors.push_back(no_tensor_text(want.key, *found->second));
    } else if (const core::Shape& shape = value_shape(found->second->as_entry());
               want.shape && !core::load_takes_shape(*want.shape, shape)) {
      problems.errors.push_back(core::size_mismatch_text(want.key, shape, *want.shape));
    }
  }
  for (const auto& [key, value] : state_dict.items) {
    std::string name = step_text(key);
    if (!known.contains(name)) problems.unexpected.push_back(std::move(name));
  }
  return problems;
}

bool is_dict_of_tensors(const Value& value) {
  if (!value.is(Value::Kind::dict) || value.as_dict().items.empty()) return false;
  const Dict& dict = value.as_dict();
  return std::all_of(dict.items.begin(), dict.items.end(), [](const auto& item) {
    return item.first.is(Value::Kind::text) && item.second.is(Value::Kind::tensor);
  });
}

}  // namespace ckpt::detail
