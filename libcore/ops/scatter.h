#pragma once
// Writing some elements of a tensor by index, as torch.X: results, errors, gradients and node names are PyTorch's.
// Writing through brackets is index_put in index.h. Thread safety: pure functions; those in place (name_) write their
// first argument. Use: core::Tensor y = core::scatter_add(x, 1, index, values); core::masked_scatter_(x, mask, values);

#include <cstdint>
#include <optional>
#include <string>

#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from);
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value);
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from);

/// reduce: "sum", "prod", "mean", "amax" or "amin" of all that goes to one place, with what stood there or without.
/// Error(runtime) "reduce argument must be either sum, prod, mean, amax or amin, got foo".
Tensor scatter_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from,
                      const std::string& reduce, bool include_self = true);
/// The same by rows (along dim): "prod", "mean", "amax" or "amin" of x's row and all rows of `from` whose index it is.
/// Error(runtime) "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got sum.".
Tensor index_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from,
                    const std::string& reduce, bool include_self = true);
Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from);

struct SegmentOptions {
  Tensor lengths = {};  ///< of the segments along `axis`, behind the dimensions before it; or
  Tensor offsets = {};  ///< where each begins, and where the last ends
  std::int64_t axis = 0;
  std::optional<double> initial = {};  ///< what an empty segment gives, and what the others begin with
};
/// "sum", "mean", "max", "min" or "prod" of segments of x along axis. Errors(runtime): PyTorch's texts.
Tensor segment_reduce(const Tensor& x, const std::string& reduce, const SegmentOptions& options);

/// Rows (along dim) at `index` become those of `from`, or `value`.
Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from);
Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value);

/// The elements of source one after another where mask is set.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);

/// The reverse: writes (or adds) source at positions of the flattened tensor.
Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate = false);

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
/// x with `part` where as_strided() would look.
Tensor as_strided_scatter(const Tensor& x, const Tensor& part, const Shape& sizes, const Shape& strides,
                          std::optional<std::int64_t> offset = {});
const Tensor& index_copy_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from);
const Tensor& index_fill_(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value);
const Tensor& masked_scatter_(const Tensor& x, const Tensor& mask, const Tensor& source);
const Tensor& put_(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate = false);
const Tensor& scatter_reduce_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from,
                              const std::string& reduce, bool include_self = true);
const Tensor& index_reduce_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from,
                            const std::string& reduce, bool include_self = true);

}  // namespace core
