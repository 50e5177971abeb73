#pragma once
// The products of a sketch, which take nearly all of its time. Internal.
// Thread safety: pure. Use: multiply_rows(numbers.data(), 64, 1024, x.data(), y.data());

#include <cstddef>

namespace ckpt::detail {

/// Columns of the thin matrices below.
inline constexpr std::size_t kThin = 16;

/// y = a q: `a` has `rows` rows of `columns` numbers, q and y have rows of kThin.
void multiply_rows(const double* a, std::size_t rows, std::size_t columns, const double* q, double* y);

/// z += transposed(a) y.
void add_transposed(const double* a, std::size_t rows, std::size_t columns, const double* y, double* z);

}  // namespace ckpt::detail
