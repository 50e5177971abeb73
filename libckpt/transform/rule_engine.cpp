#include "libckpt/transform/rule_engine.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>

#include "libckpt/transform/derived_entry.h"
#include "libckpt/transform/folded_entry.h"
#include "libckpt/transform/pattern.h"
#include "libckpt/transform/same_values.h"
#include "libckpt/transform/selector.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using Items = std::vector<RuleItem>;

/// What a rule made of a source is used again for tensors that share it, so that ties live on.
class SharedResults {
 public:
  EntryPtr share(const Entry& from, std::size_t part, EntryPtr made) {
    if (from.bytes == nullptr) return made;
    auto [known, fresh] = sources_.try_emplace(
        {from.bytes.get(), from.dtype, from.negative, core::to_list(from.shape), part}, made->bytes);
    if (fresh) return made;
    auto shared = std::make_shared<Entry>(*made);
    shared->bytes = known->second;
    return shared;
  }

 private:
  std::map<std::tuple<const ByteSource*, core::DType, bool, std::string, std::size_t>, SourcePtr> sources_;
};

class RenameStep final : public RuleStep {
 public:
  explicit RenameStep(const Rule& rule) {
    for (const auto& [from, to] : rule.names) {
      Pattern pattern = Pattern::parse(from);
      Template replacement = Template::parse(to, pattern);
      std::optional<std::string> module = module_of(from);
      if (pattern.is_name()) {
        names_.emplace(pattern.name(), pairs_.size());
      } else if (module) {
        modules_.emplace(*module, pairs_.size());
      } else {
        patterns_.push_back(pairs_.size());
      }
      pairs_.push_back({std::move(pattern), std::move(replacement), false});
    }
  }

  std::uint64_t apply(Items& items, RuleNotes&) override {
    std::vector<std::string> before = names_of(items);
    std::uint64_t matched = 0;
    for (RuleItem& item : items) {
      if (!item.key.is(Value::Kind::text)) continue;
      std::optional<std::string> to = renamed(item.name());
      if (!to) continue;
      ++matched;
      if (to->empty()) {
        throw Error(ErrorCode::refused, "key " + core::quote(item.name()) + " would be left without a name");
      }
      if (*to != item.name()) item.key = Value::text(std::move(*to));
    }
    require_distinct(items, before);
    return matched;
  }

  std::vector<std::string> unmatched() const override {
    std::vector<std::string> out;
    for (const Pair& pair : pairs_) {
      if (pair.used) continue;
      out.push_back("rename " + core::quote(pair.pattern.text()) + " to " + core::quote(pair.replacement.text()));
    }
    return out;
  }

 private:
  struct Pair {
    Pattern pattern;
    Template replacement;
    bool used;
  };

  /// "a.b" of "a.b.*", which is found without a try of each pattern.
  static std::optional<std::string> module_of(const std::string& from) {
    bool plain = from.ends_with(".*") && from.find('\\') == std::string::npos;
    if (!plain) return std::nullopt;
    Pattern module = Pattern::parse(from.substr(0, from.size() - 2));
    return module.is_name() ? std::optional(module.name()) : std::nullopt;
  }

  /// The first of the pairs that mean one key or one module; their number when there is none.
  std::size_t named(const std::string& key) const {
    auto exact = names_.find(key);
    std::size_t first = exact == names_.end() ? pairs_.size() : exact->second;
    for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
      auto module = modules_.find(key.substr(0, dot));
      if (module != modules_.end()) first = std::min(first, module->second);
    }
    return first;
  }

  std::optional<std::string> renamed(const std::string& key) {
    std::size_t limit = named(key);
    for (std::size_t index : patterns_) {
      if (index > limit) break;
      std::optional<Captures> captures = pairs_[index].pattern.match(key);
      if (!captures) continue;
      pairs_[index].used = true;
      return pairs_[index].replacement.expand(*captures);
    }
    if (limit == pairs_.size()) return std::nullopt;
    pairs_[limit].used = true;
    return pairs_[limit].replacement.expand(pairs_[limit].pattern.match(key).value());
  }

  std::vector<Pair> pairs_;
  std::unordered_map<std::string, std::size_t> names_;    ///< pairs that mean one key; the first one counts
  std::unordered_map<std::string, std::size_t> modules_;  ///< pairs that mean all of one module, by its path
  std::vector<std::size_t> patterns_;                     ///< the others, in order
};

class DropStep final : public RuleStep {
 public:
  explicit DropStep(const Rule& rule) : selector_(Selector::parse(rule.from.at(0))), was_(rule.constant) {}

  std::uint64_t apply(Items& items, RuleNotes& notes) override {
    std::size_t before = items.size();
    std::erase_if(items, [&](const RuleItem& item) {
      bool drop = item.is_tensor() && selector_.covers(item.name(), item.value.as_entry());
      if (!drop) return false;
      notes.dropped.push_back(item.name());
      const std::string other = was_ ? other_values(item.value.as_entry(), *was_) : "";
      if (!other.empty()) notes.lost.push_back(core::quote(item.name()) + other);
      return true;
    });
    return before - items.size();
  }

 private:
  Selector selector_;
  std::optional<RuleConstant> was_;
};

/// transpose, reshape, cast, add: one tensor becomes another in its place.
class ValueStep final : public RuleStep {
 public:
  explicit ValueStep(Rule rule) : rule_(std::move(rule)), selector_(Selector::parse(rule_.from.at(0))) {}

  std::uint64_t apply(Items& items, RuleNotes& notes) override {
    std::uint64_t matched = 0;
    for (RuleItem& item : items) {
      if (!item.is_tensor() || !takes(item)) continue;
      ++matched;
      const Entry& entry = item.value.as_entry();
      EntryPtr made = core::with_context(core::quote(item.name()), [&] { return make(entry); });
      if (made == nullptr) continue;
      item.value = Value::tensor(shared_.share(entry, 0, std::move(made)));
      ++notes.changed;
    }
    return matched;
  }

 private:
  bool takes(const RuleItem& item) const {
    const Entry& entry = item.value.as_entry();
    if (rule_.kind != Rule::Kind::cast) return selector_.matches(item.name(), entry);
    return selector_.covers(item.name(), entry) && (!rule_.was_dtype || entry.dtype == *rule_.was_dtype);
  }

  /// Null when nothing changes.
  EntryPtr make(const Entry& entry) const {
    if (rule_.kind == Rule::Kind::add) return added(entry, rule_.value);
    if (rule_.kind == Rule::Kind::transpose) return transposed(entry, rule_.dims);
    if (rule_.kind == Rule::Kind::cast) return entry.dtype == *rule_.dtype ? nullptr : with_dtype(entry, *rule_.dtype);
    EntryPtr made = reshaped(entry, rule_.shape);
    if (rule_.was_shape) reshaped(*made, *rule_.was_shape);  // says so when it would not go back
    return made;
  }

  Rule rule_;
  Selector selector_;
  SharedResults shared_;
};

class SplitStep final : public RuleStep {
 public:
  explicit SplitStep(Rule rule) : rule_(std::move(rule)), pattern_(Pattern::parse(rule_.from.at(0))) {
    for (const std::string& to : rule_.to) templates_.push_back(Template::parse(to, pattern_));
  }

  std::uint64_t apply(Items& items, RuleNotes& notes) override {
    Items out;
    std::vector<std::string> before;
    std::uint64_t matched = 0;
    for (RuleItem& item : items) {
      std::optional<Captures> captures = item.is_tensor() ? pattern_.match(item.name()) : std::nullopt;
      std::string name = item.key.is(Value::Kind::text) ? item.name() : "";
      if (!captures) {
        out.push_back(std::move(item));
      } else {
        ++matched;
        core::with_context(core::quote(name), [&] { split(item, *captures, out, notes); });
      }
      before.resize(out.size(), name);
    }
    items = std::move(out);
    require_distinct(items, before);
    return matched;
  }

 private:
  void split(const RuleItem& item, const Captures& captures, Items& out, RuleNotes& notes) {
    const Entry& entry = item.value.as_entry();
    std::vector<EntryPtr> parts = split_parts(entry, rule_.dim, templates_.size(), rule_.sizes);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::string name = templates_[i].expand(captures);
      notes.made.push_back(name);
      out.push_back({Value::text(std::move(name)), Value::tensor(shared_.share(entry, i, parts[i]))});
    }
    ++notes.changed;
  }

  Rule rule_;
  Pattern pattern_;
  std::vector<Template> templates_;
  SharedResults shared_;
};

class FuseStep final : public RuleStep {
 public:
  explicit FuseStep(Rule rule)
      : rule_(std::move(rule)),
        pattern_(Pattern::parse(rule_.from.at(0))),
        to_(Template::parse(rule_.to.at(0), pattern_)) {
    for (std::size_t i = 1; i < rule_.from.size(); ++i) others_.push_back(Template::parse(rule_.from[i], pattern_));
  }

  std::uint64_t apply(Items& items, RuleNotes& notes) override {
    std::unordered_map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].is_tensor()) places.emplace(items[i].name(), i);
    }
    std::vector<std::string> before = names_of(items);
    std::vector<bool> used(items.size());
    std::uint64_t matched = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::optional<Captures> captures = items[i].is_tensor() ? pattern_.match(before[i]) : std::nullopt;
      if (!captures) continue;
      ++matched;
      core::with_context(core::quote(before[i]), [&] { fuse(items, i, *captures, places, used, notes); });
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (used[i]) continue;
      before[kept] = before[i];
      items[kept++] = items[i];
    }
    items.resize(kept);
    before.resize(kept);
    require_distinct(items, before);
    return matched;
  }

 private:
  using Places = std::unordered_map<std::string, std::size_t>;

  void fuse(Items& items, std::size_t first, const Captures& captures, const Places& places, std::vector<bool>& used,
            RuleNotes& notes) {
    std::vector<EntryPtr> parts = {items[first].value.entry_ptr()};
    std::string sources;
    for (const Template& other : others_) {
      std::string name = other.expand(captures);
      auto place = places.find(name);
      if (place == places.end()) throw Error(ErrorCode::key, "the part " + core::quote(name) + " is not there");
      if (place->second == first || used[place->second]) {
        throw Error(ErrorCode::collision, "the part " + core::quote(name) + " would be used twice");
      }
      parts.push_back(items[place->second].value.entry_ptr());
      used[place->second] = true;
    }
    std::string name = to_.expand(captures);
    notes.made.push_back(name);
    ++notes.changed;
    EntryPtr made = fused(parts, rule_.dim, rule_.sizes);
    items[first] = {Value::text(std::move(name)), Value::tensor(shared_.share(*parts[0], 0, made))};
  }

  Rule rule_;
  Pattern pattern_;
  Template to_;
  std::vector<Template> others_;
  SharedResults shared_;
};

class MakeStep final : public RuleStep {
 public:
  explicit MakeStep(const Rule& rule)
      : name_(rule.from.at(0)), made_(constant_entry(rule.constant.value(), rule.dtype.value())) {
    if (!Pattern::parse(name_).is_name()) throw Error(ErrorCode::usage, "it makes one tensor, and names a pattern");
    name_ = Pattern::parse(name_).name();
  }

  std::uint64_t apply(Items& items, RuleNotes& notes) override {
    std::vector<std::string> before = names_of(items);
    before.push_back(name_);
    items.push_back({Value::text(name_), Value::tensor(made_)});
    require_distinct(items, before);
    notes.made.push_back(name_);
    return 1;
  }

 private:
  std::string name_;
  EntryPtr made_;
};

class TieStep final : public RuleStep {
 public:
  explicit TieStep(const Rule& rule) : pattern_(Pattern::parse(rule.to.at(0))), alias_(rule.from.at(0)) {
    Template::parse(alias_, pattern_);
  }

  std::uint64_t apply(Items& items, RuleNotes& notes) override {
    Template alias = Template::parse(alias_, pattern_);
    std::vector<std::pair<std::size_t, std::string>> ties;
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::optional<Captures> captures = items[i].is_tensor() ? pattern_.match(items[i].name()) : std::nullopt;
      if (captures) ties.emplace_back(i, alias.expand(*captures));
    }
    std::uint64_t matched = ties.size();
    Places places;
    for (std::size_t i = 0; i < items.size() && matched > 0; ++i) {
      if (items[i].key.is(Value::Kind::text)) places.emplace(items[i].name(), i);
    }
    for (auto& [place, name] : ties) tie(items, place, std::move(name), places, notes);
    return matched;
  }

 private:
  using Places = std::unordered_map<std::string, std::size_t>;

  static void tie(Items& items, std::size_t place, std::string name, Places& places, RuleNotes& notes) {
    Value target = items[place].value;
    auto [at, fresh] = places.try_emplace(name, items.size());
    if (fresh) {
      notes.made.push_back(name);
      items.push_back({Value::text(std::move(name)), target});
      return;
    }
    RuleItem* known = &items[at->second];
    bool same = known->is_tensor() && same_values(known->value.as_entry(), target.as_entry());
    if (!same) {
      throw Error(ErrorCode::refused, core::quote(name) + " and " + core::quote(items[place].name()) +
                                          " have different values, so they cannot be tied");
    }
    known->value = target;
  }

  Pattern pattern_;
  std::string alias_;
};

}  // namespace

std::vector<std::string> names_of(const Items& items) {
  std::vector<std::string> out;
  for (const RuleItem& item : items) out.push_back(item.key.is(Value::Kind::text) ? item.name() : "");
  return out;
}

void require_distinct(const Items& items, const std::vector<std::string>& before) {
  std::unordered_map<std::string_view, std::size_t> taken;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].key.is(Value::Kind::text)) continue;
    auto [at, fresh] = taken.emplace(items[i].name(), i);
    if (fresh) continue;
    throw Error(ErrorCode::collision, "keys " + core::quote(before[at->second]) + " and " + core::quote(before[i]) +
                                          " would both become " + core::quote(items[i].name()));
  }
}

std::unique_ptr<RuleStep> compile_rule(const Rule& rule) {
  switch (rule.kind) {
    case Rule::Kind::rename:
      return std::make_unique<RenameStep>(rule);
    case Rule::Kind::drop:
      return std::make_unique<DropStep>(rule);
    case Rule::Kind::split:
      return std::make_unique<SplitStep>(rule);
    case Rule::Kind::fuse:
      return std::make_unique<FuseStep>(rule);
    case Rule::Kind::tie:
      return std::make_unique<TieStep>(rule);
    case Rule::Kind::make:
      return std::make_unique<MakeStep>(rule);
    case Rule::Kind::fold:
    case Rule::Kind::unfold:
      return compile_fold(rule);
    default:
      return std::make_unique<ValueStep>(rule);
  }
}

}  // namespace ckpt::detail
