#pragma once
// TensorRow: the tensors of a checkpoint as a list shows them, without where their bytes are. Of 100,000 tensors that
// takes a tenth of the memory of their tree, and so of the time. Internal to libckpt and its tools.
// Thread safety: immutable once filled. Use: TensorRow row; Checkpoint rest = open_row("net.ckpt", {}, row);

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "libckpt/budget.h"
#include "libckpt/checkpoint.h"
#include "libckpt/io/large_pages.h"
#include "libckpt/options.h"

namespace ckpt::detail {

/// A tensor in the top dict that is all of a run of bytes in row-major order, and no subclass.
struct RowTensor {
  std::string_view name;      ///< valid as long as the checkpoint's detail, as is the location
  std::string_view location;  ///< device tag
  std::uint64_t bytes = 0;
  std::size_t first_size = 0;     ///< of its sizes in the row
  const void* storage = nullptr;  ///< what tied tensors have in common
  const void* source = nullptr;   ///< what tensors over the same bytes have in common
  core::DType dtype = core::DType::u8;
  std::uint8_t rank = 0;
  bool parameter = false;
  bool requires_grad = false;
  bool conjugate = false;
  bool negative = false;
};

struct TensorRow {
  LargeVector<RowTensor> tensors;
  LargeVector<std::int64_t> sizes;

  std::span<const std::int64_t> shape(const RowTensor& tensor) const {
    return {sizes.data() + tensor.first_size, tensor.rank};
  }
};

/// open(), which gives all tensors of a native file into `row` where each of them is such a one: the checkpoint's top
/// dict then lacks them. Else, and of other formats, the row stays empty. Errors: those of open().
Checkpoint open_row(const std::filesystem::path& path, const OpenOptions& options, TensorRow& row);

/// within_budget() of budget.h, for which the tensors of `row` are items of the root.
Value within_budget(const Value& root, const TensorRow& row, const ByteSource& file, Budget& budget);

}  // namespace ckpt::detail
