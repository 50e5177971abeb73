#include "tools/ckpt/output/folded_names.h"

#include <string_view>

#include "libcore/base/text.h"

namespace cli {
namespace {

/// The first tensor of the file with the storage of tensor `index`; "" where that is the tensor itself.
std::string_view shared_with(const Listing& listing, std::size_t index) {
  std::ptrdiff_t tied = listing.tied_to[index];
  if (tied < 0 || static_cast<std::size_t>(tied) == index) return "";
  return listing.tensors[static_cast<std::size_t>(tied)].name;
}

}  // namespace

FoldedNames fold_names(const Listing& listing, const std::vector<ckpt::Branch>& branches) {
  std::vector<LayerFold> folds = fold_layers(branches, children_of(branches));
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 1; i < branches.size(); ++i) {
    if (branches[i].entry != nullptr) places.emplace(branches[i].name, i);
  }
  FoldedNames out;
  for (std::size_t i = 0; i < listing.tensors.size(); ++i) {
    auto at = places.find(listing.tensors[i].name);
    if (at == places.end()) continue;
    FoldedName& folded = out[listing.tensors[i].name];
    folded.layers = whole_fold(branches, folds, at->second);
    auto first = places.find(shared_with(listing, i));
    if (first != places.end()) folded.shared = shared_name(branches, folds, at->second, first->second);
  }
  return out;
}

ListedName listed_name(const Listing& listing, const FoldedNames& folds, std::size_t index) {
  const ListedTensor& tensor = listing.tensors[index];
  auto fold = folds.find(tensor.name);
  bool several = fold != folds.end() && fold->second.layers.count > 1;
  ListedName out{core::printable(several ? std::string_view(fold->second.layers.label) : tensor.name), ""};
  out.hidden = fold != folds.end() && fold->second.layers.hidden;
  auto note = [&](const std::string& text) { out.notes += (out.notes.empty() ? "" : ", ") + text; };
  std::string_view shared = several ? std::string_view(fold->second.shared) : shared_with(listing, index);
  if (several) note("\u00d7" + core::format_count(fold->second.layers.count));
  if (!shared.empty()) note("shares " + core::quote(shared));
  if (!tensor.entry->bytes) note("no values");
  return out;
}

}  // namespace cli
