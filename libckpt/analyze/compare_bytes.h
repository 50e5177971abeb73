#pragma once
// The values of two tensors of one dtype and shape, compared as bits in pieces of bounded size.
// Thread safety: pure. Use: ValueDifference d = compare_values(entry_a, entry_b, tick); if (d.differing > 0) ...

#include <cstdint>
#include <functional>
#include <optional>

#include "libckpt/entry.h"

namespace ckpt::detail {

struct ValueDifference {
  std::uint64_t differing = 0;                ///< elements with other bits (bytes for types that pack several values)
  std::optional<double> max_difference = {};  ///< among them; NaN counts as no number
};

/// REQUIRES: same dtype, same shape, bytes on both sides. `tick` is called with the bytes of each piece.
ValueDifference compare_values(const Entry& a, const Entry& b, const std::function<void(std::uint64_t)>& tick);

}  // namespace ckpt::detail
