#include "libckpt/analyze/align_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "libckpt/analyze/align_ordinals.h"
#include "libckpt/analyze/content_hash.h"
#include "libckpt/transform/derived_entry.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kMaxBeside = 64;  // tensors of one module; in larger ones nothing is beside anything

/// What a tensor is found by.
using Key = std::tuple<core::DType, std::vector<std::int64_t>, std::uint64_t, std::uint64_t>;

Key key_of(const Entry& entry, const Hash128& hash) {
  return {entry.dtype, entry.shape.to_vector(), hash.high, hash.low};
}

/// The open tensors of one side that prove something, as parts of larger ones: by what they must have in common with
/// the whole, then by their size along the dimension in which they meet, then by content.
class PartIndex {
 public:
  using Sizes = std::map<std::int64_t, std::map<Key, std::size_t>>;

  explicit PartIndex(const Side& side) {
    for (std::size_t k : side.open()) {
      const Entry& entry = side.entry(k);
      if (!side.proves(k) || entry.blocks) continue;
      for (std::size_t dim = 0; dim < std::min<std::size_t>(entry.shape.size(), 2); ++dim) {
        if (entry.shape[dim] > 0)
          frames_[frame_of(entry, dim)][entry.shape[dim]].emplace(key_of(entry, side.hash(k)), k);
      }
    }
  }

  bool empty() const { return frames_.empty(); }

  const Sizes* parts_of(const Entry& whole, std::size_t dim) const {
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

class Cutter {
 public:
  Cutter(Pairing& pairing, bool fuse)
      : pairing_(pairing),
        fuse_(fuse),
        whole_(fuse ? pairing.b : pairing.a),
        parts_(fuse ? pairing.a : pairing.b),
        index_(parts_) {}

  void run() {
    if (index_.empty()) return;
    for (std::size_t i : whole_.open()) {
      if (!whole_.proves(i) || whole_.entry(i).blocks) continue;
      for (const Variant& variant : forms(i)) {
        if (cut(i, variant)) break;
      }
    }
  }

 private:
  /// What may be cut: a whole of A is changed first; parts of A are transposed before they are put together.
  std::vector<Variant> forms(std::size_t i) const {
    const EntryPtr& entry = whole_.entry_ptr(i);
    std::vector<Variant> out = variants(entry, entry->dtype);
    if (fuse_) return out;
    for (const auto& [type, count] : parts_.open_types()) {
      if (type == entry->dtype) continue;
      for (Variant& variant : variants(entry, type)) out.push_back(std::move(variant));
    }
    return out;
  }

  bool cut(std::size_t i, const Variant& variant) {
    const Entry& entry = *variant.entry;
    if (core::bit_width(entry.dtype) % 8 != 0) return false;
    for (std::size_t dim = 0; dim < std::min<std::size_t>(entry.shape.size(), 2); ++dim) {
      std::vector<std::size_t> found = find_cut(entry, dim);
      if (found.empty()) continue;
      Match match;
      match.from = fuse_ ? found : std::vector<std::size_t>{i};
      match.to = fuse_ ? std::vector<std::size_t>{i} : found;
      match.transpose = variant.transpose;
      match.cast = variant.cast;
      // The parts of a fuse are transposed before they meet, so they meet along the other dimension.
      match.dim = static_cast<std::int64_t>(fuse_ && variant.transpose ? 1 - dim : dim);
      pairing_.take(std::move(match));
      return true;
    }
    return false;
  }

  /// Open parts that make up all of `entry` along `dim`, in order; two at least, or none.
  std::vector<std::size_t> find_cut(const Entry& entry, std::size_t dim) const {
    const PartIndex::Sizes* sizes = index_.parts_of(entry, dim);
    std::vector<std::size_t> out;
    std::set<std::size_t> taken;
    for (std::int64_t at = 0; sizes != nullptr && at < entry.shape[dim];) {
      std::size_t next = next_part(entry, {dim, at}, *sizes);
      if (next == kNoMatch || !taken.insert(next).second) return {};
      out.push_back(next);
      at += parts_.entry(next).shape[dim];
    }
    return out.size() >= 2 ? out : std::vector<std::size_t>();
  }

  struct Cut {
    std::size_t dim;
    std::int64_t at;
  };

  /// The open part with the values that `entry` has from the cut on.
  std::size_t next_part(const Entry& entry, Cut cut, const PartIndex::Sizes& known) const {
    std::int64_t whole = entry.shape[cut.dim];
    for (const auto& [size, parts] : known) {
      if (size == whole || size > whole - cut.at) return kNoMatch;
      std::vector<std::int64_t> sizes = {cut.at, size, whole - cut.at - size};
      EntryPtr part = split_parts(entry, static_cast<std::int64_t>(cut.dim), 3, sizes)[1];
      auto found = parts.find(key_of(*part, content_hash(*part)));
      if (found != parts.end() && !parts_.used(found->second)) return found->second;
    }
    return kNoMatch;
  }

  Pairing& pairing_;
  bool fuse_;
  const Side& whole_;
  const Side& parts_;
  PartIndex index_;
};

/// The tensors beside those of one cut.
class Follower {
 public:
  Follower(Pairing& pairing, const ModuleTrees& trees, const AlignOptions& options, const Match& taught)
      : pairing_(pairing),
        options_(options),
        taught_(taught),
        fuse_(taught.from.size() > 1),
        whole_(fuse_ ? pairing.b : pairing.a),
        parts_(fuse_ ? pairing.a : pairing.b),
        whole_tree_(fuse_ ? trees.b : trees.a),
        parts_tree_(fuse_ ? trees.a : trees.b) {}

  void run() {
    std::size_t unit = whole_tree_.unit(wholes(taught_)[0]);
    if (!is_small(whole_tree_, wholes(taught_)) || !is_small(parts_tree_, parts(taught_))) return;
    std::vector<Match> found;
    for (std::size_t w : whole_tree_.tensors_of(unit)) {
      if (whole_.used(w)) continue;
      std::vector<Match> choices = cuts_of(w);
      if (choices.size() > 1) return;
      if (choices.size() == 1) found.push_back(std::move(choices[0]));
    }
    for (std::size_t n = 0; n < found.size(); ++n) {
      bool disputed = std::any_of(found.begin(), found.end(), [&](const Match& other) {
        return &other != &found[n] && parts(other)[0] == parts(found[n])[0];
      });
      if (!disputed) pairing_.take(found[n]);
    }
  }

 private:
  const std::vector<std::size_t>& wholes(const Match& match) const { return fuse_ ? match.to : match.from; }
  const std::vector<std::size_t>& parts(const Match& match) const { return fuse_ ? match.from : match.to; }

  static bool is_small(const ModuleTree& tree, const std::vector<std::size_t>& tensors) {
    return std::all_of(tensors.begin(), tensors.end(),
                       [&](std::size_t i) { return tree.tensors_of(tree.unit(i)).size() <= kMaxBeside; });
  }

  /// Every way to cut `w` as its neighbour was cut: into tensors of one name, each beside a part of the neighbour.
  std::vector<Match> cuts_of(std::size_t w) const {
    std::vector<Match> out;
    std::size_t first = parts_tree_.unit(parts(taught_)[0]);
    for (std::size_t p : parts_tree_.tensors_of(first)) {
      if (parts_.used(p)) continue;
      std::vector<std::size_t> chosen = beside_parts(last_of(parts_.name(p)));
      if (chosen.empty() || !fits(w, chosen)) continue;
      Match match;
      match.from = fuse_ ? chosen : std::vector<std::size_t>{w};
      match.to = fuse_ ? std::vector<std::size_t>{w} : chosen;
      match.by = AlignedTensors::By::name;
      match.same_values = same_values(w, chosen);
      if (match.same_values || options_.by_shape) out.push_back(std::move(match));
    }
    return out;
  }

  /// The open tensor of that name in the module of each part; none where one lacks it, or two parts share a module.
  std::vector<std::size_t> beside_parts(std::string_view last) const {
    std::vector<std::size_t> out;
    for (std::size_t part : parts(taught_)) {
      for (std::size_t p : parts_tree_.tensors_of(parts_tree_.unit(part))) {
        if (!parts_.used(p) && last_of(parts_.name(p)) == last) out.push_back(p);
      }
    }
    std::vector<std::size_t> distinct = out;
    std::sort(distinct.begin(), distinct.end());
    bool each =
        out.size() == parts(taught_).size() && std::adjacent_find(distinct.begin(), distinct.end()) == distinct.end();
    return each ? out : std::vector<std::size_t>();
  }

  /// Vectors that share the size of the whole as their neighbours share that of theirs.
  bool fits(std::size_t w, const std::vector<std::size_t>& chosen) const {
    auto dim = static_cast<std::size_t>(taught_.dim);
    if (fuse_ && taught_.transpose) dim = 1 - dim;  // of the parts as they are in the file
    const Entry& whole = whole_.entry(w);
    if (whole.shape.size() != 1 || whole.blocks) return false;
    std::int64_t all = 0;
    std::int64_t all_taught = 0;
    for (std::size_t n = 0; n < chosen.size(); ++n) {
      const Entry& part = parts_.entry(chosen[n]);
      if (part.shape.size() != 1 || part.blocks || part.dtype != whole.dtype) return false;
      all += part.shape[0];
      all_taught += parts_.entry(parts(taught_)[n]).shape[dim];
    }
    if (all != whole.shape[0]) return false;
    for (std::size_t n = 0; n < chosen.size(); ++n) {
      std::int64_t own = parts_.entry(chosen[n]).shape[0];
      if (own * all_taught != parts_.entry(parts(taught_)[n]).shape[dim] * all) return false;
    }
    return true;
  }

  bool same_values(std::size_t w, const std::vector<std::size_t>& chosen) const {
    return std::all_of(chosen.begin(), chosen.end(),
                       [&](std::size_t p) { return whole_.is_constant(w) && parts_.content(p) == whole_.content(w); });
  }

  Pairing& pairing_;
  const AlignOptions& options_;
  Match taught_;  ///< a copy: the list of matches grows
  bool fuse_;
  const Side& whole_;
  const Side& parts_;
  const ModuleTree& whole_tree_;
  const ModuleTree& parts_tree_;
};

}  // namespace

void match_parts(Pairing& pairing) {
  Cutter(pairing, false).run();
  Cutter(pairing, true).run();
}

void follow_parts(Pairing& pairing, const ModuleTrees& trees, const AlignOptions& options) {
  std::size_t taught = pairing.matches().size();
  for (std::size_t m = 0; m < taught; ++m) {
    const Match& match = pairing.matches()[m];
    bool cut = !match.tie && (match.from.size() > 1 || match.to.size() > 1);
    if (cut) Follower(pairing, trees, options, match).run();
  }
}

}  // namespace ckpt::detail
