#pragma once
// Byte order: big-endian values are turned around while they are read.
// Thread safety: sources may be read from many threads. Use: source = byte_swapped(source, swap_width(dtype));

#include "libckpt/io/byte_source.h"
#include "libcore/base/dtype.h"

namespace ckpt {

/// Bytes that are turned around together: the width of an element, of each half for complex types.
unsigned swap_width(core::DType dtype);
/// `source` with every group of `width` bytes reversed. REQUIRES: source->size() is a multiple of `width`.
SourcePtr byte_swapped(SourcePtr source, unsigned width);

}  // namespace ckpt
