#include "libckpt/analyze/align_rules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "libckpt/analyze/name_patterns.h"
#include "libckpt/analyze/name_selectors.h"
#include "libckpt/transform/pattern.h"

namespace ckpt::detail {
namespace {

using Sizes = std::vector<std::int64_t>;

/// A shape in which the only size above 1 is left open, so that one rule serves layers of all widths.
Sizes open_shape(const core::Shape& shape) {
  Sizes out = shape.to_vector();
  auto large = std::count_if(out.begin(), out.end(), [](std::int64_t size) { return size != 1; });
  for (std::int64_t& size : out) {
    if (large == 1 && size != 1) size = -1;
  }
  return out;
}

class RuleMaker {
 public:
  RuleMaker(const Matching& matching, const std::vector<NamedEntry>& a, const std::vector<NamedEntry>& b,
            const AlignOptions& options)
      : matching_(matching), a_(a), b_(b), options_(options), now_(a.size()) {
    for (std::size_t i = 0; i < a.size(); ++i) now_[i] = a[i].name;
  }

  Rules run() {
    add_drops();
    add_renames();
    add_transposes();
    add_reshapes();
    add_casts();
    add_splits();
    add_fuses();
    add_ties();
    return std::move(rules_);
  }

 private:
  static bool is_single(const Match& match) { return match.from.size() == 1 && match.to.size() == 1 && !match.tie; }
  static bool is_split(const Match& match) { return match.to.size() > 1 && !match.tie; }

  /// Names of all tensors as they are now.
  NameSelectors& all_now() {
    if (all_now_) return *all_now_;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < now_.size(); ++i) {
      if (!dropped_.contains(i)) names.push_back(now_[i]);
    }
    return all_now_.emplace(std::move(names), options_.generalize);
  }

  void add_selected(Rule rule, const std::vector<std::string>& names) {
    for (const std::string& selector : all_now().selectors(names)) {
      rule.from = {selector};
      rules_.push_back(rule);
    }
  }

  void add_drops() {
    if (!options_.drop_unused) return;
    std::vector<std::string> names;
    for (std::size_t i : matching_.only_a) names.push_back(a_[i].name);
    Rule rule;
    rule.kind = Rule::Kind::drop;
    add_selected(rule, names);
    dropped_.insert(matching_.only_a.begin(), matching_.only_a.end());
    all_now_.reset();
  }

  void add_renames() {
    for (const Match& match : matching_.matches) {
      if (is_single(match)) now_[match.from[0]] = b_[match.to[0]].name;
    }
    all_now_.reset();
    std::vector<NamePair> wanted;
    for (std::size_t i = 0; i < now_.size(); ++i) {
      if (!dropped_.contains(i)) wanted.emplace_back(a_[i].name, now_[i]);
    }
    Rule rule;
    rule.names = rename_patterns(wanted, options_.generalize);
    if (!rule.names.empty()) rules_.push_back(std::move(rule));
  }

  void add_transposes() {
    std::vector<std::string> names;
    for (const Match& match : matching_.matches) {
      if (!match.transpose || match.tie) continue;
      for (std::size_t i : match.from) names.push_back(now_[i]);
    }
    Rule rule;
    rule.kind = Rule::Kind::transpose;
    rule.dims = {1, 0};
    if (!names.empty()) add_selected(rule, names);
  }

  void add_reshapes() {
    std::map<std::pair<Sizes, Sizes>, std::vector<std::string>> groups;
    for (const Match& match : matching_.matches) {
      if (!match.reshape || match.tie) continue;
      core::Shape before = a_[match.from[0]].entry->shape;
      if (match.transpose) std::swap(before[0], before[1]);
      groups[{open_shape(b_[match.to[0]].entry->shape), open_shape(before)}].push_back(now_[match.from[0]]);
    }
    for (const auto& [shapes, names] : groups) {
      Rule rule;
      rule.kind = Rule::Kind::reshape;
      rule.shape = shapes.first;
      rule.was_shape = shapes.second;
      add_selected(rule, names);
    }
  }

  void add_casts() {
    std::map<std::pair<core::DType, core::DType>, std::vector<std::string>> groups;
    for (const Match& match : matching_.matches) {
      if (!match.cast || match.tie) continue;
      for (std::size_t i : match.from) groups[{a_[i].entry->dtype, *match.cast}].push_back(now_[i]);
    }
    for (const auto& [types, names] : groups) {
      Rule rule;
      rule.kind = Rule::Kind::cast;
      rule.dtype = types.second;
      rule.was_dtype = types.first;
      std::vector<std::string> of_type;
      for (std::size_t i = 0; i < now_.size(); ++i) {
        if (!dropped_.contains(i) && a_[i].entry->dtype == types.first) of_type.push_back(now_[i]);
      }
      for (const std::string& selector : NameSelectors(std::move(of_type), options_.generalize).selectors(names)) {
        rule.from = {selector};
        rules_.push_back(rule);
      }
    }
  }

  /// Sizes along `dim`; empty when they are all the same.
  static Sizes sizes_of(const std::vector<std::size_t>& parts, const std::vector<NamedEntry>& entries,
                        std::int64_t dim) {
    Sizes out;
    for (std::size_t i : parts) out.push_back(entries[i].entry->shape[static_cast<std::size_t>(dim)]);
    bool equal = std::all_of(out.begin(), out.end(), [&](std::int64_t size) { return size == out[0]; });
    return equal ? Sizes() : out;
  }

  void add_splits() {
    std::map<std::pair<std::int64_t, Sizes>, std::vector<ManyNames>> groups;
    for (const Match& match : matching_.matches) {
      if (!is_split(match)) continue;
      ManyNames names{now_[match.from[0]], {}};
      for (std::size_t k : match.to) names.to.push_back(b_[k].name);
      groups[{match.dim, sizes_of(match.to, b_, match.dim)}].push_back(std::move(names));
    }
    for (const auto& [how, names] : groups) {
      for (const ManyNames& pattern : all_now().splits(names)) {
        Rule rule;
        rule.kind = Rule::Kind::split;
        rule.from = {pattern.from};
        rule.to = pattern.to;
        rule.dim = how.first;
        rule.sizes = how.second;
        rules_.push_back(std::move(rule));
      }
    }
  }

  /// A fuse is written as its first part, from which the other parts and the whole follow.
  void add_fuses() {
    std::map<std::tuple<std::int64_t, Sizes, std::size_t>, std::vector<ManyNames>> groups;
    for (const Match& match : matching_.matches) {
      if (match.from.size() < 2) continue;
      ManyNames names{now_[match.from[0]], {b_[match.to[0]].name}};
      for (std::size_t p = 1; p < match.from.size(); ++p) names.to.push_back(now_[match.from[p]]);
      std::int64_t dim = match.transpose ? 1 - match.dim : match.dim;  // of the parts as they are in the file
      groups[{match.dim, sizes_of(match.from, a_, dim), names.to.size()}].push_back(std::move(names));
    }
    for (const auto& [how, names] : groups) {
      for (const ManyNames& pattern : all_now().splits(names)) {
        Rule rule;
        rule.kind = Rule::Kind::fuse;
        rule.from = {pattern.from};
        rule.from.insert(rule.from.end(), pattern.to.begin() + 1, pattern.to.end());
        rule.to = {pattern.to[0]};
        rule.dim = std::get<0>(how);
        rule.sizes = std::get<1>(how);
        rules_.push_back(std::move(rule));
      }
    }
  }

  void add_ties() {
    for (const Match& match : matching_.matches) {
      if (!match.tie) continue;
      Rule rule;
      rule.kind = Rule::Kind::tie;
      rule.from = {escape_pattern(b_[match.to[1]].name)};
      rule.to = {escape_pattern(b_[match.to[0]].name)};
      rules_.push_back(std::move(rule));
    }
  }

  const Matching& matching_;
  const std::vector<NamedEntry>& a_;
  const std::vector<NamedEntry>& b_;
  const AlignOptions& options_;
  std::vector<std::string> now_;  ///< names of A's tensors after the rules so far
  std::set<std::size_t> dropped_;
  std::optional<NameSelectors> all_now_;  ///< made when it is asked for, until names change
  Rules rules_;
};

}  // namespace

Rules make_rules(const Matching& matching, const std::vector<NamedEntry>& a, const std::vector<NamedEntry>& b,
                 const AlignOptions& options) {
  return RuleMaker(matching, a, b, options).run();
}

}  // namespace ckpt::detail
