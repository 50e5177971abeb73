#include "libckpt/transform/rules.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/nearest_path.h"
#include "libckpt/transform/flat_optimizer.h"
#include "libckpt/transform/key_edit.h"
#include "libckpt/transform/module_moves.h"
#include "libckpt/transform/optimizer_keys.h"
#include "libckpt/transform/rule_engine.h"
#include "libckpt/transform/tree_map.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::RuleItem;

constexpr std::size_t kMaxListed = 8;

/// Old key -> new key, for what is still one tensor.
using Moved = std::unordered_map<std::string, std::string>;

/// A dict before and after the rules.
struct Plan {
  std::vector<RuleItem> items;
  Moved moved;
  detail::ModuleMoves modules;
  bool changed = false;
};

std::vector<RuleItem> items_of(const Dict& dict) {
  std::vector<RuleItem> items;
  for (const auto& [key, value] : dict.items) items.push_back({key, value, items.size()});
  return items;
}

/// Every module path above the text keys.
std::unordered_set<std::string> modules_of(const std::vector<RuleItem>& items) {
  std::unordered_set<std::string> out;
  for (const RuleItem& item : items) {
    if (!item.key.is(Value::Kind::text)) continue;
    const std::string& name = item.name();
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      out.insert(name.substr(0, dot));
    }
  }
  return out;
}

class RulesMap final : public detail::TreeMap {
 public:
  /// `moved`: old names and new ones in all dicts, where the names that optimizers keep are to follow; else null.
  RulesMap(std::unordered_map<const Dict*, Plan> plans, const Moved* moved) : plans_(std::move(plans)), moved_(moved) {}

 protected:
  Value map_object(const Value& object) override { return object; }

  bool edit_dict(const Value& node, Dict& dict) override {
    auto plan = plans_.find(&node.as_dict());
    bool changed = plan != plans_.end() && plan->second.changed;
    if (changed) replace_items(plan->second, dict);
    if (changed) move_versions(node, plan->second, dict);
    return (moved_ != nullptr && rename_parameters(node, dict)) || changed;
  }

 private:
  bool rename_parameters(const Value& node, Dict& dict) const {
    auto rename = [this](const std::string& name) { return new_name(name); };
    bool changed = detail::rename_in_optimizer(node, dict, rename);
    bool flat = is_flat_optimizer_state(node.as_dict()) && !plans_.contains(&node.as_dict());
    return (flat && detail::rename_flat_keys(dict, rename)) || changed;
  }

  /// Children that are no tensors were mapped already: they are taken from `dict`.
  static void replace_items(const Plan& plan, Dict& dict) {
    std::vector<std::pair<Value, Value>> items;
    for (const RuleItem& item : plan.items) {
      bool mapped = item.origin != RuleItem::kMade && !item.value.is(Value::Kind::tensor);
      items.emplace_back(item.key, mapped ? dict.items[item.origin].second : item.value);
    }
    dict.items = std::move(items);
  }

  static void move_versions(const Value& node, const Plan& plan, Dict& dict) {
    const Value* metadata = dict.attributes.find("_metadata");
    if (metadata == nullptr || !metadata->is(Value::Kind::dict)) return;
    Value renamed =
        detail::rename_modules(*metadata, [&](const std::string& path) { return plan.modules.moved(path); });
    std::unordered_set<std::string> had = modules_of(items_of(node.as_dict()));
    std::unordered_set<std::string> has = modules_of(plan.items);
    Dict kept = renamed.as_dict();
    std::erase_if(kept.items, [&](const auto& item) {
      return item.first.is(Value::Kind::text) && had.contains(item.first.as_text()) &&
             !has.contains(item.first.as_text());
    });
    Dict attributes = dict.attributes.as_dict();
    for (auto& [name, value] : attributes.items) {
      if (name.is(Value::Kind::text) && name.as_text() == "_metadata") value = Value::dict(kept);
    }
    dict.attributes = Value::dict(std::move(attributes));
  }

  std::string new_name(const std::string& name) const {
    auto known = moved_->find(name);
    return known == moved_->end() ? name : known->second;
  }

  std::unordered_map<const Dict*, Plan> plans_;
  const Moved* moved_;
};

template <class Body>
auto in_rule(const Rules& rules, std::size_t index, Body body) {
  return core::with_context("rule " + std::to_string(index + 1) + " (" + describe(rules[index]) + ")", body);
}

class Applier {
 public:
  explicit Applier(const Rules& rules) : rules_(rules) {
    for (std::size_t i = 0; i < rules.size(); ++i) {
      steps_.push_back(in_rule(rules_, i, [&] { return detail::compile_rule(rules[i]); }));
      report_.steps.push_back({describe(rules[i]), 0});
    }
  }

  Plan plan(const StateDictRef& dict) {
    Plan out;
    out.items = items_of(*dict.dict);
    detail::RuleNotes notes;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      report_.steps[i].matched += in_rule(rules_, i, [&] { return steps_[i]->apply(out.items, notes); });
    }
    follow_moves(*dict.dict, out);
    note_moves(dict, out);
    out.changed |= notes.changed > 0 || !notes.made.empty() || !notes.dropped.empty();
    report_.changed += notes.changed;
    report_.made.insert(report_.made.end(), notes.made.begin(), notes.made.end());
    report_.dropped.insert(report_.dropped.end(), notes.dropped.begin(), notes.dropped.end());
    report_.lost.insert(report_.lost.end(), notes.lost.begin(), notes.lost.end());
    return out;
  }

  RuleReport finish() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      std::vector<std::string> parts = steps_[i]->unmatched();
      if (report_.steps[i].matched == 0 && parts.empty()) parts = {report_.steps[i].rule};
      report_.unmatched.insert(report_.unmatched.end(), parts.begin(), parts.end());
    }
    return std::move(report_);
  }

 private:
  /// Keys of an optimizer beside the model's follow where no rule has named them.
  static void follow_moves(const Dict& dict, Plan& plan) {
    Moved moved;
    for (const RuleItem& item : plan.items) {
      if (item.origin == RuleItem::kMade || !item.key.is(Value::Kind::text)) continue;
      const std::string& from = dict.items[item.origin].first.as_text();
      if (from != item.name()) moved.emplace(from, item.name());
    }
    if (moved.empty()) return;
    detail::FlatOptimizer beside(dict);
    auto rename = [&](const std::string& name) { return moved.contains(name) ? moved.at(name) : name; };
    std::unordered_set<std::string> taken;
    for (RuleItem& item : plan.items) {
      if (!item.key.is(Value::Kind::text)) continue;
      bool named = item.origin == RuleItem::kMade || moved.contains(dict.items[item.origin].first.as_text());
      std::optional<std::string> to = named ? std::nullopt : beside.renamed(item.name(), rename);
      if (to && *to != item.name()) item.key = Value::text(*to);
      if (taken.insert(item.name()).second) continue;
      throw Error(ErrorCode::collision, "two keys would both become " + core::quote(item.name()));
    }
  }

  void note_moves(const StateDictRef& dict, Plan& plan) {
    const auto& before = dict.dict->items;
    for (const RuleItem& item : plan.items) {
      if (item.origin == RuleItem::kMade || !item.key.is(Value::Kind::text)) continue;
      const std::string& from = before[item.origin].first.as_text();
      plan.modules.add(from, item.name());
      if (from == item.name() && item.is_tensor()) report_.kept.push_back(from);
      if (from == item.name()) continue;
      plan.changed = true;
      plan.moved.emplace(from, item.name());
      report_.keys.renamed.push_back({dict.name, from, item.name()});
    }
    report_.keys.keys += before.size();
  }

  const Rules& rules_;
  std::vector<std::unique_ptr<detail::RuleStep>> steps_;
  RuleReport report_;
};

/// For the first rule that matches nothing: the pattern that was probably meant.
std::string guess_pattern(const RuleReport& report, const Rules& rules, const Value& root) {
  for (const Rule& rule : rules) {
    for (const auto& [pattern, name] : rule.names) {
      bool is_it = report.unmatched.front().find(core::quote(pattern)) != std::string::npos;
      if (is_it) return did_you_mean_pattern(root, pattern);
    }
  }
  return "";
}

void require_matches(const RuleReport& report, const Rules& rules, const Value& root) {
  std::vector<std::string> unknown = report.unmatched;
  if (unknown.empty()) return;
  std::size_t more = unknown.size() - std::min(unknown.size(), kMaxListed);
  unknown.resize(unknown.size() - more);
  throw Error(ErrorCode::key, "rules that match nothing: " + core::join(unknown, "; ") +
                                  (more > 0 ? " and " + core::format_count(more) + " more" : "") +
                                  guess_pattern(report, rules, root));
}

}  // namespace

Checkpoint apply_rules(const Checkpoint& checkpoint, const Rules& rules, const RuleOptions& options,
                       RuleReport* report) {
  std::vector<StateDictRef> scope = detail::state_dicts_in_scope(checkpoint.root, options.at);
  if (scope.empty()) throw Error(ErrorCode::key, "the file has no state dict of a model");
  Applier applier(rules);
  std::unordered_map<const Dict*, Plan> plans;
  Moved moved;  // in several dicts: as the first says
  for (const StateDictRef& dict : scope) {
    if (plans.contains(dict.dict)) continue;
    Plan plan = applier.plan(dict);
    moved.insert(plan.moved.begin(), plan.moved.end());
    plans.emplace(dict.dict, std::move(plan));
  }
  RuleReport done = applier.finish();
  if (options.require_matches) require_matches(done, rules, checkpoint.root);
  Checkpoint out = checkpoint;
  out.root = RulesMap(std::move(plans), options.at.empty() ? &moved : nullptr).map(checkpoint.root);
  if (report != nullptr) *report = std::move(done);
  return out;
}

}  // namespace ckpt
