#include "libckpt/analyze/align_places.h"

#include <algorithm>
#include <tuple>

#include "libckpt/analyze/align_ordinals.h"

namespace ckpt::detail {
namespace {

constexpr int kMaxRounds = 12;  // each finds what the pairs of the one before imply

std::span<const std::size_t> tensors(const ModuleTree& tree, std::size_t module, bool only_own) {
  return only_own ? tree.tensors_of(module) : tree.tensors_in(module);
}

std::vector<std::size_t> open_in(const Side& side, std::span<const std::size_t> list) {
  std::vector<std::size_t> out;
  for (std::size_t i : list) {
    if (!side.used(i)) out.push_back(i);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

PlaceMatcher::PlaceMatcher(Pairing& pairing, const Known& known)
    : pairing_(pairing), known_(known), silent_a_(known.trees.a.size(), 1) {
  ordered_ = known.trees.a.is_walk() && known.trees.b.is_walk() && !pairing.a.is_sorted() && !pairing.b.is_sorted();
  for (std::size_t i = 0; i < pairing.a.size(); ++i) {
    lasts_a_.emplace(last_of(pairing.a.name(i)));
    if (pairing.a.proves(i)) silent_a_[known.trees.a.unit(i)] = 0;
  }
  for (std::size_t k = 0; k < pairing.b.size(); ++k) lasts_b_.emplace(last_of(pairing.b.name(k)));
}

void PlaceMatcher::run(Values values) {
  values_ = values;
  bool found = true;
  for (int round = 0; found && round < kMaxRounds; ++round) {
    count_lasts();
    Contexts contexts(pairing_, known_.trees);
    contexts_ = &contexts;
    found = false;
    for (const Context& context : contexts.list(known_.edits)) found = look_into(context) || found;
  }
  contexts_ = nullptr;
}

void PlaceMatcher::count_lasts() {
  for (; voted_ < pairing_.matches().size(); ++voted_) {
    const Match& match = pairing_.matches()[voted_];
    if (match.from.size() != 1 || match.to.size() != 1) continue;
    ++last_votes_[std::string(last_of(pairing_.a.name(match.from[0])))]
                 [std::string(last_of(pairing_.b.name(match.to[0])))];
  }
}

/// The last component of a name of A as B says it: "gamma" is "weight" where others have become so.
std::string PlaceMatcher::role(std::size_t i) const {
  std::string last(last_of(pairing_.a.name(i)));
  auto votes = last_votes_.find(last);
  if (lasts_b_.contains(last) || votes == last_votes_.end()) return last;
  auto most = std::max_element(votes->second.begin(), votes->second.end(),
                               [](const auto& x, const auto& y) { return x.second < y.second; });
  return most->first;
}

std::vector<PlaceMatcher::Class> PlaceMatcher::classes(const Context& context, bool by_role) const {
  using Key = std::tuple<bool, std::vector<std::int64_t>, Content, std::string>;
  auto key_of = [&](const Side& side, std::size_t i, std::string role) {
    Content content = values_ == Values::equal ? side.content(i) : Content();
    return Key(core::is_floating(side.entry(i).dtype), squeezed(side.entry(i).shape), content, std::move(role));
  };
  std::map<Key, Class> found;
  const auto& [trees, layouts, edits] = known_;
  for (std::size_t i : open_in(pairing_.a, tensors(trees.a, context.a, context.only_own))) {
    found[key_of(pairing_.a, i, by_role ? role(i) : "")].a.push_back(i);
  }
  if (found.empty()) return {};
  for (std::size_t k : open_in(pairing_.b, tensors(trees.b, context.b, context.only_own))) {
    auto known = found.find(key_of(pairing_.b, k, by_role ? std::string(last_of(pairing_.b.name(k))) : ""));
    if (known != found.end()) known->second.b.push_back(k);
  }
  std::vector<Class> out;
  for (auto& [key, group] : found) {
    if (!group.b.empty()) out.push_back(std::move(group));
  }
  return out;
}

bool PlaceMatcher::look_into(const Context& context) {
  bool found = false;
  bool silent = false;
  std::optional<Gaps> gaps;
  for (bool by_role : {true, false}) {
    if (!by_role && values_ == Values::any) continue;  // shape alone is not enough
    for (const Class& group : classes(context, by_role)) {
      Pairs pairs = proposals(context, group, gaps);
      bool fits = by_role || std::all_of(pairs.begin(), pairs.end(),
                                         [this](const auto& pair) { return is_foreign(pair.first, pair.second); });
      if (!fits || !accept(pairs)) continue;
      found = true;
      for (const auto& [i, k] : pairs) silent = silent || silent_a_[known_.trees.a.unit(i)] != 0;
    }
  }
  if (silent && !context.only_own) close(context);
  return found;
}

/// True when a last component is not known to the other file: other names for the same part of a module.
bool PlaceMatcher::is_foreign(std::size_t i, std::size_t k) const {
  return !lasts_b_.contains(last_of(pairing_.a.name(i))) || !lasts_a_.contains(last_of(pairing_.b.name(k)));
}

PlaceMatcher::Pairs PlaceMatcher::proposals(const Context& context, const Class& group,
                                            std::optional<Gaps>& gaps) const {
  if (group.a.size() == 1 && group.b.size() == 1) return {{group.a[0], group.b[0]}};
  if (Pairs pairs = tied(group); !pairs.empty()) return pairs;
  if (group.a.size() != group.b.size()) return {};
  Pairs counted = by_order(group);
  if (context.only_own || !ordered_) return counted;
  if (!gaps) gaps = gaps_in(context);
  Pairs between = by_gaps(group, *gaps);
  if (counted.empty()) return between;
  return between.empty() || between == counted ? counted : Pairs();
}

/// Names of one tensor on both sides: any of them may be any.
PlaceMatcher::Pairs PlaceMatcher::tied(const Class& group) const {
  auto are_one = [](const Side& side, const List& list) {
    return std::all_of(list.begin(), list.end(),
                       [&](std::size_t i) { return i == list[0] || same_view(side.entry(i), side.entry(list[0])); });
  };
  if (!are_one(pairing_.a, group.a) || !are_one(pairing_.b, group.b)) return {};
  Pairs out;
  for (std::size_t n = 0; n < std::min(group.a.size(), group.b.size()); ++n) out.emplace_back(group.a[n], group.b[n]);
  return out;
}

PlaceMatcher::Pairs PlaceMatcher::by_order(const Class& group) const {
  std::vector<std::string_view> from;
  std::vector<std::string_view> to;
  for (std::size_t i : group.a) from.push_back(pairing_.a.name(i));
  for (std::size_t k : group.b) to.push_back(pairing_.b.name(k));
  std::optional<IndexPairs> zipped = zip_by_order(from, to);
  Pairs out;
  if (zipped) {
    for (const auto& [x, y] : *zipped) out.emplace_back(group.a[x], group.b[y]);
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool PlaceMatcher::is_neighbour(const Context& context, std::size_t match) const {
  if (match == kNoMatch || (match < closed_.size() && closed_[match] != 0)) return false;
  const Match& pair = pairing_.matches()[match];
  const auto& [trees, layouts, edits] = known_;
  auto in_a = [&](std::size_t i) { return trees.a.contains(context.a, trees.a.unit(i)); };
  auto in_b = [&](std::size_t k) { return trees.b.contains(context.b, trees.b.unit(k)); };
  return std::all_of(pair.from.begin(), pair.from.end(), in_a) && std::all_of(pair.to.begin(), pair.to.end(), in_b);
}

PlaceMatcher::Gaps PlaceMatcher::gaps_in(const Context& context) const {
  auto walk = [&](std::span<const std::size_t> list, auto match_of) {
    std::vector<std::size_t> order(list.begin(), list.end());
    std::sort(order.begin(), order.end());
    std::unordered_map<std::size_t, Gap> out;
    std::vector<std::size_t> waiting;
    std::size_t last = kNoMatch;
    for (std::size_t i : order) {
      std::size_t match = match_of(i);
      if (match == kNoMatch) {
        waiting.push_back(i);
      } else if (is_neighbour(context, match)) {
        for (std::size_t open : waiting) out[open] = {last, match};
        waiting.clear();
        last = match;
      }
    }
    for (std::size_t open : waiting) out[open] = {last, kNoMatch};
    return out;
  };
  return {walk(known_.trees.a.tensors_in(context.a), [this](std::size_t i) { return pairing_.match_of_a(i); }),
          walk(known_.trees.b.tensors_in(context.b), [this](std::size_t k) { return pairing_.match_of_b(k); })};
}

/// Where each stands alone between the same neighbours as one of the other file. One that does not says that the files
/// list the modules in other orders, and then the place of none of them means anything.
PlaceMatcher::Pairs PlaceMatcher::by_gaps(const Class& group, const Gaps& gaps) {
  std::map<Gap, std::size_t> in_b;
  for (std::size_t k : group.b) {
    if (!in_b.emplace(gaps.b.at(k), k).second) return {};
  }
  Pairs out;
  for (std::size_t i : group.a) {
    auto found = in_b.find(gaps.a.at(i));
    if (found == in_b.end()) return {};
    out.emplace_back(i, found->second);
    in_b.erase(found);
  }
  return out;
}

std::optional<Match> PlaceMatcher::step(std::size_t i, std::size_t k) const {
  std::optional<Match> match = known_.layouts.proved(i, k);
  if (!match) match = known_.layouts.assumed(i, k, AlignedTensors::By::structure);
  if (match) match->by = AlignedTensors::By::structure;
  return match;
}

/// All of the pairs or none.
bool PlaceMatcher::accept(const Pairs& pairs) {
  std::vector<Match> steps;
  for (const auto& [i, k] : pairs) {
    bool open = !pairing_.a.used(i) && !pairing_.b.used(k);
    std::optional<Match> match = open && contexts_->may_pair(i, k) ? step(i, k) : std::nullopt;
    if (!match) return false;
    steps.push_back(std::move(*match));
  }
  for (Match& match : steps) pairing_.take(std::move(match));
  return !steps.empty();
}

/// Where nothing is open any more, what lies in the modules no longer counts as a neighbour of what lies outside: files
/// list such modules in other orders.
void PlaceMatcher::close(const Context& context) {
  auto in_a = known_.trees.a.tensors_in(context.a);
  auto in_b = known_.trees.b.tensors_in(context.b);
  bool complete = std::all_of(in_a.begin(), in_a.end(), [this](std::size_t i) { return pairing_.a.used(i); }) &&
                  std::all_of(in_b.begin(), in_b.end(), [this](std::size_t k) { return pairing_.b.used(k); });
  if (!complete) return;
  closed_.resize(pairing_.matches().size());
  for (std::size_t i : in_a) closed_[pairing_.match_of_a(i)] = 1;
}

}  // namespace ckpt::detail
