#pragma once
// The tensors of a listing as a list shows them in which repeated layers stand once: "h.0-299.attn.weight ×300, shares
// 'wte.weight'". Thread safety: pure. Use: FoldedNames folds = fold_names(listing, ckpt::branches(root));

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libckpt/analyze/branches.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/repeated_layers.h"

namespace cli {

struct FoldedName {
  LayerFold layers;
  std::string shared = {};  ///< the tensor it shares a storage with, as the list names it; "" for none
};

/// By the name of the tensor, as the listing keeps it; none at all: each is shown.
using FoldedNames = std::unordered_map<std::string_view, FoldedName>;
FoldedNames fold_names(const Listing& listing, const std::vector<ckpt::Branch>& branches);

/// One row of a list.
struct ListedName {
  std::string name;     ///< printable
  std::string notes;    ///< "×300, shares 'wte.weight'"
  bool hidden = false;  ///< the row of another layer stands for it
};
ListedName listed_name(const Listing& listing, const FoldedNames& folds, std::size_t index);

}  // namespace cli
