#pragma once
// Conversion of element types: a block of values, or a whole source that converts what is read from it. Every result is
// the one of PyTorch 2.15's tensor.to(): round to nearest, ties to even; f8_e4m3fn saturates at 448; the other narrow
// types overflow to infinity, or to NaN where they have none; integers wrap; anything that is not zero becomes true; an
// imaginary part is dropped where the target has none. NaN stays NaN where the target has one.
// Thread safety: pure functions; a source may be read from many threads.
// Use: ckpt::SourcePtr half = ckpt::cast_source(entry.bytes, core::DType::f32, core::DType::f16);

#include "libckpt/io/byte_source.h"
#include "libcore/base/dtype.h"

namespace ckpt {

/// bool, integers, floats down to the five 8-bit types, complex numbers. Not: quantised types, raw bits, 4 and 6 bits.
bool can_cast(core::DType dtype);
/// True when every value of `from` is a value of `to`, so that nothing is lost.
bool is_exact_cast(core::DType from, core::DType to);

/// Converts all of `in`. REQUIRES: can_cast of both; `in` and `out` hold equally many elements and do not overlap.
void cast_values(Bytes in, core::DType from, MutableBytes out, core::DType to);

/// The values of `source` converted while they are read; holds no more than a small buffer. The source itself when the
/// types are equal. Errors: Error(unsupported) when a type cannot be cast; Error(corrupt) when `source` holds no whole
/// number of elements.
SourcePtr cast_source(SourcePtr source, core::DType from, core::DType to);

}  // namespace ckpt
