#include "libckpt/analyze/align_match.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "libckpt/analyze/align_names.h"
#include "libckpt/analyze/content_hash.h"
#include "libckpt/io/parallel_io.h"
#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/derived_entry.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

using By = AlignedTensors::By;

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

  explicit Side(const std::vector<NamedEntry>& list) : entries(list), used(list.size()) {}
  const Entry& entry(std::size_t i) const { return *entries[i].entry; }
  std::vector<std::size_t> open() const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) out.push_back(i);
    }
    return out;
  }
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
    for (std::size_t i : match.from) a_.used[i] = true;
    for (std::size_t i : match.to) b_.used[i] = true;
    if (match.from.size() == 1 && match.to.size() == 1) {
      names_.learn(a_.entries[match.from[0]].name, b_.entries[match.to[0]].name);
    }
    out_.matches.push_back(std::move(match));
  }

  using Groups = std::map<Key, std::pair<std::vector<std::size_t>, std::vector<std::size_t>>>;
  Groups groups() const {
    Groups out;
    for (std::size_t i : a_.open()) out[key_of(a_.entry(i), a_.hashes[i])].first.push_back(i);
    for (std::size_t i : b_.open()) out[key_of(b_.entry(i), b_.hashes[i])].second.push_back(i);
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
    std::set<core::DType> types;
    for (std::size_t k : other.open()) types.insert(other.entry(k).dtype);
    for (core::DType type : types) {
      if (type == entry->dtype || !can_cast(type) || !can_cast(entry->dtype)) continue;
      EntryPtr cast = with_dtype(*entry, type);
      out.push_back({cast, false, type});
      if (matrix) out.push_back({transposed(*cast, {}), true, type});
    }
    return out;
  }

  /// Tensors that are another one transposed, reshaped or cast. Equal contents are left to match_alike().
  void match_changed() {
    std::vector<std::size_t> open = a_.open();
    std::map<std::tuple<core::DType, std::uint64_t, std::uint64_t>, std::vector<std::size_t>> in_b;
    for (std::size_t k : b_.open()) in_b[{b_.entry(k).dtype, b_.hashes[k].high, b_.hashes[k].low}].push_back(k);
    auto fitting = [&](const Variant& variant, const Hash128& hash) {
      auto found = in_b.find({variant.entry->dtype, hash.high, hash.low});
      return found == in_b.end() ? std::vector<std::size_t>() : found->second;
    };
    std::vector<std::vector<Match>> found(open.size());
    parallel_for(open.size(), options_.threads, [&](std::size_t n) {
      std::size_t i = open[n];
      for (const Variant& variant : variants(a_, i, b_, true)) {
        bool plain = !variant.transpose && !variant.cast;
        Hash128 hash = plain ? a_.hashes[i] : content_hash(*variant.entry);
        for (std::size_t k : fitting(variant, hash)) {
          bool reshape = !(variant.entry->shape == b_.entry(k).shape);
          if (reshape && variant.entry->numel() != b_.entry(k).numel()) continue;
          if (plain && !reshape) {  // settled elsewhere
            found[n].clear();
            return;
          }
          found[n].push_back({{i}, {k}, variant.transpose, reshape, variant.cast});
        }
        if (!found[n].empty()) return;
      }
    });
    for (bool unique : {true, false}) take_changed(found, unique);
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
    for (std::size_t i : whole.open()) {
      if (whole.used[i]) continue;
      std::vector<Variant> choices =
          fuse ? std::vector<Variant>{{whole.entries[i].entry}} : variants(whole, i, parts, true);
      if (whole.entry(i).bytes == nullptr) continue;
      for (const Variant& variant : choices) {
        if (cut(parts, i, variant, fuse)) break;
      }
      if (fuse && !whole.used[i]) cut_of_transposed(whole, parts, i);
    }
  }

  /// Parts of A that were transposed (and cast) before they were put together.
  void cut_of_transposed(Side& whole, Side& parts, std::size_t i) {
    const Entry& entry = whole.entry(i);
    if (entry.shape.size() != 2 || core::bit_width(entry.dtype) % 8 != 0 || entry.blocks) return;
    cut(parts, i, {transposed(entry, {}), true}, true);
  }

  bool cut(Side& parts, std::size_t i, const Variant& variant, bool fuse) {
    const Entry& entry = *variant.entry;
    std::size_t dims = std::min<std::size_t>(entry.shape.size(), 2);
    if (entry.blocks || core::bit_width(entry.dtype) % 8 != 0) return false;
    for (std::size_t dim = 0; dim < dims; ++dim) {
      std::optional<std::vector<std::size_t>> found = find_cut(entry, dim, parts);
      if (!found) continue;
      Match match;
      match.from = fuse ? *found : std::vector<std::size_t>{i};
      match.to = fuse ? std::vector<std::size_t>{i} : *found;
      match.transpose = variant.transpose;
      match.cast = variant.cast;
      // The parts of a fuse are transposed before they meet, so they meet along the other dimension.
      match.dim = static_cast<std::int64_t>(fuse && variant.transpose ? 1 - dim : dim);
      take(std::move(match));
      return true;
    }
    return false;
  }

  /// Indexes of open parts that make up all of `entry` along `dim`, in order; two at least.
  std::optional<std::vector<std::size_t>> find_cut(const Entry& entry, std::size_t dim, const Side& parts) const {
    std::map<std::int64_t, std::map<Key, std::vector<std::size_t>>> by_size;
    for (std::size_t k : parts.open()) {
      core::Shape a = entry.shape;
      core::Shape b = parts.entry(k).shape;
      if (parts.entry(k).dtype != entry.dtype || a.size() != b.size()) continue;
      if (b[dim] >= a[dim] || b[dim] == 0) continue;
      std::int64_t size = b[dim];
      a[dim] = b[dim] = 0;
      if (a == b) by_size[size][key_of(parts.entry(k), parts.hashes[k])].push_back(k);
    }
    std::vector<std::size_t> out;
    for (std::int64_t at = 0; at < entry.shape[dim];) {
      std::optional<std::size_t> next;
      for (auto& [size, known] : by_size) {
        if (size > entry.shape[dim] - at) break;
        std::vector<std::int64_t> sizes = {at, size, entry.shape[dim] - at - size};
        EntryPtr part = split_parts(entry, static_cast<std::int64_t>(dim), 3, sizes)[1];
        auto found = known.find(key_of(*part, content_hash(*part)));
        if (found == known.end() || found->second.empty()) continue;
        next = best_part(found->second, out, parts);
        std::erase(found->second, *next);
        at += size;
        break;
      }
      if (!next) return std::nullopt;
      out.push_back(*next);
    }
    return out.size() >= 2 ? std::optional(out) : std::nullopt;
  }

  /// Of parts with the same values the one whose name is most like that of the part before it.
  static std::size_t best_part(const std::vector<std::size_t>& choices, const std::vector<std::size_t>& before,
                               const Side& parts) {
    if (before.empty()) return choices.front();
    const std::string& last = parts.entries[before.back()].name;
    return *std::max_element(choices.begin(), choices.end(), [&](std::size_t x, std::size_t y) {
      return common_length(parts.entries[x].name, last) < common_length(parts.entries[y].name, last);
    });
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
      b_.used[k] = true;
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
      for (std::size_t i : group.first) match_by_name(i, group.second);
    }
    for (const auto& [shape, group] : shapes) {
      std::vector<std::size_t> in_a = group.first;
      std::vector<std::size_t> in_b = group.second;
      std::erase_if(in_a, [this](std::size_t i) { return a_.used[i]; });
      std::erase_if(in_b, [this](std::size_t k) { return b_.used[k]; });
      if (in_a.size() == in_b.size()) pair_up(in_a, in_b, By::shape);
    }
  }

  void match_by_name(std::size_t i, const std::vector<std::size_t>& in_b) {
    const std::string& from = a_.entries[i].name;
    for (std::size_t k : in_b) {
      if (b_.used[k] || !names_.implies(from, b_.entries[k].name)) continue;
      Match match{{i}, {k}};
      match.by = By::name;
      return take(std::move(match));
    }
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
