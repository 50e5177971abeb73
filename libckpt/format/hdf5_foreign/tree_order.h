#pragma once
// The order in which the datasets of a file are meant: Keras says it in attributes (layer_names, weight_names), some
// files keep the order in which links were made, else it is that of names, numbers by value.
// Thread safety: pure. Use: for (const PlacedDataset& placed : ordered_datasets(tree)) ...

#include <string>
#include <vector>

#include "libckpt/hdf5/tree.h"

namespace ckpt::detail {

/// A link to a dataset; several may lead to one.
struct PlacedDataset {
  std::vector<std::string> path;  ///< names of links from the root
  std::uint32_t object = 0;
};

std::vector<PlacedDataset> ordered_datasets(const Hdf5Tree& tree);

/// True for an attribute that says nothing but an order: "layer_names", "weight_names12".
bool is_order_attribute(const std::string& name);

}  // namespace ckpt::detail
