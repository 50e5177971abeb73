#include "libcore/data/dataset.h"
#include "libcore/data/concat.h"
#include "libcore/ops/index.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace core::detail {

void check_same_length(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.dim() == 0 || tensor.size(0) != tensors[0].size(0)) {
      throw Error(ErrorCode::assertion, "Size mismatch between tensors");
    }
  }
}

namespace {

/// Rows of `row_bytes` bytes gathered into one block.
void copy_rows(std::byte* to, const std::byte* from, std::span<const std::int64_t> indices, std::size_t row_bytes) {
  for (std::int64_t index : indices) {
    std::memcpy(to, from + static_cast<std::size_t>(index) * row_bytes, row_bytes);
    to += row_bytes;
  }
}

/// Indices from 0, where negative ones counted from the end.
std::vector<std::int64_t> checked(std::span<const std::int64_t> indices, std::int64_t size) {
  std::vector<std::int64_t> result;
  for (std::int64_t index : indices) {
    if (index < -size || index >= size) {
      throw Error(ErrorCode::index, "index " + std::to_string(index) + " is out of bounds for dimension 0 with size " +
                                        std::to_string(size));
    }
    result.push_back(index < 0 ? index + size : index);
  }
  return result;
}

}  // namespace

Tensor rows_of(const Tensor& tensor, std::span<const std::int64_t> indices) {
  std::vector<std::int64_t> rows = checked(indices, tensor.size(0));
  Shape sizes = tensor.sizes();
  sizes[0] = static_cast<std::int64_t>(rows.size());
  bool is_plain = tensor.device().is_cpu() && tensor.is_contiguous() && !tensor.requires_grad();
  if (!is_plain) return index_select(tensor, 0, from_values(rows, {.device = tensor.device()}));
  Tensor out = empty(sizes, {.dtype = tensor.dtype(), .device = tensor.device()});
  if (out.numel() == 0) return out;
  auto row_bytes =
      static_cast<std::size_t>(out.numel() / sizes[0]) * static_cast<std::size_t>(bit_width(out.dtype())) / 8;
  copy_rows(static_cast<std::byte*>(out.mutable_raw_data()), static_cast<const std::byte*>(tensor.raw_data()), rows,
            row_bytes);
  return out;
}

std::size_t list_position(std::int64_t index, std::int64_t size) {
  if (index < -size || index >= size) throw Error(ErrorCode::index, "list index out of range");
  return static_cast<std::size_t>(index < 0 ? index + size : index);
}

std::size_t concat_part(const std::vector<std::int64_t>& ends, std::int64_t index) {
  return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), index) - ends.begin());
}

std::int64_t concat_position(std::int64_t index, std::int64_t size) {
  if (index >= 0) return index;
  if (-index > size) throw Error(ErrorCode::value, "absolute value of index should not exceed dataset length");
  return size + index;
}

std::vector<std::int64_t> running_sums(const std::vector<std::int64_t>& sizes) {
  if (sizes.empty()) throw Error(ErrorCode::assertion, "datasets should not be an empty iterable");
  std::vector<std::int64_t> ends;
  for (std::int64_t size : sizes) ends.push_back(size + (ends.empty() ? 0 : ends.back()));
  return ends;
}

}  // namespace core::detail
