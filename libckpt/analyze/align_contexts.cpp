#include "libckpt/analyze/align_contexts.h"

#include <algorithm>
#include <unordered_map>

namespace ckpt::detail {
namespace {

/// A number of its own for each pair; sums of such numbers stand for sets of pairs.
std::uint64_t mark_of(std::size_t match) {
  std::uint64_t x = (match + 1) * 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

std::size_t common_unit(const ModuleTree& tree, const std::vector<std::size_t>& tensors) {
  std::size_t out = tree.unit(tensors[0]);
  for (std::size_t i : tensors) out = tree.common(out, tree.unit(i));
  return out;
}

}  // namespace

Contexts::Contexts(const Pairing& pairing, const ModuleTrees& trees)
    : pairing_(pairing), trees_(trees), a_(trees.a.size()), b_(trees.b.size()) {
  for (std::size_t m = 0; m < pairing.matches().size(); ++m) {
    const Match& match = pairing.matches()[m];
    if (match.tie) continue;
    std::size_t from = common_unit(trees.a, match.from);
    std::size_t to = common_unit(trees.b, match.to);
    auto add = [&](Known& known, const ModuleTree& other, std::size_t partner) {
      known.sum += mark_of(m);
      ++known.count;
      known.image = known.image == ModuleTree::kNone ? partner : other.common(known.image, partner);
    };
    add(a_[from], trees.b, to);
    add(b_[to], trees.a, from);
  }
  add_up(trees.a, trees.b, a_);
  add_up(trees.b, trees.a, b_);
}

void Contexts::add_up(const ModuleTree& tree, const ModuleTree& other, std::vector<Known>& known) {
  for (std::size_t node = tree.size(); node-- > 1;) {
    const Known& own = known[node];
    if (own.count == 0) continue;
    Known& parent = known[tree.parent(node)];
    parent.sum += own.sum;
    parent.count += own.count;
    parent.image = parent.image == ModuleTree::kNone ? own.image : other.common(parent.image, own.image);
  }
  for (std::size_t node = 1; node < tree.size(); ++node) {
    const Known& parent = known[tree.parent(node)];
    known[node].widest = parent.count == known[node].count ? parent.widest : node;
  }
}

/// Modules whose own tensors are paired with those of one other and no more.
void Contexts::add_units(std::vector<Context>& out) const {
  std::vector<std::size_t> to(trees_.a.size(), ModuleTree::kNone);
  std::vector<std::size_t> from(trees_.b.size(), ModuleTree::kNone);
  std::vector<char> split_a(trees_.a.size());
  std::vector<char> split_b(trees_.b.size());
  std::vector<std::size_t> count(trees_.a.size());
  for (const Match& match : pairing_.matches()) {
    if (match.from.size() != 1 || match.to.size() != 1) continue;
    std::size_t a = trees_.a.unit(match.from[0]);
    std::size_t b = trees_.b.unit(match.to[0]);
    split_a[a] = split_a[a] || (to[a] != ModuleTree::kNone && to[a] != b);
    split_b[b] = split_b[b] || (from[b] != ModuleTree::kNone && from[b] != a);
    to[a] = b;
    from[b] = a;
    ++count[a];
  }
  for (std::size_t a = 0; a < to.size(); ++a) {
    if (to[a] != ModuleTree::kNone && !split_a[a] && !split_b[to[a]]) out.push_back({a, to[a], count[a], true});
  }
}

void Contexts::add_same_paths(const std::vector<NameEdit>& edits, std::vector<Context>& out) const {
  for (std::size_t a = 1; a < trees_.a.size(); ++a) {
    if (trees_.a.tensors_of(a).empty()) continue;
    std::string path(trees_.a.path(a));
    std::size_t b = trees_.b.find(path);
    for (const NameEdit& edit : edits) {
      if (b != ModuleTree::kNone) break;
      if (std::optional<std::string> name = edited(edit, path)) b = trees_.b.find(*name);
    }
    if (b != ModuleTree::kNone) out.push_back({a, b, 0, true});
  }
}

/// Modules that hold the same pairs: the smallest of each file, and the largest.
void Contexts::add_same_pairs(std::vector<Context>& out) const {
  struct Range {
    std::size_t smallest = ModuleTree::kNone;
    std::size_t largest = ModuleTree::kNone;
  };
  auto ranges_of = [](const ModuleTree& tree, const std::vector<Known>& known) {
    std::unordered_map<std::uint64_t, Range> ranges;
    for (std::size_t node = 0; node < tree.size(); ++node) {
      if (known[node].count == 0) continue;
      Range& range = ranges[known[node].sum];  // those of one sum lie in one another, parents come first
      if (range.largest == ModuleTree::kNone) range.largest = node;
      range.smallest = node;
    }
    return ranges;
  };
  std::unordered_map<std::uint64_t, Range> in_b = ranges_of(trees_.b, b_);
  for (const auto& [sum, range] : ranges_of(trees_.a, a_)) {
    auto found = in_b.find(sum);
    if (found == in_b.end()) continue;
    std::size_t pairs = a_[range.largest].count;
    out.push_back({range.smallest, found->second.smallest, pairs});
    bool wider = range.largest != range.smallest || found->second.largest != found->second.smallest;
    if (wider) out.push_back({range.largest, found->second.largest, pairs});
  }
}

std::vector<Context> Contexts::list(const std::vector<NameEdit>& edits) const {
  std::vector<Context> out;
  add_same_paths(edits, out);
  add_units(out);
  add_same_pairs(out);
  bool whole =
      std::any_of(out.begin(), out.end(), [](const Context& c) { return !c.only_own && c.a == 0 && c.b == 0; });
  if (!whole) out.push_back({0, 0, pairing_.matches().size()});
  std::stable_sort(out.begin(), out.end(), [this](const Context& x, const Context& y) {
    auto rank = [this](const Context& c) {
      // Of modules with the same pairs the smaller, which lies deeper.
      return std::tuple(!c.only_own, c.pairs, ~(trees_.a.depth(c.a) + trees_.b.depth(c.b)), c.a);
    };
    return rank(x) < rank(y);
  });
  return out;
}

bool Contexts::points_to(const View& own, std::size_t unit, const View& other, std::size_t other_unit) {
  while (unit != 0 && own.known[unit].count == 0) unit = own.tree.parent(unit);
  if (own.known[unit].count == 0) return true;
  return other.tree.contains(other.known[own.known[unit].image].widest, other_unit);
}

bool Contexts::may_pair(std::size_t i, std::size_t k) const {
  std::size_t a = trees_.a.unit(i);
  std::size_t b = trees_.b.unit(k);
  return points_to({trees_.a, a_}, a, {trees_.b, b_}, b) || points_to({trees_.b, b_}, b, {trees_.a, a_}, a);
}

}  // namespace ckpt::detail
