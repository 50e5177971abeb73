#include "libckpt/analyze/align_match.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "libckpt/analyze/align_layouts.h"
#include "libckpt/analyze/align_ordinals.h"
#include "libckpt/analyze/align_pairing.h"
#include "libckpt/analyze/align_parts.h"
#include "libckpt/analyze/align_places.h"
#include "libckpt/analyze/align_same_names.h"
#include "libckpt/analyze/content_hash.h"
#include "libckpt/io/parallel_io.h"
#include "libckpt/view_key.h"

namespace ckpt::detail {
namespace {

using By = AlignedTensors::By;

class Matcher {
 public:
  Matcher(const std::vector<NamedEntry>& a, const std::vector<NamedEntry>& b, const AlignOptions& options)
      : options_(options), pairing_(a, b, options), layouts_(pairing_, options) {}

  Matching run() {
    SameNames names = same_names(pairing_);
    match_names(names.pairs);
    match_values();
    match_parts(pairing_);
    layouts_.learn(named_);
    settle_names();
    match_places(names.edits);
    match_second_names();
    return result();
  }

 private:
  /// Names win over values: their pairs are taken away even where nothing tells yet how one becomes the other.
  void match_names(const std::vector<std::pair<std::size_t, std::size_t>>& pairs) {
    std::vector<std::optional<Match>> found(pairs.size());
    parallel_for(pairs.size(), options_.threads,
                 [&](std::size_t n) { found[n] = layouts_.proved(pairs[n].first, pairs[n].second); });
    for (std::size_t n = 0; n < pairs.size(); ++n) {
      if (found[n]) {
        pairing_.take(std::move(*found[n]));
      } else {
        named_.push_back(pairs[n]);
        pairing_.a.use(pairs[n].first);
        pairing_.b.use(pairs[n].second);
      }
    }
  }

  /// The pairs by name whose values do not tell how. What stays unsettled is kept away from the other steps.
  void settle_names() {
    for (const auto& [i, k] : named_) {
      std::optional<Match> match = layouts_.assumed(i, k, By::name);
      if (match) {
        pairing_.take(std::move(*match));
      } else {
        unsettled_.emplace_back(i, k);
      }
    }
  }

  /// What is the same but for the shape.
  using Bytes = std::tuple<core::DType, std::uint64_t, std::uint64_t>;
  static Bytes bytes_of(const Entry& entry, const Hash128& hash) { return {entry.dtype, hash.high, hash.low}; }

  /// Open tensors that prove something and are one another, as they are or transposed, reshaped or cast: those that
  /// each have one partner.
  void match_values() {
    std::map<Bytes, std::size_t> in_b;
    for (std::size_t k : pairing_.b.open()) {
      if (pairing_.b.proves(k)) in_b.emplace(bytes_of(pairing_.b.entry(k), pairing_.b.hash(k)), k);
    }
    std::vector<std::size_t> open = pairing_.a.open();
    std::erase_if(open, [this](std::size_t i) { return !pairing_.a.proves(i); });
    std::vector<std::vector<Match>> found(open.size());
    parallel_for(open.size(), options_.threads, [&](std::size_t n) { found[n] = partners(open[n], in_b); });
    std::map<std::size_t, std::size_t> wanted;
    for (const std::vector<Match>& matches : found) {
      for (const Match& match : matches) ++wanted[match.to[0]];
    }
    for (std::vector<Match>& matches : found) {
      if (matches.size() == 1 && wanted[matches[0].to[0]] == 1) pairing_.take(std::move(matches[0]));
    }
  }

  /// The one tensor of B with the same values, else all that it may have become.
  std::vector<Match> partners(std::size_t i, const std::map<Bytes, std::size_t>& in_b) const {
    std::vector<Match> out;
    const Side& a = pairing_.a;
    auto look_up = [&](const Variant& variant, const Hash128& hash) {
      auto known = in_b.find(bytes_of(*variant.entry, hash));
      if (known == in_b.end()) return;
      const Entry& to = pairing_.b.entry(known->second);
      bool same_kind = type_name(*variant.entry) == type_name(to) && variant.entry->numel() == to.numel();
      bool reshape = !(variant.entry->shape == to.shape);
      if (!same_kind || (reshape && to.blocks)) return;
      out.push_back({{i}, {known->second}, variant.transpose, reshape, variant.cast});
    };
    look_up({a.entry_ptr(i)}, a.hash(i));
    if (!out.empty()) return out;
    std::vector<core::DType> types = {a.entry(i).dtype};
    for (const auto& [type, count] : pairing_.b.open_types()) {
      if (type != types[0]) types.push_back(type);
    }
    for (core::DType type : types) {
      for (const Variant& variant : variants(a.entry_ptr(i), type)) {
        bool plain = !variant.transpose && !variant.cast;
        if (!plain) look_up(variant, content_hash(*variant.entry));
      }
    }
    return out;
  }

  void match_places(const std::vector<NameEdit>& edits) {
    ModuleTrees trees{ModuleTree(pairing_.a), ModuleTree(pairing_.b)};
    follow_parts(pairing_, trees, options_);
    PlaceMatcher places(pairing_, {trees, layouts_, edits});
    places.run(PlaceMatcher::Values::equal);
    if (options_.by_shape) places.run(PlaceMatcher::Values::any);
  }

  /// B has a tensor of A under a second name, which shares its memory.
  void match_second_names() {
    std::map<ViewKey, std::size_t> first;
    for (std::size_t m = 0; m < pairing_.matches().size(); ++m) {
      const Match& match = pairing_.matches()[m];
      if (match.to.size() != 1 || storage_identity(pairing_.b.entry(match.to[0])) == nullptr) continue;
      first.emplace(view_key(pairing_.b.entry(match.to[0])), m);
    }
    for (std::size_t k : pairing_.b.open()) {
      if (storage_identity(pairing_.b.entry(k)) == nullptr) continue;
      auto known = first.find(view_key(pairing_.b.entry(k)));
      if (known == first.end()) continue;
      Match second = pairing_.matches()[known->second];
      second.to.push_back(k);
      second.tie = true;
      pairing_.take(std::move(second));
    }
  }

  Matching result() {
    Matching out;
    for (const auto& [i, k] : unsettled_) {
      pairing_.a.release(i);
      pairing_.b.release(k);
    }
    out.matches = pairing_.matches();
    std::stable_sort(out.matches.begin(), out.matches.end(),
                     [](const Match& x, const Match& y) { return x.from[0] < y.from[0]; });
    list_undecided(out);
    out.only_a = pairing_.a.open();
    out.only_b = pairing_.b.open();
    return out;
  }

  /// What has candidates on the other side and no partner; it is taken out of what only one file has.
  void list_undecided(Matching& out) {
    auto add = [&](OpenGroup group) {
      for (std::size_t i : group.a) pairing_.a.use(i);
      for (std::size_t k : group.b) pairing_.b.use(k);
      out.undecided.push_back(std::move(group));
    };
    for (const auto& [i, k] : unsettled_) {
      bool other_values = !options_.by_shape && !(pairing_.a.content(i) == pairing_.b.content(k));
      if (!other_values) add({{i}, {k}});
    }
    using Key = std::tuple<std::string, std::vector<std::int64_t>, Content>;
    auto key_of = [this](const Side& side, std::size_t i) {
      // Of other values only those of the same part of a module can be meant.
      auto content = options_.by_shape ? Content() : side.content(i);
      return Key(last_of(side.name(i)), squeezed(side.entry(i).shape), content);
    };
    std::map<Key, OpenGroup> groups;
    for (std::size_t i : pairing_.a.open()) groups[key_of(pairing_.a, i)].a.push_back(i);
    for (std::size_t k : pairing_.b.open()) groups[key_of(pairing_.b, k)].b.push_back(k);
    for (auto& [key, group] : groups) {
      if (!group.a.empty() && !group.b.empty()) add(std::move(group));
    }
    std::stable_sort(out.undecided.begin(), out.undecided.end(),
                     [](const OpenGroup& x, const OpenGroup& y) { return x.a[0] < y.a[0]; });
  }

  const AlignOptions& options_;
  Pairing pairing_;
  Layouts layouts_;
  std::vector<std::pair<std::size_t, std::size_t>> named_;      ///< pairs by name, the step unknown
  std::vector<std::pair<std::size_t, std::size_t>> unsettled_;  ///< those whose step stays unknown
};

}  // namespace

Matching match_tensors(const std::vector<NamedEntry>& a, const std::vector<NamedEntry>& b,
                       const AlignOptions& options) {
  return Matcher(a, b, options).run();
}

}  // namespace ckpt::detail
