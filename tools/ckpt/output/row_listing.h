#pragma once
// The listing of a file that gives its tensors as a row (libckpt/tensor_row.h): what listing.h makes of a tree.
// Thread safety: one owner. Use: Listing listing = list_row(checkpoint.root, row);
// RowLines lines(listing, row, "net.ckpt");
// for (std::string_view some = lines.take(); !some.empty(); some = lines.take()) out.print(some);

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
  /// The next few hundred lines, joined by commas, and by one to those before; valid until the next call, empty where
  /// there is none left.
  std::string_view take();

 private:
  void note_facts(const ckpt::detail::RowTensor& tensor);
  /// The line of a tensor, and what begins the one behind it.
  void add(std::string_view name, std::ptrdiff_t tied);
  void add_unlike(std::string_view name, std::ptrdiff_t tied);

  const Listing& listing_;
  ckpt::detail::RowReader reader_;
  std::string file_;                     ///< as JSON
  std::vector<std::string_view> names_;  ///< of all, where some are tied
  std::size_t next_ = 0;
  std::string facts_;   ///< of the tensor before, behind its name
  std::string flags_;   ///< and behind what it is tied to
  std::string behind_;  ///< what follows a name up to the next one, where it is as the one before and tied to none
  std::string lines_;   ///< room for them
  std::size_t used_ = 0;
};

}  // namespace cli
