#include "libckpt/analyze/diff_verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <unordered_set>

#include "libckpt/analyze/branch_names.h"
#include "libckpt/analyze/content_hash.h"
#include "libckpt/analyze/relations.h"
#include "libckpt/io/parallel_io.h"
#include "libckpt/state_dicts.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using DifferenceKind = Difference::Kind;
using VerdictNames = std::vector<std::string>;

const std::string kOtherWay = "<";
constexpr std::size_t kShown = 3;
constexpr std::uint64_t kRounding = 16;  // units in the last place that another order of additions explains

std::string count_text(std::size_t count, const std::string& noun) {
  return core::format_count(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string listed(const VerdictNames& names) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) out += (i > 0 ? ", " : "") + core::quote(names[i]);
  return out + (names.size() > kShown ? ", ..." : "");
}

bool all_of(const VerdictNames& names, const auto& test) {
  return !names.empty() && std::all_of(names.begin(), names.end(), test);
}

bool is_equal(const SeenPair& pair) {
  const Entry& a = *pair.a.entry;
  const Entry& b = *pair.b.entry;
  if (type_name(a) != type_name(b) || !(a.shape == b.shape)) return false;
  if (pair.values) return pair.values->differing == 0;
  return a.bytes == nullptr && b.bytes == nullptr;
}

/// "cast to bfloat16", "transposed": what a tensor of B is to that of A; behind kOtherWay, that of A to that of B.
std::string relation_text(const Relation& relation) {
  std::string type(core::name(relation.dtype));
  switch (relation.kind) {
    case Relation::Kind::cast:
      return "cast to " + type;
    case Relation::Kind::widened:
      return kOtherWay + "cast to " + type;
    case Relation::Kind::rounded:
      return "rounded to " + type;
    case Relation::Kind::transposed:
      return "transposed";
    case Relation::Kind::reshaped:
      return "reshaped";
    case Relation::Kind::grown:
      return "with rows added";
    case Relation::Kind::cut:
      return "with rows cut off";
  }
  return "";
}

bool is_statistic(const std::string& name) {
  std::string last = name.substr(name.rfind('.') + 1);
  return last == "running_mean" || last == "running_var" || last == "num_batches_tracked";
}

bool is_lora(const std::string& name) {
  return name.find("lora_") != std::string::npos;
}

class Verdicts {
 public:
  explicit Verdicts(const VerdictInput& input) : in_(input) {}

  FoundVerdicts run() {
    relate_pairs();
    relate_leftovers();
    if (nothing_differs_in_tensors()) {
      say_same_weights();
    } else {
      say_relations();
      say_renamed();
      say_added();
      say_unexplained();
    }
    say_notes();
    return {std::move(out_), std::move(of_tensor_)};
  }

 private:
  bool nothing_differs_in_tensors() const {
    return related_.empty() && unexplained_.empty() && in_.seen.only_a.empty() && in_.seen.only_b.empty();
  }

  void relate_pairs() {
    std::vector<const SeenPair*> differing;
    for (const SeenPair& pair : in_.seen.pairs) {
      if (!is_equal(pair)) differing.push_back(&pair);
    }
    std::vector<std::optional<Relation>> relations(differing.size());
    parallel_for(differing.size(), in_.threads, [&](std::size_t i) {
      const SeenPair& pair = *differing[i];
      if (pair.a.entry->bytes == nullptr || pair.b.entry->bytes == nullptr) return;
      relations[i] = find_relation(*pair.a.entry, *pair.b.entry);
    });
    for (std::size_t i = 0; i < differing.size(); ++i) {
      if (relations[i]) related_[relation_text(*relations[i])].push_back(differing[i]->a.name);
      if (!relations[i]) unexplained_.push_back(differing[i]);
    }
  }

  /// Tensors of one side only that have the same values under another name. Values alike several times (zeros) are
  /// paired in order.
  void relate_leftovers() {
    if (in_.seen.only_a.empty() || in_.seen.only_b.empty()) {
      for (const NamedEntry& e : in_.seen.only_a) gone_.push_back(e.name);
      for (const NamedEntry& e : in_.seen.only_b) fresh_.push_back(e.name);
      return;
    }
    using Key = std::tuple<core::DType, std::string, std::string>;
    auto key = [](const NamedEntry& e, const Hash128& hash) {
      return Key(e.entry->dtype, core::to_list(e.entry->shape), to_hex(hash));
    };
    std::vector<Hash128> hashes_a = content_hashes(in_.seen.only_a, {in_.threads, {}});
    std::vector<Hash128> hashes_b = content_hashes(in_.seen.only_b, {in_.threads, {}});
    std::map<Key, std::vector<std::size_t>> places;
    for (std::size_t i = in_.seen.only_b.size(); i-- > 0;) {
      places[key(in_.seen.only_b[i], hashes_b[i])].push_back(i);
    }
    std::vector<bool> used(in_.seen.only_b.size());
    for (std::size_t i = 0; i < in_.seen.only_a.size(); ++i) {
      auto found = places.find(key(in_.seen.only_a[i], hashes_a[i]));
      if (found == places.end() || found->second.empty()) {
        gone_.push_back(in_.seen.only_a[i].name);
        continue;
      }
      used[found->second.back()] = true;
      renamed_.emplace_back(in_.seen.only_a[i].name, in_.seen.only_b[found->second.back()].name);
      found->second.pop_back();
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) fresh_.push_back(in_.seen.only_b[i].name);
    }
  }

  std::vector<const Difference*> plain_differences() const {
    std::vector<const Difference*> out;
    for (const auto* list : {&in_.result.differences, &in_.result.notes}) {
      for (const Difference& d : *list) {
        if (!d.tensor && d.kind != DifferenceKind::metadata) out.push_back(&d);
      }
    }
    return out;
  }

  bool has_note(DifferenceKind kind) const {
    for (const auto* list : {&in_.result.differences, &in_.result.notes}) {
      if (std::any_of(list->begin(), list->end(), [&](const Difference& d) { return d.kind == kind; })) return true;
    }
    return false;
  }

  void say_same_weights() {
    std::vector<const Difference*> plain = plain_differences();
    if (!plain.empty()) {
      std::string text;
      for (std::size_t i = 0; i < std::min(plain.size(), kShown); ++i) {
        const Difference& d = *plain[i];
        text += (i > 0 ? ", " : "") + core::printable(d.name);
        if (d.kind == DifferenceKind::plain_value) text += " " + core::printable(d.a) + " -> " + core::printable(d.b);
      }
      out_.push_back("same weights; only plain values differ (" + text + (plain.size() > kShown ? ", ..." : "") + ")");
    } else if (in_.result.differences.empty() && in_.result.notes.empty()) {
      out_.push_back("A and B are the same");
    }
  }

  /// What holds whether or not tensors differ.
  void say_notes() {
    bool same = nothing_differs_in_tensors();
    std::string start = same ? "same weights, " : "";
    if (has_note(DifferenceKind::location)) out_.push_back(start + "other device tags" + location_text());
    if (has_note(DifferenceKind::order)) out_.push_back(start + "another order");
    if (same && has_note(DifferenceKind::metadata)) out_.push_back(start + "other metadata");
  }

  std::string location_text() const {
    std::map<std::string, std::size_t> moves;
    for (const SeenPair& pair : in_.seen.pairs) {
      const Entry& a = *pair.a.entry;
      const Entry& b = *pair.b.entry;
      if (a.location != b.location) ++moves[core::printable(a.location) + " -> " + core::printable(b.location)];
    }
    if (moves.empty() || moves.size() > kShown) return "";
    std::vector<std::string> texts;
    for (const auto& [text, count] : moves) texts.push_back(text);
    return " (" + core::join(texts, ", ") + ")";
  }

  void say_relations() {
    bool whole = related_.size() == 1 && unexplained_.empty() && in_.seen.only_a.empty() && in_.seen.only_b.empty();
    for (const auto& [key, names] : related_) {
      bool other_way = key.starts_with(kOtherWay);
      std::string relation = key.substr(other_way ? kOtherWay.size() : 0);
      std::string is = other_way ? "A is B " : "B is A ";
      bool shapes = relation == "reshaped" || relation.starts_with("with rows");  // which only the tensor's line says
      for (const std::string& name : names) {
        if (!shapes) of_tensor_.emplace(name, out_.size());
      }
      bool of_all = relation.find("cast") == 0 || relation.find("rounded") == 0;
      if (whole && of_all && names.size() == floats()) {
        out_.push_back(is + relation);
      } else if (names.size() == 1) {
        std::string start = whole && !of_all ? "only one tensor differs: " : "";
        bool has = relation.starts_with("with ");
        std::string verb = has ? " has " : other_way ? " of A is B's " : " is ";
        out_.push_back(start + core::quote(names[0]) + verb + (has ? relation.substr(5) : relation));
      } else if (whole && of_all) {
        out_.push_back(is + "with " + core::format_count(names.size()) + " of " +
                       count_text(in_.seen.pairs.size(), "tensor") + " " + relation);
      } else {
        out_.push_back(count_text(names.size(), "tensor") + (other_way ? " of A are B's " : " of B are A's ") +
                       relation + ": " + listed(names));
      }
    }
  }

  /// Tensors that a cast of a whole model would touch.
  std::size_t floats() const {
    return static_cast<std::size_t>(
        std::count_if(in_.seen.pairs.begin(), in_.seen.pairs.end(), [](const SeenPair& pair) {
          core::DType dtype = pair.a.entry->dtype;
          return core::is_floating(dtype) || core::is_complex(dtype);
        }));
  }

  void say_renamed() {
    if (renamed_.empty()) return;
    bool whole = gone_.empty() && fresh_.empty() && related_.empty() && unexplained_.empty();
    std::string how = prefix_change(renamed_);
    if (how.empty()) {
      how = core::quote(renamed_[0].first) + " is " + core::quote(renamed_[0].second) +
            (renamed_.size() > 1 ? ", ..." : "");
    } else {
      for (const auto& [from, to] : renamed_) {
        of_tensor_.emplace(from, out_.size());
        of_tensor_.emplace(to, out_.size());
      }
    }
    out_.push_back((whole ? "B is A with keys renamed" : count_text(renamed_.size(), "key") + " renamed") + ": " + how);
  }

  /// Tensors of one side only that would pair up without a prefix, so that they differ in values.
  bool say_prefixed() {
    if (gone_.empty() || gone_.size() != fresh_.size()) return false;
    std::vector<std::pair<std::string, std::string>> pairs;
    for (std::size_t i = 0; i < gone_.size(); ++i) pairs.emplace_back(gone_[i], fresh_[i]);
    std::string how = prefix_change(pairs);
    if (how.empty()) return false;
    bool one_side = how.ends_with(" is added") || how.ends_with(" is removed");
    if (one_side) how += "; --ignore-prefix " + how.substr(0, how.rfind(" is ")) + " compares them";
    out_.push_back(count_text(gone_.size(), "tensor") + " with another name and other values: " + how);
    return true;
  }

  void say_added() {
    if (say_prefixed()) return;
    bool only = related_.empty() && unexplained_.empty() && renamed_.empty();
    say_side(fresh_, only && gone_.empty(), "added", "B has ");
    say_side(gone_, only && fresh_.empty(), "gone", "B lacks ");
  }

  void say_side(const VerdictNames& names, bool only, const std::string& verb, const std::string& verdict) {
    if (names.empty()) return;
    std::string count = count_text(names.size(), "tensor");
    std::string start = only ? "only " : "";
    std::string last = common_last(names);
    std::string branch = common_branch(names);
    if (all_of(names, is_lora)) {
      out_.push_back(start + "lora_* is " + verb + " (" + count + ")");
    } else if (!last.empty() && names.size() > 1) {
      out_.push_back(start + core::printable(last) + " is " + verb + " (" + count + ")");
    } else if (!branch.empty() && names.size() > 1) {
      out_.push_back(start + core::quote(branch) + " is " + verb + " (" + count + ")");
    } else if (names.size() == 1) {
      out_.push_back(start + core::quote(names[0]) + " is " + verb);
    } else {
      out_.push_back(verdict + count + (verb == "added" ? " more: " : ": ") + listed(names));
    }
  }

  void say_unexplained() {
    if (unexplained_.empty()) return;
    VerdictNames names;
    for (const SeenPair* pair : unexplained_) names.push_back(pair->a.name);
    bool only = related_.empty() && renamed_.empty() && gone_.empty() && fresh_.empty();
    std::vector<OptimizerStateRef> states = list_optimizer_states(in_.a.root);
    std::unordered_set<std::string_view> optimizers;
    for (const OptimizerStateRef& state : states) optimizers.insert(state.name);
    auto in_optimizer = [&](std::string_view name) {
      if (optimizers.contains("")) return true;
      for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
        if (optimizers.contains(name.substr(0, dot))) return true;
      }
      return false;
    };
    std::string start = only ? "only " : "";
    std::string branch = common_branch(names);
    if (all_of(names, in_optimizer)) {
      out_.push_back(start + "the optimizer differs" + plain_text(in_optimizer));
    } else if (all_of(names, is_statistic)) {
      out_.push_back(start + "batch-norm statistics differ (" + count_text(names.size(), "tensor") + ")");
    } else if (!branch.empty() && names.size() < in_.seen.pairs.size()) {
      out_.push_back(start + core::quote(branch) + " differs (" + count_text(names.size(), "tensor") + " of " +
                     core::format_count(in_.seen.pairs.size()) + ")");
    }
    say_distance();
  }

  /// Plain values that differ outside of what `inside` covers.
  std::string plain_text(const auto& inside) const {
    std::size_t others = 0;
    for (const Difference* d : plain_differences()) others += inside(d->name) ? 0 : 1;
    return others == 0 ? "" : ", and " + count_text(others, "plain value");
  }

  void say_distance() {
    ValueDifference all;
    bool floats = true;
    std::size_t nan_tensors = 0;
    for (const SeenPair* pair : unexplained_) {
      if (!pair->values || !pair->values->numbers) continue;
      floats &= core::is_floating(pair->a.entry->dtype) && pair->a.entry->dtype == pair->b.entry->dtype;
      all.merge(*pair->values);
      nan_tensors += pair->values->nans_a != pair->values->nans_b ? 1 : 0;
    }
    std::optional<double> cosine = all.cosine();
    if (all.differing == 0) return;
    if (all.nans_a != all.nans_b) {
      out_.push_back("NaN: " + core::format_count(all.nans_a) + " in A, " + core::format_count(all.nans_b) + " in B (" +
                     count_text(nan_tensors, "tensor") + ")");
      if (all.squares_difference == 0) return;
    }
    if (floats && all.max_ulp <= kRounding) {
      out_.push_back("values differ by rounding (at most " + count_text(all.max_ulp, "unit") + " in the last place)");
    } else if (cosine) {
      char number[32];
      std::snprintf(number, sizeof number, "%.4f", *cosine);
      std::string what = *cosine > 0.9   ? "values are close, as after some more training"
                         : *cosine < 0.1 ? "values have nothing in common"
                                         : "values are far apart";
      out_.push_back(what + " (cosine " + number + " over " + count_text(unexplained_.size(), "tensor") + ")");
    }
  }

  const VerdictInput& in_;
  std::map<std::string, VerdictNames> related_;  ///< names of A by relation
  std::vector<const SeenPair*> unexplained_;
  std::vector<std::pair<std::string, std::string>> renamed_;
  VerdictNames gone_;
  VerdictNames fresh_;
  std::vector<std::string> out_;
  std::unordered_map<std::string, std::size_t> of_tensor_;  ///< index in out_
};

}  // namespace

FoundVerdicts find_verdicts(const VerdictInput& input) {
  return Verdicts(input).run();
}

}  // namespace ckpt::detail
