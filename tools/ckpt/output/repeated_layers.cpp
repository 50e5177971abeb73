#include "tools/ckpt/output/repeated_layers.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace cli {
namespace {

constexpr std::size_t kLeastRun = 3;

/// "12.block" is 12 and ".block".
struct NumberedLabel {
  std::uint64_t number = 0;
  std::string_view rest;
};

std::optional<NumberedLabel> numbered(std::string_view label) {
  NumberedLabel out;
  auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), out.number);
  if (error != std::errc() || end == label.data()) return std::nullopt;
  out.rest = label.substr(static_cast<std::size_t>(end - label.data()));
  bool whole = out.rest.empty() || out.rest.front() == '.';
  bool padded = label.front() == '0' && end - label.data() > 1;  // "01" would be shown as another name
  if (!whole || padded) return std::nullopt;
  return out;
}

/// The deepest branch that has both below it, or is one of them. A branch stands behind the one above it.
std::size_t joint_of(const std::vector<ckpt::Branch>& all, std::size_t a, std::size_t b) {
  while (a != b) (a > b ? a : b) = all[std::max(a, b)].parent;
  return a;
}

/// For each tensor the first one of the same storage, itself where it is that.
std::vector<std::size_t> first_sharers(const std::vector<ckpt::Branch>& all) {
  std::vector<std::size_t> firsts(all.size());
  std::unordered_map<const void*, std::size_t> known;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const void* storage = all[i].entry == nullptr ? nullptr : ckpt::storage_identity(*all[i].entry);
    firsts[i] = storage == nullptr ? i : known.try_emplace(storage, i).first->second;
  }
  return firsts;
}

/// Where tensor `first` lies as seen from tensor `at`: steps up, then what is added there.
std::string way_to(const std::vector<ckpt::Branch>& all, std::size_t at, std::size_t first) {
  std::size_t joint = joint_of(all, at, first);
  std::size_t up = all[at].depth - all[joint].depth;
  return std::to_string(up) + " " + all[first].name.substr(all[joint].name.size());
}

/// A number a branch, equal where what lies below is alike.
std::vector<std::size_t> kinds_of(const std::vector<ckpt::Branch>& all, const BranchOrder& below) {
  std::vector<std::size_t> kinds(all.size());
  std::vector<std::size_t> firsts = first_sharers(all);
  std::unordered_map<std::string, std::size_t> known;
  for (std::size_t i = all.size(); i-- > 0;) {
    std::string key;
    if (const ckpt::Entry* entry = all[i].entry) {
      key = ckpt::type_name(*entry) + core::to_list(ckpt::value_shape(*entry)) + entry->location;
      if (!entry->bytes) key += " no values";
      if (firsts[i] != i) key += " shares " + way_to(all, i, firsts[i]);
    }
    for (std::size_t child : below[i]) {
      const std::string& label = all[child].label;
      key += '\0' + std::to_string(label.size()) + ':' + label + std::to_string(kinds[child]);
    }
    kinds[i] = known.try_emplace(std::move(key), known.size()).first->second;
  }
  return kinds;
}

struct Numbered {
  NumberedLabel label;
  std::size_t branch = 0;
};

/// Those whose labels begin with a number, by what follows it, then by number.
std::vector<Numbered> numbered_children(const std::vector<ckpt::Branch>& all,
                                        const std::vector<std::size_t>& children) {
  std::vector<Numbered> out;
  for (std::size_t child : children) {
    std::optional<NumberedLabel> label = all[child].leaf ? std::nullopt : numbered(all[child].label);
    if (label) out.push_back({*label, child});
  }
  std::stable_sort(out.begin(), out.end(), [](const Numbered& a, const Numbered& b) {
    return std::tie(a.label.rest, a.label.number) < std::tie(b.label.rest, b.label.number);
  });
  return out;
}

/// The run [begin, end) is shown where the list has the first of them.
void fold_run(std::vector<LayerFold>& folds, const std::vector<std::size_t>& children, const Numbered* begin,
              const Numbered* end) {
  std::unordered_set<std::size_t> run;
  for (const Numbered* at = begin; at != end; ++at) run.insert(at->branch);
  std::size_t shown = *std::find_if(children.begin(), children.end(), [&](std::size_t i) { return run.contains(i); });
  for (std::size_t i : run) folds[i].hidden = true;
  for (std::size_t i : run) folds[i].shown_by = shown;
  LayerFold& fold = folds[shown];
  fold.hidden = false;
  fold.count = run.size();
  fold.label = std::to_string(begin->label.number) + "-" + std::to_string(begin->label.number + run.size() - 1) +
               std::string(begin->label.rest);
}

}  // namespace

BranchOrder children_of(const std::vector<ckpt::Branch>& all) {
  BranchOrder below(all.size());
  for (std::size_t i = 1; i < all.size(); ++i) below[all[i].parent].push_back(i);
  return below;
}

std::vector<LayerFold> fold_layers(const std::vector<ckpt::Branch>& all, const BranchOrder& below) {
  std::vector<LayerFold> folds(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) folds[i].label = all[i].label;
  std::vector<std::size_t> kinds = kinds_of(all, children_of(all));
  for (const std::vector<std::size_t>& children : below) {
    std::vector<Numbered> layers = numbered_children(all, children);
    for (std::size_t begin = 0, end = 0; begin < layers.size(); begin = end) {
      const Numbered& first = layers[begin];
      for (end = begin + 1; end < layers.size(); ++end) {
        const Numbered& next = layers[end];
        bool follows = next.label.number == first.label.number + (end - begin) && next.label.rest == first.label.rest;
        if (!follows || kinds[next.branch] != kinds[first.branch]) break;
      }
      if (end - begin >= kLeastRun) fold_run(folds, children, &layers[begin], layers.data() + end);
    }
  }
  return folds;
}

LayerFold whole_fold(const std::vector<ckpt::Branch>& all, const std::vector<LayerFold>& folds, std::size_t at) {
  LayerFold out;
  for (; at != 0; at = all[at].parent) {
    out.label = folds[at].label + (out.label.empty() ? "" : "." + out.label);
    out.count *= folds[at].count;
    out.hidden |= folds[at].hidden;
  }
  return out;
}

std::string shared_name(const std::vector<ckpt::Branch>& all, const std::vector<LayerFold>& folds, std::size_t at,
                        std::size_t first) {
  std::size_t joint = joint_of(all, at, first);
  if (joint == 0) return all[first].name;
  return whole_fold(all, folds, joint).label + all[first].name.substr(all[joint].name.size());
}

}  // namespace cli
