#pragma once
// The part of low rank of what training changed: small integers, one row of them for each row and column of a matrix,
// whose products come near the differences of two matrices of bfloat16. The same factors on every processor. Internal
// to libckpt/io. Thread safety: pure functions. Use: const ByteVector a(512), b(512);
// Factors factors = find_factors(a, b, 16, nullptr);

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "libckpt/io/word_prediction.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

using core::Bytes;

/// Element (i, j) moves by the sum over k of rows[i * rank + k] * columns[j * rank + k], times 2^-shift.
struct Factors {
  unsigned rank = 0;
  int shift = 0;
  std::vector<std::int8_t> rows;
  std::vector<std::int8_t> columns;
};

/// Whether a matrix is large enough.
bool can_have_factors(std::uint64_t bytes, std::uint64_t columns);

/// Directions that rows of differences have in common, of which factors are found; none where a matrix is too small.
struct Directions;
std::shared_ptr<const Directions> find_directions(Bytes before, Bytes after, std::uint64_t columns);

/// Called before bytes are used: so many of both, from the front, are to be there. May be none.
using Bring = std::function<void(std::uint64_t end)>;

/// Of rank 0 where none help. `along`: of these rows, or of others of the same matrix; may be null. REQUIRES: both are
/// of one size, whole rows.
Factors find_factors(Bytes before, Bytes after, std::uint64_t columns, const Directions* along,
                     const Bring& bring = {});

}  // namespace ckpt::detail
