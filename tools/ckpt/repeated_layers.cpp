#include "tools/ckpt/repeated_layers.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>

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

/// A number a branch, equal where what lies below is alike.
std::vector<std::size_t> kinds_of(const std::vector<ckpt::Branch>& all, const BranchOrder& below) {
  std::vector<std::size_t> kinds(all.size());
  std::unordered_map<std::string, std::size_t> known;
  for (std::size_t i = all.size(); i-- > 0;) {
    std::string key;
    if (const ckpt::Entry* entry = all[i].entry) {
      key = ckpt::type_name(*entry) + core::to_list(ckpt::value_shape(*entry)) + entry->location;
    }
    for (std::size_t child : below[i]) {
      const std::string& label = all[child].label;
      key += '\0' + std::to_string(label.size()) + ':' + label + std::to_string(kinds[child]);
    }
    kinds[i] = known.try_emplace(std::move(key), known.size()).first->second;
  }
  return kinds;
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
    for (std::size_t begin = 0; begin < children.size();) {
      std::optional<NumberedLabel> first = numbered(all[children[begin]].label);
      std::size_t end = begin + 1;
      for (; first && !all[children[begin]].leaf && end < children.size(); ++end) {
        std::optional<NumberedLabel> next = numbered(all[children[end]].label);
        bool follows = next && next->number == first->number + (end - begin) && next->rest == first->rest;
        if (!follows || kinds[children[end]] != kinds[children[begin]]) break;
      }
      if (end - begin >= kLeastRun) {
        LayerFold& fold = folds[children[begin]];
        fold.count = end - begin;
        fold.label = std::to_string(first->number) + "-" + std::to_string(first->number + fold.count - 1) +
                     std::string(first->rest);
        for (std::size_t i = begin + 1; i < end; ++i) folds[children[i]].hidden = true;
      }
      begin = end;
    }
  }
  return folds;
}

LayerFold whole_fold(const std::vector<ckpt::Branch>& all, const std::vector<LayerFold>& folds, std::size_t at) {
  LayerFold out{1, "", false};
  for (; at != 0; at = all[at].parent) {
    out.label = folds[at].label + (out.label.empty() ? "" : "." + out.label);
    out.count *= folds[at].count;
    out.hidden |= folds[at].hidden;
  }
  return out;
}

}  // namespace cli
