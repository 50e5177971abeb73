#include "libckpt/analyze/name_selectors.h"

#include <algorithm>
#include <set>

#include "libckpt/analyze/number_fit.h"
#include "libckpt/transform/pattern.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kMaxSelectorTries = 20'000'000;  // names times patterns; beyond that, exact names
constexpr std::size_t kMaxComponents = 3;              // of an ending

/// ".attn.weight", the last components with the dot before them; empty for a name that has no more than those.
std::string_view ending(std::string_view name, std::size_t components) {
  std::size_t dot = name.size();
  for (; components > 0; --components) {
    if (dot == 0) return {};
    dot = name.rfind('.', dot - 1);
    if (dot == std::string_view::npos) return {};
  }
  return name.substr(dot);
}

/// Calls body(ending) for those of one to kMaxComponents components.
template <class Body>
void for_each_ending(std::string_view name, Body&& body) {
  for (std::size_t components = 1; components <= kMaxComponents; ++components) {
    std::string_view end = ending(name, components);
    if (!end.empty()) body(end);
  }
}

std::string selector_of(std::string_view name) {
  std::string out;
  for (char c : escape_pattern(name)) out += c == ' ' ? std::string("\\ ") : std::string(1, c);
  return out.starts_with('@') ? "\\" + out : out;
}

std::vector<ManyNames> written_out(const std::vector<ManyNames>& wanted) {
  std::vector<ManyNames> rules;
  for (const ManyNames& names : wanted) {
    ManyNames rule{escape_pattern(names.from), {}};
    for (const std::string& to : names.to) rule.to.push_back(escape_pattern(to));
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace

NameSelectors::NameSelectors(std::vector<std::string> all, bool generalize)
    : all_(std::move(all)), generalize_(generalize), tries_(kMaxSelectorTries) {
  for (const std::string& name : all_) {
    for_each_ending(name, [&](std::string_view end) { ++endings_[end]; });
  }
}

/// The shortest ending that only wanted names have; empty when there is none.
std::string NameSelectors::by_ending(const std::string& name, const Tally& wanted) const {
  std::string found;
  for_each_ending(name, [&](std::string_view end) {
    if (found.empty() && endings_.at(end) == wanted.at(end)) found = end;
  });
  return found;
}

std::vector<std::string> NameSelectors::selectors(const std::vector<std::string>& wanted) const {
  if (generalize_ && wanted.size() == all_.size()) return {"**"};
  std::unordered_map<std::string_view, std::vector<std::string_view>> members;  // of the names that end alike
  Tally tally;
  std::set<std::string_view> left;
  for (const std::string& name : wanted) {
    if (!left.insert(name).second) continue;
    for_each_ending(name, [&](std::string_view end) {
      members[end].push_back(name);
      ++tally[end];
    });
  }
  std::vector<std::string> out;
  for (const std::string& name : wanted) {
    if (!left.contains(name)) continue;
    std::string end = generalize_ && wanted.size() > 1 ? by_ending(name, tally) : "";
    out.push_back(end.empty() ? selector_of(name) : "*" + selector_of(end));
    left.erase(name);
    if (end.empty()) continue;
    for (std::string_view other : members[end]) left.erase(other);
  }
  return out;
}

bool NameSelectors::matches_others(const ManyNames& rule, const std::vector<ManyNames>& wanted) {
  Pattern pattern = Pattern::parse(rule.from);
  if (pattern.is_name()) return false;
  if (tries_ < all_.size()) return true;  // nobody has looked: as if it did
  tries_ -= all_.size();
  std::set<std::string_view> from;
  for (const ManyNames& names : wanted) from.insert(names.from);
  return std::any_of(all_.begin(), all_.end(),
                     [&](const std::string& name) { return pattern.matches(name) && !from.contains(name); });
}

std::vector<ManyNames> NameSelectors::splits(const std::vector<ManyNames>& wanted) {
  std::vector<ManyNames> rules = generalize_ ? fit_numbers(wanted) : std::vector<ManyNames>();
  bool others = rules.empty() || std::any_of(rules.begin(), rules.end(),
                                             [&](const ManyNames& rule) { return matches_others(rule, wanted); });
  return others ? written_out(wanted) : rules;
}

}  // namespace ckpt::detail
