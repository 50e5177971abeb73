#pragma once
// Elements repeated, turned, shifted and cut into triangles, as torch.X: results, errors and gradients are PyTorch's.
// Thread safety: pure functions; those in place (name_) write their first argument.
// Use: core::Tensor z = core::rot90(image, 1, {-2, -1}); core::Tensor lower = core::tril(x);

#include <cstdint>
#include <optional>

#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {

Tensor repeat(const Tensor& x, const Shape& times);

/// Each element `repeats` times along dim, or along the flattened tensor.
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<std::int64_t> dim = {});

/// Element i `repeats[i]` times along dim, or along the flattened tensor. repeats: int64, or one number for all.
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<std::int64_t> dim = {});
Tensor flip(const Tensor& x, const Shape& dims);
Tensor fliplr(const Tensor& x);
Tensor flipud(const Tensor& x);

/// k quarter turns from the first towards the second of the two dimensions.
Tensor rot90(const Tensor& x, std::int64_t k = 1, const Shape& dims = {0, 1});
Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims = {});
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
const Tensor& tril_(const Tensor& x, std::int64_t diagonal = 0);
const Tensor& triu_(const Tensor& x, std::int64_t diagonal = 0);

/// Positions of a triangle's elements: (2, count), int64.
Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0);
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0);

/// The diagonal of a matrix, or a matrix with that diagonal.
Tensor diag(const Tensor& x, std::int64_t diagonal = 0);

/// Zeros with the last dimension of x on a diagonal of two new dimensions.
Tensor diag_embed(const Tensor& x, std::int64_t offset = 0, std::int64_t dim1 = -2, std::int64_t dim2 = -1);
Tensor diagflat(const Tensor& x, std::int64_t offset = 0);

/// Writes the main diagonal (of a matrix, or of equal dimensions). wrap: again below a tall matrix's square.
const Tensor& fill_diagonal_(const Tensor& x, Scalar value, bool wrap = false);

/// Columns are the powers of x from the highest down.
Tensor vander(const Tensor& x, std::optional<std::int64_t> count = {}, bool increasing = false);

}  // namespace core
