#pragma once
// The loops of cast_values: each takes a block of one stored type to a wide type in memory, or back. A conversion is a
// load and a store over a block that stays in the processor's cache, so there are 2 x 54 short loops instead of 400.
// Internal. Thread safety: pure functions. Use: loader(dtype, Wide::f32)(in, wide, count);

#include <cstddef>

#include "libcore/base/dtype.h"

namespace ckpt::detail {

/// What a block holds between load and store.
enum class Wide { f32, f64, i64 };

using CastLoop = void (*)(const std::byte* in, std::byte* out, std::size_t count);

/// From `dtype` (not complex) to the wide type. i64 only for bool and integers (u64: its bits).
CastLoop loader(core::DType dtype, Wide wide);
/// From the wide type to `dtype` (not complex).
CastLoop storer(core::DType dtype, Wide wide);

}  // namespace ckpt::detail
