#pragma once
// Entries computed from others when they are read: transposed, reshaped, cut apart, put together, cast. Internal to
// rules. Nothing holds a tensor: windows are gathered piece by piece, parts are read where they lie.
// Thread safety: pure; the sources may be read from many threads. Use: EntryPtr t = transposed(*entry, {1, 0});

#include <vector>

#include "libckpt/entry.h"

namespace ckpt::detail {

// All of them refuse quantised blocks with Error(unsupported).

/// Dimension d of the result is dimension dims[d] of `entry`; with empty `dims` the last two are exchanged.
/// Errors: Error(value) when `dims` is no order of the dimensions; Error(unsupported) for elements below a byte.
EntryPtr transposed(const Entry& entry, const std::vector<std::int64_t>& dims);

/// The same values in another shape; one -1 stands for what is left, 0 for the size that the tensor has there (unless
/// it is empty). Error(value) when the counts differ.
EntryPtr reshaped(const Entry& entry, const std::vector<std::int64_t>& shape);

/// `count` parts along `dim`, of the given sizes or equal ones. Errors: Error(value) when they do not add up.
std::vector<EntryPtr> split_parts(const Entry& entry, std::int64_t dim, std::size_t count,
                                  const std::vector<std::int64_t>& sizes);

/// Parts put together along `dim`; without `sizes` they must be equally large. Errors: Error(value) for parts of other
/// dtypes, or shapes that do not fit.
EntryPtr fused(const std::vector<EntryPtr>& parts, std::int64_t dim, const std::vector<std::int64_t>& sizes);

/// Error(unsupported) for types that cannot be cast.
EntryPtr with_dtype(const Entry& entry, core::DType dtype);

}  // namespace ckpt::detail
