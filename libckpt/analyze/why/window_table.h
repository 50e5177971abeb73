#pragma once
// The table that says which row of a bias table belongs to two places of a window, as Swin transformers keep it.
// Source: Liu et al. 2021, section 3.2. Thread safety: pure. Use: core::ByteVector index = window_table(7);

#include <cstdint>

#include "libcore/base/bytes.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

/// The side of the square window whose biases ((2 * window - 1)^2, heads) a table of `shape`, (window^4) or (window^2,
/// window^2), chooses from; 0 when they are not of one window.
std::int64_t window_of(const core::Shape& biases, const core::Shape& shape);

/// window^4 int64 values, little-endian.
core::ByteVector window_table(std::int64_t window);

}  // namespace ckpt::detail
