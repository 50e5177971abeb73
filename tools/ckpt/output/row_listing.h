#pragma once
// The listing of a file that gives its tensors as a row (libckpt/tensor_row.h): what listing.h makes of a tree.
// Thread safety: immutable once built. Use: Listing listing = list_row(checkpoint.root, row);
// RowLines(listing, row, "net.ckpt").append(out, 0);

#include <cstddef>
#include <string>
#include <string_view>

#include "libckpt/tensor_row.h"
#include "tools/ckpt/output/listing.h"

namespace cli {

/// Its `tensors` are empty, all else is of the row and of what there is besides. REQUIRES: open_row() gave both, and
/// the row has tensors.
Listing list_row(const ckpt::Value& rest, const ckpt::detail::TensorRow& row);

/// As TensorLines. REQUIRES: the listing and the row outlive it.
class RowLines {
 public:
  RowLines(const Listing& listing, const ckpt::detail::TensorRow& row, std::string_view file);
  void append(std::string& out, std::size_t index) const;

 private:
  const Listing& listing_;
  const ckpt::detail::TensorRow& row_;
  std::string file_;  ///< as JSON
};

}  // namespace cli
