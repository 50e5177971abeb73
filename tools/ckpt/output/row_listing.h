#pragma once
// The listing of a file that gives its tensors as a row (libckpt/tensor_row.h): what listing.h makes of a tree.
// Thread safety: one owner. Use: Listing listing = list_row(checkpoint.root, row);
// RowLines lines(listing, row, "net.ckpt"); while (lines.append(out)) out += '\n';

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/tensor_row.h"
#include "tools/ckpt/output/listing.h"

namespace cli {

/// Its `tensors` are empty, all else is of the row and of what there is besides; `tied_to` is empty where nothing is
/// tied for certain. REQUIRES: open_row() gave both, and the row has tensors.
Listing list_row(const ckpt::Value& rest, const ckpt::detail::TensorRow& row);

/// As TensorLines, one after the other. REQUIRES: the listing and the row outlive it.
class RowLines {
 public:
  RowLines(const Listing& listing, const ckpt::detail::TensorRow& row, std::string_view file);
  /// Puts the next line behind `out`; false where there is none left.
  bool append(std::string& out);

 private:
  const Listing& listing_;
  ckpt::detail::RowReader reader_;
  std::string file_;                     ///< as JSON
  std::vector<std::string_view> names_;  ///< of all, where some are tied
  std::size_t next_ = 0;
  std::string facts_;  ///< of the tensor before, behind its name
  std::string flags_;  ///< and behind what it is tied to
};

}  // namespace cli
