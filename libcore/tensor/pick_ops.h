#pragma once
// Picking elements by index and writing some of them, beyond those of ops.h, as torch.X: results, errors, gradients and
// node names are PyTorch's. Brackets, and writing through them, are in indexing.h; variants in place in inplace_ops.h.
// Thread safety: pure functions. Use: core::Tensor y = core::take_along_dim(x, core::argsort(x, 1), 1);

#include <cstdint>
#include <optional>
#include <string>

#include "libcore/tensor/ops.h"

namespace core {

/// gather whose other dimensions broadcast; without dim from the flattened tensor.
Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<std::int64_t> dim = {});
/// Elements of the flattened tensor. Error(index) "out of range: tried to access index 9 on a tensor of 6 elements.".
Tensor take(const Tensor& x, const Tensor& index);
/// The reverse: writes (or adds) source at positions of the flattened tensor.
Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate = false);
/// Rows (along dim) at `index` become those of `from`, or `value`.
Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from);
Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value);
/// The elements of source one after another where mask is set.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value);
/// reduce: "sum", "prod", "mean", "amax" or "amin" of all that goes to one place, with what stood there or without.
/// Error(runtime) "reduce argument must be either sum, prod, mean, amax or amin, got foo".
Tensor scatter_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from,
                      const std::string& reduce, bool include_self = true);

/// A copy of x in which a part is replaced.
Tensor select_scatter(const Tensor& x, const Tensor& part, std::int64_t dim, std::int64_t index);
struct SliceScatterOptions {
  std::int64_t dim = 0;
  std::optional<std::int64_t> start = {}, end = {};
  std::int64_t step = 1;
};
Tensor slice_scatter(const Tensor& x, const Tensor& part, const SliceScatterOptions& options = {});
Tensor diagonal_scatter(const Tensor& x, const Tensor& part, std::int64_t offset = 0, std::int64_t dim1 = 0,
                        std::int64_t dim2 = 1);

/// (count, x.dim()): as nonzero.
Tensor argwhere(const Tensor& x);
/// Element i `repeats[i]` times along dim, or along the flattened tensor. repeats: int64, or one number for all.
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<std::int64_t> dim = {});
/// Which elements occur among `values`.
Tensor isin(const Tensor& x, const Tensor& values, bool invert = false);

}  // namespace core
