#include "libckpt/analyze/why/rename_votes.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "libckpt/analyze/why/projections.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kSample = 2'000;
/// An end or a frame that more sampled keys share says nothing about any of them.
constexpr std::size_t kMaxShared = 64;
constexpr std::size_t kMaxPartners = 4;
constexpr std::size_t kMaxRun = 3;

/// Where components begin, and one past the end of the key at last (as if a dot stood there).
std::vector<std::size_t> starts_of(std::string_view key) {
  std::vector<std::size_t> starts = {0};
  for (std::size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.', dot + 1)) {
    starts.push_back(dot + 1);
  }
  starts.push_back(key.size() + 1);
  return starts;
}

std::size_t hash_of(std::string_view text) {
  return std::hash<std::string_view>()(text);
}

/// Names deeper than any model are left alone: the work on a name grows with the square of its depth.
bool too_deep(std::string_view key) {
  return std::count(key.begin(), key.end(), '.') >= 64;
}

std::vector<std::size_t> sample(const Attempt& attempt) {
  std::vector<std::size_t> all = attempt.unmatched_file();
  std::erase_if(all, [&](std::size_t i) { return too_deep(attempt.file()[i].name); });
  if (all.size() <= kSample) return all;
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < kSample; ++i) some.push_back(all[i * all.size() / kSample]);
  return some;
}

/// Something that was seen at a place of a sampled key, findable by hash.
struct Seen {
  std::size_t hash;
  std::uint32_t key;    ///< position in the sample
  std::uint16_t begin;  ///< component
  std::uint16_t end;
};

class SeenTable {
 public:
  void add(Seen seen) { rows_.push_back(seen); }
  void sort() {
    std::sort(rows_.begin(), rows_.end(), [](const Seen& a, const Seen& b) { return a.hash < b.hash; });
    filter_.assign(1U << 16, false);
    for (const Seen& row : rows_) filter_[row.hash & 0xffff] = true;
  }
  /// Calls `body` for each row of that hash, unless there are too many.
  template <class Body>
  void for_each(std::size_t hash, Body&& body) const {
    if (!filter_[hash & 0xffff]) return;
    auto first = std::lower_bound(rows_.begin(), rows_.end(), hash,
                                  [](const Seen& row, std::size_t wanted) { return row.hash < wanted; });
    auto last = first;
    while (last != rows_.end() && last->hash == hash && static_cast<std::size_t>(last - first) <= kMaxShared) ++last;
    if (static_cast<std::size_t>(last - first) > kMaxShared) return;
    for (; first != last; ++first) body(*first);
  }

 private:
  std::vector<Seen> rows_;
  std::vector<bool> filter_;
};

/// Letters in common, in order, over the mean length.
double likeness(std::string_view a, std::string_view b) {
  constexpr std::size_t kMost = 64;
  a = a.substr(0, kMost);
  b = b.substr(0, kMost);
  if (a.empty() || b.empty()) return 0;
  std::vector<std::size_t> row(b.size() + 1);
  for (char c : a) {
    std::size_t diagonal = 0;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t above = row[j];
      row[j] = c == b[j - 1] ? diagonal + 1 : std::max(row[j], row[j - 1]);
      diagonal = above;
    }
  }
  return 2.0 * static_cast<double>(row.back()) / static_cast<double>(a.size() + b.size());
}

/// One of three projections and the tensor that holds all of them: what is cut or joined is no other name.
bool is_projection_of(std::string_view part, std::string_view whole) {
  auto last = [](std::string_view path) {
    if (path.ends_with('.')) path.remove_suffix(1);
    return leaf_of(path);
  };
  return holds_one_projection(last(part)) && holds_all_projections(last(whole));
}

using RuleKey = std::tuple<KeyRule::Kind, std::string, std::string>;

class Ballot {
 public:
  void vote(KeyRule::Kind kind, std::string from, std::string to, double weight) {
    if (is_projection_of(from, to) || is_projection_of(to, from)) return;
    auto [at, fresh] = votes_.try_emplace({kind, std::move(from), std::move(to)}, Entry{0, votes_.size()});
    at->second.votes += weight;
  }
  std::vector<RuleVote> ranked() const {
    std::vector<std::pair<std::size_t, RuleVote>> all;
    for (const auto& [key, entry] : votes_) {
      const auto& [kind, from, to] = key;
      all.push_back({entry.order, {{kind, from, to, {}}, entry.votes, likeness(from, to)}});
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      if (a.second.votes != b.second.votes) return a.second.votes > b.second.votes;
      if (a.second.likeness != b.second.likeness) return a.second.likeness > b.second.likeness;
      return a.first < b.first;
    });
    std::vector<RuleVote> out;
    for (auto& [order, vote] : all) out.push_back(std::move(vote));
    return out;
  }

 private:
  struct Entry {
    double votes;
    std::size_t order;  ///< who came first
  };
  std::map<RuleKey, Entry> votes_;
};

/// Numbers count layers: a rule that makes layer 1 of layer 0 is an accident of equal shapes.
bool other_numbers(std::string_view ours, std::string_view theirs) {
  auto numbers = [](std::string_view text) {
    std::vector<std::string_view> found;
    for (std::string_view part : core::split(text, '.')) {
      if (is_number(part)) found.push_back(part);
    }
    return found;
  };
  std::vector<std::string_view> mine = numbers(ours);
  std::vector<std::string_view> other = numbers(theirs);
  return !mine.empty() && !other.empty() && mine != other;
}

/// The wanted keys with the longest end in common with one sampled key.
struct Partners {
  std::size_t length = 0;
  std::size_t begin = 0;  ///< of that end in the file's key
  std::size_t count = 0;
  std::vector<std::size_t> wanted;
};

std::vector<Partners> longest_ends(const Attempt& attempt, const std::vector<std::size_t>& keys) {
  SeenTable ends;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const std::string& name = attempt.file()[keys[k]].name;
    std::vector<std::size_t> starts = starts_of(name);
    for (std::size_t c = 0; c + 1 < starts.size(); ++c) {
      ends.add({hash_of(std::string_view(name).substr(starts[c])), static_cast<std::uint32_t>(k),
                static_cast<std::uint16_t>(std::min<std::size_t>(c, UINT16_MAX)), 0});
    }
  }
  ends.sort();
  std::vector<Partners> partners(keys.size());
  for (std::size_t t : attempt.unmatched_wanted()) {
    std::string_view wanted = attempt.wanted()[t].key;
    if (too_deep(wanted)) continue;
    for (std::size_t start : starts_of(wanted)) {
      if (start >= wanted.size()) continue;
      std::string_view end = wanted.substr(start);
      ends.for_each(hash_of(end), [&](const Seen& seen) {
        const FileKey& key = attempt.file()[keys[seen.key]];
        if (!key.name.ends_with(end)) return;
        Partners& known = partners[seen.key];
        if (end.size() < known.length) return;
        if (end.size() > known.length) known = {end.size(), key.name.size() - end.size(), 0, {}};
        ++known.count;
        if (known.wanted.size() < kMaxPartners) known.wanted.push_back(t);
      });
    }
  }
  return partners;
}

void vote_for_prefix(const Attempt& attempt, const FileKey& key, const Partners& partners, Ballot& ballot) {
  std::vector<std::size_t> fitting;
  for (std::size_t t : partners.wanted) {
    if (shape_fits(attempt.wanted()[t], key.shape)) fitting.push_back(t);
  }
  const std::vector<std::size_t>& chosen = fitting.empty() ? partners.wanted : fitting;
  for (std::size_t t : chosen) {
    const std::string& wanted = attempt.wanted()[t].key;
    std::string to = wanted.substr(0, wanted.size() - partners.length);
    if (other_numbers(std::string_view(key.name).substr(0, partners.begin), to)) continue;
    // A whole name is worth more than an end such as "weight", and so is a shape that fits.
    double weight = (partners.begin == 0 || to.empty() ? 4.0 : 1.0) * (fitting.empty() ? 0.25 : 1.0);
    weight /= static_cast<double>(std::max<std::size_t>(1, chosen.size()));
    ballot.vote(KeyRule::Kind::prefix, key.name.substr(0, partners.begin), std::move(to), weight);
  }
}

/// A key taken apart, with the hash of every frame: what stands before component i and from component j on.
class Framed {
 public:
  explicit Framed(std::string_view key) : key_(key), starts_(starts_of(key)) {}
  std::size_t components() const { return starts_.size() - 1; }
  std::string_view before(std::size_t i) const { return key_.substr(0, starts_[i]); }
  std::string_view from(std::size_t j) const {
    return starts_[j] > key_.size() ? std::string_view() : key_.substr(starts_[j]);
  }
  std::string_view run(std::size_t i, std::size_t j) const {
    return i == j ? std::string_view() : key_.substr(starts_[i], starts_[j] - 1 - starts_[i]);
  }
  std::size_t frame(std::size_t i, std::size_t j) const {
    // A key that ends with the run has an empty rest but is another frame than one with nothing behind a dot.
    return hash_of(before(i)) * 0x9E3779B97F4A7C15ULL + hash_of(from(j)) + (j == components() ? 1 : 0);
  }
  /// Calls body(i, j) for every run of at most kMaxRun components that leaves something of the key.
  template <class Body>
  void for_each_run(Body&& body) const {
    for (std::size_t i = 0; i <= components(); ++i) {
      for (std::size_t j = i; j <= std::min(i + kMaxRun, components()); ++j) {
        if (j - i < components()) body(i, j);
      }
    }
  }

 private:
  std::string_view key_;
  std::vector<std::size_t> starts_;
};

bool same_first(std::string_view a, std::string_view b) {
  return a.substr(0, a.find('.')) == b.substr(0, b.find('.'));
}

bool same_last(std::string_view a, std::string_view b) {
  return leaf_of(a) == leaf_of(b);
}

/// "0" or "0.1".
bool all_numbers(std::string_view run) {
  return !run.empty() && run.find_first_not_of("0123456789.") == std::string_view::npos;
}

void vote_for_path(const Framed& key, std::size_t i, std::string_view ours, std::string_view theirs, double weight,
                   Ballot& ballot) {
  bool both = !ours.empty() && !theirs.empty();
  if (both && (same_first(ours, theirs) || same_last(ours, theirs) || other_numbers(ours, theirs))) return;
  if (ours == theirs || (all_numbers(ours) && (theirs.empty() || all_numbers(theirs)))) return;
  if (i == 0) {
    auto with_dot = [](std::string_view run) { return run.empty() ? std::string() : std::string(run) + "."; };
    ballot.vote(KeyRule::Kind::prefix, with_dot(ours), with_dot(theirs), weight);
    return;
  }
  std::string from(ours);
  std::string to(theirs);
  if (ours.empty() || all_numbers(ours)) {  // a place needs a neighbour to be known by
    std::string_view before = key.run(i - 1, i);
    if (is_number(before)) return;
    from = std::string(before) + (ours.empty() ? "" : ".") + from;
    to = std::string(before) + "." + to;
  }
  ballot.vote(KeyRule::Kind::path, std::move(from), std::move(to), weight);
}

}  // namespace

std::vector<RuleVote> prefix_votes(const Attempt& attempt) {
  std::vector<std::size_t> keys = sample(attempt);
  std::vector<Partners> partners = longest_ends(attempt, keys);
  Ballot ballot;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    if (partners[k].count == 0 || partners[k].count > kMaxPartners) continue;
    vote_for_prefix(attempt, attempt.file()[keys[k]], partners[k], ballot);
  }
  return ballot.ranked();
}

std::vector<RuleVote> path_votes(const Attempt& attempt) {
  std::vector<std::size_t> keys = sample(attempt);
  std::vector<Framed> framed;
  SeenTable frames;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    framed.emplace_back(attempt.file()[keys[k]].name);
    framed.back().for_each_run([&](std::size_t i, std::size_t j) {
      if (j > UINT16_MAX) return;
      frames.add({framed.back().frame(i, j), static_cast<std::uint32_t>(k), static_cast<std::uint16_t>(i),
                  static_cast<std::uint16_t>(j)});
    });
  }
  frames.sort();
  Ballot ballot;
  for (std::size_t t : attempt.unmatched_wanted()) {
    const WantedKey& wanted = attempt.wanted()[t];
    if (too_deep(wanted.key)) continue;
    Framed theirs(wanted.key);
    theirs.for_each_run([&](std::size_t i, std::size_t j) {
      frames.for_each(theirs.frame(i, j), [&](const Seen& seen) {
        const Framed& ours = framed[seen.key];
        bool same = ours.before(seen.begin) == theirs.before(i) && ours.from(seen.end) == theirs.from(j) &&
                    (seen.end == ours.components()) == (j == theirs.components());
        if (!same || !shape_fits(wanted, attempt.file()[keys[seen.key]].shape)) return;
        vote_for_path(ours, seen.begin, ours.run(seen.begin, seen.end), theirs.run(i, j), 1, ballot);
      });
    });
  }
  return ballot.ranked();
}

}  // namespace ckpt::detail
