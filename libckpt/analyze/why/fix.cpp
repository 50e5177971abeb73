#include "libckpt/analyze/why/fix.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/analyze/why/key_rule.h"
#include "libckpt/analyze/why/plain_objects.h"
#include "libckpt/analyze/why/trees.h"
#include "libckpt/analyze/why/window_table.h"
#include "libckpt/origin.h"
#include "libckpt/state_dicts.h"
#include "libckpt/transform/cast.h"
#include "libckpt/transform/derived_entry.h"
#include "libckpt/transform/key_edit.h"
#include "libckpt/transform/map_location.h"
#include "libckpt/transform/quantize.h"
#include "libckpt/transform/tree_map.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using Items = std::vector<std::pair<Value, Value>>;

/// Changes the items of the one dict that is `target`.
class EditItems final : public detail::TreeMap {
 public:
  EditItems(const Value& target, const std::function<void(Items&)>& edit) : target_(target), edit_(edit) {}

 protected:
  bool edit_dict(const Value& node, Dict& dict) override {
    if (!detail::same_node(node, target_)) return false;
    edit_(dict.items);
    return true;
  }

 private:
  const Value& target_;
  const std::function<void(Items&)>& edit_;
};

class DropOptimizers final : public detail::TreeMap {
 protected:
  bool edit_dict(const Value&, Dict& dict) override {
    return std::erase_if(dict.items, [](const auto& item) { return is_optimizer_state(item.second); }) > 0;
  }
};

void edit_items(Checkpoint& checkpoint, const std::string& at, const std::function<void(Items&)>& edit) {
  const Value target = value_at(checkpoint.root, at);
  if (!target.is(Value::Kind::dict)) throw Error(ErrorCode::key, core::quote(at) + " is not a dict");
  checkpoint.root = EditItems(target, edit).map(checkpoint.root);
}

std::string text_of(const Value& key) {
  return key.is(Value::Kind::text) ? key.as_text() : std::string();
}

Value tensor_of(Entry entry) {
  return Value::tensor(std::make_shared<const Entry>(std::move(entry)));
}

const Entry& entry_of(const std::pair<Value, Value>& item) {
  if (!item.second.is(Value::Kind::tensor))
    throw Error(ErrorCode::key, core::quote(text_of(item.first)) + " is not a tensor");
  return item.second.as_entry();
}

/// Calls `change` for each named item. Error(key) when one is not there.
void for_items(Items& items, const std::vector<std::string>& keys,
               const std::function<void(std::pair<Value, Value>&, std::size_t)>& change) {
  std::unordered_map<std::string_view, std::size_t> wanted;
  for (std::size_t i = 0; i < keys.size(); ++i) wanted.emplace(keys[i], i);
  std::size_t found = 0;
  for (auto& item : items) {
    if (!item.first.is(Value::Kind::text)) continue;
    auto at = wanted.find(item.first.as_text());
    if (at == wanted.end()) continue;
    ++found;
    change(item, at->second);
  }
  if (found != wanted.size())
    throw Error(ErrorCode::key, "the file does not have all keys of the plan, such as " + core::quote(keys.front()));
}

void rename(Checkpoint& checkpoint, const FixPlan& plan, const FixStep& step) {
  const Value& target = value_at(checkpoint.root, plan.at);
  if (!target.is(Value::Kind::dict)) throw Error(ErrorCode::key, "there is no dict to rename keys in");
  StateDictRef ref;
  ref.name = plan.at;
  ref.dict = &target.as_dict();
  detail::KeyEdit edit{detail::key_function(step.rule), detail::module_function(step.rule), plan.at.empty()};
  checkpoint = detail::rewrite_keys(checkpoint, {ref}, edit, nullptr);
}

void drop(Items& items, const std::vector<std::string>& keys) {
  std::unordered_set<std::string_view> gone(keys.begin(), keys.end());
  std::erase_if(
      items, [&](const auto& item) { return item.first.is(Value::Kind::text) && gone.contains(item.first.as_text()); });
}

/// A counter goes behind the running variance of its module, as PyTorch orders them.
void add_counters(Items& items, const std::vector<std::string>& keys) {
  std::unordered_map<std::string, const std::string*> behind;
  std::unordered_set<std::string> names;
  for (const auto& item : items) names.insert(text_of(item.first));
  for (const std::string& key : keys) {
    std::string module(detail::parent_of(key));
    std::string variance = module.empty() ? "running_var" : module + ".running_var";
    std::string mean = module.empty() ? "running_mean" : module + ".running_mean";
    behind.emplace(names.contains(variance) ? variance : mean, &key);
  }
  Items out;
  for (auto& item : items) {
    auto counter = behind.find(text_of(item.first));
    out.push_back(std::move(item));
    if (counter == behind.end()) continue;
    Entry zero;
    zero.dtype = core::DType::i64;
    zero.location = out.back().second.is(Value::Kind::tensor) ? out.back().second.as_entry().location : "cpu";
    zero.bytes = memory_source(core::ByteVector(sizeof(std::int64_t)));
    out.emplace_back(Value::text(*counter->second), tensor_of(std::move(zero)));
  }
  items = std::move(out);
}

/// A table goes behind the biases that it chooses from.
void add_tables(Items& items, const FixStep& step) {
  std::unordered_map<std::string, std::size_t> behind;
  for (std::size_t i = 0; i < step.keys.size(); ++i) {
    behind.emplace(std::string(detail::parent_of(step.keys[i])) + ".relative_position_bias_table", i);
  }
  Items out;
  for (auto& item : items) {
    auto table = behind.find(text_of(item.first));
    out.push_back(std::move(item));
    if (table == behind.end()) continue;
    const Entry& biases = entry_of(out.back());
    const core::Shape& shape = step.shapes[table->second];
    Entry index;
    index.dtype = core::DType::i64;
    index.shape = shape;
    index.location = biases.location;
    index.bytes = memory_source(detail::window_table(detail::window_of(biases.shape, shape)));
    out.emplace_back(Value::text(step.keys[table->second]), tensor_of(std::move(index)));
  }
  items = std::move(out);
}

void tie(Items& items, const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::unordered_map<std::string, Value> values;
  for (const auto& item : items) values.emplace(text_of(item.first), item.second);
  for (const auto& [name, existing] : pairs) {
    auto found = values.find(existing);
    if (found == values.end())
      throw Error(ErrorCode::key, "no key " + core::quote(existing) + " to tie " + core::quote(name) + " to");
    items.emplace_back(Value::text(name), found->second);
  }
}

template <class Numbers>
std::vector<std::int64_t> to_numbers(const Numbers& numbers) {
  return std::vector<std::int64_t>(numbers.begin(), numbers.end());
}

/// The first dimension of every shape.
std::vector<std::int64_t> rows_of(const std::vector<core::Shape>& shapes) {
  std::vector<std::int64_t> rows;
  for (const core::Shape& shape : shapes) rows.push_back(shape.empty() ? 0 : shape[0]);
  return rows;
}

void split(Items& items, const FixStep& step) {
  Items out;
  for (auto& item : items) {
    if (text_of(item.first) != step.keys.front()) {
      out.push_back(std::move(item));
      continue;
    }
    auto parts = detail::split_parts(entry_of(item), 0, step.shapes.size(), rows_of(step.shapes));
    for (std::size_t p = 0; p < parts.size(); ++p) {
      out.emplace_back(Value::text(step.keys[p + 1]), Value::tensor(parts[p]));
    }
  }
  items = std::move(out);
}

void fuse(Items& items, const FixStep& step) {
  std::vector<std::string> names(step.keys.begin() + 1, step.keys.end());
  std::vector<EntryPtr> parts(names.size());
  std::vector<core::Shape> shapes(names.size());
  std::size_t first = items.size();
  for_items(items, names, [&](std::pair<Value, Value>& item, std::size_t p) {
    shapes[p] = entry_of(item).shape;
    parts[p] = item.second.entry_ptr();
    first = std::min(first, static_cast<std::size_t>(&item - items.data()));
  });
  items[first] = {Value::text(step.keys.front()), Value::tensor(detail::fused(parts, 0, rows_of(shapes)))};
  drop(items, names);
}

void take(Checkpoint& checkpoint, const FixStep& step) {
  Value taken = value_at(checkpoint.root, step.at);
  checkpoint.root = std::move(taken);
}

void cast_all(Checkpoint& checkpoint, const FixStep& step) {
  CastOptions options;
  options.to = core::parse_dtype(step.to);
  for (const std::string& dtype : step.keys) options.from.push_back(core::parse_dtype(dtype));
  checkpoint = cast(checkpoint, options);
}

/// Steps that change the tree or the whole file. False when the step is about the keys of one dict.
bool apply_to_tree(Checkpoint& checkpoint, const FixPlan& plan, const FixStep& step) {
  switch (step.kind) {
    case FixStep::Kind::take:
    case FixStep::Kind::take_module:
      take(checkpoint, step);
      return true;
    case FixStep::Kind::flatten:
      checkpoint.root = Value::dict(detail::flat_state(checkpoint.root));
      return true;
    case FixStep::Kind::plain_objects:
      checkpoint.root = detail::plain_objects(checkpoint.root, step.keys);
      return true;
    case FixStep::Kind::rename:
      rename(checkpoint, plan, step);
      return true;
    case FixStep::Kind::rules:
      checkpoint = apply_rules(checkpoint, step.rules, {.at = plan.at});
      if (step.origin) checkpoint = with_origin(checkpoint, *step.origin);
      return true;
    case FixStep::Kind::drop_optimizer:
      checkpoint.root = DropOptimizers().map(checkpoint.root);
      return true;
    case FixStep::Kind::remap:
      checkpoint = map_location(checkpoint, {.to = step.to});
      return true;
    case FixStep::Kind::cast:
      cast_all(checkpoint, step);
      return true;
    case FixStep::Kind::convert:
      return true;  // what is written has another form, not another tree
    default:
      return false;
  }
}

void apply_to_items(Items& items, const FixStep& step) {
  switch (step.kind) {
    case FixStep::Kind::drop:
      return drop(items, step.keys);
    case FixStep::Kind::add_counters:
      return add_counters(items, step.keys);
    case FixStep::Kind::add_tables:
      return add_tables(items, step);
    case FixStep::Kind::tie:
      return tie(items, step.pairs);
    case FixStep::Kind::transpose:
      return for_items(items, step.keys, [&](auto& item, std::size_t) {
        item.second = Value::tensor(detail::transposed(entry_of(item), to_numbers(step.order)));
      });
    case FixStep::Kind::reshape:
      return for_items(items, step.keys, [&](auto& item, std::size_t i) {
        item.second = Value::tensor(detail::reshaped(entry_of(item), to_numbers(step.shapes[i])));
      });
    case FixStep::Kind::split:
      return split(items, step);
    default:
      return fuse(items, step);
  }
}

}  // namespace

Checkpoint apply_fix(const Checkpoint& checkpoint, const FixPlan& plan) {
  // A PyTorch file has no quantised blocks, and layouts are changed of values only.
  const bool converts = std::any_of(plan.steps.begin(), plan.steps.end(),
                                    [](const FixStep& step) { return step.kind == FixStep::Kind::convert; });
  Checkpoint out = converts ? blocks_as_values(checkpoint) : checkpoint;
  for (const FixStep& step : plan.steps) {
    if (apply_to_tree(out, plan, step)) continue;
    edit_items(out, plan.at, [&](Items& items) { apply_to_items(items, step); });
  }
  return out;
}

}  // namespace ckpt
