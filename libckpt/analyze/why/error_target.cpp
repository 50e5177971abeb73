#include "libckpt/analyze/why/error_target.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/analyze/why/attempt.h"
#include "libckpt/state_dicts.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using Names = std::unordered_set<std::string_view>;

std::size_t keys_in(const Dict& dict, const Names& names) {
  return static_cast<std::size_t>(std::count_if(dict.items.begin(), dict.items.end(), [&](const auto& item) {
    return item.first.is(Value::Kind::text) && names.contains(item.first.as_text());
  }));
}

/// The dict that was given to load_state_dict: the one that holds the keys the message complains of.
const Dict* loaded_dict(const ErrorFacts& facts, const Value& root) {
  Names seen(facts.unexpected.begin(), facts.unexpected.end());
  for (const ErrorFacts::Mismatch& mismatch : facts.mismatched) seen.insert(mismatch.key);
  const Dict* best = nullptr;
  std::size_t most = 0;
  auto consider = [&](const Dict& dict) {
    std::size_t here = keys_in(dict, seen);
    if (here > most) {
      best = &dict;
      most = here;
    }
  };
  if (root.is(Value::Kind::dict)) consider(root.as_dict());
  std::vector<StateDictRef> dicts = list_weights(root);
  for (const StateDictRef& ref : dicts) consider(*ref.dict);
  if (best != nullptr || !seen.empty()) return best;
  // Only missing keys: the model, or the largest dict where several may be it.
  if (std::optional<StateDictRef> model = find_model(root)) return model->dict;
  for (const StateDictRef& ref : dicts) {
    if (best == nullptr || ref.tensors > best->items.size()) best = ref.dict;
  }
  return best;
}

class Builder {
 public:
  explicit Builder(KeyList& list) : list_(list) {}
  void add(WantedKey wanted) {
    if (!known_.insert(wanted.key).second) return;
    list_.keys.push_back(std::move(wanted));
  }

 private:
  KeyList& list_;
  std::unordered_set<std::string> known_;
};

/// A norm whose running mean is missing has a counter too, which a message names only when the file has a version for
/// the norm: without one PyTorch adds the counter.
void add_counters(Builder& builder, const std::vector<std::string>& missing) {
  for (const std::string& key : missing) {
    if (leaf_of(key) != "running_mean") continue;
    std::string module(parent_of(key));
    WantedKey counter{(module.empty() ? "" : module + ".") + "num_batches_tracked", core::Shape{}, core::DType::i64};
    counter.optional = true;
    builder.add(std::move(counter));
  }
}

}  // namespace

std::optional<KeyList> target_of(const ErrorFacts& facts, const Value& root) {
  if (!facts.keys()) return std::nullopt;
  KeyList list;
  list.name = facts.model.empty() ? "the model of the message" : facts.model;
  Names unexpected(facts.unexpected.begin(), facts.unexpected.end());
  std::unordered_map<std::string_view, core::Shape> wanted_shape;
  for (const ErrorFacts::Mismatch& mismatch : facts.mismatched) wanted_shape.emplace(mismatch.key, mismatch.in_model);
  const Dict* dict = loaded_dict(facts, root);
  if (dict == nullptr && !facts.unexpected.empty()) return std::nullopt;  // the message is about another file
  Builder builder(list);
  for (std::size_t i = 0; dict != nullptr && i < dict->items.size(); ++i) {
    const auto& [key, value] = dict->items[i];
    if (!value.is(Value::Kind::tensor) || unexpected.contains(step_text(key))) continue;
    auto shape = wanted_shape.find(step_text(key));
    builder.add({step_text(key), shape == wanted_shape.end() ? value_shape(value.as_entry()) : shape->second, {}});
  }
  for (const std::string& key : facts.missing) builder.add({key, {}, {}});
  add_counters(builder, facts.missing);
  if (list.keys.empty() && facts.unexpected.empty()) return std::nullopt;
  return list;
}

}  // namespace ckpt::detail
