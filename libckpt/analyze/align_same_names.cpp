#include "libckpt/analyze/align_same_names.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "libckpt/wrappers.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr int kMaxEdits = 8;
constexpr std::size_t kMaxCuts = 32;  // places in a name at which a prefix or suffix may end

struct Votes {
  std::size_t keys = 0;    ///< that would be the same name
  std::size_t values = 0;  ///< of those, whose values prove it
};

/// Calls body(rest, cut off) for each way to cut whole components off the front or the end of `name`.
template <class Body>
void for_each_cut(std::string_view name, bool at_end, Body&& body) {
  std::size_t cuts = 0;
  std::size_t dot = at_end ? name.rfind('.') : name.find('.');
  while (dot != std::string_view::npos && ++cuts <= kMaxCuts) {
    if (at_end) {
      body(name.substr(0, dot), name.substr(dot));
      dot = dot == 0 ? std::string_view::npos : name.rfind('.', dot - 1);
    } else {
      body(name.substr(dot + 1), name.substr(0, dot + 1));
      dot = name.find('.', dot + 1);
    }
  }
}

class NamePairer {
 public:
  explicit NamePairer(const Pairing& pairing)
      : pairing_(pairing), used_a_(pairing.a.size()), used_b_(pairing.b.size()) {
    for (std::size_t i = 0; i < pairing.a.size(); ++i) in_a_.emplace(pairing.a.name(i), i);
    for (std::size_t k = 0; k < pairing.b.size(); ++k) in_b_.emplace(pairing.b.name(k), k);
  }

  SameNames run() {
    for (const auto& [name, i] : in_a_) {
      if (auto found = in_b_.find(name); found != in_b_.end()) pair(i, found->second);
    }
    pair_without_wrappers();
    for (int round = 0; round < kMaxEdits && pair_by_edit(); ++round) {
    }
    drop_disproved();
    std::sort(out_.pairs.begin(), out_.pairs.end());
    return std::move(out_);
  }

 private:
  using Index = std::unordered_map<std::string_view, std::size_t>;

  /// Shapes that a transpose or reshape could make one another.
  bool fits(std::size_t i, std::size_t k) const { return pairing_.a.entry(i).numel() == pairing_.b.entry(k).numel(); }

  bool pair(std::size_t i, std::size_t k) {
    if (used_a_[i] || used_b_[k] || !fits(i, k)) return false;
    used_a_[i] = used_b_[k] = true;
    out_.pairs.emplace_back(i, k);
    return true;
  }

  static std::unordered_map<std::string, std::size_t> bare_names(const Side& side) {
    std::unordered_map<std::string, std::size_t> out;
    for (std::size_t i = 0; i < side.size(); ++i) {
      auto [known, is_new] = out.emplace(without_wrappers(side.name(i)), i);
      if (!is_new) known->second = kNoMatch;  // two names are one without the wrappers: neither counts
    }
    return out;
  }

  void pair_without_wrappers() {
    std::unordered_map<std::string, std::size_t> bare_b = bare_names(pairing_.b);
    for (const auto& [name, i] : bare_names(pairing_.a)) {
      auto found = bare_b.find(name);
      if (i != kNoMatch && found != bare_b.end() && found->second != kNoMatch) pair(i, found->second);
    }
  }

  /// The key of B that one of A is under this edit; kNoMatch for none.
  std::size_t target(const NameEdit& edit, std::size_t i) const {
    std::optional<std::string> name = edited(edit, pairing_.a.name(i));
    if (!name) return kNoMatch;
    auto found = in_b_.find(*name);
    return found == in_b_.end() || used_b_[found->second] || !fits(i, found->second) ? kNoMatch : found->second;
  }

  void vote(std::map<NameEdit, Votes>& votes, const NameEdit& edit, std::size_t i, std::size_t k) const {
    if (used_a_[i] || used_b_[k] || !fits(i, k)) return;
    Votes& count = votes[edit];
    ++count.keys;
    if (proved(i, k)) ++count.values;
  }

  std::map<NameEdit, Votes> votes() const {
    std::map<NameEdit, Votes> out;
    for (bool at_end : {false, true}) {
      for (const auto& [name, i] : in_a_) {
        if (used_a_[i]) continue;
        for_each_cut(name, at_end, [&, i = i](std::string_view rest, std::string_view cut) {
          if (auto found = in_b_.find(rest); found != in_b_.end()) {
            vote(out, {std::string(cut), "", at_end}, i, found->second);
          }
        });
      }
      for (const auto& [name, k] : in_b_) {
        if (used_b_[k]) continue;
        for_each_cut(name, at_end, [&, k = k](std::string_view rest, std::string_view cut) {
          if (auto found = in_a_.find(rest); found != in_a_.end()) {
            vote(out, {"", std::string(cut), at_end}, found->second, k);
          }
        });
      }
    }
    add_common_prefixes(out);
    return out;
  }

  /// What all open keys of a file begin with.
  static std::string common_prefix(const Side& side, const std::vector<char>& used) {
    std::optional<std::string_view> common;
    for (std::size_t i = 0; i < side.size(); ++i) {
      if (used[i]) continue;
      std::string_view name = side.name(i);
      if (!common) common = name.substr(0, name.rfind('.') + 1);
      std::size_t same = 0;
      while (same < std::min(common->size(), name.size()) && (*common)[same] == name[same]) ++same;
      common = common->substr(0, common->substr(0, same).rfind('.') + 1);
    }
    return std::string(common.value_or(""));
  }

  /// "net." became "model.": neither name is the other's end.
  void add_common_prefixes(std::map<NameEdit, Votes>& votes) const {
    NameEdit edit{common_prefix(pairing_.a, used_a_), common_prefix(pairing_.b, used_b_)};
    if (edit.drop.empty() || edit.add.empty() || edit.drop == edit.add) return;
    for (const auto& [name, i] : in_a_) {
      if (used_a_[i]) continue;
      if (std::size_t k = target(edit, i); k != kNoMatch) vote(votes, edit, i, k);
    }
  }

  /// True when both edits want the same key for different partners.
  bool are_rivals(const NameEdit& x, const NameEdit& y) const {
    std::unordered_map<std::size_t, std::size_t> wanted;
    for (std::size_t i = 0; i < used_a_.size(); ++i) {
      if (std::size_t k = used_a_[i] ? kNoMatch : target(x, i); k != kNoMatch) wanted.emplace(k, i);
    }
    for (std::size_t i = 0; i < used_a_.size(); ++i) {
      std::size_t k = used_a_[i] ? kNoMatch : target(y, i);
      if (k == kNoMatch) continue;
      auto other = wanted.find(k);
      if (other != wanted.end() && other->second != i) return true;
      if (other == wanted.end() && target(x, i) != kNoMatch) return true;
    }
    return false;
  }

  /// The edit that explains most keys; of rivals the one that values prove. Nothing where they cannot tell.
  const NameEdit* best_of(const std::map<NameEdit, Votes>& votes) const {
    const std::pair<const NameEdit, Votes>* best = nullptr;
    for (const auto& candidate : votes) {
      if (best == nullptr || std::pair(candidate.second.values, candidate.second.keys) >
                                 std::pair(best->second.values, best->second.keys)) {
        best = &candidate;
      }
    }
    if (best == nullptr) return nullptr;
    for (const auto& candidate : votes) {
      bool as_good = &candidate != best && 2 * candidate.second.keys >= best->second.keys &&
                     2 * candidate.second.values >= best->second.values;
      if (as_good && are_rivals(best->first, candidate.first)) return nullptr;
    }
    return &best->first;
  }

  /// True for an edit that most of what is open bears out, and not by a single name. Where both files have a prefix of
  /// their own, "layers.1" and "h.1" need not be the same layer: only a full account will do.
  bool is_common(const NameEdit& edit, const Votes& votes, std::size_t open_a, std::size_t open_b) const {
    bool two = !edit.drop.empty() && !edit.add.empty();
    if (two) return votes.keys == used_a_.size() && votes.keys == used_b_.size();
    bool alone = votes.keys == 1 && votes.values == 0 && (open_a > 1 || open_b > 1);
    return 2 * votes.keys >= std::min(open_a, open_b) && !alone;
  }

  bool pair_by_edit() {
    auto open_a = static_cast<std::size_t>(std::count(used_a_.begin(), used_a_.end(), 0));
    auto open_b = static_cast<std::size_t>(std::count(used_b_.begin(), used_b_.end(), 0));
    std::map<NameEdit, Votes> known = votes();
    std::erase_if(known, [&](const auto& item) { return !is_common(item.first, item.second, open_a, open_b); });
    const NameEdit* edit = best_of(known);
    if (edit == nullptr) return false;
    bool found = false;
    for (std::size_t i = 0; i < used_a_.size(); ++i) {
      if (used_a_[i]) continue;
      std::size_t k = target(*edit, i);
      if (k != kNoMatch) found = pair(i, k) || found;
    }
    if (!edit->at_end) out_.edits.push_back(*edit);
    return found;
  }

  bool proved(std::size_t i, std::size_t k) const {
    return pairing_.prove(i, k) && pairing_.a.content(i) == pairing_.b.content(k);
  }

  /// Layers counted from 1 in one file and from 0 in the other: the keys are not the same, and the values of most that
  /// are belong to other keys. Then only the pairs that values prove are left.
  void drop_disproved() {
    if (out_.pairs.size() == used_a_.size() && out_.pairs.size() == used_b_.size()) return;
    std::map<Content, std::size_t> in_b;
    for (std::size_t k = 0; k < used_b_.size(); ++k) {
      if (pairing_.b.proves(k)) in_b.emplace(pairing_.b.content(k), k);
    }
    std::size_t agree = 0;
    std::size_t disagree = 0;
    for (const auto& [i, k] : out_.pairs) {
      auto found = pairing_.a.proves(i) ? in_b.find(pairing_.a.content(i)) : in_b.end();
      if (found != in_b.end()) ++(found->second == k ? agree : disagree);
    }
    if (disagree <= agree) return;
    std::erase_if(out_.pairs, [this](const auto& pair) { return !proved(pair.first, pair.second); });
    out_.edits.clear();
  }

  const Pairing& pairing_;
  Index in_a_;
  Index in_b_;
  std::vector<char> used_a_;
  std::vector<char> used_b_;
  SameNames out_;
};

}  // namespace

SameNames same_names(const Pairing& pairing) {
  return NamePairer(pairing).run();
}

std::optional<std::string> edited(const NameEdit& edit, std::string_view name) {
  bool has = edit.at_end ? name.ends_with(edit.drop) : name.starts_with(edit.drop);
  if (!has || name.size() == edit.drop.size()) return std::nullopt;
  if (edit.at_end) return std::string(name.substr(0, name.size() - edit.drop.size())) + edit.add;
  return edit.add + std::string(name.substr(edit.drop.size()));
}

std::string without_wrappers(std::string_view name) {
  std::string out;
  for (std::string_view part : core::split(name, '.')) {
    if (is_wrapper_component(part)) continue;
    out += (out.empty() ? "" : ".") + std::string(part);
  }
  return out;
}

}  // namespace ckpt::detail
