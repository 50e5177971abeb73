// fold and unfold: a tensor that goes into others, and one that appears without changing what is computed.

#include <algorithm>
#include <set>
#include <unordered_map>

#include "libckpt/transform/folded_entry.h"
#include "libckpt/transform/pattern.h"
#include "libckpt/transform/rule_engine.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using FoldItems = std::vector<RuleItem>;
using FoldPlaces = std::unordered_map<std::string, std::size_t>;

class FoldStep final : public RuleStep {
 public:
  explicit FoldStep(const Rule& rule) : by_(rule.by), pattern_(Pattern::parse(rule.from.at(0))) {
    for (const std::string& to : rule.to) targets_.push_back(Template::parse(to, pattern_));
  }

  std::uint64_t apply(FoldItems& items, RuleNotes& notes) override {
    taken_.clear();
    FoldPlaces places;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].is_tensor()) places.emplace(items[i].name(), i);
    }
    FoldItems kept;
    std::vector<std::size_t> parts;
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::optional<Captures> captures = items[i].is_tensor() ? pattern_.match(items[i].name()) : std::nullopt;
      if (!captures) continue;
      core::with_context(core::quote(items[i].name()), [&] { fold(items, i, *captures, places, notes); });
      notes.dropped.push_back(items[i].name());
      parts.push_back(i);
    }
    require_no_part_taken(items, parts);
    std::size_t next = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const bool goes = next < parts.size() && parts[next] == i;
      if (goes) ++next;
      if (!goes) kept.push_back(std::move(items[i]));
    }
    items = std::move(kept);
    return parts.size();
  }

 private:
  /// Tensors that take others may not go into others themselves, or the order of keys would count; nor take one twice.
  void require_no_part_taken(const FoldItems& items, const std::vector<std::size_t>& parts) const {
    std::set<std::pair<std::size_t, std::size_t>> seen;
    for (const auto& [place, part] : taken_) {
      const std::string into = core::quote(items[part].name()) + ": " + core::quote(items[place].name());
      if (std::binary_search(parts.begin(), parts.end(), place)) {
        throw Error(ErrorCode::collision, into + ", which it would go into, would go into another");
      }
      if (!seen.emplace(place, part).second) throw Error(ErrorCode::collision, into + " would take it twice");
    }
  }

  void fold(FoldItems& items, std::size_t part, const Captures& captures, const FoldPlaces& places, RuleNotes& notes) {
    const Entry& entry = items[part].value.as_entry();
    for (const Template& target : targets_) {
      std::string name = target.expand(captures);
      auto place = places.find(name);
      if (place == places.end()) {
        throw Error(ErrorCode::key, core::quote(name) + ", which it would go into, is not there");
      }
      if (place->second == part) throw Error(ErrorCode::collision, "it would go into itself");
      taken_.emplace_back(place->second, part);
      Value& value = items[place->second].value;
      value =
          Value::tensor(core::with_context(core::quote(name), [&] { return folded(value.as_entry(), entry, by_); }));
      ++notes.changed;
    }
  }

  Rule::By by_;
  Pattern pattern_;
  std::vector<Template> targets_;
  std::vector<std::pair<std::size_t, std::size_t>> taken_;  ///< in this dict: what takes a part, and the part
};

class UnfoldStep final : public RuleStep {
 public:
  explicit UnfoldStep(const Rule& rule)
      : by_(rule.by), pattern_(Pattern::parse(rule.from.at(0))), to_(Template::parse(rule.to.at(0), pattern_)) {
    for (std::size_t i = 1; i < rule.from.size(); ++i) Template::parse(rule.from[i], pattern_);  // for the way back
  }

  std::uint64_t apply(FoldItems& items, RuleNotes& notes) override {
    std::uint64_t matched = 0;
    FoldItems out;
    std::vector<std::string> before;
    for (RuleItem& item : items) {
      std::string name = item.key.is(Value::Kind::text) ? item.name() : "";
      std::optional<Captures> captures = item.is_tensor() ? pattern_.match(name) : std::nullopt;
      if (captures) {
        ++matched;
        std::string made = to_.expand(*captures);
        EntryPtr entry = core::with_context(core::quote(name), [&] { return unfolded(item.value.as_entry(), by_); });
        notes.made.push_back(made);
        out.push_back({Value::text(std::move(made)), Value::tensor(std::move(entry))});
        before.push_back(name);
      }
      out.push_back(std::move(item));
      before.push_back(std::move(name));
    }
    items = std::move(out);
    require_distinct(items, before);
    return matched;
  }

 private:
  Rule::By by_;
  Pattern pattern_;
  Template to_;
};

}  // namespace

std::unique_ptr<RuleStep> compile_fold(const Rule& rule) {
  if (rule.kind == Rule::Kind::fold) return std::make_unique<FoldStep>(rule);
  return std::make_unique<UnfoldStep>(rule);
}

}  // namespace ckpt::detail
