#pragma once
// Reductions, scans and sorting without history; `dims` as given by the user (negative allowed, empty: all).
// Thread safety: pure functions. Errors: PyTorch's texts.

#include <array>
#include <cstdint>

#include "libcore/backend/op_kinds.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {

Tensor reduce(ReduceOp op, const Tensor& x, const ReduceOptions& options, const std::array<double, 2>& args = {});

/// The sum over the rows of a matrix: one element a column.
Tensor column_sums(const Tensor& x);
ValuesIndices reduce_with_indices(ReduceOp op, const Tensor& x, std::int64_t dim, bool keepdim);
Tensor scan(ScanOp op, const Tensor& x, std::int64_t dim);
ValuesIndices sort(const Tensor& x, std::int64_t dim, bool descending);

}  // namespace core::raw
