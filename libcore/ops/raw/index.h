#pragma once
// Indexing along one dimension without history. Thread safety: pure functions; *_into write their first argument.
// Errors: PyTorch's texts.

#include <cstdint>
#include <span>

#include "libcore/backend/op_kinds.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);
Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);

/// out[..., index, ...] = or += from, on `out` itself. index: 1-d.
void index_into(IndexOp op, const Tensor& out, std::int64_t dim, const Tensor& index, const Tensor& from);

/// The same with an index of from's rank.
void scatter_into(IndexOp op, const Tensor& out, std::int64_t dim, const Tensor& index, const Tensor& from);
Tensor cat(std::span<const Tensor> parts, std::int64_t dim);
Tensor nonzero(const Tensor& x);

}  // namespace core::raw
