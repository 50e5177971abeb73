#include "libckpt/analyze/align_match.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>

#include "libckpt/analyze/align_names.h"
#include "libckpt/analyze/content_hash.h"
#include "libckpt/io/parallel_io.h"
#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/derived_entry.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

using By = AlignedTensors::By;

constexpr std::size_t kMaxChoices = 64;   // tensors of equal content that are compared by name; of more, order decides
constexpr std::size_t kMaxImplied = 256;  // names that one is tried under

/// What equal tensors have in common.
using Key = std::tuple<core::DType, std::vector<std::int64_t>, std::uint64_t, std::uint64_t>;

Key key_of(const Entry& entry, const Hash128& hash) {
  return {entry.dtype, entry.shape.to_vector(), hash.high, hash.low};
}

/// A tensor of one side as it may be before it meets the other: transposed, cast.
struct Variant {
  EntryPtr entry;
  bool transpose = false;
  std::optional<core::DType> cast = {};
};

/// True when the first values are all the same, as in fresh normalisation layers: two of these are alike by chance.
bool is_constant(const Entry& entry) {
  constexpr std::uint64_t kLooked = 4096;
  auto width = static_cast<std::uint64_t>(core::bit_width(entry.dtype)) / 8;
  if (width == 0 || entry.bytes == nullptr) return true;
  core::ByteVector head(std::min(entry.byte_size(), kLooked * width));
  entry.bytes->read(0, head);
  for (std::size_t at = width; at < head.size(); ++at) {
    if (head[at] != head[at - width]) return false;
  }
  return true;
}

struct Side {
  const std::vector<NamedEntry>& entries;
  std::vector<Hash128> hashes;
  std::vector<bool> used;
  std::map<core::DType, std::size_t> open_types;  ///< how many open tensors have each

  explicit Side(const std::vector<NamedEntry>& list) : entries(list), used(list.size()) {
    for (const NamedEntry& named : list) ++open_types[named.entry->dtype];
  }
  const Entry& entry(std::size_t i) const { return *entries[i].entry; }
  Key key(std::size_t i) const { return key_of(entry(i), hashes[i]); }
  void use(std::size_t i) {
    if (used[i]) return;
    used[i] = true;
    auto type = open_types.find(entry(i).dtype);
    if (--type->second == 0) open_types.erase(type);
  }
  std::vector<std::size_t> open() const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) out.push_back(i);
    }
    return out;
  }
};

/// The open tensors of one side as parts of larger ones: by what they must have in common with the whole, then by their
/// size along the dimension in which they meet, then by content.
class PartIndex {
 public:
  using Equals = std::set<std::size_t>;  ///< tensors of one content, used ones among them until somebody looks
  using Sizes = std::map<std::int64_t, std::map<Key, Equals>>;

  explicit PartIndex(const Side& side) {
    for (std::size_t k : side.open()) {
      const Entry& entry = side.entry(k);
      for (std::size_t dim = 0; dim < std::min<std::size_t>(entry.shape.size(), 2); ++dim) {
        if (entry.shape[dim] > 0) frames_[frame_of(entry, dim)][entry.shape[dim]][side.key(k)].insert(k);
      }
    }
  }

  Sizes* parts_of(const Entry& whole, std::size_t dim) {
    auto found = frames_.find(frame_of(whole, dim));
    return found == frames_.end() ? nullptr : &found->second;
  }

 private:
  using Frame = std::tuple<core::DType, std::size_t, std::vector<std::int64_t>>;

  static Frame frame_of(const Entry& entry, std::size_t dim) {
    std::vector<std::int64_t> shape = entry.shape.to_vector();
    shape[dim] = 0;
    return {entry.dtype, dim, std::move(shape)};
  }

  std::map<Frame, Sizes> frames_;
};

class Matcher {
 public:
  Matcher(const std::vector<NamedEntry>& a, const std::vector<NamedEntry>& b, const AlignOptions& options)
      : options_(options), a_(a), b_(b) {
    std::vector<NamedEntry> both = a;
    both.insert(both.end(), b.begin(), b.end());
    std::vector<Hash128> hashes = content_hashes(both, {options.threads, options.progress});
    a_.hashes.assign(hashes.begin(), hashes.begin() + static_cast<std::ptrdiff_t>(a.size()));
    b_.hashes.assign(hashes.begin() + static_cast<std::ptrdiff_t>(a.size()), hashes.end());
  }

  Matching run() {
    match_unique();
    match_changed();
    match_parts(a_, b_, false);
    match_parts(b_, a_, true);
    match_alike();
    match_second_names();
    if (options_.by_shape) match_by_shape();
    std::stable_sort(out_.matches.begin(), out_.matches.end(),
                     [](const Match& x, const Match& y) { return x.from[0] < y.from[0]; });
    out_.only_a = a_.open();
    out_.only_b = b_.open();
    return std::move(out_);
  }

 private:
  void take(Match match) {
    for (std::size_t i : match.from) a_.use(i);
    for (std::size_t i : match.to) b_.use(i);
    if (match.from.size() == 1 && match.to.size() == 1) {
      names_.learn(a_.entries[match.from[0]].name, b_.entries[match.to[0]].name);
    }
    out_.matches.push_back(std::move(match));
  }

  using Groups = std::map<Key, std::pair<std::vector<std::size_t>, std::vector<std::size_t>>>;
  Groups groups() const {
    Groups out;
    for (std::size_t i : a_.open()) out[a_.key(i)].first.push_back(i);
    for (std::size_t i : b_.open()) out[b_.key(i)].second.push_back(i);
    return out;
  }

  /// Contents that both sides have once.
  void match_unique() {
    for (const auto& [key, group] : groups()) {
      if (group.first.size() == 1 && group.second.size() == 1) take({{group.first[0]}, {group.second[0]}});
    }
  }

  /// Contents that several tensors share (zeros, ones, counters): by what the names of unique ones have taught, then by
  /// likeness and order.
  void match_alike() {
    for (const auto& [key, group] : groups()) {
      if (group.first.empty() || group.second.empty()) continue;
      pair_up(group.first, group.second, By::content);
    }
  }

  void pair_up(const std::vector<std::size_t>& in_a, const std::vector<std::size_t>& in_b, By by) {
    std::vector<std::string_view> from;
    std::vector<std::string_view> to;
    for (std::size_t i : in_a) from.push_back(a_.entries[i].name);
    for (std::size_t i : in_b) to.push_back(b_.entries[i].name);
    for (const auto& [x, y] : names_.pair_up(from, to)) {
      Match match{{in_a[x]}, {in_b[y]}};
      match.by = by;
      take(std::move(match));
    }
  }

  /// What an open tensor of `side` may have become; the plain one only where `plain` says so.
  std::vector<Variant> variants(const Side& side, std::size_t i, const Side& other, bool plain) const {
    const EntryPtr& entry = side.entries[i].entry;
    if (entry->bytes == nullptr || entry->blocks || entry->conjugate || entry->negative) return {};
    std::vector<Variant> out;
    if (plain) out.push_back({entry});
    bool matrix = entry->shape.size() == 2 && core::bit_width(entry->dtype) % 8 == 0;
    if (matrix) out.push_back({transposed(*entry, {}), true});
    for (const auto& [type, count] : other.open_types) {
      if (type == entry->dtype || !can_cast(type) || !can_cast(entry->dtype)) continue;
      EntryPtr cast = with_dtype(*entry, type);
      out.push_back({cast, false, type});
      if (matrix) out.push_back({transposed(*cast, {}), true, type});
    }
    return out;
  }

  /// What is the same but for the shape.
  using Content = std::tuple<core::DType, std::uint64_t, std::uint64_t>;
  static Content content_of(const Entry& entry, const Hash128& hash) { return {entry.dtype, hash.high, hash.low}; }

  /// Tensors that are another one transposed, reshaped or cast. Equal contents are left to match_alike().
  void match_changed() {
    std::vector<std::size_t> open = a_.open();
    std::map<Content, std::vector<std::size_t>> in_b;
    std::set<Key> settled;
    for (std::size_t k : b_.open()) {
      in_b[content_of(b_.entry(k), b_.hashes[k])].push_back(k);
      settled.insert(b_.key(k));
    }
    std::vector<std::size_t> ranks = ranks_of(open);
    std::vector<std::vector<Match>> found(open.size());
    parallel_for(open.size(), options_.threads, [&](std::size_t n) {
      std::size_t i = open[n];
      for (const Variant& variant : variants(a_, i, b_, true)) {
        bool plain = !variant.transpose && !variant.cast;
        Hash128 hash = plain ? a_.hashes[i] : content_hash(*variant.entry);
        if (plain && settled.contains(a_.key(i))) return;
        auto fitting = in_b.find(content_of(*variant.entry, hash));
        if (fitting == in_b.end()) continue;
        for (std::size_t k : choices_near(fitting->second, ranks[n])) {
          bool reshape = !(variant.entry->shape == b_.entry(k).shape);
          if (reshape && variant.entry->numel() != b_.entry(k).numel()) continue;
          found[n].push_back({{i}, {k}, variant.transpose, reshape, variant.cast});
        }
        if (!found[n].empty()) return;
      }
    });
    for (bool unique : {true, false}) take_changed(found, unique);
  }

  /// How many tensors of the same content stand before each.
  std::vector<std::size_t> ranks_of(const std::vector<std::size_t>& open) const {
    std::map<Content, std::size_t> seen;
    std::vector<std::size_t> ranks;
    for (std::size_t i : open) ranks.push_back(seen[content_of(a_.entry(i), a_.hashes[i])]++);
    return ranks;
  }

  /// All of them; of very many (zeros) those at about the same place in their order.
  static std::span<const std::size_t> choices_near(const std::vector<std::size_t>& all, std::size_t rank) {
    std::size_t count = std::min(all.size(), kMaxChoices);
    return std::span(all).subspan(std::min(rank, all.size() - count), count);
  }

  /// Matches with one choice first: they teach names, by which the others choose.
  void take_changed(const std::vector<std::vector<Match>>& found, bool unique) {
    for (const std::vector<Match>& choices : found) {
      const Match* best = nullptr;
      double score = -1;
      std::size_t open = 0;
      for (const Match& match : choices) {
        if (a_.used[match.from[0]] || b_.used[match.to[0]]) continue;
        ++open;
        double likeness = names_.likeness(a_.entries[match.from[0]].name, b_.entries[match.to[0]].name);
        if (likeness > score) {
          score = likeness;
          best = &match;
        }
      }
      if (best != nullptr && (open == 1 || !unique)) take(*best);
    }
  }

  /// A tensor of `whole` that is several of `parts` behind each other: q, k and v in one.
  void match_parts(Side& whole, Side& parts, bool fuse) {
    PartIndex index(parts);
    for (std::size_t i : whole.open()) {
      if (whole.used[i]) continue;
      std::vector<Variant> choices =
          fuse ? std::vector<Variant>{{whole.entries[i].entry}} : variants(whole, i, parts, true);
      if (whole.entry(i).bytes == nullptr) continue;
      for (const Variant& variant : choices) {
        if (cut(parts, index, {i, variant, fuse})) break;
      }
      if (fuse && !whole.used[i]) cut_of_transposed(whole, parts, index, i);
    }
  }

  /// Parts of A that were transposed (and cast) before they were put together.
  void cut_of_transposed(Side& whole, Side& parts, PartIndex& index, std::size_t i) {
    const Entry& entry = whole.entry(i);
    if (entry.shape.size() != 2 || core::bit_width(entry.dtype) % 8 != 0 || entry.blocks) return;
    cut(parts, index, {i, {transposed(entry, {}), true}, true});
  }

  /// A tensor that may be several parts behind each other.
  struct Whole {
    std::size_t i;
    const Variant& variant;
    bool fuse;
  };

  bool cut(Side& parts, PartIndex& index, const Whole& whole) {
    const Variant& variant = whole.variant;
    const Entry& entry = *variant.entry;
    std::size_t dims = std::min<std::size_t>(entry.shape.size(), 2);
    if (entry.blocks || core::bit_width(entry.dtype) % 8 != 0) return false;
    for (std::size_t dim = 0; dim < dims; ++dim) {
      std::optional<std::vector<std::size_t>> found = find_cut(entry, dim, parts, index);
      if (!found) continue;
      Match match;
      match.from = whole.fuse ? *found : std::vector<std::size_t>{whole.i};
      match.to = whole.fuse ? std::vector<std::size_t>{whole.i} : *found;
      match.transpose = variant.transpose;
      match.cast = variant.cast;
      // The parts of a fuse are transposed before they meet, so they meet along the other dimension.
      match.dim = static_cast<std::int64_t>(whole.fuse && variant.transpose ? 1 - dim : dim);
      take(std::move(match));
      return true;
    }
    return false;
  }

  /// Indexes of open parts that make up all of `entry` along `dim`, in order; two at least.
  static std::optional<std::vector<std::size_t>> find_cut(const Entry& entry, std::size_t dim, const Side& parts,
                                                          PartIndex& index) {
    PartIndex::Sizes* sizes = index.parts_of(entry, dim);
    if (sizes == nullptr) return std::nullopt;
    std::vector<std::size_t> out;
    std::vector<PartIndex::Equals*> from;
    std::int64_t at = 0;
    while (at < entry.shape[dim]) {
      PartIndex::Equals* next = next_part(entry, {dim, at}, parts, *sizes);
      if (next == nullptr) break;
      out.push_back(best_part(*next, out, parts));
      next->erase(out.back());
      from.push_back(next);
      at += parts.entry(out.back()).shape[dim];
    }
    if (at == entry.shape[dim] && out.size() >= 2) return out;
    for (std::size_t i = 0; i < out.size(); ++i) from[i]->insert(out[i]);
    return std::nullopt;
  }

  struct Cut {
    std::size_t dim;
    std::int64_t at;
  };

  /// Open parts with the values that `entry` has from the cut on; null when there are none.
  static PartIndex::Equals* next_part(const Entry& entry, Cut cut, const Side& parts, PartIndex::Sizes& known) {
    std::int64_t whole = entry.shape[cut.dim];
    for (auto& [size, equal] : known) {
      if (size == whole || size > whole - cut.at) return nullptr;
      std::vector<std::int64_t> sizes = {cut.at, size, whole - cut.at - size};
      EntryPtr part = split_parts(entry, static_cast<std::int64_t>(cut.dim), 3, sizes)[1];
      auto found = equal.find(key_of(*part, content_hash(*part)));
      if (found == equal.end()) continue;
      PartIndex::Equals& open = found->second;
      while (!open.empty() && parts.used[*open.begin()]) open.erase(open.begin());
      if (!open.empty()) return &open;
    }
    return nullptr;
  }

  /// Of parts with the same values the one whose name is most like that of the part before it. REQUIRES: the first of
  /// `choices` is open.
  static std::size_t best_part(PartIndex::Equals& choices, const std::vector<std::size_t>& before, const Side& parts) {
    std::size_t best = *choices.begin();
    if (before.empty()) return best;
    const std::string& last = parts.entries[before.back()].name;
    std::size_t length = 0;
    std::size_t seen = 0;
    for (auto at = choices.begin(); at != choices.end() && seen < kMaxChoices;) {
      if (parts.used[*at]) {
        at = choices.erase(at);
        continue;
      }
      std::size_t common = common_length(parts.entries[*at].name, last);
      if (common > length) std::tie(best, length) = std::tuple(*at, common);
      ++seen;
      ++at;
    }
    return best;
  }

  /// B has the same tensor under a second name.
  void match_second_names() {
    std::map<Key, std::size_t> first;
    for (std::size_t m = 0; m < out_.matches.size(); ++m) {
      const Match& match = out_.matches[m];
      if (match.to.size() == 1) first.emplace(key_of(b_.entry(match.to[0]), b_.hashes[match.to[0]]), m);
    }
    for (std::size_t k : b_.open()) {
      auto known = first.find(key_of(b_.entry(k), b_.hashes[k]));
      if (known == first.end()) continue;
      const Entry& other = b_.entry(out_.matches[known->second].to[0]);
      if (!same_view(other, b_.entry(k)) && is_constant(b_.entry(k))) continue;
      Match second = out_.matches[known->second];
      second.to.push_back(k);
      second.tie = true;
      b_.use(k);
      out_.matches.push_back(second);
    }
  }

  /// Tensors with other values: the same name, what neighbours teach, then the best order-keeping pairing of shapes.
  void match_by_shape() {
    using Shape = std::pair<core::DType, std::vector<std::int64_t>>;
    std::map<Shape, std::pair<std::vector<std::size_t>, std::vector<std::size_t>>> shapes;
    for (std::size_t i : a_.open()) shapes[{a_.entry(i).dtype, a_.entry(i).shape.to_vector()}].first.push_back(i);
    for (std::size_t k : b_.open()) shapes[{b_.entry(k).dtype, b_.entry(k).shape.to_vector()}].second.push_back(k);
    for (const auto& [shape, group] : shapes) {
      std::unordered_map<std::string_view, std::size_t> names;
      for (std::size_t k : group.second) names.emplace(b_.entries[k].name, k);
      for (std::size_t i : group.first) match_by_name(i, names);
    }
    for (const auto& [shape, group] : shapes) {
      std::vector<std::size_t> in_a = group.first;
      std::vector<std::size_t> in_b = group.second;
      std::erase_if(in_a, [this](std::size_t i) { return a_.used[i]; });
      std::erase_if(in_b, [this](std::size_t k) { return b_.used[k]; });
      if (in_a.size() == in_b.size()) pair_up(in_a, in_b, By::shape);
    }
  }

  void match_by_name(std::size_t i, const std::unordered_map<std::string_view, std::size_t>& in_b) {
    std::size_t first = b_.used.size();
    for (const std::string& name : names_.implied(a_.entries[i].name, kMaxImplied)) {
      auto found = in_b.find(name);
      if (found != in_b.end() && !b_.used[found->second]) first = std::min(first, found->second);
    }
    if (first == b_.used.size()) return;
    Match match{{i}, {first}};
    match.by = By::name;
    take(std::move(match));
  }

  const AlignOptions& options_;
  Side a_;
  Side b_;
  LearnedNames names_;
  Matching out_;
};

}  // namespace

Matching match_tensors(const std::vector<NamedEntry>& a, const std::vector<NamedEntry>& b,
                       const AlignOptions& options) {
  return Matcher(a, b, options).run();
}

}  // namespace ckpt::detail
