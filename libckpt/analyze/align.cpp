#include "libckpt/analyze/align.h"

#include <algorithm>
#include <unordered_map>

#include "libckpt/analyze/align_match.h"
#include "libckpt/analyze/align_rules.h"
#include "libckpt/analyze/content_hash.h"
#include "libckpt/damage.h"
#include "libckpt/state_dicts.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using detail::Match;
using detail::Matching;

/// The tensors of one state dict under their keys.
std::vector<NamedEntry> entries_of(const Dict& dict) {
  std::vector<NamedEntry> out;
  for (const auto& [key, value] : dict.items) {
    if (!key.is(Value::Kind::text) || !value.is(Value::Kind::tensor)) continue;
    out.push_back({{key}, key.as_text(), value.entry_ptr()});
  }
  return out;
}

std::string how_text(const Match& match) {
  std::vector<std::string> out;
  if (match.transpose) out.emplace_back("transposed");
  if (match.reshape) out.emplace_back("reshaped");
  if (match.cast) out.push_back("cast to " + std::string(core::name(*match.cast)));
  if (match.tie) out.emplace_back("tied");
  if (match.from.size() > 1) out.emplace_back("fused");
  if (match.to.size() > 1 && !match.tie) out.emplace_back("split");
  return core::join(out, " and ");
}

AlignedTensors describe(const Match& match, const std::vector<NamedEntry>& a, const std::vector<NamedEntry>& b) {
  AlignedTensors out;
  for (std::size_t i : match.from) out.from.push_back(a[i].name);
  for (std::size_t k : match.to) out.to.push_back(b[k].name);
  out.how = how_text(match);
  out.by = match.by;
  return out;
}

/// Applies the rules to A and compares what comes out with B.
class Check {
 public:
  Check(const std::vector<NamedEntry>& a, const std::vector<NamedEntry>& b, unsigned threads)
      : b_(b), threads_(threads) {
    Dict dict;
    for (const NamedEntry& e : a) dict.items.emplace_back(Value::text(e.name), Value::tensor(e.entry));
    a_.root = Value::dict(std::move(dict));
  }

  void run(const Matching& matching, AlignResult& result) {
    std::unordered_map<std::string, bool> expected;  // whether the values must be those of B
    for (const Match& match : matching.matches) {
      for (std::size_t k : match.to) expected.emplace(b_[k].name, match.same_values);
    }
    std::unordered_map<std::string, EntryPtr> made = apply(result);
    std::vector<NamedEntry> ours;
    std::vector<NamedEntry> theirs;
    for (const NamedEntry& e : b_) {
      if (!expected.contains(e.name)) continue;
      auto found = made.find(e.name);
      bool fits = found != made.end() && type_name(*found->second) == type_name(*e.entry) &&
                  found->second->shape == e.entry->shape;
      if (!fits) {
        result.wrong.push_back(e.name);
        continue;
      }
      ours.push_back({e.path, e.name, found->second});
      theirs.push_back(e);
    }
    compare(ours, theirs, expected, result);
  }

 private:
  std::unordered_map<std::string, EntryPtr> apply(AlignResult& result) {
    std::unordered_map<std::string, EntryPtr> out;
    try {
      Checkpoint done = result.rules.empty() ? a_ : apply_rules(a_, result.rules);
      for (const NamedEntry& e : list_entries(done.root)) out.emplace(e.name, e.entry);
    } catch (const core::Error& error) {
      if (error.code() == core::ErrorCode::io) throw;
      result.wrong.push_back(error.what());
    }
    return out;
  }

  void compare(const std::vector<NamedEntry>& ours, const std::vector<NamedEntry>& theirs,
               const std::unordered_map<std::string, bool>& expected, AlignResult& result) const {
    std::vector<Hash128> a = detail::content_hashes(ours, {threads_, {}});
    std::vector<Hash128> b = detail::content_hashes(theirs, {threads_, {}});
    for (std::size_t i = 0; i < a.size(); ++i) {
      bool same = a[i] == b[i];
      bool must = expected.at(theirs[i].name);
      if (same) ++result.verified;
      if (!same && must) result.wrong.push_back(theirs[i].name);
      if (!same && !must) ++result.other_values;
    }
  }

  Checkpoint a_;
  const std::vector<NamedEntry>& b_;
  unsigned threads_;
};

}  // namespace

AlignResult align(const Checkpoint& a, const Checkpoint& b, const AlignOptions& options) {
  std::vector<NamedEntry> in_a = entries_of(*choose_state_dict(a.root, options.at_a).dict);
  std::vector<NamedEntry> in_b = entries_of(*choose_state_dict(b.root, options.at_b).dict);
  Matching matching;
  try {
    matching = detail::match_tensors(in_a, in_b, options);
  } catch (core::Error& error) {
    if (!add_file_at_fault(error, a, in_a)) add_file_at_fault(error, b, in_b);
    throw;
  }
  AlignResult out;
  out.rules = detail::make_rules(matching, in_a, in_b, options);
  for (const Match& match : matching.matches) out.pairs.push_back(describe(match, in_a, in_b));
  for (std::size_t i : matching.only_a) out.only_in_a.push_back(in_a[i].name);
  for (std::size_t k : matching.only_b) out.only_in_b.push_back(in_b[k].name);
  for (const detail::OpenGroup& group : matching.undecided) {
    UndecidedTensors& open = out.undecided.emplace_back();
    for (std::size_t i : group.a) open.a.push_back(in_a[i].name);
    for (std::size_t k : group.b) open.b.push_back(in_b[k].name);
  }
  Check(in_a, in_b, options.threads).run(matching, out);
  bool all_used = out.only_in_a.empty() || options.drop_unused;
  out.complete = all_used && out.only_in_b.empty() && out.undecided.empty() && out.wrong.empty();
  return out;
}

}  // namespace ckpt
