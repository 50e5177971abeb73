#pragma once
// The table that says which row of a bias table belongs to two places of a window, as Swin transformers keep it.
// Source: Liu et al. 2021, section 3.2. Thread safety: pure. Use: core::ByteVector index = window_table(7);

#include <cstdint>
#include <optional>
#include <string_view>

#include "libcore/base/bytes.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

/// The side of the square window whose biases ((2 * window - 1)^2, heads) a table of `shape`, (window^4) or (window^2,
/// window^2), chooses from; 0 when they are not of one window.
std::int64_t window_of(const core::Shape& biases, const core::Shape& shape);

/// The shape of the table that `key` names, for such biases: torchvision ("features.1.0.attn.") lays it out flat, other
/// projects have a row for each place. Nothing where the biases are of no square window.
std::optional<core::Shape> usual_table_shape(std::string_view key, const core::Shape& biases);

/// window^4 int64 values, little-endian.
core::ByteVector window_table(std::int64_t window);

}  // namespace ckpt::detail
